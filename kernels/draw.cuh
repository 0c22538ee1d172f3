// Random numbers that are one with some probability, else zero, as `random_bernoulli` makes them: element i takes word i % 4 of
// counter i / 4. Of the 2^32 words, `threshold` mean one.
#pragma once
#include "functions.cuh"
#include "philox.cuh"
#include "types.cuh"

namespace {
template <class T> DEV T drawn(u32 word, u64 threshold) {
  return narrow<T>(Compute<T>(u32(word < u32(threshold)) | u32(threshold >> 32)));
}

// The element `i`.
template <class T> DEV T draw_one(u64 threshold, u64 key, u64 i) {
  u32 words[4];
  philox<1>(words, key, i / 4);
  const u32 low = i & 1 ? words[1] : words[0], high = i & 1 ? words[3] : words[2];
  return drawn<T>(i & 2 ? high : low, threshold);
}

// Elements from `first` on, so many counters at a time that loops over them vectorise.
template <class T> DEV void draw_many(T* to, u64 threshold, u64 key, u64 first, u64 count) {
  constexpr u32 COUNTERS = 16;
  for (u64 done = 0; done < count;) {
    u32 words[4 * COUNTERS];
    const u64 i = first + done, skipped = i % 4, some = least(4 * COUNTERS - skipped, count - done);
    philox<COUNTERS>(words, key, i / 4);
    for (u64 k = 0; k < some; ++k) to[done + k] = drawn<T>(words[skipped + k], threshold);
    done += some;
  }
}

// `V` elements from `first` on, where a counter begins if there are four or more.
template <u32 V, class T> DEV void draw_row(T* to, u64 threshold, u64 key, u64 first) {
  if constexpr (V % 4 == 0) {
    u32 words[V];
    philox<V / 4>(words, key, first / 4);
    UNROLLED for (u32 k = 0; k < V; ++k) to[k] = drawn<T>(words[k], threshold);
  } else {
    UNROLLED for (u32 k = 0; k < V; ++k) to[k] = draw_one<T>(threshold, key, first + k);
  }
}

// `V` elements `apart` from each other.
template <u32 V, class T> DEV void draw_strided(T* to, u64 threshold, u64 key, u64 first, i64 apart) {
  UNROLLED for (u32 k = 0; k < V; ++k) to[k] = draw_one<T>(threshold, key, u64(i64(first) + i64(k) * apart));
}
}  // namespace
