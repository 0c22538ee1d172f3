// Elementwise functions of one value.
#include "pointwise.cuh"

namespace {
template <class T, class Function> DEV void unary(const Pointwise& args) {
  pointwise1<T, T>(args, [](T x) { return narrow<T>(Function::f(widen(x))); });
}
template <class T, class Function> DEV void unary_far(const Pointwise& args) {
  pointwise1_far<T>(
      args, [](T x) { return Function::far(widen(x)); }, [](T x) { return narrow<T>(Function::fast(widen(x))); },
      [](T x) { return narrow<T>(Function::f(widen(x))); });
}
}  // namespace

#define UNARY(T, kind, Function) \
  KERNEL(unary_##kind##_##T, Pointwise) { unary<T, Function>(args); }
FOR_NUMBERS(UNARY, neg, Neg) FOR_NUMBERS(UNARY, abs, Abs) FOR_NUMBERS(UNARY, sign, Sign)
FOR_NUMBERS(UNARY, square, Square) FOR_NUMBERS(UNARY, cube, Cube) FOR_NUMBERS(UNARY, relu, Relu)
FOR_INTEGERS(UNARY, not, Not) FOR_BOOLS(UNARY, not, Not)
FOR_FLOATS(UNARY, exp, Exp) FOR_FLOATS(UNARY, log, Log) FOR_FLOATS(UNARY, log1p, Log1p)
FOR_FLOATS(UNARY, sqrt, Sqrt) FOR_FLOATS(UNARY, recip, Recip) FOR_FLOATS(UNARY, erf, Erf)
FOR_FLOATS(UNARY, inverse_sqrt, InverseSqrt)
#define UNARY_FAR(T, kind, Function) \
  KERNEL(unary_##kind##_##T, Pointwise) { unary_far<T, Function>(args); }
FOR(f64, UNARY, sin, Sin) FOR(f32, UNARY_FAR, sin, Sin) FOR_HALVES(UNARY_FAR, sin, Sin)
FOR(f64, UNARY, cos, Cos) FOR(f32, UNARY_FAR, cos, Cos) FOR_HALVES(UNARY_FAR, cos, Cos)
FOR(f64, UNARY, tan, Tan) FOR(f32, UNARY_FAR, tan, Tan) FOR_HALVES(UNARY_FAR, tan, Tan)
FOR_FLOATS(UNARY, sinh, Sinh) FOR_FLOATS(UNARY, cosh, Cosh) FOR_FLOATS(UNARY, tanh, Tanh)
FOR_FLOATS(UNARY, asin, Asin) FOR_FLOATS(UNARY, acos, Acos) FOR_FLOATS(UNARY, atan, Atan)
FOR_FLOATS(UNARY, asinh, Asinh) FOR_FLOATS(UNARY, acosh, Acosh) FOR_FLOATS(UNARY, atanh, Atanh)
FOR_FLOATS(UNARY, floor, Floor) FOR_FLOATS(UNARY, ceil, Ceil)
FOR_FLOATS(UNARY, round, Round) FOR_FLOATS(UNARY, trunc, Trunc)
FOR_FLOATS(UNARY, sigmoid, Sigmoid) FOR_FLOATS(UNARY, log_sigmoid, LogSigmoid) FOR_FLOATS(UNARY, gelu, Gelu)

EXPORT_TABLE(unary)
