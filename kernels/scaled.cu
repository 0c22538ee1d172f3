// Floats in formats of fewer bits, in blocks that are each scaled by a power of two, so that the largest number of a block lies in
// the highest binade of the format. Nothing becomes larger than that number.
#include "coded.cuh"
#include "formats.cuh"

namespace {
constexpr u32 BLOCK = 96;

struct Scaled {
  void* x;
  u8* scales;  // by block: the exponent of its largest number, as in an f32
  u32* codes;
  u64 chunk;   // blocks per block of threads
  u64 blocks, count;
};

// Exponents for which both the scale and its inverse are normal numbers.
template <class F> DEV u32 usable(u32 exponent) { return least(exponent < F::BIAS + 1 ? F::BIAS + 1 : exponent, 254u); }

// The bits of a value without its sign, or none if it is not finite. A mask instead of a choice: compilers do not vectorise a choice
// inside of a maximum.
template <class T> DEV u32 finite(T x) {
  const u32 rest = bits_as<u32>(single(x)) & 0x7fffffffu;
  return rest & (0u - u32(rest < 0x7f800000u));
}

// How a block is scaled whose largest finite value has the bits `top`.
template <class F> struct Scale {
  u32 exponent, highest;
  f32 factor;
  DEV Scale of(u32 top) {
    const u32 exponent = usable<F>(top >> 23);
    const f32 factor = bits_as<f32>((254 + F::BIAS - exponent) << 23);
    const u32 scaled = bits_as<u32>(bits_as<f32>(top) * factor);
    return {exponent, scaled < F::LEAST ? F::INFINITE - 1 : (scaled - ((127 - F::BIAS) << 23)) >> F::SHIFT, factor};
  }
};
template <class F, class T> DEV u32 code_of(const Scale<F>& scale, T x) {
  return F::encode(single(x) * scale.factor, scale.highest);
}
template <class F, class T> DEV T value_of(u8 exponent, u32 code) {
  const f32 scale = bits_as<f32>((usable<F>(exponent) - F::BIAS) << 23);
  return narrow<T>(Compute<T>(F::decode(code) * scale));
}

#if SIMT_DEVICE
// A warp's threads share a block, three of its values each; what they make of it passes through shared memory.
constexpr u32 SHARERS = 32, EACH = BLOCK / SHARERS, BLOCKS_AT_ONCE = TEAM / SHARERS;
struct Room {
  u32 tops[TEAM];
  u16 codes[BLOCKS_AT_ONCE * BLOCK];
};

template <u32 PER, class F, class T> DEV void encode(const Scaled& p) {
  constexpr u32 BITS = 32 / PER, WORDS = BLOCK / PER;
  SHARED(Room, room, 1);
  const Range range = block_range(p.blocks, p.chunk);
  for (u64 first = range.begin; first < range.end; first += BLOCKS_AT_ONCE) {
    // Calls `body(block, lane, value)`; `value(n)` is the thread's n-th value, zero beyond the end.
    const auto each_sharer = [&](auto body) {
      each_thread([&] {
        const u64 block = first + threadIdx.x / SHARERS;
        if (block >= range.end) return;
        const u32 lane = threadIdx.x % SHARERS;
        const T* x = static_cast<const T*>(p.x);
        body(block, lane, [=](u32 n) {
          const u64 k = block * BLOCK + lane + n * SHARERS;
          return k < p.count ? x[k] : T{};
        });
      });
    };
    each_sharer([&](u64, u32, auto value) {
      u32 top = 0;
      for (u32 n = 0; n < EACH; ++n) top = most(top, finite(value(n)));
      room->tops[threadIdx.x] = top;
    });
    each_sharer([&](u64 block, u32 lane, auto value) {
      const u32 sharer = threadIdx.x - lane;
      u32 top = 0;
      for (u32 n = 0; n < SHARERS; ++n) top = most(top, room->tops[sharer + n]);
      const Scale<F> scale = Scale<F>::of(top);
      if (lane == 0) p.scales[block] = u8(scale.exponent);
      u16* codes = room->codes + sharer * EACH + lane;
      for (u32 n = 0; n < EACH; ++n) codes[n * SHARERS] = u16(code_of(scale, value(n)));
    });
    each_sharer([&](u64 block, u32 lane, auto) {
      if (lane >= WORDS) return;
      const u16* codes = room->codes + (threadIdx.x - lane) * EACH + lane * PER;
      u32 word = 0;
      for (u32 j = 0; j < PER; ++j) word |= u32(codes[j]) << (j * BITS);
      p.codes[block * WORDS + lane] = word;
    });
  }
}

template <u32 PER, class F, class T> DEV void decode(const Scaled& p) {
  constexpr u32 BITS = 32 / PER, MASK = ~0u >> (32 - BITS);
  const Range range = block_range(p.blocks, p.chunk);
  const u64 end = least(range.end * BLOCK, p.count);
  for (u64 k = range.begin * BLOCK + threadIdx.x; k < end; k += blockDim.x)
    static_cast<T*>(p.x)[k] = value_of<F, T>(p.scales[k / BLOCK], p.codes[k / PER] >> (k % PER * BITS) & MASK);
}
#else
template <class Body> DEV void for_blocks(const Scaled& p, Body body) {
  const Range range = block_range(p.blocks, p.chunk);
  for (u64 block = range.begin; block < range.end; ++block)
    body(block, u32(least(u64(BLOCK), p.count - block * BLOCK)));
}

template <u32 PER, class F, class T> DEV void encode(const Scaled& p) {
  constexpr u32 BITS = 32 / PER, WORDS = BLOCK / PER;
  for_blocks(p, [&](u64 block, u32 count) {
    const T* x = static_cast<const T*>(p.x) + block * BLOCK;
    // Loops of a known length are vectorised.
    T filled[BLOCK];
    if (count < BLOCK) {
      for (u32 k = 0; k < BLOCK; ++k) filled[k] = k < count ? x[k] : T{};
      x = filled;
    }
    u32 top = 0;
    for (u32 k = 0; k < BLOCK; ++k) top = most(top, finite(x[k]));
    const Scale<F> scale = Scale<F>::of(top);
    p.scales[block] = u8(scale.exponent);
    u32* out = p.codes + block * WORDS;
    if constexpr (are_elements<PER>) {
      typedef typename CodesOf<PER>::type Code;
      Code* codes = reinterpret_cast<Code*>(out);
      INDEPENDENT for (u32 k = 0; k < BLOCK; ++k) codes[k] = Code(code_of(scale, x[k]));
    } else {
      u32 codes[BLOCK];
      INDEPENDENT for (u32 k = 0; k < BLOCK; ++k) codes[k] = code_of(scale, x[k]);
      INDEPENDENT for (u32 i = 0; i < WORDS; ++i) {
        u32 word = 0;
        for (u32 j = 0; j < PER; ++j) word |= codes[i * PER + j] << (j * BITS);
        out[i] = word;
      }
    }
  });
}

template <u32 PER, class F, class T> DEV void decode(const Scaled& p) {
  constexpr u32 BITS = 32 / PER, WORDS = BLOCK / PER, MASK = ~0u >> (32 - BITS);
  for_blocks(p, [&](u64 block, u32 count) {
    T* out = static_cast<T*>(p.x) + block * BLOCK;
    const u8 exponent = p.scales[block];
    const u32* from = p.codes + block * WORDS;
    T filled[BLOCK];
    T* to = count < BLOCK ? filled : out;
    INDEPENDENT for (u32 i = 0; i < WORDS; ++i)
      for (u32 j = 0; j < PER; ++j)
        to[i * PER + j] = value_of<F, T>(exponent, from[i] >> (j * BITS) & MASK);
    if (count < BLOCK)
      for (u32 k = 0; k < count; ++k) out[k] = filled[k];
  });
}
#endif
}  // namespace

#define SCALED(T, kind, PER, EXPONENT, MANTISSA)                                                       \
  TEAM_KERNEL(scaled_encode_##kind##_##T, Scaled) { encode<PER, Format<EXPONENT, MANTISSA>, T>(args); }     \
  KERNEL(scaled_decode_##kind##_##T, Scaled) { decode<PER, Format<EXPONENT, MANTISSA>, T>(args); }
FOR_FLOATS(SCALED, fp10, 3, 5, 4) FOR_FLOATS(SCALED, fp8_e4m3, 4, 4, 3) FOR_FLOATS(SCALED, fp8_e5m2, 4, 5, 2)

EXPORT_TABLE(scaled)
