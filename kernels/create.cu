// Kernels without inputs: constants, sequences and random numbers.
#include "functions.cuh"
#include "philox.cuh"
#include "vectors.cuh"

namespace {
struct Fill {
  void* out;
  u64 count, chunk, value;  // the bits of an element
};
template <class T> DEV void fill(const Fill& args) {
  T* out = static_cast<T*>(args.out);
  const T value = *reinterpret_cast<const T*>(&args.value);
  const Range range = block_range(args.count, args.chunk);
#if SIMT_DEVICE
  constexpr u32 V = VECTOR<T>;
  if (args.count % V == 0 && args.chunk % V == 0 && is_aligned<V>(out)) {
    T values[V];
    UNROLLED for (u32 k = 0; k < V; ++k) values[k] = value;
    for (u64 i = range.begin + threadIdx.x * V; i < range.end; i += blockDim.x * V) write_row<V>(out + i, values);
    return;
  }
#endif
  for (u64 i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) out[i] = value;
}

struct Arange {
  void* out;
  u64 count, chunk;
  i64 start, step;
};
template <class T> DEV void arange(const Arange& args) {
  T* out = static_cast<T*>(args.out);
  const Range range = block_range(args.count, args.chunk);
  for (u64 i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) out[i] = T(args.start + i64(i) * args.step);
}

// `first` and `second` are: low and high; mean and deviation; how many of the 2^32 words mean one, and nothing.
struct Random {
  void* out;
  u64 count, chunk, seed;  // a chunk is in groups of four elements
  double first, second;
};

// A thread takes this many counters at a time: on the host, so many that loops over them vectorise.
constexpr u32 LANES = SIMT_DEVICE ? 1 : 16, WORDS = 4 * LANES;

// Floats are rounded, integers take the floor.
template <class T> DEV void put(T* out, double x) {
  *out = narrow<T>(cast<T>(is_float<Compute<T>> ? x : floor(x)));
}

// 24 bits, so that a float holds them exactly: in [0, 1). (Signed integers are what vectors convert.)
DEV float unit(u32 word) { return float(i32(word >> 8)) * (1.0f / 16777216.0f); }

// Distributions make `WORDS` values from as many words.
struct Uniform {
  // Rounding may reach the upper bound, which is excluded.
  DEV void fill(float* out, const u32* words, const Random& args) {
    const float low = float(args.first), high = float(args.second);
    for (u32 k = 0; k < WORDS; ++k) {
      const float x = low + unit(words[k]) * (high - low);
      out[k] = x < high ? x : low;
    }
  }
  template <class T> DEV void fill(T* out, const u32* words, const Random& args) {
    const double low = args.first, width = args.second - args.first;
    for (u32 k = 0; k < WORDS; ++k) put(out + k, low + words[k] * (1.0 / 4294967296.0) * width);
  }
};
struct Normal {
  // Box and Muller: two words make two numbers.
  template <class T> DEV void fill(T* out, const u32* words, const Random& args) {
    const double mean = args.first, deviation = args.second;
    float normal[WORDS];
    for (u32 k = 0; k < WORDS; k += 2) {
      const float radius = sqrtf(-2.0f * vlog(1.0f - unit(words[k])));
      const float angle = 6.283185307179586f * unit(words[k + 1]);
      normal[k] = radius * vcos(angle);
      normal[k + 1] = radius * vsin(angle);
    }
    for (u32 k = 0; k < WORDS; ++k) put(out + k, mean + deviation * double(normal[k]));
  }
};
struct Bernoulli {
  template <class T> DEV void fill(T* out, const u32* words, const Random& args) {
    const u64 threshold = u64(args.first);  // up to 2^32, which every word is below
    const u32 low = u32(threshold), all = u32(threshold >> 32);
    for (u32 k = 0; k < WORDS; ++k) out[k] = narrow<T>(cast<T>(u32(words[k] < low) | all));
  }
};

// Element i takes word i % 4 of counter i / 4: a number depends on nothing but the seed and its position.
template <class T, class Distribution> DEV void random(const Random& args) {
  T* out = static_cast<T*>(args.out);
  const Range groups = block_range((args.count + 3) / 4, args.chunk);
  const u64 end = least(groups.end * 4, args.count);
  for (u64 group = groups.begin + threadIdx.x * LANES; group < groups.end; group += blockDim.x * LANES) {
    u32 words[WORDS];
    T values[WORDS];
    philox<LANES>(words, args.seed, group);
    Distribution::fill(values, words, args);
    const u64 first = group * 4, some = least(u64(WORDS), end - first);
#if SIMT_DEVICE
    if (some == WORDS && is_aligned<WORDS>(out + first)) {
      write_row<WORDS>(out + first, values);
      continue;
    }
#endif
    if (some == WORDS)
      for (u32 k = 0; k < WORDS; ++k) out[first + k] = values[k];
    else
      for (u64 k = 0; k < some; ++k) out[first + k] = values[k];
  }
}
}  // namespace

#define RANDOM(T, kind, Distribution) KERNEL(random_##kind##_##T, Random) { random<T, Distribution>(args); }
FOR_NUMBERS(RANDOM, uniform, Uniform) FOR_NUMBERS(RANDOM, normal, Normal) FOR_ALL(RANDOM, bernoulli, Bernoulli)

#define FILL(T, ...) KERNEL(fill_##T, Fill) { fill<T>(args); }
#define ARANGE(T, ...) KERNEL(arange_##T, Arange) { arange<T>(args); }
FOR_RAW(FILL, ) FOR_INTEGERS(ARANGE, )

EXPORT_TABLE(create)
