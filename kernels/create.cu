// Kernels without inputs: constants, sequences and random numbers.
#include "types.cuh"

namespace {
struct Fill {
  void* out;
  u64 count, chunk, value;  // the bits of an element
};
template <class T> DEV void fill(const Fill& args) {
  T* out = static_cast<T*>(args.out);
  const T value = *reinterpret_cast<const T*>(&args.value);
  const Range range = block_range(args.count, args.chunk);
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

// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): four words from a key and a counter.
struct Words {
  u32 x[4];
};
DEV Words philox(u64 key, u64 counter) {
  u32 k0 = u32(key), k1 = u32(key >> 32);
  u32 c0 = u32(counter), c1 = u32(counter >> 32), c2 = 0, c3 = 0;
  for (u32 round = 0; round < 10; ++round) {
    const u64 a = u64(0xD2511F53u) * c0, b = u64(0xCD9E8D57u) * c2;
    c0 = u32(b >> 32) ^ c1 ^ k0;
    c1 = u32(b);
    c2 = u32(a >> 32) ^ c3 ^ k1;
    c3 = u32(a);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// Floats are rounded, integers take the floor.
template <class T> DEV void put(T* out, double x) {
  *out = narrow<T>(cast<T>(is_float<Compute<T>> ? x : floor(x)));
}

// 24 bits, so that a float holds them exactly: in [0, 1).
DEV float unit(u32 word) { return float(word >> 8) * (1.0f / 16777216.0f); }

struct Uniform {
  // Rounding may reach the upper bound, which is excluded.
  DEV void fill(float* out, const Words& words, const Random& args) {
    const float low = float(args.first), high = float(args.second);
    for (u32 k = 0; k < 4; ++k) {
      const float x = low + unit(words.x[k]) * (high - low);
      out[k] = x < high ? x : low;
    }
  }
  template <class T> DEV void fill(T* out, const Words& words, const Random& args) {
    for (u32 k = 0; k < 4; ++k)
      put(out + k, args.first + words.x[k] * (1.0 / 4294967296.0) * (args.second - args.first));
  }
};
struct Normal {
  // Box and Muller: two words make two numbers.
  template <class T> DEV void fill(T* out, const Words& words, const Random& args) {
    for (u32 k = 0; k < 4; k += 2) {
      const float radius = sqrtf(-2.0f * logf(1.0f - unit(words.x[k])));
      const float angle = 6.283185307179586f * unit(words.x[k + 1]);
      put(out + k, args.first + args.second * double(radius * cosf(angle)));
      put(out + k + 1, args.first + args.second * double(radius * sinf(angle)));
    }
  }
};
struct Bernoulli {
  template <class T> DEV void fill(T* out, const Words& words, const Random& args) {
    const u64 threshold = u64(args.first);
    for (u32 k = 0; k < 4; ++k) put(out + k, words.x[k] < threshold);
  }
};

// Element i takes word i % 4 of counter i / 4: a number depends on nothing but the seed and its position.
template <class T, class Distribution> DEV void random(const Random& args) {
  T* out = static_cast<T*>(args.out);
  const Range groups = block_range((args.count + 3) / 4, args.chunk);
  for (u64 group = groups.begin + threadIdx.x; group < groups.end; group += blockDim.x) {
    T four[4];
    Distribution::fill(four, philox(args.seed, group), args);
    const u64 first = group * 4, some = least(u64(4), args.count - first);
    if (some == 4)
      for (u32 k = 0; k < 4; ++k) out[first + k] = four[k];
    else
      for (u64 k = 0; k < some; ++k) out[first + k] = four[k];
  }
}
}  // namespace

#define RANDOM(T, kind, Distribution) KERNEL(random_##kind##_##T, Random) { random<T, Distribution>(args); }
FOR_NUMBERS(RANDOM, uniform, Uniform) FOR_NUMBERS(RANDOM, normal, Normal) FOR_ALL(RANDOM, bernoulli, Bernoulli)

#define FILL(T, ...) KERNEL(fill_##T, Fill) { fill<T>(args); }
#define ARANGE(T, ...) KERNEL(arange_##T, Arange) { arange<T>(args); }
FOR_RAW(FILL, ) FOR_INTEGERS(ARANGE, )

EXPORT_TABLE(create)
