// The functions that elementwise kernels and reductions apply, on compute types.
#pragma once
#include "types.cuh"

namespace {
// ---- of one value
struct Neg { template <class T> DEV T f(T x) { return T(-x); } };
struct Abs {
  DEV f32 f(f32 x) { return fabsf(x); }
  DEV f64 f(f64 x) { return fabs(x); }
  template <class T> DEV T f(T x) { return x < 0 ? T(-x) : x; }
};
struct Sign {
  template <class T> DEV T f(T x) { return x > 0 ? T(1) : x < 0 ? T(-1) : is_nan(x) ? x : T(0); }
};
struct Square { template <class T> DEV T f(T x) { return T(x * x); } };
struct Relu { template <class T> DEV T f(T x) { return x <= 0 ? T(0) : x; } };  // NaN stays
struct Not {
  DEV bool f(bool x) { return !x; }
  template <class T> DEV T f(T x) { return T(~x); }
};
struct Recip { template <class T> DEV T f(T x) { return T(1) / x; } };
#define FUNCTION(Name, single, twice)             \
  struct Name {                                   \
    DEV f32 f(f32 x) { return single(x); }        \
    DEV f64 f(f64 x) { return twice(x); }         \
  };
FUNCTION(Exp, expf, exp) FUNCTION(Log, logf, log) FUNCTION(Log1p, log1pf, log1p) FUNCTION(Sqrt, sqrtf, sqrt)
FUNCTION(Sin, sinf, sin) FUNCTION(Cos, cosf, cos) FUNCTION(Tan, tanf, tan)
FUNCTION(Sinh, sinhf, sinh) FUNCTION(Cosh, coshf, cosh) FUNCTION(Tanh, tanhf, tanh)
FUNCTION(Asin, asinf, asin) FUNCTION(Acos, acosf, acos) FUNCTION(Atan, atanf, atan)
FUNCTION(Asinh, asinhf, asinh) FUNCTION(Acosh, acoshf, acosh) FUNCTION(Atanh, atanhf, atanh)
FUNCTION(Erf, erff, erf) FUNCTION(Floor, floorf, floor) FUNCTION(Ceil, ceilf, ceil)
FUNCTION(Round, rintf, rint) FUNCTION(Trunc, truncf, trunc)
#undef FUNCTION
struct Sigmoid { template <class T> DEV T f(T x) { return T(1) / (T(1) + Exp::f(-x)); } };
struct LogSigmoid { template <class T> DEV T f(T x) { return (x < 0 ? x : T(0)) - Log1p::f(Exp::f(-Abs::f(x))); } };
// The probability that a standard normal variable is at most x.
template <class T> DEV T normal_probability(T x) { return T(0.5) * (T(1) + Erf::f(x * T(0.7071067811865476))); }
struct Gelu { template <class T> DEV T f(T x) { return x * normal_probability(x); } };

// ---- of two values
struct Add { template <class T> DEV T f(T a, T b) { return T(a + b); } };
struct Sub { template <class T> DEV T f(T a, T b) { return T(a - b); } };
struct Mul { template <class T> DEV T f(T a, T b) { return T(a * b); } };
struct Div {
  template <class T> DEV T f(T a, T b) {
    if constexpr (is_float<T>) return a / b;
    // The hardware traps on x / 0 and on the one quotient that overflows.
    else return b == 0 ? T(0) : is_signed<T> && b == T(-1) ? T(-a) : T(a / b);
  }
};
struct Remainder {
  DEV f32 exact(f32 a, f32 b) { return fmodf(a, b); }
  DEV f64 exact(f64 a, f64 b) { return fmod(a, b); }
  template <class T> DEV T exact(T a, T b) { return b == 0 || (is_signed<T> && b == T(-1)) ? T(0) : T(a % b); }
  // The sign follows the divisor, as with floor.
  template <class T> DEV T f(T a, T b) {
    const T r = exact(a, b);
    return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r;
  }
};
struct Pow {
  DEV f32 f(f32 a, f32 b) { return powf(a, b); }
  DEV f64 f(f64 a, f64 b) { return pow(a, b); }
  template <class T> DEV T f(T a, T b) {
    if (b < 0) return a == 1 ? T(1) : a == T(-1) ? (b % 2 ? T(-1) : T(1)) : T(0);
    T power = 1;
    for (; b != 0; b = T(b >> 1), a = T(a * a))
      if (b & 1) power = T(power * a);
    return power;
  }
};
struct Atan2 {
  DEV f32 f(f32 a, f32 b) { return atan2f(a, b); }
  DEV f64 f(f64 a, f64 b) { return atan2(a, b); }
};
struct Max { template <class T> DEV T f(T a, T b) { return a > b || is_nan(a) ? a : b; } };
struct Min { template <class T> DEV T f(T a, T b) { return a < b || is_nan(a) ? a : b; } };
struct And { template <class T> DEV T f(T a, T b) { return T(a & b); } };
struct Or { template <class T> DEV T f(T a, T b) { return T(a | b); } };
struct Xor { template <class T> DEV T f(T a, T b) { return T(a ^ b); } };
template <class T> DEV u32 shift_of(T b) { return u32(b) & (sizeof(T) * 8 - 1); }
struct ShiftLeft { template <class T> DEV T f(T a, T b) { return T(a << shift_of(b)); } };
struct ShiftRight { template <class T> DEV T f(T a, T b) { return T(a >> shift_of(b)); } };
struct LeakyRelu { template <class T> DEV T f(T x, T slope) { return x > 0 ? x : T(x * slope); } };
struct ReluBackward { template <class T> DEV T f(T x, T gradient) { return x > 0 ? gradient : T(0); } };
struct SigmoidBackward { template <class T> DEV T f(T y, T gradient) { return gradient * y * (T(1) - y); } };
// The derivative of ln(sigmoid(x)) is sigmoid(-x).
struct LogSigmoidBackward { template <class T> DEV T f(T x, T gradient) { return gradient * Sigmoid::f(-x); } };
struct GeluBackward {
  template <class T> DEV T f(T x, T gradient) {
    const T density = T(0.3989422804014327) * Exp::f(T(-0.5) * x * x);
    return gradient * (normal_probability(x) + x * density);
  }
};
struct ReverseSub { template <class T> DEV T f(T a, T b) { return T(b - a); } };
struct ReverseDiv { template <class T> DEV T f(T a, T b) { return Div::f(b, a); } };

struct Equal { template <class T> DEV bool f(T a, T b) { return a == b; } };
struct NotEqual { template <class T> DEV bool f(T a, T b) { return a != b; } };
struct Greater { template <class T> DEV bool f(T a, T b) { return a > b; } };
struct GreaterEqual { template <class T> DEV bool f(T a, T b) { return a >= b; } };
struct Lower { template <class T> DEV bool f(T a, T b) { return a < b; } };
struct LowerEqual { template <class T> DEV bool f(T a, T b) { return a <= b; } };
}  // namespace
