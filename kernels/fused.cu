// Several elementwise functions in one pass. A piece of each operand at a time goes through all steps of a program: as many
// elements as stay in the nearest cache, on the device one. Each step rounds to the storage type, as a pass of its own would.
#include "math.cuh"
#include "views.cuh"

namespace {
constexpr u32 MAX_INPUTS = 8, MAX_SCALARS = 8, MAX_OUTPUTS = 4, MAX_STEPS = 16;
constexpr u32 FIRST_STEP = MAX_INPUTS + MAX_SCALARS;
constexpr u64 PIECE = SIMT_DEVICE ? 1 : 256;

// The order of `op/fused.rs`.
#define OF_ONE(F)                                                                                           \
  F(Neg) F(Abs) F(Sign) F(Square) F(Relu) F(Recip) F(Exp) F(Log) F(Log1p) F(Sqrt) F(Tanh) F(Erf) F(Floor)    \
  F(Ceil) F(Round) F(Trunc) F(Sigmoid) F(LogSigmoid) F(Gelu)
#define OF_TWO(F)                                                                                           \
  F(Add) F(Sub) F(Mul) F(Div) F(Max) F(Min) F(ReverseSub) F(ReverseDiv) F(LeakyRelu) F(SigmoidBackward)      \
  F(LogSigmoidBackward) F(GeluBackward)
#define CODE(Function) CODE_##Function,
enum Code : u8 { OF_ONE(CODE) OF_TWO(CODE) };
#undef CODE

// Sources are inputs, then scalars, then what steps made.
struct Step {
  u8 code, a, b, unused;
};

struct Fused {
  const void* inputs[MAX_INPUTS];
  void* outputs[MAX_OUTPUTS];
  u64 scalars[MAX_SCALARS];
  u64 chunk;
  u32 input_count, step_count, output_count;
  u32 strided;  // a bit for each input whose elements do not simply follow each other
  u32 made[MAX_OUTPUTS];
  Step steps[MAX_STEPS];
  SpaceOf<MAX_INPUTS> space;
};

template <class T, class Function> DEV void one(T* out, const T* a, u64 count) {
  INDEPENDENT for (u64 k = 0; k < count; ++k) out[k] = narrow<T>(Function::f(widen(a[k])));
}
template <class T, class Function> DEV void two(T* out, const T* a, const T* b, u64 count) {
  INDEPENDENT for (u64 k = 0; k < count; ++k) out[k] = narrow<T>(Function::f(widen(a[k]), widen(b[k])));
}

template <class T> DEV void run_step(u8 code, T* out, const T* a, const T* b, u64 count) {
  switch (code) {
#define CASE(Function) \
  case CODE_##Function: return one<T, Function>(out, a, count);
    OF_ONE(CASE)
#undef CASE
#define CASE(Function) \
  case CODE_##Function: return two<T, Function>(out, a, b, count);
    OF_TWO(CASE)
#undef CASE
  }
}

// The elements of strided inputs at `at`, in a row; on the device those of all inputs.
template <class T> DEV void gather(const Fused& args, u64 at, u64 count, T (*values)[PIECE]) {
#if SIMT_DEVICE
  i64 offsets[MAX_INPUTS] = {};
  if (args.strided) place<MAX_INPUTS>(args.space, at, offsets);
  for (u32 n = 0; n < args.input_count; ++n) {
    values[n][0] = static_cast<const T*>(args.inputs[n])[args.strided >> n & 1 ? offsets[n] : i64(at)];
  }
#else
  if (!args.strided) return;
  for_runs<MAX_INPUTS>(args.space, {at, at + count}, [&](u64 i, const i64* offsets, u64 run) {
    for (u32 n = 0; n < args.input_count; ++n) {
      if (!(args.strided >> n & 1)) continue;
      const T* from = static_cast<const T*>(args.inputs[n]) + offsets[n];
      const i64 step = args.space.strides[n][0];
      T* to = values[n] + (i - at);
      for (u64 k = 0; k < run; ++k) to[k] = from[i64(k) * step];
    }
  });
#endif
}

template <class T> DEV void fused(const Fused& args) {
  T values[FIRST_STEP + MAX_STEPS][PIECE];
  for (u32 n = 0; n < MAX_SCALARS; ++n) {
    const T scalar = *reinterpret_cast<const T*>(&args.scalars[n]);
    for (u64 k = 0; k < PIECE; ++k) values[MAX_INPUTS + n][k] = scalar;
  }
  const Range range = block_range(args.space.count, args.chunk);
  for (u64 at = range.begin + threadIdx.x * PIECE; at < range.end; at += blockDim.x * PIECE) {
    const u64 count = SIMT_DEVICE ? 1 : least(PIECE, range.end - at);
    gather<T>(args, at, count, values);
    const auto source = [&](u32 n) {
      const bool is_in_place = !SIMT_DEVICE && n < MAX_INPUTS && !(args.strided >> n & 1);
      return is_in_place ? static_cast<const T*>(args.inputs[n]) + at : values[n];
    };
    for (u32 n = 0; n < args.step_count; ++n) {
      const Step step = args.steps[n];
      run_step<T>(step.code, values[FIRST_STEP + n], source(step.a), source(step.b), count);
    }
    // Only now, as an output may be an input.
    for (u32 n = 0; n < args.output_count; ++n) {
      copy_run(static_cast<T*>(args.outputs[n]) + at, values[FIRST_STEP + args.made[n]], count);
    }
  }
}
}  // namespace

#define FUSED(T, ...) KERNEL(fused_##T, Fused) { fused<T>(args); }
FOR_FLOATS(FUSED, )

EXPORT_TABLE(fused)
