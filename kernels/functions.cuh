// Elementary functions of f32 that the C++ compiler vectorises when they are inlined in a loop: without branches,
// tables and calls. A choice is between two values that are both computed. On the device they are CUDA's own.
//
// Each is a reduction of the argument to a short interval, a polynomial there, and a reconstruction. Polynomials are
// minimax (Remez), for a small relative error of the function rather than of the polynomial. Those that need no more
// are in float; the others are in double, where an error of 2^-29 leaves little more than the final rounding. Errors
// are within 2 units in the last place, also of subnormal results (but for the derivative of gelu near its zero); odd
// functions keep the sign of zero, infinities give limits, NaN stays. Without contraction to FMA (as built), results do
// not depend on the instruction set.
#pragma once
#include "simt.cuh"

namespace {
#if SIMT_DEVICE
#ifdef SIMT_EMULATED
DEV float normcdff(float x) { return 0.5f * erfcf(x * -0.70710678f); }
#endif
DEV float vexp(float x) { return expf(x); }
DEV float vlog(float x) { return logf(x); }
DEV float vlog1p(float x) { return log1pf(x); }
DEV float vsin(float x) { return sinf(x); }
DEV float vcos(float x) { return cosf(x); }
DEV float vtan(float x) { return tanf(x); }
DEV float vsinh(float x) { return sinhf(x); }
DEV float vcosh(float x) { return coshf(x); }
DEV float vtanh(float x) { return tanhf(x); }
DEV float vasin(float x) { return asinf(x); }
DEV float vacos(float x) { return acosf(x); }
DEV float vatan(float x) { return atanf(x); }
DEV float vatan2(float y, float x) { return atan2f(y, x); }
DEV float vasinh(float x) { return asinhf(x); }
DEV float vacosh(float x) { return acoshf(x); }
DEV float vatanh(float x) { return atanhf(x); }
DEV float verf(float x) { return erff(x); }
DEV float vpow(float x, float y) { return powf(x, y); }
DEV float vfmod(float x, float y) { return fmodf(x, y); }
DEV float vsigmoid(float x) {
  const float e = expf(-fabsf(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}
DEV float vlog_sigmoid(float x) { return (x < 0 ? x : 0.0f) - log1pf(expf(-fabsf(x))); }
DEV float vgelu(float x) { return x < -15.0f ? -0.0f : x * normcdff(x); }
DEV float vgelu_derivative(float x) {
  return normcdff(x) + most(-15.0f, least(x, 15.0f)) * 0.39894228f * expf(-0.5f * x * x);
}
DEV bool is_far_angle(float) { return false; }
DEV bool is_far_quotient(float, float) { return false; }
#else

// ---- bits
constexpr u32 SIGN = 0x80000000u;
DEV u32 bits_of(float x) { return *reinterpret_cast<const u32*>(&x); }
DEV u64 bits_of(double x) { return *reinterpret_cast<const u64*>(&x); }
DEV float float_of(u32 bits) { return *reinterpret_cast<const float*>(&bits); }
DEV double double_of(u64 bits) { return *reinterpret_cast<const double*>(&bits); }
// -y where x has the sign bit
DEV float negate_as(float y, float x) { return float_of(bits_of(y) ^ (bits_of(x) & SIGN)); }
// 2^n for n in -126 ..= 127, and 0 for -127
DEV float power_of_2(i32 n) { return float_of(u32(n + 127) << 23); }

// Numbers that are this small round to integers when one of these is added: the sum's low bits are the integer's.
constexpr float ROUND = 12582912.0f;               // 1.5 * 2^23, for |x| < 2^22
constexpr double ROUND_DOUBLE = 6755399441055744.0;  // 1.5 * 2^52, for |x| < 2^51
constexpr float INFINITE = __builtin_huge_valf(), NOT_A_NUMBER = __builtin_nanf("");

// c0 + c1 x + c2 x^2 ..., after Horner.
template <class T> DEV T polynomial(T, T c) { return c; }
template <class T, class... More> DEV T polynomial(T x, T c, More... more) { return c + x * polynomial(x, more...); }

// ---- exponentials: x = n ln 2 + r with |r| <= ln(2) / 2, and e^x = 2^n e^r
struct Powers {
  i32 n;
  float high, low;  // r
};
// Cody and Waite: the first part of ln 2 has so few bits that n times it is exact, and so is the difference. (The parts
// are those of Cephes.)
DEV Powers reduce_exp(float x) {
  const float shifted = x * 1.44269504f + ROUND, n = shifted - ROUND;
  return {i32(bits_of(shifted) - bits_of(ROUND)), x - n * 0.693359375f, n * 2.12194440e-4f};
}
// e^r = 1 + r + r^2 P(r), to 2^-28. 1 + high is split into a float and a rest, so that hardly more than the last
// rounding matters.
DEV float exp_of(float high, float low) {
  const float r = high + low, one = 1.0f + high, rest = high - (one - 1.0f);
  const float p = polynomial(r, 0.49999994f, 0.166665152f, 0.0416680798f, 0.00836939923f, 0.00138423219f);
  return one + (rest + (low + r * r * p));
}
DEV float vexp(float x) {
  const float low = x < -104.0f ? -104.0f : x;  // this far, the result is 0 or infinite
  const Powers powers = reduce_exp(low > 89.0f ? 89.0f : low);
  const i32 half = powers.n >> 1;  // twice half of the power, so that only the last product is subnormal or infinite
  return exp_of(powers.high, powers.low) * power_of_2(half) * power_of_2(powers.n - half);
}
// The same for results that are normal.
DEV float exp_normal(float x) {
  const Powers powers = reduce_exp(x);
  return exp_of(powers.high, powers.low) * power_of_2(powers.n);
}

// ---- logarithms: x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and log x = e ln 2 + log(1 + f)
constexpr u32 SQRT_HALF_BITS = 0x3f3504f3u;
struct Fraction {
  i32 e;
  float f;
};
DEV Fraction split(float x) {  // x is positive, normal and finite
  const u32 shifted = bits_of(x) - SQRT_HALF_BITS;
  return {i32(shifted) >> 23, float_of((shifted & 0x007fffffu) + SQRT_HALF_BITS) - 1.0f};
}
// log(1 + f) = f - f^2/2 + f^3 P(f) to 2^-29, with the two parts of ln 2 above, the smallest terms first
DEV float log_of(i32 exponent, float f) {
  const float e = float(exponent), z = f * f;
  const float p = f * z * polynomial(f, 0.333333135f, -0.250001669f, 0.200022236f, -0.166593671f, 0.142095506f,
                                     -0.125496462f, 0.121091709f, -0.109181471f, 0.0534115024f);
  return e * 0.693359375f + (f + ((p - e * 2.12194440e-4f) - 0.5f * z));
}
DEV float vlog(float x) {
  const bool subnormal = x < 1.17549435e-38f;
  const Fraction fraction = split(subnormal ? x * 8388608.0f : x);
  const float y = log_of(fraction.e - (subnormal ? 23 : 0), fraction.f);
  return x > 0 ? (x < INFINITE ? y : x) : x == 0 ? -INFINITE : NOT_A_NUMBER;
}
// Of 1 + x = u + lost, the lost part joins f: for small x, f is x itself.
DEV float vlog1p(float x) {
  const float u = 1.0f + x, lost = x < 1 ? x - (u - 1.0f) : 1.0f - (u - x);
  const Fraction fraction = split(u);
  const float y = log_of(fraction.e, fraction.f + lost * power_of_2(fraction.e > 126 ? -127 : -fraction.e));
  const float finite = x == 0 ? x : y;
  return x > -1 ? (x < INFINITE ? finite : x) : x == -1 ? -INFINITE : NOT_A_NUMBER;
}

// 1 / (1 + e^-x), where e^-|x| never overflows. What the rounding of 1 + e lost is given back, to first order.
DEV float vsigmoid(float x) {
  const float e = vexp(-fabsf(x)), u = 1.0f + e, lost = e - (u - 1.0f);
  const float y = (x < 0 ? e : 1.0f) / u;
  return y - y * (lost * (1.0f - 0.5f * e));  // 1 / u is near 1 - e / 2
}
// min(x, 0) - log(1 + e^-|x|), where 1 + e is split as above: its exponent is 0 or 1
DEV float vlog_sigmoid(float x) {
  const float e = vexp(-fabsf(x));
  const bool upper = e > 0.41421356f;
  return (x < 0 ? x : 0.0f) - log_of(upper ? 1 : 0, upper ? 0.5f * (e - 1.0f) : e);
}

// ---- hyperbolic functions
// With |x| = n ln 2 + r, s = 2^n / 2 and t = 2^-n / 2: sinh |x| = (s - t) cosh r + (s + t) sinh r, and cosh |x| with
// sum and difference exchanged. Errors of sinh r and cosh r are 2^-33. From n = 128 on, s is halved to be a float.
struct Hyperbolic {
  float difference, sum, twice;  // s - t, s + t and what both are to be multiplied with
  float sinh_r, cosh_r_1;        // sinh r and cosh r - 1
};
DEV Hyperbolic reduce_hyperbolic(float x) {
  const float size = fabsf(x);
  const Powers powers = reduce_exp(size > 89.5f ? 89.5f : size);
  const i32 n = powers.n, over = n >> 7;
  const float s = power_of_2(n - 1 - over), t = power_of_2(n > 126 ? -127 : -1 - n);
  const float r = powers.high + powers.low, z = r * r;
  return {s - t, s + t, power_of_2(over), r + r * z * polynomial(z, 0.166666672f, 0.00833317544f, 0.000199740243f),
          z * polynomial(z, 0.5f, 0.0416664593f, 0.0013935453f)};
}
DEV float vsinh(float x) {
  const Hyperbolic h = reduce_hyperbolic(x);
  return negate_as((h.difference + (h.difference * h.cosh_r_1 + h.sum * h.sinh_r)) * h.twice, x);
}
DEV float vcosh(float x) {
  const Hyperbolic h = reduce_hyperbolic(x);
  return (h.sum + (h.sum * h.cosh_r_1 + h.difference * h.sinh_r)) * h.twice;
}
// Near 0, x + x^3 P(x^2) to 2^-27; elsewhere 1 - 2 / (e^2|x| + 1). (Split as in Cephes.)
DEV float vtanh(float x) {
  const float a = fabsf(x), size = a > 10.0f ? 10.0f : a, z = size * size;
  const float p = polynomial(z, -0.333332807f, 0.133314058f, -0.0537366122f, 0.020629013f, -0.005693404f);
  const float small = size + size * z * p;
  const float large = 1.0f - 2.0f / (exp_normal(size + size) + 1.0f);
  return negate_as(size < 0.625f ? small : large, x);
}

// ---- trigonometric functions: |x| = q pi/2 + r with |r| <= pi/4
// Cody and Waite, in double: the first two parts of pi/2 have so few bits that their products with q < 2^31 are exact.
// Of angles that are farther the results mean nothing: the caller takes libm's, element by element.
constexpr double PI_2 = 1.5707963267948966, PI_2_HIGH = 1.570796012878418, PI_2_MIDDLE = 3.139164164167596e-07,
                 PI_2_LOW = 6.2233721718966134e-14;
struct Angle {
  double r;
  u32 quarter;
};
DEV bool is_far_angle(float x) { return fabsf(x) > 2147483648.0f; }
DEV Angle reduce_angle(float x) {
  const double size = fabsf(x), shifted = size * 0.63661977236758134 + ROUND_DOUBLE, q = shifted - ROUND_DOUBLE;
  const double r = ((size - q * PI_2_HIGH) - q * PI_2_MIDDLE) - q * PI_2_LOW;
  return {r, u32(bits_of(shifted))};
}
// sin(r + quarter pi/2): r + r^3 S(r^2) to 2^-28, or 1 - (r^2/2 - r^4 C(r^2)) to 2^-33
DEV float sin_of(float r, u32 quarter) {
  const float z = r * r;
  const float sine = r + r * z * polynomial(z, -0.166666552f, 0.00833218917f, -0.00019518286f);
  const float cosine = 1.0f - (0.5f * z - z * z * polynomial(z, 0.0416666456f, -0.00138873095f, 2.44322891e-05f));
  return float_of(bits_of(quarter & 1 ? cosine : sine) ^ ((quarter & 2) << 30));
}
DEV float vsin(float x) {
  const Angle angle = reduce_angle(x);
  return negate_as(sin_of(float(angle.r), angle.quarter), x);
}
DEV float vcos(float x) {
  const Angle angle = reduce_angle(x);
  return sin_of(float(angle.r), angle.quarter + 1);
}
// tan r = r + r^3 P(r^2) to 2^-29, or, after an odd number of quarters, -1 / tan r
DEV float vtan(float x) {
  const Angle angle = reduce_angle(x);
  const double r = angle.r, z = r * r;
  const double p = polynomial(z, 0.33333349756657, 0.13332663289297, 0.054059921122867, 0.021282167274123,
                              0.010835855636573, 8.9493751137709e-05, 0.004376290310872);
  const double even = r + r * z * p;
  return negate_as(angle.quarter & 1 ? float(-1.0 / even) : float(even), x);
}

// asin a = a + a^3 P(a^2) to 2^-31 up to 1/2, and pi/2 - 2 asin(sqrt((1 - a) / 2)) above
struct Arc {
  double a, asin;
  bool above;
};
DEV Arc reduce_arc(float x) {
  const double size = fabsf(x);
  const bool above = size > 0.5;
  const double z = above ? 0.5 - 0.5 * size : size * size, a = above ? sqrt(z) : size;
  return {size, a + a * z * polynomial(z, 0.166666599913038, 0.0750050418469335, 0.0445169549949426, 0.031807720680941,
                                       0.0144385946759646, 0.0375164658558715), above};
}
DEV float vasin(float x) {
  const Arc arc = reduce_arc(x);
  return negate_as(float(arc.above ? PI_2 - 2.0 * arc.asin : arc.asin), x);
}
DEV float vacos(float x) {
  const Arc arc = reduce_arc(x);
  const double size = arc.above ? 2.0 * arc.asin : PI_2 - arc.asin;  // of |x|
  return float(x < 0 ? 2.0 * PI_2 - size : size);
}
// t in 0 ..= 1: t + t^3 P(t^2), error 2^-31
DEV double atan_of(double t) {
  const double z = t * t;
  return t + t * z * polynomial(z, -0.333333268995795, 0.199996711241636, -0.142798330724598, 0.110582238490172,
                                -0.0881109210615656, 0.0674159901220452, -0.0446899705146038, 0.0225398931654858,
                                -0.00731796945722481, 0.00111379144685653);
}
DEV float vatan(float x) {
  const double size = fabsf(x);
  const double r = atan_of(size > 1 ? 1.0 / size : size);
  return negate_as(float(size > 1 ? PI_2 - r : r), x);
}
// The angle within the first half quarter, which is then mirrored once, twice or thrice.
DEV float vatan2(float y, float x) {
  const double a = fabsf(x), b = fabsf(y), small = a < b ? a : b, large = a < b ? b : a;
  const double r = atan_of(small == large ? (large == 0 ? 0.0 : 1.0) : small / large);
  const double right = a < b ? PI_2 - r : r;
  return negate_as(float(negate_as(1.0f, x) < 0 ? 2.0 * PI_2 - right : right), y);
}

// ---- in double: logarithms and powers
// atanh s = s + s^3 P(s^2) for |s| <= 0.1716, error 2^-45
DEV double atanh_of(double s) {
  const double z = s * s;
  return s + s * z * polynomial(z, 0.33333333337884341, 0.19999997816414886, 0.14286053998643763, 0.11088118463910041,
                                0.097917309472285871);
}
// x is positive, normal and finite: e ln 2 + 2 atanh(f / (2 + f)), with e and f as above. The exponent becomes a double
// as the low bits of 2^52.
DEV double log_of(double x) {
  constexpr u64 sqrt_half = 0x3fe6a09e667f3bcdull, fraction = 0x000fffffffffffffull;
  const u64 shifted = bits_of(x) - sqrt_half + 0x3ff0000000000000ull;  // the exponent is biased, that it is positive
  const double e = double_of(shifted >> 52 | 0x4330000000000000ull) - (4503599627370496.0 + 1023.0);
  const double f = double_of((shifted & fraction) + sqrt_half) - 1.0;
  return e * 0.69314718055994531 + 2.0 * atanh_of(f / (2.0 + f));
}
// 2^x for |x| < 1000: x = n + r with |r| <= 1/2, and 2^r = 1 + r P(r) to 2^-32
DEV double exp2_of(double x) {
  const double shifted = x + ROUND_DOUBLE, r = x - (shifted - ROUND_DOUBLE);
  const double p = polynomial(r, 0.693147183816831, 0.240226509207792, 0.0555040037539225, 0.00961805691955196,
                              0.00133419509546748, 0.000154613676207579, 1.33598406704045e-05);
  return (1.0 + r * p) * double_of((bits_of(shifted) + 1023) << 52);
}
// |x|^y = 2^(y log2 |x|), with infinite logarithms of 0 and infinity; from 2^200 on, the power is infinite as a float.
// (Conditions are of doubles throughout, and y is not cut to a range first: GCC 12 vectorises neither conditions of
// both widths nor the booleans that it derives from such a cut.)
// Right for every float, of any size, that is not negative.
DEV bool is_integer(double size) { return ROUND_DOUBLE - (ROUND_DOUBLE - size) == size; }
DEV float vpow(float x, float y) {
  const double base = x, size = fabsf(x), sign = negate_as(1.0f, x), exponent = y, steps = fabsf(y);
  const double log = size == 0 ? -double(INFINITE) : size < INFINITE ? log_of(size) : size;
  const double product = exponent * log * 1.4426950408889634;
  const double power = product < 200 ? (product > -200 ? exp2_of(product) : 0.0) : product * 1e40;
  const double of_integer = is_integer(0.5 * steps) ? power : sign * power;
  const double of_fraction = base < 0 && size < INFINITE ? double(NOT_A_NUMBER) : power;
  const double y_1 = is_integer(steps) ? of_integer : of_fraction;
  return float(base == 1 || exponent == 0 || (size == 1 && steps == INFINITE) ? 1.0 : y_1);
}
// atanh x = log((1 + x) / (1 - x)) / 2
DEV float vatanh(float x) {
  const double size = fabsf(x);
  const double y = size < 0.17 ? atanh_of(size) : 0.5 * log_of((1.0 + size) / (1.0 - size));
  const double inside = size < 1 ? y : size == 1 ? double(INFINITE) : double(NOT_A_NUMBER);
  return negate_as(float(inside), x);
}
// asinh x = atanh(x / sqrt(x^2 + 1)) = log(x + sqrt(x^2 + 1))
DEV float vasinh(float x) {
  const double size = fabsf(x), root = sqrt(size * size + 1.0);
  const double y = size < 0.17 ? atanh_of(size / root) : log_of(size + root);
  return negate_as(float(size < INFINITE ? y : size), x);
}
DEV float vacosh(float x) {
  const double size = x, y = log_of(size + sqrt((size - 1.0) * (size + 1.0)));
  return float(size > 1 ? (size < INFINITE ? y : size) : size == 1 ? 0.0 : double(NOT_A_NUMBER));
}
// x - trunc(x / y) y, exact while the quotient is below 2^28: the product then has at most 53 bits, and the quotient of
// floats is an integer or far enough from one. Beyond, the caller takes libm's, which is exact too.
DEV bool is_far_quotient(float x, float y) { return fabsf(x) * 3.7252903e-09f >= fabsf(y); }  // 2^-28
DEV float vfmod(float x, float y) {
  const double a = fabsf(x), b = fabsf(y), quotient = a / b, nearest = (quotient + ROUND_DOUBLE) - ROUND_DOUBLE;
  const double rest = a - (nearest > quotient ? nearest - 1.0 : nearest) * b;
  const double finite = b < INFINITE ? rest : a;
  return negate_as(float(a < INFINITE && b > 0 ? finite : double(NOT_A_NUMBER)), x);
}

// ---- the error function and the normal distribution
// Up to 1, a + a P(a^2) to 2^-29; above, 1 - e^-g(a) with a polynomial g for -log(erfc a), error 2^-29.
DEV float verf(float x) {
  const float size = fabsf(x), a = size > 4.0f ? 4.0f : size;
  const float small = a + a * polynomial(a * a, 0.128379166f, -0.37612626f, 0.112835787f, -0.0268533472f, 0.0051871622f,
                                         -0.00079978531f, 7.80690316e-05f);
  const float large = 1.0f - exp_normal(-polynomial(a, 0.000341526465f, 1.12708914f, 0.63814497f, 0.103106581f,
                                                    -0.0218379535f, 0.00294762384f, -0.000186375008f));
  return negate_as(a < 1.0f ? small : large, x);
}
// P(X <= -a) for a in 0 ..= 14.5, in double, as bell times ratio: e^(-a^2/2) times P((a - 3) / (a + 3)) / (a + 3), to
// 2^-30. (The variable is Shepherd's and Laframboise's, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", 1981.)
struct Tail {
  double a, bell, ratio;
};
DEV Tail tail_of(float x) {
  const double size = fabsf(x), a = size > 14.5 ? 14.5 : size;  // where the tail is 0 as a float
  const double d = 1.0 / (a + 3.0);
  const double p = polynomial((a - 3.0) * d, 0.72908369037, -0.509331991408, 0.230017699958, -0.0472626875855,
                              -0.0104625203741, 0.00696930217696, 0.00102478408616, -0.00103252387, -0.0002447546383,
                              0.000131253653592, 5.44549667711e-05);
  return {a, exp2_of(-0.72134752044448170 * a * a), p * d};
}
// x P(X <= x) = max(x, 0) - |x| P(X <= -|x|)
DEV float vgelu(float x) {
  const Tail tail = tail_of(x);
  return float((x > 0 ? x : float_of(bits_of(x) & SIGN)) - tail.a * tail.ratio * tail.bell);
}
// P(X <= x) + x density(x); that for -|x| has the bell as a factor. Near its zero at -0.7518 the error is about 1e-10.
DEV float vgelu_derivative(float x) {
  const Tail tail = tail_of(x);
  const double y = (tail.ratio - tail.a * 0.39894228040143268) * tail.bell;
  return float(x < 0 ? y : 1.0 - y);
}
#endif
}  // namespace
