// Gradients of softmax and of the norms. What a forward pass would have to keep beside its input or output is worked out
// again from the row while it is in the cache. A row is read before the same place of the output is written, so that
// both may be one memory.
#include "rows.cuh"

namespace {
struct SoftmaxBackward {
  void* out;
  const void* y;  // what the softmax gave
  const void* gradient;
  u64 chunk;      // rows per block
  u64 size;       // of the axis
  i64 step_y, step_gradient, step_out;
  f64 scale;
  Space space;    // of the rows: in y, gradient and out
};

// What a row adds up, and what becomes of an element then.
template <bool log, class C> DEV C summand(C y, C gradient) { return log ? gradient : gradient * y; }
template <bool log, class C> DEV C slope(C y, C gradient, C sum, C scale) {
  if constexpr (log) return (gradient - Exp::f(y) * sum) * scale;
  else return y * (gradient - sum) * scale;
}

template <class Worker, bool log, class T, class Y, class G, class Out>
DEV void softmax_slopes(u64 size, Compute<T> scale, Y y, G gradient, Out out) {
  typedef Compute<T> C;
  const C sum = Worker::template reduce<Sum, C>(size, [=](u64 k) { return summand<log>(y(k), gradient(k)); });
  Worker::each(size, [=](u64 k) { out(k) = narrow<T>(slope<log>(y(k), gradient(k), sum, scale)); });
}

template <class Worker, bool log, class T>
DEV void softmax_slopes(const SoftmaxBackward& args, T* out, const T* y, const T* gradient) {
  const Compute<T> scale = Compute<T>(args.scale);
  const i64 step_y = args.step_y, step_gradient = args.step_gradient, step_out = args.step_out;
  if (step_y == 1 && step_gradient == 1 && step_out == 1)
    softmax_slopes<Worker, log, T>(
        args.size, scale, [=](u64 k) { return widen(y[k]); }, [=](u64 k) { return widen(gradient[k]); },
        [=](u64 k) -> T& { return out[k]; });
  else
    softmax_slopes<Worker, log, T>(
        args.size, scale, [=](u64 k) { return widen(y[i64(k) * step_y]); },
        [=](u64 k) { return widen(gradient[i64(k) * step_gradient]); },
        [=](u64 k) -> T& { return out[i64(k) * step_out]; });
}

// The same for neighbouring columns of rows a step apart.
template <bool log, class T>
DEV void softmax_column_slopes(const SoftmaxBackward& args, T* out, const T* y, const T* gradient, u32 columns) {
  typedef Compute<T> C;
  const C scale = C(args.scale);
  const i64 step_y = args.step_y, step_gradient = args.step_gradient;
  C sums[COLUMNS];
  reduce_columns<Sum, false>(sums, columns, args.size, [=](u64 k, u32 c) {
    return summand<log>(widen(y[i64(k) * step_y + c]), widen(gradient[i64(k) * step_gradient + c]));
  });
  for (u64 k = 0; k < args.size; ++k) {
    T* to = out + i64(k) * args.step_out;
    const T *row_y = y + i64(k) * step_y, *row_gradient = gradient + i64(k) * step_gradient;
    INDEPENDENT for (u32 c = 0; c < columns; ++c)
      to[c] = narrow<T>(slope<log>(widen(row_y[c]), widen(row_gradient[c]), sums[c], scale));
  }
}

template <bool log, class T> DEV void softmax_backward(const SoftmaxBackward& args) {
  const T* y = static_cast<const T*>(args.y);
  const T* gradient = static_cast<const T*>(args.gradient);
  T* out = static_cast<T*>(args.out);
  const i64 across[3] = {args.space.strides[0][0], args.space.strides[1][0], args.space.strides[2][0]};
  const bool columnwise =
      across[0] == 1 && across[1] == 1 && across[2] == 1 && by_column(1, args.step_y);
  const Range range = block_range(args.space.count, args.chunk);
  for_rows<3>(args.space, range, args.step_y, args.size, [&](auto worker, u64, const i64* offsets, u64 run) {
    for (u64 done = 0; done < run;) {
      const u32 columns = columnwise ? u32(least(run - done, u64(COLUMNS))) : 1;
      const T* from = y + offsets[0] + i64(done) * across[0];
      const T* slopes = gradient + offsets[1] + i64(done) * across[1];
      T* to = out + offsets[2] + i64(done) * across[2];
      if (columns > 1)
        softmax_column_slopes<log>(args, to, from, slopes, columns);
      else
        softmax_slopes<decltype(worker), log>(args, to, from, slopes);
      done += columns;
    }
  });
}

// Every kernel of a norm's gradient. Rows and their elements are evenly apart.
struct NormBackward {
  void* out;
  const void* x;
  const void* gamma;
  const void* gradient;
  void* moments;  // of each row: mean and one over deviation, as computed
  void* sums;     // of each piece of rows: one or two rows of sums, as computed
  u64 chunk;
  u64 size;       // of a row
  u64 rows;
  u64 piece;      // rows that are added up together; the last piece may be shorter
  u64 parts;      // 2 if beta has a gradient too, else 1
  i64 row_x, row_gradient;
  i64 step_x, step_gamma, step_gradient;
  f64 epsilon;
  Space space;    // rows of x and gradient; pieces and columns of both; or columns alone
};

template <class T> DEV const T* x_of(const NormBackward& args) { return static_cast<const T*>(args.x); }
template <class T> DEV const T* gradient_of(const NormBackward& args) { return static_cast<const T*>(args.gradient); }

// The gradient of x: with n = (x - mean) / deviation and g = gradient * gamma, (g - mean(g) - n * mean(g * n)) /
// deviation. Without centring, mean(g) does not count.
template <bool centred, class Worker, class T, class X, class G, class W>
DEV void norm_slopes(T* out, u64 size, Compute<T> epsilon, X x, G gradient, W gamma) {
  typedef Compute<T> C;
  const Moments<C> of = moments<centred, Worker, C>(size, epsilon, x);
  const C mean = of.mean, scale = C(1) / of.deviation;
  const auto normal = [=](u64 k) { return (x(k) - mean) * scale; };
  const auto weighed = [=](u64 k) { return gradient(k) * gamma(k); };
  C shift = C(0);
  if constexpr (centred) shift = Worker::template reduce<Sum, C>(size, weighed) / C(size);
  const C along = Worker::template reduce<Sum, C>(size, [=](u64 k) { return weighed(k) * normal(k); }) / C(size);
  Worker::each(size, [=](u64 k) { out[k] = narrow<T>((weighed(k) - shift - normal(k) * along) * scale); });
}

template <bool centred, class T> DEV void norm_backward(const NormBackward& args) {
  const Compute<T> epsilon = Compute<T>(args.epsilon);
  const T* gamma = static_cast<const T*>(args.gamma);
  const i64 step_x = args.step_x, step_gamma = args.step_gamma, step_gradient = args.step_gradient;
  const Range range = block_range(args.rows, args.chunk);
  for_rows<2>(args.space, range, step_x, args.size, [&](auto worker, u64 at, const i64* offsets, u64 run) {
    typedef decltype(worker) Worker;
    for (u64 row = 0; row < run; ++row) {
      T* out = static_cast<T*>(args.out) + (at + row) * args.size;
      const T* x = x_of<T>(args) + offsets[0] + i64(row) * args.row_x;
      const T* gradient = gradient_of<T>(args) + offsets[1] + i64(row) * args.row_gradient;
      if (step_x == 1 && step_gamma == 1 && step_gradient == 1)
        norm_slopes<centred, Worker>(
            out, args.size, epsilon, [=](u64 k) { return widen(x[k]); },
            [=](u64 k) { return widen(gradient[k]); }, [=](u64 k) { return widen(gamma[k]); });
      else
        norm_slopes<centred, Worker>(
            out, args.size, epsilon, [=](u64 k) { return widen(x[i64(k) * step_x]); },
            [=](u64 k) { return widen(gradient[i64(k) * step_gradient]); },
            [=](u64 k) { return widen(gamma[i64(k) * step_gamma]); });
    }
  });
}

template <bool centred, class T> DEV void norm_moments(const NormBackward& args) {
  typedef Compute<T> C;
  C* out = static_cast<C*>(args.moments);
  const i64 step = args.step_x;
  const Range range = block_range(args.rows, args.chunk);
  for_rows<1>(args.space, range, step, args.size, [&](auto worker, u64 at, const i64* offsets, u64 run) {
    typedef decltype(worker) Worker;
    const auto of_row = [&](auto read) { return moments<centred, Worker, C>(args.size, C(args.epsilon), read); };
    for (u64 row = 0; row < run; ++row) {
      const T* x = x_of<T>(args) + offsets[0] + i64(row) * args.row_x;
      const Moments<C> of = step == 1 ? of_row([=](u64 k) { return widen(x[k]); })
                                      : of_row([=](u64 k) { return widen(x[i64(k) * step]); });
      C* to = out + 2 * (at + row);
      Worker::each(1, [=](u64) { to[0] = of.mean, to[1] = C(1) / of.deviation; });
    }
  });
}

// The sums of some columns over the rows of a piece: gradient times normalised x, and the gradient alone.
template <class T, class X, class G>
DEV void norm_sums(const NormBackward& args, u64 begin, u64 column, u32 columns, X x, G gradient) {
  typedef Compute<T> C;
  const C* moments = static_cast<const C*>(args.moments) + 2 * begin;
  const u64 rows = least(args.piece, args.rows - begin);
  C* sums = static_cast<C*>(args.sums) + begin / args.piece * args.parts * args.size + column;
  C totals[COLUMNS];
  reduce_columns<Sum, false>(totals, columns, rows, [=](u64 k, u32 c) {
    return gradient(k, c) * ((x(k, c) - moments[2 * k]) * moments[2 * k + 1]);
  });
  for (u32 c = 0; c < columns; ++c) sums[c] = totals[c];
  if (args.parts == 1) return;
  reduce_columns<Sum, true>(totals, columns, rows, gradient);
  for (u32 c = 0; c < columns; ++c) sums[args.size + c] = totals[c];
}

template <class T> DEV void norm_weights(const NormBackward& args) {
  const i64 row_x = args.row_x, row_gradient = args.row_gradient;
  const i64 step_x = args.step_x, step_gradient = args.step_gradient;
  for_runs<2>(args.space, block_range(args.space.count, args.chunk), [&](u64 at, const i64* offsets, u64 run) {
    for (u64 done = 0; done < run;) {
      const u64 column = (at + done) % args.size, begin = (at + done) / args.size * args.piece;
      const u32 columns = u32(least(least(run - done, args.size - column), u64(COLUMNS)));
      const T* x = x_of<T>(args) + offsets[0] + i64(done) * args.space.strides[0][0];
      const T* gradient = gradient_of<T>(args) + offsets[1] + i64(done) * args.space.strides[1][0];
      if (step_x == 1 && step_gradient == 1)
        norm_sums<T>(
            args, begin, column, columns, [=](u64 k, u32 c) { return widen(x[i64(k) * row_x + c]); },
            [=](u64 k, u32 c) { return widen(gradient[i64(k) * row_gradient + c]); });
      else
        norm_sums<T>(
            args, begin, column, columns, [=](u64 k, u32 c) { return widen(x[i64(k) * row_x + i64(c) * step_x]); },
            [=](u64 k, u32 c) { return widen(gradient[i64(k) * row_gradient + i64(c) * step_gradient]); });
      done += columns;
    }
  });
}

// The pieces' sums added up, in their order.
template <class T> DEV void norm_totals(const NormBackward& args) {
  typedef Compute<T> C;
  T* out = static_cast<T*>(args.out);
  const C* sums = static_cast<const C*>(args.sums);
  const u64 width = args.parts * args.size, pieces = (args.rows + args.piece - 1) / args.piece;
  for_runs<1>(args.space, block_range(args.space.count, args.chunk), [&](u64 at, const i64*, u64 run) {
    for (u64 done = 0; done < run;) {
      const u32 columns = u32(least(run - done, u64(COLUMNS)));
      const C* first = sums + at + done;
      C totals[COLUMNS];
      reduce_columns<Sum, true>(totals, columns, pieces, [=](u64 k, u32 c) { return first[k * width + c]; });
      for (u32 c = 0; c < columns; ++c) out[at + done + c] = narrow<T>(totals[c]);
      done += columns;
    }
  });
}
}  // namespace

#define GRADIENTS(T, ...)                                                       \
  TEAM_KERNEL(softmax_backward_##T, SoftmaxBackward) { softmax_backward<false, T>(args); }    \
  TEAM_KERNEL(softmax_backward_log_##T, SoftmaxBackward) { softmax_backward<true, T>(args); } \
  TEAM_KERNEL(norm_backward_layer_##T, NormBackward) { norm_backward<true, T>(args); }        \
  TEAM_KERNEL(norm_backward_rms_##T, NormBackward) { norm_backward<false, T>(args); }         \
  TEAM_KERNEL(norm_moments_layer_##T, NormBackward) { norm_moments<true, T>(args); }          \
  TEAM_KERNEL(norm_moments_rms_##T, NormBackward) { norm_moments<false, T>(args); }           \
  KERNEL(norm_weights_##T, NormBackward) { norm_weights<T>(args); }                      \
  KERNEL(norm_totals_##T, NormBackward) { norm_totals<T>(args); }
FOR_FLOATS(GRADIENTS, )

EXPORT_TABLE(norm_backward)
