// Elementwise comparisons, of two values or of one and a scalar.
#include "pointwise.cuh"

namespace {
template <class T, class Function> DEV void compare(const Pointwise& args) {
  pointwise2<b8, T, T>(args, [](T a, T b) { return narrow<b8>(Function::f(widen(a), widen(b))); });
}
template <class T, class Function> DEV void compare_scalar(const Pointwise& args) {
  const Compute<T> b = scalar_of<T>(args.scalars[0]);
  pointwise1<b8, T>(args, [b](T a) { return narrow<b8>(Function::f(widen(a), b)); });
}
}  // namespace

#define COMPARE(T, kind, Function)                                              \
  KERNEL(compare_##kind##_##T, Pointwise) { compare<T, Function>(args); }        \
  KERNEL(compare_scalar_##kind##_##T, Pointwise) { compare_scalar<T, Function>(args); }
FOR_ALL(COMPARE, equal, Equal) FOR_ALL(COMPARE, not_equal, NotEqual)
FOR_ALL(COMPARE, greater, Greater) FOR_ALL(COMPARE, greater_equal, GreaterEqual)
FOR_ALL(COMPARE, lower, Lower) FOR_ALL(COMPARE, lower_equal, LowerEqual)

EXPORT_TABLE(compare)
