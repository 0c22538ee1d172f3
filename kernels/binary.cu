// Elementwise functions of two values, or of one and a scalar.
#include "pointwise.cuh"

namespace {
template <class T, class Function> DEV void binary(const Pointwise& args) {
  pointwise2<T, T, T>(args, [](T a, T b) { return narrow<T>(Function::f(widen(a), widen(b))); });
}
template <class T, class Function> DEV void binary_scalar(const Pointwise& args) {
  const Compute<T> b = scalar_of<T>(args.scalars[0]);
  pointwise1<T, T>(args, [b](T a) { return narrow<T>(Function::f(widen(a), b)); });
}
template <class T, class Function> DEV void binary_scalar_far(const Pointwise& args) {
  const Compute<T> b = scalar_of<T>(args.scalars[0]);
  pointwise1_far<T>(
      args, [b](T a) { return Function::far(widen(a), b); },
      [b](T a) { return narrow<T>(Function::fast(widen(a), b)); },
      [b](T a) { return narrow<T>(Function::f(widen(a), b)); });
}
template <class T> DEV void clamp(const Pointwise& args) {
  const Compute<T> low = scalar_of<T>(args.scalars[0]), high = scalar_of<T>(args.scalars[1]);
  pointwise1<T, T>(args, [low, high](T x) {
    const Compute<T> value = widen(x), capped = high < value ? high : value;  // NaN stays
    return narrow<T>(capped < low ? low : capped);
  });
}
}  // namespace

#define BINARY_FORM(T, kind, Function, scalar)                                 \
  KERNEL(binary_##kind##_##T, Pointwise) { binary<T, Function>(args); }         \
  KERNEL(binary_scalar_##kind##_##T, Pointwise) { scalar<T, Function>(args); }
#define BINARY(T, kind, Function) BINARY_FORM(T, kind, Function, binary_scalar)
#define BINARY_FAR(T, kind, Function) BINARY_FORM(T, kind, Function, binary_scalar_far)
FOR_NUMBERS(BINARY, add, Add) FOR_NUMBERS(BINARY, sub, Sub) FOR_NUMBERS(BINARY, mul, Mul) FOR_NUMBERS(BINARY, div, Div)
FOR_NUMBERS(BINARY, reverse_sub, ReverseSub) FOR_NUMBERS(BINARY, reverse_div, ReverseDiv)
FOR_NUMBERS(BINARY, pow, Pow) FOR_FLOATS(BINARY, atan2, Atan2)
FOR_INTEGERS(BINARY, remainder, Remainder) FOR(f64, BINARY, remainder, Remainder)
FOR(f32, BINARY_FAR, remainder, Remainder) FOR_HALVES(BINARY_FAR, remainder, Remainder)
FOR_NUMBERS(BINARY, max, Max) FOR_NUMBERS(BINARY, min, Min)
FOR_INTEGERS(BINARY, and, And) FOR_INTEGERS(BINARY, or, Or) FOR_INTEGERS(BINARY, xor, Xor)
FOR_BOOLS(BINARY, and, And) FOR_BOOLS(BINARY, or, Or) FOR_BOOLS(BINARY, xor, Xor)
FOR_INTEGERS(BINARY, shift_left, ShiftLeft) FOR_INTEGERS(BINARY, shift_right, ShiftRight)
FOR_FLOATS(BINARY, leaky_relu, LeakyRelu) FOR_NUMBERS(BINARY, relu_backward, ReluBackward)
FOR_FLOATS(BINARY, sigmoid_backward, SigmoidBackward) FOR_FLOATS(BINARY, log_sigmoid_backward, LogSigmoidBackward)
FOR_FLOATS(BINARY, gelu_backward, GeluBackward)

#define CLAMP(T, ...) KERNEL(clamp_##T, Pointwise) { clamp<T>(args); }
FOR_NUMBERS(CLAMP, )

EXPORT_TABLE(binary)
