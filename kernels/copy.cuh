// Copies, with or without a conversion.
#pragma once
#include "pointwise.cuh"

namespace {
template <u32 bytes> struct UnsignedOf { typedef u8 type; };
template <> struct UnsignedOf<2> { typedef u16 type; };
template <> struct UnsignedOf<4> { typedef u32 type; };
template <> struct UnsignedOf<8> { typedef u64 type; };

template <class To, class From> DEV To convert(From x) {
  if constexpr (is_bool<Compute<From>>) {
    // One or nothing, by its bits: compilers make no vectors of what goes through `bool`.
    typedef typename UnsignedOf<sizeof(To)>::type Bits;
    const To one = narrow<To>(Compute<To>(1));
    return bits_as<To>(Bits(bits_as<Bits>(one) * Bits(x.bits != 0)));
  } else {
    return narrow<To>(cast<To>(widen(x)));
  }
}

template <class To, class From> constexpr bool same_type = false;
template <class T> constexpr bool same_type<T, T> = true;

// The one kernel whose output may be strided: `out[strides[1]] = x[strides[0]]`.
template <class To, class From> DEV void copy(const Pointwise& args) {
  To* out = static_cast<To*>(args.out);
  const From* x = input_of<From>(args, 0);
  const Space& space = args.space;
  const i64 step_x = space.strides[0][0], step_out = space.strides[1][0];
#if SIMT_DEVICE
  constexpr u32 V = least(VECTOR<To>, VECTOR<From>);
  const bool fits = step_out == 1 && is_in_vectors<V>(space, 0, x) && is_in_vectors<V>(space, 1, out);
  const auto vector = [&](u64, const i64* offsets) {
    From read[V];
    To made[V];
    read_vector<V>(read, x + offsets[0], step_x);
    UNROLLED for (u32 k = 0; k < V; ++k) {
      if constexpr (same_type<To, From>) made[k] = read[k];
      else made[k] = convert<To>(read[k]);
    }
    write_row<V>(out + offsets[1], made);
  };
  if (for_vectors<V, 2>(space, block_range(space.count, args.chunk), args.chunk, fits, vector)) return;
#endif
  for_runs<2>(space, block_range(space.count, args.chunk), [&](u64, const i64* offsets, u64 run) {
    const From* from = x + offsets[0];
    To* to = out + offsets[1];
    if constexpr (same_type<To, From>) {
      if (step_x == 1 && step_out == 1) return copy_run(to, from, run);
    }
    if (step_out == 1) {
      map(to, from, step_x, run, [](From x) { return convert<To>(x); });
    } else {
      INDEPENDENT for (u64 k = 0; k < run; ++k) to[i64(k) * step_out] = convert<To>(from[i64(k) * step_x]);
    }
  });
}
}  // namespace

#define COPY(To, From) \
  KERNEL(copy_##From##_##To, Pointwise) { copy<To, From>(args); }
