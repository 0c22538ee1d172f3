// Products of matrices: of integers, which wrap, and of floats for devices without a library for it. The space runs over
// the outputs, in left, right and bias.
#include "math.cuh"
#include "views.cuh"

namespace {
struct Matmul {
  void* out;
  const void* left;
  const void* right;
  const void* bias;  // or null
  u64 chunk;         // outputs per block
  u64 inner;
  i64 steps[2];      // along the inner dimension, of left and right
  Space space;
};

constexpr u32 COLUMNS = 512;  // outputs that stay near while rows are added to them

// One number of the left for a whole row of the right; several at a time, so that the outputs are touched seldom.
template <class T>
DEV void add_rows(T* out, u64 columns, u64 inner, const T* left, i64 step_left, const T* right, i64 step_right) {
  u64 k = 0;
  for (; k + 4 <= inner; k += 4, left += 4 * step_left, right += 4 * step_right) {
    const T a = left[0], b = left[step_left], c = left[2 * step_left], d = left[3 * step_left];
    const T *x = right, *y = x + step_right, *z = y + step_right, *w = z + step_right;
    INDEPENDENT for (u64 j = 0; j < columns; ++j) out[j] = T(out[j] + a * x[j] + b * y[j] + c * z[j] + d * w[j]);
  }
  for (; k < inner; ++k, left += step_left, right += step_right)
    INDEPENDENT for (u64 j = 0; j < columns; ++j) out[j] = T(out[j] + left[0] * right[j]);
}

template <class T> DEV T dot(u64 inner, const T* left, i64 step_left, const T* right, i64 step_right) {
  T sum = 0;
  if (step_left == 1 && step_right == 1)
    for (u64 k = 0; k < inner; ++k) sum = T(sum + left[k] * right[k]);
  else
    for (u64 k = 0; k < inner; ++k) sum = T(sum + left[i64(k) * step_left] * right[i64(k) * step_right]);
  return sum;
}

template <class T> DEV void matmul(const Matmul& args) {
  const auto& strides = args.space.strides;
  const i64 across_left = strides[0][0], across_right = strides[1][0], across_bias = strides[2][0];
  const i64 step_left = args.steps[0], step_right = args.steps[1];
  for_runs<3>(args.space, block_range(args.space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    const T* left = static_cast<const T*>(args.left) + offsets[0];
    const T* right = static_cast<const T*>(args.right) + offsets[1];
    const T* bias = static_cast<const T*>(args.bias) + offsets[2];
    T* out = static_cast<T*>(args.out) + i;
    for (u64 k = 0; k < run; ++k) out[k] = args.bias ? bias[i64(k) * across_bias] : T(0);
    if (across_left == 0 && across_right == 1) {
      for (u64 done = 0; done < run; done += COLUMNS)
        add_rows(out + done, least(run - done, u64(COLUMNS)), args.inner, left, step_left, right + done, step_right);
    } else {
      for (u64 k = 0; k < run; ++k) {
        const T *row = left + i64(k) * across_left, *column = right + i64(k) * across_right;
        out[k] = T(out[k] + dot(args.inner, row, step_left, column, step_right));
      }
    }
  });
}
// Of floats, an output at a time. Halves are added up in f32 and rounded once; parts of the sum, before they join it.
template <class T> DEV void product(const Matmul& args) {
  typedef Compute<T> C;
  constexpr u64 PART = 128;
  const auto& strides = args.space.strides;
  const i64 step_left = args.steps[0], step_right = args.steps[1];
  for_runs<3>(args.space, block_range(args.space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    for (u64 k = 0; k < run; ++k) {
      const T* left = static_cast<const T*>(args.left) + offsets[0] + i64(k) * strides[0][0];
      const T* right = static_cast<const T*>(args.right) + offsets[1] + i64(k) * strides[1][0];
      C total = 0;
      for (u64 begin = 0; begin < args.inner; begin += PART) {
        C sum = 0;
        for (u64 n = begin; n < least(begin + PART, args.inner); ++n)
          sum += widen(left[i64(n) * step_left]) * widen(right[i64(n) * step_right]);
        total += sum;
      }
      if (args.bias) total += widen(static_cast<const T*>(args.bias)[offsets[2] + i64(k) * strides[2][0]]);
      static_cast<T*>(args.out)[i + k] = narrow<T>(total);
    }
  });
}
}  // namespace

#define PRODUCT(T, ...) KERNEL(matmul_##T, Matmul) { product<T>(args); }
FOR_FLOATS(PRODUCT, )
#define MATMUL(T, ...) KERNEL(matmul_##T, Matmul) { matmul<T>(args); }
FOR_INTEGERS(MATMUL, )

EXPORT_TABLE(matmul)
