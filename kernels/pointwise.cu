// Elementwise kernels: functions of one and two values, comparisons, choices by mask, copies and casts.
#include "math.cuh"
#include "views.cuh"

namespace {
// out[k] = f(a[k * step_a]). The usual steps have loops of their own, so that they vectorise.
template <class F, class R, class A> DEV void map(R* out, const A* a, i64 step_a, u64 run, F f) {
  if (step_a == 1) {
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(a[k]);
  } else if (step_a == 0) {
    const R value = f(a[0]);
    for (u64 k = 0; k < run; ++k) out[k] = value;
  } else {
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(a[i64(k) * step_a]);
  }
}

template <class F, class R, class A, class B>
DEV void map(R* out, const A* a, i64 step_a, const B* b, i64 step_b, u64 run, F f) {
  if (step_a == 1 && step_b == 1) {
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(a[k], b[k]);
  } else if (step_a == 1 && step_b == 0) {
    const B value = b[0];
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(a[k], value);
  } else if (step_a == 0 && step_b == 1) {
    const A value = a[0];
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(value, b[k]);
  } else {
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(a[i64(k) * step_a], b[i64(k) * step_b]);
  }
}

template <class R, class A, class F> DEV void pointwise1(const Pointwise& args, F f) {
  R* out = static_cast<R*>(args.out);
  const A* a = input_of<A>(args, 0);
  const Space& space = args.space;
  for_runs<1>(space, block_range(space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    map(out + i, a + offsets[0], space.strides[0][0], run, f);
  });
}

template <class R, class A, class B, class F> DEV void pointwise2(const Pointwise& args, F f) {
  R* out = static_cast<R*>(args.out);
  const A* a = input_of<A>(args, 0);
  const B* b = input_of<B>(args, 1);
  const Space& space = args.space;
  for_runs<2>(space, block_range(space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    map(out + i, a + offsets[0], space.strides[0][0], b + offsets[1], space.strides[1][0], run, f);
  });
}

template <class T, class Function> DEV void unary(const Pointwise& args) {
  pointwise1<T, T>(args, [](T x) { return Function::f(x); });
}
template <class R, class T, class Function> DEV void binary(const Pointwise& args) {
  pointwise2<R, T, T>(args, [](T a, T b) { return Function::f(a, b); });
}
template <class R, class T, class Function> DEV void binary_scalar(const Pointwise& args) {
  const T b = scalar_of<T>(args.scalar);
  pointwise1<R, T>(args, [b](T a) { return Function::f(a, b); });
}
template <class T> DEV void mask_fill(const Pointwise& args) {
  const T value = scalar_of<T>(args.scalar);
  pointwise2<T, T, u8>(args, [value](T x, u8 mask) { return mask ? value : x; });
}

template <class T> DEV void where(const Pointwise& args) {
  T* out = static_cast<T*>(args.out);
  const u8* mask = input_of<u8>(args, 0);
  const T* a = input_of<T>(args, 1);
  const T* b = input_of<T>(args, 2);
  const Space& space = args.space;
  const i64 step_mask = space.strides[0][0], step_a = space.strides[1][0], step_b = space.strides[2][0];
  for_runs<3>(space, block_range(space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    const u8* m = mask + offsets[0];
    const T *x = a + offsets[1], *y = b + offsets[2];
    T* o = out + i;
    if (step_mask == 1 && step_a == 1 && step_b == 1) {
      INDEPENDENT for (u64 k = 0; k < run; ++k) {
        const T then = x[k], otherwise = y[k];  // read both: a choice without a branch vectorises
        o[k] = m[k] ? then : otherwise;
      }
    } else if (step_mask == 0) {
      m[0] ? map(o, x, step_a, run, [](T v) { return v; }) : map(o, y, step_b, run, [](T v) { return v; });
    } else {
      INDEPENDENT for (u64 k = 0; k < run; ++k) {
        const T then = x[i64(k) * step_a], otherwise = y[i64(k) * step_b];
        o[k] = m[i64(k) * step_mask] ? then : otherwise;
      }
    }
  });
}

// The one kernel whose output may be strided: `out[strides[1]] = x[strides[0]]`.
template <class To, class From> DEV void copy(const Pointwise& args) {
  To* out = static_cast<To*>(args.out);
  const From* x = input_of<From>(args, 0);
  const Space& space = args.space;
  const i64 step_x = space.strides[0][0], step_out = space.strides[1][0];
  const auto convert = [](From value) { return Convert<To, From>::f(value); };
  for_runs<2>(space, block_range(space.count, args.chunk), [&](u64, const i64* offsets, u64 run) {
    const From* from = x + offsets[0];
    To* to = out + offsets[1];
    if (step_out == 1) {
      map(to, from, step_x, run, convert);
    } else {
      INDEPENDENT for (u64 k = 0; k < run; ++k) to[i64(k) * step_out] = convert(from[i64(k) * step_x]);
    }
  });
}
}  // namespace

#define UNARY(kind, Function, dtype, T) \
  KERNEL(unary_##kind##_##dtype, Pointwise) { unary<T, Function>(args); }
#define UNARY_NUMBERS(kind, Function) \
  UNARY(kind, Function, f32, float) UNARY(kind, Function, i32, i32) UNARY(kind, Function, i64, i64)
UNARY_NUMBERS(neg, Neg) UNARY_NUMBERS(abs, Abs) UNARY_NUMBERS(sign, Sign) UNARY_NUMBERS(square, Square)
UNARY_NUMBERS(relu, Relu) UNARY(not, Not, bool, u8)
UNARY(exp, Exp, f32, float) UNARY(log, Log, f32, float) UNARY(log1p, Log1p, f32, float)
UNARY(sqrt, Sqrt, f32, float) UNARY(recip, Recip, f32, float) UNARY(sin, Sin, f32, float)
UNARY(cos, Cos, f32, float) UNARY(tan, Tan, f32, float) UNARY(sinh, Sinh, f32, float)
UNARY(cosh, Cosh, f32, float) UNARY(tanh, Tanh, f32, float) UNARY(asin, Asin, f32, float)
UNARY(asinh, Asinh, f32, float) UNARY(acos, Acos, f32, float) UNARY(acosh, Acosh, f32, float)
UNARY(atan, Atan, f32, float) UNARY(atanh, Atanh, f32, float) UNARY(erf, Erf, f32, float)
UNARY(floor, Floor, f32, float) UNARY(ceil, Ceil, f32, float) UNARY(round, Round, f32, float)
UNARY(trunc, Trunc, f32, float) UNARY(sigmoid, Sigmoid, f32, float)

#define BINARY(kind, Function, dtype, T)                                              \
  KERNEL(binary_##kind##_##dtype, Pointwise) { binary<T, T, Function>(args); }         \
  KERNEL(binary_scalar_##kind##_##dtype, Pointwise) { binary_scalar<T, T, Function>(args); }
#define BINARY_NUMBERS(kind, Function) \
  BINARY(kind, Function, f32, float) BINARY(kind, Function, i32, i32) BINARY(kind, Function, i64, i64)
BINARY_NUMBERS(add, Add) BINARY_NUMBERS(sub, Sub) BINARY_NUMBERS(mul, Mul) BINARY_NUMBERS(div, Div)
BINARY_NUMBERS(remainder, Remainder) BINARY_NUMBERS(pow, Pow) BINARY_NUMBERS(max, Max) BINARY_NUMBERS(min, Min)
BINARY_NUMBERS(relu_backward, ReluBackward) BINARY_NUMBERS(reverse_sub, ReverseSub)
BINARY_NUMBERS(reverse_div, ReverseDiv) BINARY(atan2, Atan2, f32, float)
BINARY(and, And, bool, u8) BINARY(or, Or, bool, u8) BINARY(xor, Xor, bool, u8)

#define COMPARE(kind, Function, dtype, T)                                              \
  KERNEL(compare_##kind##_##dtype, Pointwise) { binary<u8, T, Function>(args); }        \
  KERNEL(compare_scalar_##kind##_##dtype, Pointwise) { binary_scalar<u8, T, Function>(args); }
#define COMPARE_ALL(kind, Function)                                               \
  COMPARE(kind, Function, f32, float) COMPARE(kind, Function, i32, i32)           \
  COMPARE(kind, Function, i64, i64) COMPARE(kind, Function, bool, u8)
COMPARE_ALL(equal, Equal) COMPARE_ALL(not_equal, NotEqual) COMPARE_ALL(greater, Greater)
COMPARE_ALL(greater_equal, GreaterEqual) COMPARE_ALL(lower, Lower) COMPARE_ALL(lower_equal, LowerEqual)

#define CHOICES(dtype, T)                             \
  KERNEL(where_##dtype, Pointwise) { where<T>(args); } \
  KERNEL(mask_fill_##dtype, Pointwise) { mask_fill<T>(args); }
CHOICES(f32, float) CHOICES(i32, i32) CHOICES(i64, i64) CHOICES(bool, u8)

#define COPY(from, From, to, To) \
  KERNEL(copy_##from##_##to, Pointwise) { copy<To, From>(args); }
#define COPY_FROM(from, From)                                                       \
  COPY(from, From, f32, float) COPY(from, From, i32, i32) COPY(from, From, i64, i64) \
  COPY(from, From, bool, u8)
COPY_FROM(f32, float) COPY_FROM(i32, i32) COPY_FROM(i64, i64) COPY_FROM(bool, u8)

EXPORT_TABLE(pointwise)
