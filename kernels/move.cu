// Elementwise kernels that only move elements, by their size: copies, choices by mask.
#include "copy.cuh"

namespace {
template <class T> DEV void mask_fill(const Pointwise& args) {
  const T value = *reinterpret_cast<const T*>(&args.scalars[0]);
  pointwise2<T, T, b8>(args, [value](T x, b8 mask) { return mask.bits ? value : x; });
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
}  // namespace

#define MOVES(T, ...)                                                      \
  COPY(T, T)                                                               \
  KERNEL(where_##T, Pointwise) { where<T>(args); }                          \
  KERNEL(mask_fill_##T, Pointwise) { mask_fill<T>(args); }
FOR_RAW(MOVES, )

EXPORT_TABLE(move)
