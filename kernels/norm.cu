// Softmax, layer norm and RMS norm: each row by itself, read more than once while it is in the cache. Halves are computed in f32
// and rounded once. A row is read before the same place of the output is written, so that both may be one memory.
#include "rows.cuh"

namespace {
struct Softmax {
  void* out;
  const void* x;
  const void* mask;  // b8, true where a score does not count; or null
  u64 chunk;         // rows per block
  u64 size;          // of the axis
  i64 step_x, step_out, step_mask;
  u64 queries;       // rows of a matrix of scores: query q sees the keys before q + size + 1 - queries; 0: all see all
  f64 scale;
  Space space;       // of the rows: in x, out and mask
};

template <class T> constexpr bool is_computed = sizeof(T) == sizeof(Compute<T>);

// A limited row may have no scores, -inf alone: it becomes zeros.
template <bool limited, class C> DEV C shift_of(C largest) { return limited && largest == lowest<C>() ? C(0) : largest; }
template <bool limited, class C> DEV C total_of(C sum) { return limited && sum == 0 ? C(1) : sum; }

// exp(x - max) / sum(exp(x - max)), or its logarithm.
template <class Worker, bool log, bool limited, class T>
DEV void softmax_row(T* out, i64 step_out, const T* x, i64 step, u64 size) {
  typedef Compute<T> C;
  const C shift = shift_of<limited>(reduce_row<Largest, T, C, Worker>(x, size, step));
  if constexpr (!log && is_computed<T>) {
    if (step == 1 && step_out == 1) {
      Worker::each(size, [=](u64 k) { out[k] = Exp::f(x[k] - shift); });
      const C sum = total_of<limited>(reduce_row<Sum, T, C, Worker>(out, size, 1));
      Worker::each(size, [=](u64 k) { out[k] /= sum; });
      return;
    }
  }
  const auto shifted = [=](u64 k) { return widen(x[i64(k) * step]) - shift; };
  const C sum = Worker::template reduce<Sum, C>(size, [=](u64 k) { return Exp::f(shifted(k)); });
  if constexpr (log) {
    const C less = Log::f(sum);
    Worker::each(size, [=](u64 k) { out[i64(k) * step_out] = narrow<T>(shifted(k) - less); });
  } else {
    const C total = total_of<limited>(sum);
    Worker::each(size, [=](u64 k) { out[i64(k) * step_out] = narrow<T>(Exp::f(shifted(k)) / total); });
  }
}

// The same for neighbouring columns of rows `step` apart.
template <bool log, class T>
DEV void softmax_columns(T* out, i64 step_out, const T* x, i64 step, u64 size, u32 columns) {
  typedef Compute<T> C;
  C shift[COLUMNS], sum[COLUMNS];
  reduce_columns<Largest>(shift, x, columns, 1, size, step);
  const C* shifts = shift;
  const auto shifted = [=](u64 k, u32 c) { return widen(x[i64(k) * step + c]) - shifts[c]; };
  reduce_columns<Sum, false>(sum, columns, size, [=](u64 k, u32 c) { return Exp::f(shifted(k, c)); });
  if constexpr (log)
    for (u32 c = 0; c < columns; ++c) sum[c] = Log::f(sum[c]);
  for (u64 k = 0; k < size; ++k) {
    T* row = out + i64(k) * step_out;
    INDEPENDENT for (u32 c = 0; c < columns; ++c)
      row[c] = narrow<T>(log ? shifted(k, c) - sum[c] : Exp::f(shifted(k, c)) / sum[c]);
  }
}

template <bool log, class T> DEV void softmax(const Softmax& args) {
  T* out = static_cast<T*>(args.out);
  const T* x = static_cast<const T*>(args.x);
  const i64 across_x = args.space.strides[0][0], across_out = args.space.strides[1][0];
  const bool columnwise = across_x == 1 && across_out == 1 && by_column(1, args.step_x);
  const Range range = block_range(args.space.count, args.chunk);
  for_rows<2>(args.space, range, args.step_x, args.size, [&](auto worker, u64, const i64* offsets, u64 run) {
    for (u64 done = 0; done < run;) {
      const u32 columns = columnwise ? u32(least(run - done, u64(COLUMNS))) : 1;
      const T* from = x + offsets[0] + i64(done) * across_x;
      T* to = out + offsets[1] + i64(done) * across_out;
      if (columns > 1)
        softmax_columns<log>(to, args.step_out, from, args.step_x, args.size, columns);
      else
        softmax_row<decltype(worker), log, false>(to, args.step_out, from, args.step_x, args.size);
      done += columns;
    }
  });
}

// One row of attention weights: scores times the scale, softmax over those that count.
template <class Worker, class T>
DEV void masked_row(const Softmax& args, T* out, const T* x, const b8* mask, u64 seen) {
  typedef Compute<T> C;
  const C scale = C(args.scale), none = lowest<C>();
  const i64 step = args.step_x, step_mask = args.step_mask;
  const auto score = [=](T value, b8 hidden) { return narrow<T>(widen(hidden) ? none : widen(value) * scale); };
  if (step == 1 && !mask) {
    Worker::each(seen, [=](u64 k) { out[k] = score(x[k], b8{0}); });
  } else if (step == 1 && step_mask == 1) {
    Worker::each(seen, [=](u64 k) { out[k] = score(x[k], mask[k]); });
  } else {
    Worker::each(seen, [=](u64 k) { out[k] = score(x[i64(k) * step], mask ? mask[i64(k) * step_mask] : b8{0}); });
  }
  softmax_row<Worker, false, true>(out, 1, out, 1, seen);
  // What is not seen counts nothing, unless the sum is NaN: then so is the row.
  const T rest = seen > 0 && is_nan(widen(out[0])) ? out[0] : narrow<T>(C(0));
  Worker::each(args.size - seen, [=](u64 k) { out[seen + k] = rest; });
}

template <class T> DEV void softmax_masked(const Softmax& args) {
  T* out = static_cast<T*>(args.out);
  const T* x = static_cast<const T*>(args.x);
  const b8* mask = static_cast<const b8*>(args.mask);
  const i64* across[3] = {args.space.strides[0], args.space.strides[1], args.space.strides[2]};
  const Range range = block_range(args.space.count, args.chunk);
  for_rows<3>(args.space, range, args.step_x, args.size, [&](auto worker, u64 at, const i64* offsets, u64 run) {
    for (u64 c = 0; c < run; ++c) {
      u64 seen = args.size;
      if (args.queries != 0) {
        const i64 last = i64((at + c) % args.queries + args.size + 1) - i64(args.queries);
        seen = u64(least(most(last, i64(0)), i64(args.size)));
      }
      masked_row<decltype(worker)>(args, out + offsets[1] + i64(c) * across[1][0], x + offsets[0] + i64(c) * across[0][0],
                                   mask ? mask + offsets[2] + i64(c) * across[2][0] : nullptr, seen);
    }
  });
}

struct Norm {
  void* out;
  const void* x;
  const void* gamma;
  const void* beta;  // or null
  u64 chunk;         // rows per block
  u64 size;          // of a row
  i64 step_x, step_gamma, step_beta;
  f64 epsilon;
  Space space;       // of the rows
};

template <bool centred, class Worker, class T, class Read>
DEV void norm_row(T* out, u64 size, Compute<T> epsilon, Read read, const Norm& args) {
  typedef Compute<T> C;
  const T* gamma = static_cast<const T*>(args.gamma);
  const T* beta = static_cast<const T*>(args.beta);
  const i64 step_gamma = args.step_gamma, step_beta = args.step_beta;
  const Moments<C> of = moments<centred, Worker, C>(size, epsilon, read);
  const C mean = of.mean, deviation = of.deviation;
  const auto scaled = [=](u64 k, const T& weight) { return (read(k) - mean) / deviation * widen(weight); };
  if (step_gamma == 1 && beta && step_beta == 1) {
    Worker::each(size, [=](u64 k) { out[k] = narrow<T>(scaled(k, gamma[k]) + widen(beta[k])); });
  } else if (step_gamma == 1 && !beta) {
    Worker::each(size, [=](u64 k) { out[k] = narrow<T>(scaled(k, gamma[k])); });
  } else {
    Worker::each(size, [=](u64 k) {
      const C value = scaled(k, gamma[i64(k) * step_gamma]);
      out[k] = narrow<T>(beta ? value + widen(beta[i64(k) * step_beta]) : value);
    });
  }
}

template <bool centred, class T> DEV void norm(const Norm& args) {
  T* out = static_cast<T*>(args.out);
  const T* x = static_cast<const T*>(args.x);
  const Compute<T> epsilon = Compute<T>(args.epsilon);
  const i64 across = args.space.strides[0][0], step = args.step_x;
  const Range range = block_range(args.space.count, args.chunk);
  for_rows<1>(args.space, range, step, args.size, [&](auto worker, u64 i, const i64* offsets, u64 run) {
    typedef decltype(worker) Worker;
    for (u64 c = 0; c < run; ++c) {
      const T* row = x + offsets[0] + i64(c) * across;
      T* to = out + (i + c) * args.size;
      if (step == 1)
        norm_row<centred, Worker>(to, args.size, epsilon, [row](u64 k) { return widen(row[k]); }, args);
      else
        norm_row<centred, Worker>(to, args.size, epsilon, [row, step](u64 k) { return widen(row[i64(k) * step]); }, args);
    }
  });
}
}  // namespace

#define NORMS(T, ...)                                                    \
  TEAM_KERNEL(softmax_##T, Softmax) { softmax<false, T>(args); }               \
  TEAM_KERNEL(softmax_log_##T, Softmax) { softmax<true, T>(args); }            \
  TEAM_KERNEL(softmax_masked_##T, Softmax) { softmax_masked<T>(args); }        \
  TEAM_KERNEL(layer_norm_##T, Norm) { norm<true, T>(args); }                   \
  TEAM_KERNEL(rms_norm_##T, Norm) { norm<false, T>(args); }
FOR_FLOATS(NORMS, )

EXPORT_TABLE(norm)
