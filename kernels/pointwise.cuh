// Elementwise kernels: loops over runs, by the number of inputs. Functions take and give storage types.
#pragma once
#include "math.cuh"
#include "vectors.cuh"

namespace {
// out[k] = f(a[k * step_a]). The usual steps have loops of their own, so that they vectorise.
template <class F, class R, class A> DEV void map(R* out, const A* a, i64 step_a, u64 run, F f) {
  if (step_a == 1) {
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(a[k]);
  } else if (step_a == 0) {
    const R value = f(a[0]);
    for (u64 k = 0; k < run; ++k) out[k] = value;
  } else {
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(a[i64(k) * step_a]);
  }
}

template <class F, class R, class A, class B>
DEV void map(R* out, const A* a, i64 step_a, const B* b, i64 step_b, u64 run, F f) {
  if (step_a == 1 && step_b == 1) {
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(a[k], b[k]);
  } else if (step_a == 1 && step_b == 0) {
    const B value = b[0];
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(a[k], value);
  } else if (step_a == 0 && step_b == 1) {
    const A value = a[0];
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(value, b[k]);
  } else {
    INDEPENDENT for (u64 k = 0; k < run; ++k) out[k] = f(a[i64(k) * step_a], b[i64(k) * step_b]);
  }
}

template <class R, class A, class F> DEV void pointwise1(const Pointwise& args, F f) {
  R* out = static_cast<R*>(args.out);
  const A* a = input_of<A>(args, 0);
  const Space& space = args.space;
#if SIMT_DEVICE
  constexpr u32 V = least(VECTOR<R>, VECTOR<A>);
  const bool fits = is_aligned<V>(out) && is_in_vectors<V>(space, 0, a);
  const auto vector = [&](u64 i, const i64* offsets) {
    A x[V];
    R made[V];
    read_vector<V>(x, a + offsets[0], space.strides[0][0]);
    UNROLLED for (u32 k = 0; k < V; ++k) made[k] = f(x[k]);
    write_row<V>(out + i, made);
  };
  if (for_vectors<V, 1>(space, block_range(space.count, args.chunk), args.chunk, fits, vector)) return;
#endif
  for_runs<1>(space, block_range(space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    map(out + i, a + offsets[0], space.strides[0][0], run, f);
  });
}

// For functions whose fast form does not hold for `far` arguments: a piece that has one takes the slow form, which gives
// the others the same value. Looked at before anything is written, as the output may be the input.
template <class T, class Far, class Fast, class Slow>
DEV void pointwise1_far(const Pointwise& args, Far far, Fast fast, Slow slow) {
  constexpr u64 PIECE = 1024;
  T* out = static_cast<T*>(args.out);
  const T* a = input_of<T>(args, 0);
  const i64 step = args.space.strides[0][0];
  for_runs<1>(args.space, block_range(args.space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    for (u64 done = 0; done < run; done += PIECE) {
      const T* x = a + offsets[0] + i64(done) * step;
      const u64 some = least(PIECE, run - done);
      u32 any = step != 1;
      if (step == 1)
        for (u64 k = 0; k < some; ++k) any |= far(x[k]);
      if (any) map(out + i + done, x, step, some, slow);
      else map(out + i + done, x, i64(1), some, fast);
    }
  });
}

template <class R, class A, class B, class F> DEV void pointwise2(const Pointwise& args, F f) {
  R* out = static_cast<R*>(args.out);
  const A* a = input_of<A>(args, 0);
  const B* b = input_of<B>(args, 1);
  const Space& space = args.space;
#if SIMT_DEVICE
  constexpr u32 V = least(VECTOR<R>, least(VECTOR<A>, VECTOR<B>));
  const bool fits = is_aligned<V>(out) && is_in_vectors<V>(space, 0, a) && is_in_vectors<V>(space, 1, b);
  const auto vector = [&](u64 i, const i64* offsets) {
    A x[V];
    B y[V];
    R made[V];
    read_vector<V>(x, a + offsets[0], space.strides[0][0]);
    read_vector<V>(y, b + offsets[1], space.strides[1][0]);
    UNROLLED for (u32 k = 0; k < V; ++k) made[k] = f(x[k], y[k]);
    write_row<V>(out + i, made);
  };
  if (for_vectors<V, 2>(space, block_range(space.count, args.chunk), args.chunk, fits, vector)) return;
#endif
  for_runs<2>(space, block_range(space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    map(out + i, a + offsets[0], space.strides[0][0], b + offsets[1], space.strides[1][0], run, f);
  });
}
}  // namespace
