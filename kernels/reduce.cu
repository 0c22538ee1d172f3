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
struct Largest : Max { template <class T> DEV T start() { return lowest<T>(); } };
struct Smallest : Min { template <class T> DEV T start() { return highest<T>(); } };

constexpr u32 LANES = 32;     // independent accumulators of a row
constexpr u32 GROUP = 128;    // elements added up before they join the total: keeps float sums accurate
constexpr u32 COLUMNS = 512;  // outputs reduced side by side

// One row. Neighbouring elements go to different lanes, so that a row of step 1 vectorises.
template <class F, class T> DEV Compute<T> reduce_row(const T* x, u64 size, i64 step) {
  typedef Compute<T> C;
  C total = F::template start<C>();
  u64 k = 0;
  while (size - k >= LANES) {
    const u64 end = k + least(size - k, u64(GROUP * LANES)) / LANES * LANES;
    C lanes[LANES];
    for (u32 lane = 0; lane < LANES; ++lane) lanes[lane] = F::template start<C>();
    if (step == 1) {
      for (; k < end; k += LANES)
        for (u32 lane = 0; lane < LANES; ++lane) lanes[lane] = F::f(lanes[lane], widen(x[k + lane]));
    } else {
      for (; k < end; k += LANES)
        for (u32 lane = 0; lane < LANES; ++lane) lanes[lane] = F::f(lanes[lane], widen(x[i64(k + lane) * step]));
    }
    for (u32 width = LANES / 2; width > 0; width /= 2)
      for (u32 lane = 0; lane < width; ++lane) lanes[lane] = F::f(lanes[lane], lanes[lane + width]);
    total = F::f(total, lanes[0]);
  }
  for (; k < size; ++k) total = F::f(total, widen(x[i64(k) * step]));
  return total;
}

// `columns` neighbouring outputs at once: the inner loop runs across them.
template <class F, class T>
DEV void reduce_columns(Compute<T>* totals, const T* x, u32 columns, i64 across, u64 size, i64 step) {
  typedef Compute<T> C;
  C group[COLUMNS];
  for (u32 c = 0; c < columns; ++c) totals[c] = F::template start<C>();
  for (u64 k = 0; k < size;) {
    const u64 end = least(size, k + GROUP);
    for (u32 c = 0; c < columns; ++c) group[c] = F::template start<C>();
    for (; k < end; ++k) {
      const T* row = x + i64(k) * step;
      if (across == 1)
        for (u32 c = 0; c < columns; ++c) group[c] = F::f(group[c], widen(row[c]));
      else
        for (u32 c = 0; c < columns; ++c) group[c] = F::f(group[c], widen(row[i64(c) * across]));
    }
    for (u32 c = 0; c < columns; ++c) totals[c] = F::f(totals[c], group[c]);
  }
}

template <class Out, class T, class F, class Finish> DEV void reduce(const Reduce& args, Finish finish) {
  Out* out = static_cast<Out*>(args.out);
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
        Compute<T> totals[COLUMNS];
        columns = least(columns, u64(COLUMNS));
        reduce_columns<F>(totals, first, u32(columns), across, size, args.step);
        for (u64 c = 0; c < columns; ++c) out[at + c] = narrow<Out>(finish(totals[c]));
      } else {
        for (u64 c = 0; c < columns; ++c)
          out[at + c] = narrow<Out>(finish(reduce_row<F>(first + i64(c) * across, size, args.step)));
      }
      done += columns;
    }
  });
}

template <class Out, class T, class F> DEV void reduce(const Reduce& args) {
  reduce<Out, T, F>(args, [](Compute<T> total) { return total; });
}
template <class Out, class T> DEV void mean(const Reduce& args) {
  const Compute<T> divisor = Compute<T>(args.divisor);
  reduce<Out, T, Sum>(args, [divisor](Compute<T> total) { return total / divisor; });
}

// The extreme first, by the fast reduction, then its first place. NaN wins.
template <class T, class F, class Index> DEV void arg_reduce(const Reduce& args) {
  Index* out = static_cast<Index*>(args.out);
  const T* x = static_cast<const T*>(args.x);
  const i64 across = args.space.strides[0][0];
  for_runs<1>(args.space, block_range(args.space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    for (u64 c = 0; c < run; ++c) {
      const T* row = x + offsets[0] + i64(c) * across;
      const Compute<T> extreme = reduce_row<F>(row, args.size, args.step);
      u64 k = 0;
      if (is_nan(extreme))
        while (k < args.size && !is_nan(widen(row[i64(k) * args.step]))) ++k;
      else
        while (k < args.size && widen(row[i64(k) * args.step]) != extreme) ++k;
      out[i + c] = Index(k);
    }
  });
}
}  // namespace

#define REDUCE(T, kind, F) \
  KERNEL(reduce_##kind##_##T, Reduce) { reduce<T, T, F>(args); }
// Long rows of halves: pieces are kept as f32, and rounded once.
#define REDUCE_LONG(T, kind, F)                                            \
  KERNEL(reduce_##kind##_##T##_f32, Reduce) { reduce<f32, T, F>(args); }    \
  KERNEL(reduce_##kind##_f32_##T, Reduce) { reduce<T, f32, F>(args); }
#define MEAN(T, ...) KERNEL(reduce_mean_##T, Reduce) { mean<T, T>(args); }
#define MEAN_LONG(T, ...) KERNEL(reduce_mean_f32_##T, Reduce) { mean<T, f32>(args); }
#define ARG_REDUCE(T, kind, F)                                             \
  KERNEL(reduce_##kind##_##T##_i32, Reduce) { arg_reduce<T, F, i32>(args); } \
  KERNEL(reduce_##kind##_##T##_i64, Reduce) { arg_reduce<T, F, i64>(args); }
FOR_NUMBERS(REDUCE, sum, Sum) FOR_NUMBERS(REDUCE, prod, Prod) FOR_ALL(REDUCE, max, Largest) FOR_ALL(REDUCE, min, Smallest)
FOR_HALVES(REDUCE_LONG, sum, Sum) FOR_HALVES(REDUCE_LONG, prod, Prod)
FOR_HALVES(REDUCE_LONG, max, Largest) FOR_HALVES(REDUCE_LONG, min, Smallest)
FOR_FLOATS(MEAN, ) FOR_HALVES(MEAN_LONG, )
FOR_NUMBERS(ARG_REDUCE, argmax, Largest) FOR_NUMBERS(ARG_REDUCE, argmin, Smallest)

EXPORT_TABLE(reduce)
