// Reading and updating by index along one axis. An index out of range touches nothing and is left at `fault`.
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
  u64 teams;        // that share the indices of a slice, a power of two; none where each element has its own
  i64 steps[3];     // along the axis, in the order of the operands (gather: x is the second)
  Space space;
};

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
      if (!in_range(at[0], args.size, args.fault)) return;
      from += i64(at[0]) * along;
      if (step_x == 1)
        copy_run(out + i, from, run);
      else
        for (u64 k = 0; k < run; ++k) out[i + k] = from[i64(k) * step_x];
    } else {
      for (u64 k = 0; k < run; ++k) {
        const i64 row = at[i64(k) * step_index];
        if (in_range(row, args.size, args.fault)) out[i + k] = from[row * along + i64(k) * step_x];
      }
    }
  });
}

// What becomes of an element and a value for it. Bools are added by `or`.
struct Assign { template <class T> DEV T of(T, T value) { return value; } };
template <class F> struct Update {
  template <class T> DEV T of(T x, T value) { return narrow<T>(F::f(widen(x), widen(value))); }
};
struct AddTo : Update<Add> {
  using Update<Add>::of;
  DEV b8 of(b8 x, b8 value) { return {u8(x.bits | value.bits)}; }
  DEV b32 of(b32 x, b32 value) { return {x.bits | value.bits}; }
};
struct MulTo : Update<Mul> {};
struct MinTo : Update<Min> {};
struct MaxTo : Update<Max> {};

// `run` neighbouring elements whose values all go to one index.
template <class U, class T> DEV void update_slice(T* out, i64 step_out, const T* value, i64 step_value, u64 run) {
  if (step_out == 1 && step_value == 1) {
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = U::of(out[k], value[k]);
  } else {
    INDEPENDENT for (u64 k = 0; k < run; ++k) {
      T& element = out[i64(k) * step_out];
      element = U::of(element, value[i64(k) * step_value]);
    }
  }
}

#if SIMT_DEVICE
// Where one index is for a whole slice, blocks share the indices by their lowest bits: still one thread puts to an element whatever
// goes there, in the order of the index. Each block looks at all indices, some a thread, and notes a bit for each of its own.
template <class T, class Index, class U> DEV void scatter_slices(const Indexed& args) {
  constexpr u32 EACH = 8, AT_ONCE = TEAM * EACH, WORDS = AT_ONCE / 64;
  SHARED(u64, noted, WORDS);
  const Index* index = static_cast<const Index*>(args.index);
  const u64 part = blockIdx.x % args.teams, begin = blockIdx.x / args.teams * args.chunk;
  const u64 end = least(begin + args.chunk, args.space.count);
  for (u64 first = 0; first < args.count; first += AT_ONCE) {
    each_thread([&] {
      u32 bits = 0;
      for (u32 k = 0; k < EACH; ++k) {
        const u64 n = first + threadIdx.x * EACH + k;
        if (n >= args.count) break;
        const i64 row = index[i64(n) * args.steps[1]];
        const bool is_own = (u64(row) & (args.teams - 1)) == part;
        if (is_own && in_range(row, args.size, args.fault)) bits |= 1u << k;
      }
      reinterpret_cast<u8*>(noted)[threadIdx.x] = u8(bits);
    });
    each_thread([&] {
      for (u64 i = begin + threadIdx.x; i < end; i += blockDim.x) {
        i64 offsets[3];
        place<3>(args.space, i, offsets);
        T* out = static_cast<T*>(args.out) + offsets[0];
        const T* value = static_cast<const T*>(args.data) + offsets[2];
        for (u32 w = 0; w < WORDS; ++w) {
          for (u64 bits = noted[w]; bits; bits &= bits - 1) {
            const i64 n = i64(first + w * 64 + lowest_bit(bits));
            T& element = out[i64(index[n * args.steps[1]]) * args.steps[0]];
            element = U::of(element, value[n * args.steps[2]]);
          }
        }
      }
    });
  }
}
#endif

// The space leaves out the axis: what goes to one element is put there by one thread, in the order of the index.
template <class T, class Index, class U> DEV void scatter_each(const Indexed& args) {
  const auto& strides = args.space.strides;
  const i64 step_out = strides[0][0], step_index = strides[1][0], step_value = strides[2][0];
  const bool by_row = args.space.count == 1 || step_out > args.steps[0];
  for_runs<3>(args.space, block_range(args.space.count, args.chunk), [&](u64, const i64* offsets, u64 run) {
    T* out = static_cast<T*>(args.out) + offsets[0];
    const Index* index = static_cast<const Index*>(args.index) + offsets[1];
    const T* value = static_cast<const T*>(args.data) + offsets[2];
    const auto put = [&](u64 n, u64 k) {
      const i64 row = index[i64(n) * args.steps[1] + i64(k) * step_index];
      if (!in_range(row, args.size, args.fault)) return;
      T& element = out[row * args.steps[0] + i64(k) * step_out];
      element = U::of(element, value[i64(n) * args.steps[2] + i64(k) * step_value]);
    };
    if (by_row) {
      for (u64 k = 0; k < run; ++k)
        for (u64 n = 0; n < args.count; ++n) put(n, k);
    } else if (step_index == 0) {
      for (u64 n = 0; n < args.count; ++n) {
        const i64 row = index[i64(n) * args.steps[1]];
        const T* from = value + i64(n) * args.steps[2];
        if (in_range(row, args.size, args.fault)) update_slice<U>(out + row * args.steps[0], step_out, from, step_value, run);
      }
    } else {
      for (u64 n = 0; n < args.count; ++n)
        for (u64 k = 0; k < run; ++k) put(n, k);
    }
  });
}

template <class T, class Index, class U> DEV void scatter(const Indexed& args) {
#if SIMT_DEVICE
  if (args.teams > 0) return scatter_slices<T, Index, U>(args);
#endif
  each_thread([&] { scatter_each<T, Index, U>(args); });
}
}  // namespace

#define GATHER(T, ...)                                                   \
  KERNEL(gather_##T##_i32, Indexed) { gather<T, i32>(args); }             \
  KERNEL(gather_##T##_i64, Indexed) { gather<T, i64>(args); }
#define SCATTER(T, kind, U)                                                    \
  TEAM_KERNEL(scatter_##kind##_##T##_i32, Indexed) { scatter<T, i32, U>(args); }     \
  TEAM_KERNEL(scatter_##kind##_##T##_i64, Indexed) { scatter<T, i64, U>(args); }
FOR_RAW(GATHER, ) FOR_RAW(SCATTER, assign, Assign) FOR_ALL(SCATTER, add, AddTo)
FOR_NUMBERS(SCATTER, mul, MulTo) FOR_NUMBERS(SCATTER, min, MinTo) FOR_NUMBERS(SCATTER, max, MaxTo)

EXPORT_TABLE(index)
