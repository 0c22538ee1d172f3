// Strided iteration: where the elements of a block's chunk lie in each operand.
#pragma once
#include "types.cuh"

namespace {
constexpr u32 MAX_RANK = 8, MAX_OPERANDS = 3;

// Dimensions innermost first, with one row of steps (in elements) per operand. The caller has merged the dimensions
// that step evenly, so that the usual case is rank 1. The rank is never 0.
template <u32 OPERANDS> struct SpaceOf {
  u64 count, rank;
  u64 sizes[MAX_RANK];
  i64 strides[OPERANDS][MAX_RANK];
};
typedef SpaceOf<MAX_OPERANDS> Space;

// Where the element of a flat index lies in each operand.
template <u32 N, u32 OPERANDS> DEV void place(const SpaceOf<OPERANDS>& space, u64 i, i64* offsets) {
  for (u32 n = 0; n < N; ++n) offsets[n] = 0;
  for (u32 axis = 0; axis < space.rank; ++axis) {
    const u64 next = i / space.sizes[axis];
    const i64 index = i - next * space.sizes[axis];
    for (u32 n = 0; n < N; ++n) offsets[n] += index * space.strides[n][axis];
    i = next;
  }
}

// Calls `body(position, offsets, run)` for consecutive pieces of `range`: `run` elements from flat index `position`
// along dimension 0, the first of them at `offsets[n]` in operand n. On the device every thread has runs of one.
template <u32 N, u32 OPERANDS, class Body> DEV void for_runs(const SpaceOf<OPERANDS>& space, Range range, Body body) {
#if SIMT_DEVICE
  for (u64 i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) {
    i64 offsets[N];
    place<N>(space, i, offsets);
    body(i, static_cast<const i64*>(offsets), u64(1));
  }
#else
  if (range.begin >= range.end) return;
  u64 index[MAX_RANK], rest = range.begin;
  i64 row[N] = {};  // offsets of the current run's dimension 0 at index 0
  index[0] = rest % space.sizes[0];
  rest /= space.sizes[0];
  for (u32 axis = 1; axis < space.rank; ++axis) {
    index[axis] = rest % space.sizes[axis];
    rest /= space.sizes[axis];
    for (u32 n = 0; n < N; ++n) row[n] += i64(index[axis]) * space.strides[n][axis];
  }
  u64 first = index[0];
  for (u64 i = range.begin;;) {
    const u64 run = least(space.sizes[0] - first, range.end - i);
    i64 offsets[N];
    for (u32 n = 0; n < N; ++n) offsets[n] = row[n] + i64(first) * space.strides[n][0];
    body(i, static_cast<const i64*>(offsets), run);
    i += run;
    if (i >= range.end) return;
    first = 0;
    for (u32 axis = 1; axis < space.rank; ++axis) {
      for (u32 n = 0; n < N; ++n) row[n] += space.strides[n][axis];
      if (++index[axis] < space.sizes[axis]) break;
      for (u32 n = 0; n < N; ++n) row[n] -= i64(index[axis]) * space.strides[n][axis];
      index[axis] = 0;
    }
  }
#endif
}

// Calls `body(offsets)` for each row of a team's block, by all its threads together.
template <u32 N, class Body> DEV void for_team_rows(const Space& space, Range range, Body body) {
#if SIMT_DEVICE
  for (u64 i = range.begin; i < range.end; ++i) {
    i64 offsets[N];
    place<N>(space, i, offsets);
    body(static_cast<const i64*>(offsets));
  }
#else
  for_runs<N>(space, range, [&](u64, const i64* offsets, u64 run) {
    for (u64 k = 0; k < run; ++k) {
      i64 row[N];
      for (u32 n = 0; n < N; ++n) row[n] = offsets[n] + i64(k) * space.strides[n][0];
      body(static_cast<const i64*>(row));
    }
  });
#endif
}

// Whether an index is below `size`; one that is not is left at `fault`.
DEV bool in_range(i64 index, u64 size, i64* fault) {
  if (u64(index) < size) return true;
#if SIMT_DEVICE
  *reinterpret_cast<volatile i64*>(fault) = index;
#else
  __atomic_store_n(fault, index, __ATOMIC_RELAXED);
#endif
  return false;
}

// Which is the lowest bit that is set; there is one.
DEV u32 lowest_bit(u64 bits) {
#if defined(__CUDACC_RTC__)
  return u32(__ffsll(i64(bits))) - 1;
#else
  return u32(__builtin_ctzll(bits));
#endif
}

// Neighbouring elements; `to` may be `from`.
template <class T> DEV void copy_run(T* to, const T* from, u64 run) {
#if SIMT_DEVICE
  for (u64 k = 0; k < run; ++k) to[k] = from[k];
#else
  __builtin_memmove(to, from, run * sizeof(T));
#endif
}

// Arguments of every elementwise kernel. The output is contiguous, except that a copy's has row 1 of the strides.
struct Pointwise {
  void* out;
  const void* inputs[MAX_OPERANDS];
  u64 scalars[2];  // the bits of values of the kernel's element type
  u64 chunk;
  Space space;
};

template <class T> DEV Compute<T> scalar_of(const u64& bits) { return widen(*reinterpret_cast<const T*>(&bits)); }
template <class T> DEV const T* input_of(const Pointwise& args, u32 n) { return static_cast<const T*>(args.inputs[n]); }
}  // namespace
