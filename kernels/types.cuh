// Element types. Storage types are named as in kernel names: f64 f32 f16 bf16, i64 .. i8, u64 .. u8, b8 b32. What a
// kernel computes with is the `Compute` of its storage type: floats of 16 bits are widened when read and rounded when
// written, bools are `bool`.
#pragma once
#include "simt.cuh"

typedef double f64;
typedef float f32;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct b8 { u8 bits; };
struct b32 { u32 bits; };

// What a build has of a type's instances: all here; who builds those of one type alone defines SIMT_PARTIAL and, before
// this, `ONLY_type(...)` as its arguments for that type, and as nothing for the others.
#ifndef SIMT_PARTIAL
#define ONLY_f64(...) __VA_ARGS__
#define ONLY_f32(...) __VA_ARGS__
#define ONLY_f16(...) __VA_ARGS__
#define ONLY_bf16(...) __VA_ARGS__
#define ONLY_i64(...) __VA_ARGS__
#define ONLY_i32(...) __VA_ARGS__
#define ONLY_i16(...) __VA_ARGS__
#define ONLY_i8(...) __VA_ARGS__
#define ONLY_u64(...) __VA_ARGS__
#define ONLY_u32(...) __VA_ARGS__
#define ONLY_u16(...) __VA_ARGS__
#define ONLY_u8(...) __VA_ARGS__
#define ONLY_b8(...) __VA_ARGS__
#define ONLY_b32(...) __VA_ARGS__
#endif

// Instances of a kernel: MACRO(type, ...) for one type, or for every type of a class.
#define FOR(T, MACRO, ...) ONLY_##T(MACRO(T, __VA_ARGS__))
#define FOR_HALVES(MACRO, ...) FOR(f16, MACRO, __VA_ARGS__) FOR(bf16, MACRO, __VA_ARGS__)
#define FOR_FLOATS(MACRO, ...) FOR(f64, MACRO, __VA_ARGS__) FOR(f32, MACRO, __VA_ARGS__) FOR_HALVES(MACRO, __VA_ARGS__)
#define FOR_INTEGERS(MACRO, ...)                                                                          \
  FOR(i64, MACRO, __VA_ARGS__) FOR(i32, MACRO, __VA_ARGS__) FOR(i16, MACRO, __VA_ARGS__)                  \
  FOR(i8, MACRO, __VA_ARGS__) FOR_RAW(MACRO, __VA_ARGS__)
#define FOR_RAW(MACRO, ...)                                                                               \
  FOR(u64, MACRO, __VA_ARGS__) FOR(u32, MACRO, __VA_ARGS__) FOR(u16, MACRO, __VA_ARGS__)                  \
  FOR(u8, MACRO, __VA_ARGS__)
#define FOR_BOOLS(MACRO, ...) FOR(b8, MACRO, __VA_ARGS__) FOR(b32, MACRO, __VA_ARGS__)
#define FOR_NUMBERS(MACRO, ...) FOR_FLOATS(MACRO, __VA_ARGS__) FOR_INTEGERS(MACRO, __VA_ARGS__)
#define FOR_ALL(MACRO, ...) FOR_NUMBERS(MACRO, __VA_ARGS__) FOR_BOOLS(MACRO, __VA_ARGS__)

namespace {
template <class T> struct IsFloat { static constexpr bool value = false; };
template <> struct IsFloat<f32> { static constexpr bool value = true; };
template <> struct IsFloat<f64> { static constexpr bool value = true; };
template <class A, class B> constexpr bool is_same = false;
template <class A> constexpr bool is_same<A, A> = true;
template <class T> constexpr bool is_float = IsFloat<T>::value;
template <class T> constexpr bool is_signed = T(-1) < T(0);
template <class T> constexpr bool is_bool = T(2) == T(1);

template <class To, class From> DEV To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  return *reinterpret_cast<const To*>(&from);
}

DEV f32 infinity() { return bits_as<f32>(0x7f800000u); }
template <class T> DEV bool is_nan(T x) {
  if constexpr (is_float<T>) return x != x;
  else return false;
}

// ---- storage to compute
template <class T> struct ComputeOf { typedef T type; };
template <> struct ComputeOf<f16> { typedef f32 type; };
template <> struct ComputeOf<bf16> { typedef f32 type; };
template <> struct ComputeOf<b8> { typedef bool type; };
template <> struct ComputeOf<b32> { typedef bool type; };
template <class T> using Compute = typename ComputeOf<T>::type;

template <class T> DEV T widen(T x) { return x; }
DEV bool widen(b8 x) { return x.bits != 0; }
DEV bool widen(b32 x) { return x.bits != 0; }
DEV f32 widen(bf16 x) { return bits_as<f32>(u32(x.bits) << 16); }
// The exponent is moved by a product, which is right for subnormals too; infinities and NaN get all its bits.
DEV f32 widen(f16 x) {
  const u32 rest = u32(x.bits & 0x7fff) << 13;
  const u32 moved = bits_as<u32>(bits_as<f32>(rest) * 5.192296858534828e33f);  // 2^112
  return bits_as<f32>(moved | (rest >= 0x0f800000u ? 0x7f800000u : 0u) | u32(x.bits & 0x8000) << 16);
}

// ---- compute to storage: to nearest, ties to even
template <class T> struct Narrow {
  template <class C> DEV T from(C x) { return T(x); }
};
template <> struct Narrow<b8> {
  DEV b8 from(bool x) { return {u8(x)}; }
};
template <> struct Narrow<b32> {
  DEV b32 from(bool x) { return {u32(x)}; }
};
template <> struct Narrow<bf16> {
  DEV bf16 from(f32 x) {
    const u32 bits = bits_as<u32>(x);
    const u32 rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    return {u16(x != x ? bits >> 16 | 0x40u : rounded)};
  }
};
template <> struct Narrow<f16> {
  DEV f16 from(f32 x) {
    const u32 bits = bits_as<u32>(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    const u32 normal = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1)) >> 13;
    // Adding one half puts the units of a subnormal in the last place, rounded.
    const u32 subnormal = bits_as<u32>(bits_as<f32>(rest) + 0.5f) - 0x3f000000u;
    const u32 large = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
    return {u16(sign | (rest >= 0x47800000u ? large : rest < 0x38800000u ? subnormal : normal))};
  }
};
template <class T> DEV T narrow(Compute<T> x) { return Narrow<T>::from(x); }

// ---- conversions between compute types: floats to integers truncate, saturate, and take NaN to 0, as Rust's `as` does
template <class T> DEV T lowest() {
  if constexpr (is_float<T>) return T(-infinity());
  else return is_signed<T> ? T(T(1) << (sizeof(T) * 8 - 1)) : T(0);
}
template <class T> DEV T highest() {
  if constexpr (is_float<T>) return T(infinity());
  else if constexpr (is_bool<T>) return true;
  else return T(~lowest<T>());
}

// Rounded so that rounding once more, to fewer bits, is as if done once: an inexact result gets an odd last bit.
DEV f32 to_odd(f64 x) {
  const f32 near = f32(x);
  const f64 back = f64(near);
  const u32 bits = bits_as<u32>(near), outward = (x < 0 ? back < x : back > x);
  return back == x || x != x ? near : bits_as<f32>((bits - outward) | 1u);
}

template <class To, class From> DEV Compute<To> cast(From x) {
  typedef Compute<To> C;
  if constexpr (sizeof(C) == sizeof(From) && is_float<C> == is_float<From>) return C(x);
  else if constexpr (is_bool<C>) return x != From(0);
  else if constexpr (is_float<From> && !is_float<C>) {
    constexpr From beyond = From(u64(1) << (sizeof(C) * 8 - 1 - is_signed<C>)) * From(2);
    return is_nan(x) ? C(0) : x >= beyond ? highest<C>() : x < From(lowest<C>()) ? lowest<C>() : C(x);
  } else if constexpr (sizeof(To) == 2 && is_float<C> && sizeof(From) == 8 && is_float<From>) return to_odd(x);
  else return C(x);
}
}  // namespace
