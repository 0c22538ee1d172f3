// Reading and adding by index along one axis. An index out of range touches nothing and is left at `fault`.
#include "math.cuh"
#include "views.cuh"

namespace {
// Operands of a gather's space: the index, and x without the axis. Of a scatter's: the output, the index and the
// value, all without the axis.
struct Indexed {
  void* out;
  const void* index;
  const void* data;  // x or value
  i64* fault;
  u64 chunk;
  u64 size;         // of the indexed axis
  u64 count;        // of indices along the axis (scatter)
  i64 steps[3];     // along the axis, in the order of the operands (gather: x is the second)
  Space space;
};

DEV bool in_range(i64 index, const Indexed& args) {
  if (u64(index) < args.size) return true;
#if SIMT_DEVICE
  *reinterpret_cast<volatile i64*>(args.fault) = index;
#else
  __atomic_store_n(args.fault, index, __ATOMIC_RELAXED);
#endif
  return false;
}

template <class T, class Index> DEV void gather(const Indexed& args) {
  T* out = static_cast<T*>(args.out);
  const Index* index = static_cast<const Index*>(args.index);
  const T* x = static_cast<const T*>(args.data);
  const i64 step_index = args.space.strides[0][0], step_x = args.space.strides[1][0], along = args.steps[1];
  for_runs<2>(args.space, block_range(args.space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    const Index* at = index + offsets[0];
    const T* from = x + offsets[1];
    if (step_index == 0) {
      // One index for the whole run: a slice is copied.
      if (!in_range(at[0], args)) return;
      from += i64(at[0]) * along;
      if (step_x == 1)
        for (u64 k = 0; k < run; ++k) out[i + k] = from[k];
      else
        for (u64 k = 0; k < run; ++k) out[i + k] = from[i64(k) * step_x];
    } else {
      for (u64 k = 0; k < run; ++k) {
        const i64 row = at[i64(k) * step_index];
        if (in_range(row, args)) out[i + k] = from[row * along + i64(k) * step_x];
      }
    }
  });
}

template <class T> DEV T add(T a, T b) { return narrow<T>(Add::f(widen(a), widen(b))); }
DEV b8 add(b8 a, b8 b) { return {u8(a.bits | b.bits)}; }
DEV b32 add(b32 a, b32 b) { return {a.bits | b.bits}; }

// The space leaves out the axis: what is added to one element is added by one thread, in the order of the index.
template <class T, class Index> DEV void scatter_add(const Indexed& args) {
  T* out = static_cast<T*>(args.out);
  const Index* index = static_cast<const Index*>(args.index);
  const T* value = static_cast<const T*>(args.data);
  const auto& strides = args.space.strides;
  const i64 step_out = strides[0][0], step_index = strides[1][0], step_value = strides[2][0];
  for_runs<3>(args.space, block_range(args.space.count, args.chunk), [&](u64, const i64* offsets, u64 run) {
    for (u64 n = 0; n < args.count; ++n) {
      T* to = out + offsets[0];
      const Index* at = index + offsets[1] + i64(n) * args.steps[1];
      const T* from = value + offsets[2] + i64(n) * args.steps[2];
      if (step_index == 0) {
        if (!in_range(at[0], args)) continue;
        to += i64(at[0]) * args.steps[0];
        if (step_out == 1 && step_value == 1) {
          INDEPENDENT for (u64 k = 0; k < run; ++k) to[k] = add(to[k], from[k]);
        } else {
          for (u64 k = 0; k < run; ++k) to[i64(k) * step_out] = add(to[i64(k) * step_out], from[i64(k) * step_value]);
        }
      } else {
        for (u64 k = 0; k < run; ++k) {
          const i64 row = at[i64(k) * step_index];
          if (!in_range(row, args)) continue;
          T& element = to[row * args.steps[0] + i64(k) * step_out];
          element = add(element, from[i64(k) * step_value]);
        }
      }
    }
  });
}
}  // namespace

#define GATHER(T, ...)                                                   \
  KERNEL(gather_##T##_i32, Indexed) { gather<T, i32>(args); }             \
  KERNEL(gather_##T##_i64, Indexed) { gather<T, i64>(args); }
#define SCATTER(T, ...)                                                  \
  KERNEL(scatter_add_##T##_i32, Indexed) { scatter_add<T, i32>(args); }   \
  KERNEL(scatter_add_##T##_i64, Indexed) { scatter_add<T, i64>(args); }
FOR_RAW(GATHER, ) FOR_ALL(SCATTER, )

EXPORT_TABLE(index)
