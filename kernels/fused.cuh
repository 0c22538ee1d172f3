// Arguments of fused programs: of the interpreter, and of the kernels that are generated for one program each.
#pragma once
#include "pointwise.cuh"
#include "reduce.cuh"

namespace {
constexpr u32 MAX_INPUTS = 8, MAX_SCALARS = 12, MAX_OUTPUTS = 6, MAX_STEPS = 24;

// Sources are inputs, then scalars, then what steps made.
struct Step {
  u8 code, a, b, c;
};

struct Fused {
  const void* inputs[MAX_INPUTS];
  void* outputs[MAX_OUTPUTS];
  u64 scalars[MAX_SCALARS];
  u64 chunk;
  u32 input_count, step_count, output_count;
  u32 strided;    // a bit for each input whose elements do not simply follow each other
  u32 scattered;  // whether those of the outputs do not
  u32 reduced;    // the value that is reduced; if none is, that of a step
  u32 masks;      // a bit for each input that is a mask, of bytes
  u32 made[MAX_OUTPUTS];
  Step steps[MAX_STEPS];
  u32 row_steps;  // a bit for each step that makes one value for each row
  u64 row_size;   // elements of a row, if rows are reduced
  SpaceOf<MAX_INPUTS + MAX_OUTPUTS> space;  // inputs, then outputs
};

struct FusedReduce {
  Fused program;
  Reduce rows;  // of the elements in the order of the space
};
}  // namespace
