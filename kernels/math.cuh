// The functions that elementwise kernels and reductions apply.
#pragma once
#include "simt.cuh"

namespace {
template <class T> struct IsFloat { static constexpr bool value = false; };
template <> struct IsFloat<float> { static constexpr bool value = true; };
DEV float infinity() {
  const u32 bits = 0x7f800000u;
  return *reinterpret_cast<const float*>(&bits);
}
template <class T> DEV bool is_nan(T x) { return x != x; }

// ---- of one value
struct Neg { template <class T> DEV T f(T x) { return -x; } };
struct Abs {
  DEV float f(float x) { return fabsf(x); }
  template <class T> DEV T f(T x) { return x < 0 ? -x : x; }
};
struct Sign {
  DEV float f(float x) { return x > 0 ? 1.0f : x < 0 ? -1.0f : is_nan(x) ? x : 0.0f; }
  template <class T> DEV T f(T x) { return T(x > 0) - T(x < 0); }
};
struct Square { template <class T> DEV T f(T x) { return x * x; } };
struct Relu { template <class T> DEV T f(T x) { return x <= 0 ? T(0) : x; } };  // NaN stays
struct Not { DEV u8 f(u8 x) { return x == 0; } };
struct Recip { DEV float f(float x) { return 1.0f / x; } };
struct Sigmoid { DEV float f(float x) { return 1.0f / (1.0f + expf(-x)); } };
#define FUNCTION(Name, call) \
  struct Name { DEV float f(float x) { return call(x); } };
FUNCTION(Exp, expf) FUNCTION(Log, logf) FUNCTION(Log1p, log1pf) FUNCTION(Sqrt, sqrtf)
FUNCTION(Sin, sinf) FUNCTION(Cos, cosf) FUNCTION(Tan, tanf)
FUNCTION(Sinh, sinhf) FUNCTION(Cosh, coshf) FUNCTION(Tanh, tanhf)
FUNCTION(Asin, asinf) FUNCTION(Acos, acosf) FUNCTION(Atan, atanf)
FUNCTION(Asinh, asinhf) FUNCTION(Acosh, acoshf) FUNCTION(Atanh, atanhf)
FUNCTION(Erf, erff) FUNCTION(Floor, floorf) FUNCTION(Ceil, ceilf) FUNCTION(Round, rintf) FUNCTION(Trunc, truncf)
#undef FUNCTION

// ---- of two values
struct Add { template <class T> DEV T f(T a, T b) { return a + b; } };
struct Sub { template <class T> DEV T f(T a, T b) { return a - b; } };
struct Mul { template <class T> DEV T f(T a, T b) { return a * b; } };
struct Div {
  DEV float f(float a, float b) { return a / b; }
  // The hardware traps on x / 0 and on the one quotient that overflows.
  template <class T> DEV T f(T a, T b) { return b == 0 ? T(0) : b == -1 ? T(-a) : T(a / b); }
};
struct Remainder {
  // fmod is exact; the sign then follows the divisor, as with floor.
  DEV float f(float a, float b) {
    const float r = fmodf(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
  template <class T> DEV T f(T a, T b) {
    if (b == 0 || b == -1) return 0;
    const T r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  }
};
struct Pow {
  DEV float f(float a, float b) { return powf(a, b); }
  template <class T> DEV T f(T a, T b) {
    if (b < 0) return a == 1 ? T(1) : a == -1 ? (b % 2 ? T(-1) : T(1)) : T(0);
    T power = 1;
    for (; b != 0; b >>= 1, a *= a)
      if (b & 1) power *= a;
    return power;
  }
};
struct Atan2 { DEV float f(float a, float b) { return atan2f(a, b); } };
struct Max { template <class T> DEV T f(T a, T b) { return a > b || is_nan(a) ? a : b; } };
struct Min { template <class T> DEV T f(T a, T b) { return a < b || is_nan(a) ? a : b; } };
struct And { DEV u8 f(u8 a, u8 b) { return a & b; } };
struct Or { DEV u8 f(u8 a, u8 b) { return a | b; } };
struct Xor { DEV u8 f(u8 a, u8 b) { return a ^ b; } };
struct ReluBackward { template <class T> DEV T f(T x, T gradient) { return x > 0 ? gradient : T(0); } };
struct ReverseSub { template <class T> DEV T f(T a, T b) { return b - a; } };
struct ReverseDiv { template <class T> DEV T f(T a, T b) { return Div::f(b, a); } };

struct Equal { template <class T> DEV u8 f(T a, T b) { return a == b; } };
struct NotEqual { template <class T> DEV u8 f(T a, T b) { return a != b; } };
struct Greater { template <class T> DEV u8 f(T a, T b) { return a > b; } };
struct GreaterEqual { template <class T> DEV u8 f(T a, T b) { return a >= b; } };
struct Lower { template <class T> DEV u8 f(T a, T b) { return a < b; } };
struct LowerEqual { template <class T> DEV u8 f(T a, T b) { return a <= b; } };

// ---- conversions: floats to integers truncate, saturate, and take NaN to 0, as Rust's `as` does
template <class To, class From> struct Convert { DEV To f(From x) { return To(x); } };
template <class From> struct Convert<u8, From> { DEV u8 f(From x) { return x != 0; } };
template <> struct Convert<i32, float> {
  DEV i32 f(float x) {
    return is_nan(x) ? 0 : x >= 2147483648.0f ? 2147483647 : x <= -2147483648.0f ? -2147483647 - 1 : i32(x);
  }
};
template <> struct Convert<i64, float> {
  DEV i64 f(float x) {
    constexpr i64 largest = 9223372036854775807ll;
    return is_nan(x)                     ? 0
           : x >= 9223372036854775808.0f ? largest
           : x <= -9223372036854775808.0f ? -largest - 1
                                          : i64(x);
  }
};
}  // namespace
