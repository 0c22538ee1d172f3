// What generated kernels are written with (`op/lower/generated.rs`). A thread takes so many neighbouring elements that they are
// 16 bytes, where all operands allow it, and moves them at once.
#pragma once
#include "fused.cuh"

namespace {
template <u32 n> struct Width { static constexpr u32 value = n; };

// A step, rounded as by itself.
template <class T, class Function> DEV T step(T a) { return narrow<T>(Function::f(widen(a))); }
template <class T, class Function> DEV T step(T a, T b) { return narrow<T>(Function::f(widen(a), widen(b))); }

template <class T> DEV T scalar(const Fused& args, u32 n) { return *reinterpret_cast<const T*>(&args.scalars[n]); }

// Elements side by side. Where they are 16 bytes, they begin at a multiple of that.
template <u32 V, class T> DEV void read_row(T* to, const T* from) {
#if defined(__CUDACC_RTC__)
  if constexpr (V * sizeof(T) == 16) {
    const uint4 raw = *reinterpret_cast<const uint4*>(from);
    const u32 words[4] = {raw.x, raw.y, raw.z, raw.w};
    UNROLLED for (u32 k = 0; k < V; ++k) {
      if constexpr (sizeof(T) == 8) to[k] = bits_as<T>(u64(words[2 * k]) | u64(words[2 * k + 1]) << 32);
      else if constexpr (sizeof(T) == 4) to[k] = bits_as<T>(words[k]);
      else to[k] = {u16(words[k / 2] >> k % 2 * 16)};
    }
    return;
  }
#endif
  UNROLLED for (u32 k = 0; k < V; ++k) to[k] = from[k];
}
template <u32 V, class T> DEV void write_row(T* to, const T* from) {
#if defined(__CUDACC_RTC__)
  if constexpr (V * sizeof(T) == 16) {
    u32 words[4] = {};
    UNROLLED for (u32 k = 0; k < V; ++k) {
      if constexpr (sizeof(T) == 8) {
        const u64 bits = bits_as<u64>(from[k]);
        words[2 * k] = u32(bits), words[2 * k + 1] = u32(bits >> 32);
      } else if constexpr (sizeof(T) == 4) words[k] = bits_as<u32>(from[k]);
      else words[k / 2] |= u32(from[k].bits) << k % 2 * 16;
    }
    *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
    return;
  }
#endif
  UNROLLED for (u32 k = 0; k < V; ++k) to[k] = from[k];
}

// Elements `apart` from each other; one for all, if that is 0.
template <u32 V, class T> DEV void read_strided(T* to, const T* from, i64 apart) {
  UNROLLED for (u32 k = 0; k < V; ++k) to[k] = from[i64(k) * apart];
}
template <u32 V, class T> DEV void write_strided(T* to, const T* from, i64 apart) {
  UNROLLED for (u32 k = 0; k < V; ++k) to[i64(k) * apart] = from[k];
}
template <u32 V, class T> DEV void read_one(T* to, const T* from) {
  const T value = *from;
  UNROLLED for (u32 k = 0; k < V; ++k) to[k] = value;
}

// Calls `run(width, at)` for all elements of a block: for `V` at a time, and one by one for what is left at the end of all.
template <u32 V, class Index, class Run> DEV void for_elements(const Fused& args, Run run) {
  const Range range = block_range(args.space.count, args.chunk);
  const u64 whole = range.end / V * V;
  for (u64 at = range.begin + threadIdx.x * V; at < whole; at += blockDim.x * V) run(Width<V>(), Index(at));
  if constexpr (V > 1)
    for (u64 at = whole + threadIdx.x; at < range.end; at += blockDim.x) run(Width<1>(), Index(at));
}

template <class A, class B> struct Same { static constexpr bool value = false; };
template <class A> struct Same<A, A> { static constexpr bool value = true; };

// Reduces what `value(at)` gives, by threads of one kind: those of a block together on each row, or each on its own.
template <class Out, class T, class Worker, class Value, class Finish>
DEV void reduce_elements(const FusedReduce& args, Value value, Finish finish) {
  typedef Compute<T> C;
  const auto row = [&](auto worker, i64 first, u64 size, i64 step) {
    if constexpr (!Same<decltype(worker), Worker>::value) return C(0);  // nobody works so here
    else return decltype(worker)::template reduce<Sum, C>(size, [&](u64 k) {
      return C(widen(value(first + i64(k) * step)));
    });
  };
  reduce<Out, C>(args.rows, row, [](C*, i64, u32, i64, u64, i64) {}, finish);
}
}  // namespace
