// The functions that elementwise kernels and reductions apply, on compute types.
#pragma once
#include "functions.cuh"
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
struct Cube { template <class T> DEV T f(T x) { return T(x * x * x); } };
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
FUNCTION(Exp, vexp, exp) FUNCTION(Log, vlog, log) FUNCTION(Log1p, vlog1p, log1p) FUNCTION(Sqrt, sqrtf, sqrt)
// x to the power of -1/2, which is infinite for both zeros, and zero for both infinities.
struct InverseSqrt {
  template <class T> DEV T f(T x) { return x + x == x && x < T(0) ? T(0) : T(1) / Sqrt::f(x + T(0)); }
};
FUNCTION(Sinh, vsinh, sinh) FUNCTION(Cosh, vcosh, cosh) FUNCTION(Tanh, vtanh, tanh)
FUNCTION(Asin, vasin, asin) FUNCTION(Acos, vacos, acos) FUNCTION(Atan, vatan, atan)
FUNCTION(Asinh, vasinh, asinh) FUNCTION(Acosh, vacosh, acosh) FUNCTION(Atanh, vatanh, atanh)
FUNCTION(Erf, verf, erf) FUNCTION(Floor, floorf, floor) FUNCTION(Ceil, ceilf, ceil)
FUNCTION(Round, rintf, rint) FUNCTION(Trunc, truncf, trunc)
#undef FUNCTION
// These have a form that vectorises and holds for all but `far` arguments.
#define FUNCTION(Name, single, near, twice)                                   \
  struct Name {                                                               \
    DEV bool far(f32 x) { return is_far_angle(x); }                           \
    DEV f32 fast(f32 x) { return near(x); }                                   \
    DEV f32 f(f32 x) { return far(x) ? single(x) : near(x); }                 \
    DEV f64 f(f64 x) { return twice(x); }                                     \
  };
FUNCTION(Sin, sinf, vsin, sin) FUNCTION(Cos, cosf, vcos, cos) FUNCTION(Tan, tanf, vtan, tan)
#undef FUNCTION
struct Sigmoid {
  DEV f32 f(f32 x) { return vsigmoid(x); }
  DEV f64 f(f64 x) { return 1.0 / (1.0 + exp(-x)); }
};
struct LogSigmoid {
  DEV f32 f(f32 x) { return vlog_sigmoid(x); }
  DEV f64 f(f64 x) { return (x < 0 ? x : 0.0) - log1p(exp(-fabs(x))); }
};
// The probability that a standard normal variable is at most x.
DEV f64 normal_probability(f64 x) { return 0.5 * erfc(x * -0.7071067811865476); }
struct Gelu {
  DEV f32 f(f32 x) { return vgelu(x); }
  DEV f64 f(f64 x) { return x < -40 ? -0.0 : x * normal_probability(x); }  // the limit, also of -infinity
};

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
// The sign of the remainder of a truncated quotient follows the dividend; here it is to follow the divisor, as with floor.
template <class T> DEV T floored(T r, T b) { return r != 0 && (r < 0) != (b < 0) ? T(r + b) : r; }
struct Remainder {
  DEV bool far(f32 a, f32 b) { return is_far_quotient(a, b); }
  DEV f32 fast(f32 a, f32 b) { return floored(vfmod(a, b), b); }
  DEV f32 f(f32 a, f32 b) { return far(a, b) ? floored(fmodf(a, b), b) : fast(a, b); }
  DEV f64 f(f64 a, f64 b) { return floored(fmod(a, b), b); }
  template <class T> DEV T f(T a, T b) {
    return b == 0 || (is_signed<T> && b == T(-1)) ? T(0) : floored(T(a % b), b);
  }
};
struct Pow {
  DEV f32 f(f32 a, f32 b) { return vpow(a, b); }
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
  DEV f32 f(f32 a, f32 b) { return vatan2(a, b); }
  DEV f64 f(f64 a, f64 b) { return atan2(a, b); }
};
// In two choices, the first of which is one instruction.
struct Max {
  template <class T> DEV T f(T a, T b) {
    const T larger = a > b ? a : b;
    return is_nan(a) ? a : larger;
  }
};
struct Min {
  template <class T> DEV T f(T a, T b) {
    const T smaller = a < b ? a : b;
    return is_nan(a) ? a : smaller;
  }
};
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
  DEV f32 f(f32 x, f32 gradient) { return gradient * vgelu_derivative(x); }
  DEV f64 f(f64 x, f64 gradient) {
    return gradient * (normal_probability(x) + x * 0.3989422804014327 * exp(-0.5 * x * x));
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
