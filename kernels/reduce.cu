// Reductions along one axis. The space runs over the outputs; every output has its own row of `size` elements, `step`
// apart. Long rows are cut in pieces of a fixed size, each an output of its own (the outermost dimension of the
// space), which a second pass reduces. The order of additions depends on shapes and strides alone.
#include "math.cuh"
#include "views.cuh"

namespace {
struct Reduce {
  void* out;
  const void* x;
  u64 chunk;    // outputs per block
  u64 size;     // of the whole axis
  i64 step;     // along the axis
  u64 piece;    // elements of the axis per output; the last piece may be shorter
  u64 outputs;  // per piece
  u64 divisor;  // of a mean
  Space space;
};

struct Sum : Add { template <class T> DEV T start() { return T(0); } };
struct Prod : Mul { template <class T> DEV T start() { return T(1); } };
// Below and above every T; the device has no limits header.
template <class T> DEV T lowest() {
  if constexpr (IsFloat<T>::value) return T(-infinity());
  else return T(T(1) << (sizeof(T) * 8 - 1));
}
template <class T> DEV T highest() {
  if constexpr (IsFloat<T>::value) return T(infinity());
  else return T(~lowest<T>());
}
struct Largest : Max { template <class T> DEV T start() { return lowest<T>(); } };
struct Smallest : Min { template <class T> DEV T start() { return highest<T>(); } };

constexpr u32 LANES = 32;     // independent accumulators of a row
constexpr u32 GROUP = 128;    // elements added up before they join the total: keeps float sums accurate
constexpr u32 COLUMNS = 512;  // outputs reduced side by side

// One row. Neighbouring elements go to different lanes, so that a row of step 1 vectorises.
template <class T, class F> DEV T reduce_row(const T* x, u64 size, i64 step) {
  T total = F::template start<T>();
  u64 k = 0;
  while (size - k >= LANES) {
    const u64 end = k + least(size - k, u64(GROUP * LANES)) / LANES * LANES;
    T lanes[LANES];
    for (u32 lane = 0; lane < LANES; ++lane) lanes[lane] = F::template start<T>();
    if (step == 1) {
      for (; k < end; k += LANES)
        for (u32 lane = 0; lane < LANES; ++lane) lanes[lane] = F::f(lanes[lane], x[k + lane]);
    } else {
      for (; k < end; k += LANES)
        for (u32 lane = 0; lane < LANES; ++lane) lanes[lane] = F::f(lanes[lane], x[i64(k + lane) * step]);
    }
    for (u32 width = LANES / 2; width > 0; width /= 2)
      for (u32 lane = 0; lane < width; ++lane) lanes[lane] = F::f(lanes[lane], lanes[lane + width]);
    total = F::f(total, lanes[0]);
  }
  for (; k < size; ++k) total = F::f(total, x[i64(k) * step]);
  return total;
}

// `columns` neighbouring outputs at once: the inner loop runs across them.
template <class T, class F> DEV void reduce_columns(T* totals, const T* x, u32 columns, i64 across, u64 size, i64 step) {
  T group[COLUMNS];
  for (u32 c = 0; c < columns; ++c) totals[c] = F::template start<T>();
  for (u64 k = 0; k < size;) {
    const u64 end = least(size, k + GROUP);
    for (u32 c = 0; c < columns; ++c) group[c] = F::template start<T>();
    for (; k < end; ++k) {
      const T* row = x + i64(k) * step;
      if (across == 1)
        for (u32 c = 0; c < columns; ++c) group[c] = F::f(group[c], row[c]);
      else
        for (u32 c = 0; c < columns; ++c) group[c] = F::f(group[c], row[i64(c) * across]);
    }
    for (u32 c = 0; c < columns; ++c) totals[c] = F::f(totals[c], group[c]);
  }
}

template <class T, class F, class Finish> DEV void reduce(const Reduce& args, Finish finish) {
  T* out = static_cast<T*>(args.out);
  const T* x = static_cast<const T*>(args.x);
  const i64 across = args.space.strides[0][0];
  const bool by_column = most(across, -across) < most(args.step, -args.step);
  for_runs<1>(args.space, block_range(args.space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    for (u64 done = 0; done < run;) {
      // All outputs of a step are of the same piece.
      const u64 at = i + done, begin = at / args.outputs * args.piece;
      const u64 size = least(args.piece, args.size - begin);
      const T* first = x + offsets[0] + i64(done) * across;
      u64 columns = least(run - done, args.outputs - at % args.outputs);
      if (by_column && columns > 1) {
        T totals[COLUMNS];
        columns = least(columns, u64(COLUMNS));
        reduce_columns<T, F>(totals, first, u32(columns), across, size, args.step);
        for (u64 c = 0; c < columns; ++c) out[at + c] = finish(totals[c]);
      } else {
        for (u64 c = 0; c < columns; ++c)
          out[at + c] = finish(reduce_row<T, F>(first + i64(c) * across, size, args.step));
      }
      done += columns;
    }
  });
}

template <class T, class F> DEV void reduce(const Reduce& args) {
  reduce<T, F>(args, [](T total) { return total; });
}
DEV void mean(const Reduce& args) {
  const float divisor = float(args.divisor);
  reduce<float, Sum>(args, [divisor](float total) { return total / divisor; });
}

// The extreme first, by the fast reduction, then its first place. NaN wins.
template <class T, class F, class Index> DEV void arg_reduce(const Reduce& args) {
  Index* out = static_cast<Index*>(args.out);
  const T* x = static_cast<const T*>(args.x);
  const i64 across = args.space.strides[0][0];
  for_runs<1>(args.space, block_range(args.space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    for (u64 c = 0; c < run; ++c) {
      const T* row = x + offsets[0] + i64(c) * across;
      const T extreme = reduce_row<T, F>(row, args.size, args.step);
      u64 k = 0;
      if (is_nan(extreme))
        while (k < args.size && !is_nan(row[i64(k) * args.step])) ++k;
      else
        while (k < args.size && row[i64(k) * args.step] != extreme) ++k;
      out[i + c] = Index(k);
    }
  });
}
}  // namespace

#define REDUCE(kind, F, dtype, T) \
  KERNEL(reduce_##kind##_##dtype, Reduce) { reduce<T, F>(args); }
#define ARG_REDUCE(kind, F, dtype, T, index, Index) \
  KERNEL(reduce_##kind##_##dtype##_##index, Reduce) { arg_reduce<T, F, Index>(args); }
#define REDUCE_ALL(dtype, T)                                                      \
  REDUCE(sum, Sum, dtype, T) REDUCE(prod, Prod, dtype, T)                          \
  REDUCE(max, Largest, dtype, T) REDUCE(min, Smallest, dtype, T)                   \
  ARG_REDUCE(argmax, Largest, dtype, T, i32, i32) ARG_REDUCE(argmax, Largest, dtype, T, i64, i64) \
  ARG_REDUCE(argmin, Smallest, dtype, T, i32, i32) ARG_REDUCE(argmin, Smallest, dtype, T, i64, i64)
REDUCE_ALL(f32, float) REDUCE_ALL(i32, i32) REDUCE_ALL(i64, i64)
KERNEL(reduce_mean_f32, Reduce) { mean(args); }

EXPORT_TABLE(reduce)
