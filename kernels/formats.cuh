// Float formats of fewer bits: rounded to nearest even, the largest number beyond it, infinities and NaN as they are.
#pragma once
#include "types.cuh"

namespace {
template <u32 EXPONENT, u32 MANTISSA> struct Format {
  static constexpr u32 BIAS = (1u << (EXPONENT - 1)) - 1, SHIFT = 23 - MANTISSA;
  static constexpr u32 INFINITE = ((1u << EXPONENT) - 1) << MANTISSA, SIGN = 1u << (EXPONENT + MANTISSA);
  // As f32: the smallest normal number, and a number whose last place is the smallest subnormal.
  static constexpr u32 LEAST = (128 - BIAS) << 23, UNIT = LEAST + (SHIFT << 23);

  // Nothing becomes larger than `most`.
  DEV u32 encode(f32 x, u32 most = INFINITE - 1) {
    const u32 bits = bits_as<u32>(x), rest = bits & 0x7fffffffu, sign = bits >> 31 ? SIGN : 0u;
    u32 code;
    if constexpr (EXPONENT == 8) {
      code = (rest + ((1u << (SHIFT - 1)) - 1) + (rest >> SHIFT & 1)) >> SHIFT;
    } else {
      const u32 normal = (rest - ((127 - BIAS) << 23) + ((1u << (SHIFT - 1)) - 1) + (rest >> SHIFT & 1)) >> SHIFT;
      // A sum with it rounds to the units of subnormals.
      const u32 subnormal = bits_as<u32>(bits_as<f32>(rest) + bits_as<f32>(UNIT)) - UNIT;
      code = rest < LEAST ? subnormal : normal;
    }
    code = least(code, most);
    const u32 special = rest > 0x7f800000u ? INFINITE | 1u << (MANTISSA - 1) : INFINITE;
    return sign | (rest >= 0x7f800000u ? special : code);
  }

  DEV f32 decode(u32 code) {
    const u32 rest = (code & (SIGN - 1)) << SHIFT, sign = code & SIGN ? 0x80000000u : 0u;
    if constexpr (EXPONENT == 8) return bits_as<f32>(rest | sign);
    // The exponent is moved by a product, which is right for subnormals too.
    const u32 moved = bits_as<u32>(bits_as<f32>(rest) * bits_as<f32>((254 - BIAS) << 23));
    return bits_as<f32>(moved | (rest >= INFINITE << SHIFT ? 0x7f800000u : 0u) | sign);
  }
};

// What is wider than f32 is rounded once in all.
template <class T> DEV f32 single(T x) {
  if constexpr (sizeof(T) == 8) return to_odd(x);
  else return widen(x);
}
}  // namespace
