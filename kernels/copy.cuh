// Copies, with or without a conversion.
#pragma once
#include "pointwise.cuh"

namespace {
// The one kernel whose output may be strided: `out[strides[1]] = x[strides[0]]`.
template <class To, class From> DEV void copy(const Pointwise& args) {
  To* out = static_cast<To*>(args.out);
  const From* x = input_of<From>(args, 0);
  const Space& space = args.space;
  const i64 step_x = space.strides[0][0], step_out = space.strides[1][0];
  const auto convert = [](From value) { return narrow<To>(cast<To>(widen(value))); };
  for_runs<2>(space, block_range(space.count, args.chunk), [&](u64, const i64* offsets, u64 run) {
    const From* from = x + offsets[0];
    To* to = out + offsets[1];
    if (step_out == 1) {
      map(to, from, step_x, run, convert);
    } else {
      INDEPENDENT for (u64 k = 0; k < run; ++k) to[i64(k) * step_out] = convert(from[i64(k) * step_x]);
    }
  });
}
}  // namespace

#define COPY(To, From) \
  KERNEL(copy_##From##_##To, Pointwise) { copy<To, From>(args); }
