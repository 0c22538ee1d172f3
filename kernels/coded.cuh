// What kernels that encode and decode share: values of a few bits each, as many to a word of 32 as fit, the first in the
// lowest bits.
#pragma once
#include "views.cuh"

namespace {
struct Coded {
  void* out;
  const void* x;
  u64 chunk;  // words per block
  u64 words, count;
  f64 inverse_width, inverse_kernel;  // taps: of the width of the pool's input, and of the window's
  i32 width, outside;
  i32 pooled[2], kernel[2], stride[2], padding[2], dilation[2];
};

// Where words are as wide as whole elements, they are that.
template <u32 PER> struct CodesOf { typedef u32 type; };
template <> struct CodesOf<2> { typedef u16 type; };
template <> struct CodesOf<4> { typedef u8 type; };
template <u32 PER> constexpr bool are_elements = PER == 2 || PER == 4;

#if SIMT_DEVICE
// `fill(codes, first, count)` sets the codes of `count` values from `first` on: here of one for each thread of a team, which then
// make words of them. So neighbours read neighbours, and no thread has an array of its own.
template <u32 PER, class Fill> DEV void pack(const Coded& args, Fill fill) {
  constexpr u32 BITS = 32 / PER, WORDS = TEAM / PER;
  SHARED(u32, codes, TEAM);
  const Range words = block_range(args.words, args.chunk);
  for (u64 w = words.begin; w < words.end; w += WORDS) {
    const u32 some = u32(least(u64(WORDS), words.end - w));
    each_thread([&] {
      const u64 value = w * PER + threadIdx.x;
      u32 code = 0;
      if (threadIdx.x < some * PER && value < args.count) fill(&code, value, u64(1));
      codes[threadIdx.x] = code;
    });
    each_thread([&] {
      if (threadIdx.x >= some) return;
      u32 word = 0;
      for (u32 j = 0; j < PER; ++j) word |= codes[threadIdx.x * PER + j] << (j * BITS);
      static_cast<u32*>(args.out)[w + threadIdx.x] = word;
    });
  }
}

// The way back: `take(codes, first, count)` is given codes.
template <u32 PER, class Take> DEV void unpack(const Coded& args, Take take) {
  constexpr u32 BITS = 32 / PER, MASK = ~0u >> (32 - BITS);
  const Range words = block_range(args.words, args.chunk);
  const u64 end = least(words.end * PER, args.count);
  for (u64 value = words.begin * PER + threadIdx.x; value < end; value += blockDim.x) {
    const u32 code = static_cast<const u32*>(args.x)[value / PER] >> (value % PER * BITS) & MASK;
    take(&code, value, u64(1));
  }
}
#else
// Words done at a time: their codes stay in the first cache, in loops that the C++ compiler vectorises.
constexpr u32 CODED_TILE = 64;

template <u32 PER, class Fill> DEV void pack(const Coded& args, Fill fill) {
  constexpr u32 BITS = 32 / PER;
  const Range words = block_range(args.words, args.chunk);
  u32* out = static_cast<u32*>(args.out);
  for (u64 w = words.begin; w < words.end; w += CODED_TILE) {
    const u64 first = w * PER, some = least(u64(CODED_TILE), words.end - w);
    const u64 count = least(some * PER, args.count - first);
    if constexpr (are_elements<PER>) {
      typedef typename CodesOf<PER>::type Code;
      Code* codes = reinterpret_cast<Code*>(out + w);
      fill(codes, first, count);
      for (u64 k = count; k < some * PER; ++k) codes[k] = 0;
    } else {
      u32 codes[CODED_TILE * PER];
      fill(codes, first, count);
      for (u64 k = count; k < some * PER; ++k) codes[k] = 0;
      for (u64 i = 0; i < some; ++i) {
        u32 word = 0;
        for (u32 j = 0; j < PER; ++j) word |= codes[i * PER + j] << (j * BITS);
        out[w + i] = word;
      }
    }
  }
}

template <u32 PER, class Take> DEV void unpack(const Coded& args, Take take) {
  constexpr u32 BITS = 32 / PER, MASK = ~0u >> (32 - BITS);
  const Range words = block_range(args.words, args.chunk);
  const u32* from = static_cast<const u32*>(args.x);
  for (u64 w = words.begin; w < words.end; w += CODED_TILE) {
    const u64 first = w * PER, some = least(u64(CODED_TILE), words.end - w);
    const u64 count = least(some * PER, args.count - first);
    if constexpr (are_elements<PER>) {
      typedef typename CodesOf<PER>::type Code;
      take(reinterpret_cast<const Code*>(from + w), first, count);
    } else {
      u32 codes[CODED_TILE * PER];
      for (u64 i = 0; i < some; ++i)
        for (u32 j = 0; j < PER; ++j) codes[i * PER + j] = from[w + i] >> (j * BITS) & MASK;
      take(codes, first, count);
    }
  }
}
#endif

// One bit a value: `word(from, count)` gives those of up to 32 values.
template <class T, class Word> DEV void pack_bits(const Coded& args, Word word) {
  const Range words = block_range(args.words, args.chunk);
  for (u64 w = words.begin + threadIdx.x; w < words.end; w += blockDim.x) {
    const T* from = static_cast<const T*>(args.x) + w * 32;
    static_cast<u32*>(args.out)[w] = word(from, u32(least(u64(32), args.count - w * 32)));
  }
}
}  // namespace
