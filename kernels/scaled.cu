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

template <class Body> DEV void for_blocks(const Scaled& p, Body body) {
  const Range range = block_range(p.blocks, p.chunk);
  for (u64 block = range.begin + threadIdx.x; block < range.end; block += blockDim.x)
    body(block, u32(least(u64(BLOCK), p.count - block * BLOCK)));
}

// Exponents for which both the scale and its inverse are normal numbers.
template <class F> DEV u32 usable(u32 exponent) { return least(exponent < F::BIAS + 1 ? F::BIAS + 1 : exponent, 254u); }

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
    for (u32 k = 0; k < BLOCK; ++k) {
      // A mask instead of a choice: compilers do not vectorise a choice inside of a maximum.
      const u32 rest = bits_as<u32>(single(x[k])) & 0x7fffffffu, finite = rest & (0u - u32(rest < 0x7f800000u));
      top = most(top, finite);
    }
    const u32 exponent = usable<F>(top >> 23);
    const f32 scale = bits_as<f32>((254 + F::BIAS - exponent) << 23);
    const u32 scaled = bits_as<u32>(bits_as<f32>(top) * scale);
    const u32 highest = scaled < F::LEAST ? F::INFINITE - 1 : (scaled - ((127 - F::BIAS) << 23)) >> F::SHIFT;
    p.scales[block] = u8(exponent);
    u32* out = p.codes + block * WORDS;
    const auto code_of = [&](u32 k) { return F::encode(single(x[k]) * scale, highest); };
    if constexpr (are_elements<PER>) {
      typedef typename CodesOf<PER>::type Code;
      Code* codes = reinterpret_cast<Code*>(out);
      INDEPENDENT for (u32 k = 0; k < BLOCK; ++k) codes[k] = Code(code_of(k));
    } else {
      u32 codes[BLOCK];
      INDEPENDENT for (u32 k = 0; k < BLOCK; ++k) codes[k] = code_of(k);
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
    const f32 scale = bits_as<f32>((usable<F>(p.scales[block]) - F::BIAS) << 23);
    const u32* from = p.codes + block * WORDS;
    T filled[BLOCK];
    T* to = count < BLOCK ? filled : out;
    INDEPENDENT for (u32 i = 0; i < WORDS; ++i)
      for (u32 j = 0; j < PER; ++j)
        to[i * PER + j] = narrow<T>(Compute<T>(F::decode(from[i] >> (j * BITS) & MASK) * scale));
    if (count < BLOCK)
      for (u32 k = 0; k < count; ++k) out[k] = filled[k];
  });
}
}  // namespace

#define SCALED(T, kind, PER, EXPONENT, MANTISSA)                                                       \
  KERNEL(scaled_encode_##kind##_##T, Scaled) { encode<PER, Format<EXPONENT, MANTISSA>, T>(args); }     \
  KERNEL(scaled_decode_##kind##_##T, Scaled) { decode<PER, Format<EXPONENT, MANTISSA>, T>(args); }
FOR_FLOATS(SCALED, fp10, 3, 5, 4) FOR_FLOATS(SCALED, fp8_e4m3, 4, 4, 3) FOR_FLOATS(SCALED, fp8_e5m2, 4, 5, 2)

EXPORT_TABLE(scaled)
