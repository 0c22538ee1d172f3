// Several elementwise functions in one pass. A piece of each operand at a time goes through all steps of a program: as many
// elements as stay in the nearest cache, on the device one. Each step rounds to the storage type, as a pass of its own would.
// One of the values may be reduced, in the order in which it would be if it were in memory.
#include "draw.cuh"
#include "fused.cuh"

namespace {
constexpr u32 FIRST_STEP = MAX_INPUTS + MAX_SCALARS;
constexpr u64 PIECE = SIMT_DEVICE ? 1 : 256;

// The order of `op/fused.rs`.
#define OF_ONE(F)                                                                                           \
  F(Neg) F(Abs) F(Sign) F(Square) F(Cube) F(Relu) F(Recip) F(Exp) F(Log) F(Log1p) F(Sqrt) F(Tanh) F(Erf) F(Floor)    \
  F(Ceil) F(Round) F(Trunc) F(Sigmoid) F(LogSigmoid) F(Gelu) F(InverseSqrt)
#define OF_TWO(F)                                                                                           \
  F(Add) F(Sub) F(Mul) F(Div) F(Max) F(Min) F(ReverseSub) F(ReverseDiv) F(LeakyRelu) F(SigmoidBackward)      \
  F(LogSigmoidBackward) F(GeluBackward) F(ReluBackward)
#define CODE(Function) CODE_##Function,
enum Code : u8 {
  OF_ONE(CODE) OF_TWO(CODE) CODE(MaskFill) CODE(Draw) CODE(RowSum) CODE(RowMean) CODE(RowMax)
};
// Steps that reduce rows are run before the others.
DEV bool reduces_row(Step step) { return step.code >= CODE_RowSum; }
#undef CODE

template <class T, class Function> DEV void one(T* out, const T* a, u64 count) {
  INDEPENDENT for (u64 k = 0; k < count; ++k) out[k] = narrow<T>(Function::f(widen(a[k])));
}
template <class T, class Function> DEV void two(T* out, const T* a, const T* b, u64 count) {
  INDEPENDENT for (u64 k = 0; k < count; ++k) out[k] = narrow<T>(Function::f(widen(a[k]), widen(b[k])));
}

// `c` where the mask is set, else `a`. The mask has become values of zero and one.
template <class T> DEV void mask_fill(T* out, const T* a, const T* mask, const T* c, u64 count) {
  INDEPENDENT for (u64 k = 0; k < count; ++k) out[k] = widen(mask[k]) != 0 ? c[k] : a[k];
}
template <class T> DEV T mask_value(u8 mask) { return narrow<T>(Compute<T>(mask != 0)); }

template <class T> DEV void run_step(u8 code, T* out, const T* a, const T* b, const T* c, u64 count) {
  switch (code) {
#define CASE(Function) \
  case CODE_##Function: return one<T, Function>(out, a, count);
    OF_ONE(CASE)
#undef CASE
#define CASE(Function) \
  case CODE_##Function: return two<T, Function>(out, a, b, count);
    OF_TWO(CASE)
#undef CASE
  case CODE_MaskFill: return mask_fill<T>(out, a, b, c, count);
  }
}

// The inputs that are not read where they are: strided ones, and masks, whose bytes become values.
DEV u32 gathered(const Fused& args) { return args.strided | args.masks; }

// The elements of these inputs at `at`, in a row; on the device those of all inputs.
template <class T> DEV void gather(const Fused& args, u64 at, u64 count, T (*values)[PIECE]) {
#if SIMT_DEVICE
  i64 offsets[MAX_INPUTS] = {};
  if (args.strided) place<MAX_INPUTS>(args.space, at, offsets);
  for (u32 n = 0; n < args.input_count; ++n) {
    const i64 from = args.strided >> n & 1 ? offsets[n] : i64(at);
    values[n][0] = args.masks >> n & 1 ? mask_value<T>(static_cast<const u8*>(args.inputs[n])[from])
                                       : static_cast<const T*>(args.inputs[n])[from];
  }
#else
  if (!gathered(args)) return;
  for_runs<MAX_INPUTS>(args.space, {at, at + count}, [&](u64 i, const i64* offsets, u64 run) {
    for (u32 n = 0; n < args.input_count; ++n) {
      if (!(gathered(args) >> n & 1)) continue;
      T* to = values[n] + (i - at);
      const i64 step = args.space.strides[n][0];
      if (args.masks >> n & 1)
        map(to, static_cast<const u8*>(args.inputs[n]) + offsets[n], step, run, mask_value<T>);
      else map(to, static_cast<const T*>(args.inputs[n]) + offsets[n], step, run, [](T x) { return x; });
    }
  });
#endif
}

// Whether an output has one value for each row.
DEV bool makes_row(const Fused& args, u32 output) { return args.row_steps >> args.made[output] & 1; }

// The outputs' elements at `at`, to where they belong.
template <class T> DEV void put(const Fused& args, u64 at, u64 count, T (*values)[PIECE]) {
  if (!args.scattered) {
    for (u32 n = 0; n < args.output_count; ++n)
      if (!makes_row(args, n))
        copy_run(static_cast<T*>(args.outputs[n]) + at, values[FIRST_STEP + args.made[n]], count);
    return;
  }
  const auto put_run = [&](u64 i, const i64* offsets, u64 run) {
    for (u32 n = 0; n < args.output_count; ++n) {
      T* to = static_cast<T*>(args.outputs[n]) + offsets[MAX_INPUTS + n];
      const T* from = values[FIRST_STEP + args.made[n]] + (i - at);
      const i64 step = args.space.strides[MAX_INPUTS + n][0];
      if (step == 1) copy_run(to, from, run);
      else for (u64 k = 0; k < run; ++k) to[i64(k) * step] = from[k];
    }
  };
#if SIMT_DEVICE
  i64 offsets[MAX_INPUTS + MAX_OUTPUTS];
  place<MAX_INPUTS + MAX_OUTPUTS>(args.space, at, offsets);
  put_run(at, offsets, 1);
#else
  if (args.output_count > 0) for_runs<MAX_INPUTS + MAX_OUTPUTS>(args.space, {at, at + count}, put_run);
#endif
}

// The scalars that are read, as often as a piece has elements. On the device that is once, and all are as quickly put.
template <class T> DEV void put_scalars(const Fused& args, T (*values)[PIECE]) {
  u64 read = SIMT_DEVICE ? ~u64(0) : u64(1) << args.reduced;
  for (u32 n = 0; n < args.step_count && !SIMT_DEVICE; ++n) {
    const Step step = args.steps[n];
    read |= u64(1) << step.a | u64(1) << step.b | u64(1) << step.c;
  }
  const u64 count = SIMT_DEVICE ? u64(PIECE) : least(PIECE, args.space.count);
  for (u32 n = 0; n < MAX_SCALARS; ++n) {
    if (!(read >> (MAX_INPUTS + n) & 1)) continue;
    const T scalar = *reinterpret_cast<const T*>(&args.scalars[n]);
    for (u64 k = 0; k < count; ++k) values[MAX_INPUTS + n][k] = scalar;
  }
}

// Random numbers for the elements at `at`: each depends on where an output has the element.
template <class T> DEV void draw(const Fused& args, Step step, u64 at, u64 count, T* out) {
  const u64 threshold = args.scalars[step.a - MAX_INPUTS], key = args.scalars[step.b - MAX_INPUTS];
#if SIMT_DEVICE
  i64 offsets[MAX_INPUTS + MAX_OUTPUTS];
  if (args.scattered) place<MAX_INPUTS + MAX_OUTPUTS>(args.space, at, offsets);
  out[0] = draw_one<T>(threshold, key, args.scattered ? u64(offsets[MAX_INPUTS]) : at);
#else
  if (!args.scattered) return draw_many(out, threshold, key, at, count);
  for_runs<MAX_INPUTS + MAX_OUTPUTS>(args.space, {at, at + count}, [&](u64 i, const i64* offsets, u64 run) {
    const i64 first = offsets[MAX_INPUTS], apart = args.space.strides[MAX_INPUTS][0];
    if (apart == 1) return draw_many(out + (i - at), threshold, key, u64(first), run);
    for (u64 k = 0; k < run; ++k) out[i - at + k] = draw_one<T>(threshold, key, u64(first + i64(k) * apart));
  });
#endif
}

// Where the values of the elements at `at` are, by number.
template <class T> DEV const T* source(const Fused& args, u64 at, u32 n, T (*values)[PIECE]) {
  const bool is_in_place = !SIMT_DEVICE && n < MAX_INPUTS && !(gathered(args) >> n & 1);
  return is_in_place ? static_cast<const T*>(args.inputs[n]) + at : values[n];
}

// What the first steps make of the elements at `at`; scalars, and what reduces rows, are there.
template <class T> DEV void run_steps(const Fused& args, u64 at, u64 count, u32 steps, T (*values)[PIECE]) {
  gather<T>(args, at, count, values);
  const auto source = [&](u32 n) { return ::source(args, at, n, values); };
  for (u32 n = 0; n < steps; ++n) {
    const Step step = args.steps[n];
    if (step.code == CODE_Draw) draw<T>(args, step, at, count, values[FIRST_STEP + n]);
    else run_step<T>(step.code, values[FIRST_STEP + n], source(step.a), source(step.b), source(step.c), count);
  }
}

// All values of the elements at `at`, once. Returns those that are to be reduced.
template <class T> DEV const T* run_piece(const Fused& args, u64 at, u64 count, T (*values)[PIECE]) {
  run_steps<T>(args, at, count, args.step_count, values);
  const T* reduced = source(args, at, args.reduced, values);
  if (args.output_count > 0 && reduced != values[args.reduced]) {
    copy_run(values[args.reduced], reduced, count);
    reduced = values[args.reduced];
  }
  // Only now, as an output may be an input.
  put<T>(args, at, count, values);
  return reduced;
}

template <class T> DEV void fused(const Fused& args) {
  T values[FIRST_STEP + MAX_STEPS][PIECE];
  put_scalars<T>(args, values);
  const Range range = block_range(args.space.count, args.chunk);
  for (u64 at = range.begin + threadIdx.x * PIECE; at < range.end; at += blockDim.x * PIECE)
    run_piece<T>(args, at, SIMT_DEVICE ? 1 : least(PIECE, range.end - at), values);
}

// The first steps of elements of a row, by a call, since all steps are in it; and the outputs, if it is the last pass.
template <class T>
CALLED void pass(const Fused& args, u64 at, u64 count, u32 steps, bool is_last, T (*values)[PIECE]) {
  run_steps<T>(args, at, count, steps, values);
  if (is_last) put<T>(args, at, count, values);
}

// What a step makes of a row, of which the first element is `first`, by the steps before it.
template <class T, class F> DEV Compute<T> reduce_program_row(const Fused& args, u64 first, u32 n, T (*values)[PIECE]) {
  typedef Compute<T> C;
  const u32 from = args.steps[n].a;
#if SIMT_DEVICE
  const auto one = [&](u64 k) {
    pass<T>(args, first + k, 1, n, false, values);
    return C(widen(*source(args, first + k, from, values)));
  };
  const auto many = [&](u64 k, C* to) {
    for (u32 v = 0; v < VECTOR<T>; ++v) to[v] = one(k + v);
  };
  return Together::template reduce_vectors<F, C, VECTOR<T>>(args.row_size, many, one);
#else
  T made[GROUP * LANES];
  u64 begin = 0;
  return reduce_values<F, C>(
      args.row_size, [&](u64 k) { return C(widen(made[k - begin])); },
      [&](u64 k, u64 end) {
        begin = k;
        while (k < end) {
          const u64 piece = least(PIECE, end - k);
          pass<T>(args, first + k, piece, n, false, values);
          copy_run(made + (k - begin), source(args, first + k, from, values), piece);
          k += piece;
        }
      });
#endif
}

// Programs that reduce rows on their way: for each reduction its own pass over a row, and a last one that writes.
template <class T> DEV void fused_rows(const Fused& args) {
  typedef Compute<T> C;
  T values[FIRST_STEP + MAX_STEPS][PIECE];
  put_scalars<T>(args, values);
  const Range rows = block_range(args.space.count / args.row_size, args.chunk);
  for (u64 row = rows.begin; row < rows.end; ++row) {
    const u64 first = row * args.row_size;
    for (u32 n = 0; n < args.step_count; ++n) {
      const u8 code = args.steps[n].code;
      if (!reduces_row(args.steps[n])) continue;
      C total = code == CODE_RowMax ? reduce_program_row<T, Largest>(args, first, n, values)
                                    : reduce_program_row<T, Sum>(args, first, n, values);
      if (code == CODE_RowMean) total = Div::f(total, C(args.row_size));
      for (u64 k = 0; k < PIECE; ++k) values[FIRST_STEP + n][k] = narrow<T>(total);
    }
    each_thread([&] {
      for (u64 k = threadIdx.x * PIECE; k < args.row_size; k += TEAM * PIECE)
        pass<T>(args, first + k, least(PIECE, args.row_size - k), args.step_count, true, values);
      if (threadIdx.x > 0) return;
      for (u32 n = 0; n < args.output_count; ++n)
        if (makes_row(args, n)) static_cast<T*>(args.outputs[n])[row] = values[FIRST_STEP + args.made[n]][0];
    });
  }
}

#if SIMT_DEVICE
// By a call: what a row's elements are read by is there many times.
template <class T> CALLED T value_at(const Fused& args, u64 at, T (*values)[PIECE]) {
  return *run_piece<T>(args, at, 1, values);
}
#else
// The values of `count` elements that follow each other from `at`, by a call, since all steps are in it.
template <class T> CALLED void make(const Fused& args, u64 at, u64 count, T (*values)[PIECE], T* made) {
  for (u64 done = 0; done < count; done += PIECE) {
    const u64 piece = least(PIECE, count - done);
    copy_run(made + done, run_piece<T>(args, at + done, piece, values), piece);
  }
}
#endif

template <class Out, class T, class F, class Finish> DEV void fused_reduce(const FusedReduce& args, Finish finish) {
  typedef Compute<T> C;
  const Fused& program = args.program;
  T values[FIRST_STEP + MAX_STEPS][PIECE];
  put_scalars<T>(program, values);
#if SIMT_DEVICE
  const auto row = [&](auto worker, i64 first, u64 size, i64 step) {
    const auto one = [&](u64 k) { return C(widen(value_at<T>(program, u64(first + i64(k) * step), values))); };
    const auto many = [&](u64 k, C* to) {
      for (u32 n = 0; n < VECTOR<T>; ++n) to[n] = one(k + n);
    };
    return decltype(worker)::template reduce_vectors<F, C, VECTOR<T>>(size, many, one);
  };
  reduce<Out, C>(args.rows, row, [](C*, i64, u32, i64, u64, i64) {}, finish);
#else
  static_assert(ROWS_AT_ONCE * COLUMNS <= GROUP * LANES, "both fit");
  T made[GROUP * LANES];
  u64 begin = 0;
  const auto row = [&](auto, i64 first, u64 size, i64 step) {
    return reduce_values<F, C>(
        size, [&](u64 k) { return C(widen(made[k - begin])); },
        [&](u64 k, u64 end) {
          begin = k;
          if (step == 1) return make<T>(program, u64(first) + k, end - k, values, made);
          for (; k < end; ++k) make<T>(program, u64(first + i64(k) * step), 1, values, made + (k - begin));
        });
  };
  // Columns of elements in row-major order are side by side.
  const auto by_columns = [&](C* totals, i64 first, u32 columns, i64, u64 size, i64 step) {
    u64 width = 0;
    reduce_neighbours<F>(
        totals, columns, size, step,
        [&](u64 k, u32 c, i64) { return C(widen(made[(k - begin) * width + c])); },
        [&](u64 k, u64 end, u32 together, i64 apart) {
          begin = k;
          width = together;
          for (; k < end; ++k)
            make<T>(program, u64(first + i64(k) * apart), together, values, made + (k - begin) * width);
        });
  };
  reduce<Out, C>(args.rows, row, by_columns, finish);
#endif
}

template <class Out, class T> DEV void fused_sum(const FusedReduce& args) {
  fused_reduce<Out, T, Sum>(args, [](Compute<T> total) { return Compute<Out>(total); });
}
template <class Out, class T> DEV void fused_max(const FusedReduce& args) {
  fused_reduce<Out, T, Largest>(args, [](Compute<T> most) { return Compute<Out>(most); });
}
template <class T> DEV void fused_mean(const FusedReduce& args) {
  const Compute<T> divisor = Compute<T>(args.rows.divisor);
  fused_reduce<T, T, Sum>(args, [divisor](Compute<T> total) { return Div::f(total, divisor); });
}
}  // namespace

#define FUSED(T, ...)                                                    \
  KERNEL(fused_##T, Fused) { fused<T>(args); }                           \
  TEAM_KERNEL(fused_rows_##T, Fused) { fused_rows<T>(args); }            \
  TEAM_KERNEL(fused_sum_##T, FusedReduce) { fused_sum<T, T>(args); }     \
  TEAM_KERNEL(fused_max_##T, FusedReduce) { fused_max<T, T>(args); }     \
  TEAM_KERNEL(fused_mean_##T, FusedReduce) { fused_mean<T>(args); }
// Long rows of halves: pieces are kept as f32, and rounded once.
#define FUSED_LONG(T, ...)                                                     \
  TEAM_KERNEL(fused_sum_##T##_f32, FusedReduce) { fused_sum<f32, T>(args); }   \
  TEAM_KERNEL(fused_max_##T##_f32, FusedReduce) { fused_max<f32, T>(args); }
FOR_FLOATS(FUSED, ) FOR_HALVES(FUSED_LONG, )

EXPORT_TABLE(fused)
