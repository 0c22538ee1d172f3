// What generated kernels are written with (`op/lower/generated.rs`). A thread takes so many neighbouring elements that they are
// 16 bytes, where all operands allow it, and moves them at once.
#pragma once
#include "draw.cuh"
#include "fused.cuh"

namespace {
template <u32 n> struct Width { static constexpr u32 value = n; };

template <class A, class B> struct Same { static constexpr bool value = false; };
template <class A> struct Same<A, A> { static constexpr bool value = true; };

// As `narrow`. A GPU rounds to bf16 by one instruction, which keeps nothing of a NaN.
template <class T> DEV T rounded(Compute<T> x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (Same<T, bf16>::value) {
    u16 bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return x != x ? narrow<T>(x) : T{bits};
  }
#endif
  return narrow<T>(x);
}

// A step, rounded as by itself.
template <class T, class Function> DEV T step(T a) { return rounded<T>(Function::f(widen(a))); }
template <class T, class Function> DEV T step(T a, T b) { return rounded<T>(Function::f(widen(a), widen(b))); }

template <class T> DEV T scalar(const Fused& args, u32 n) { return *reinterpret_cast<const T*>(&args.scalars[n]); }

// Elements `apart` from each other; one for all, if that is 0.
template <u32 V, class T> DEV void read_strided(T* to, const T* from, i64 apart) {
  UNROLLED for (u32 k = 0; k < V; ++k) to[k] = from[i64(k) * apart];
}
template <u32 V, class T> DEV void write_strided(T* to, const T* from, i64 apart) {
  UNROLLED for (u32 k = 0; k < V; ++k) to[i64(k) * apart] = from[k];
}
template <u32 V, class T> DEV void read_one(T* to, const T* from) {
  const T value = *from;
  UNROLLED for (u32 k = 0; k < V; ++k) to[k] = value;
}

// Calls `run(width, at)` for all elements of a block: for `V` at a time, and one by one for what is left at the end of all.
template <u32 V, class Index, class Run> DEV void for_elements(const Fused& args, Run run) {
  const Range range = block_range(args.space.count, args.chunk);
  const u64 whole = range.end / V * V;
  for (u64 at = range.begin + threadIdx.x * V; at < whole; at += blockDim.x * V) run(Width<V>(), Index(at));
  if constexpr (V > 1)
    for (u64 at = whole + threadIdx.x; at < range.end; at += blockDim.x) run(Width<1>(), Index(at));
}

// Reduces what `values` makes, by threads of one kind: those of a block together on each row, in vectors if they can, or each on its
// own. `values(width, first, step)(k, to)` makes `width` neighbours from element `first + k * step` on.
template <class Out, class T, class F, class Worker, bool in_vectors, class Values, class Finish>
DEV void reduce_elements(const FusedReduce& args, Values values, Finish finish) {
  typedef Compute<T> C;
  const auto row = [&](auto worker, i64 first, u64 size, i64 step) {
    if constexpr (!Same<decltype(worker), Worker>::value) return C(0);  // nobody works so here
    else {
      const auto single = values(Width<1>(), first, step);
      const auto one = [&](u64 k) {
        T made[1];
        single(k, made);
        return C(widen(made[0]));
      };
      const auto many = [&](u64 k, C* to) {
        if constexpr (in_vectors) {
          T made[VECTOR<T>];
          values(Width<VECTOR<T>>(), first, 1)(k, made);
          UNROLLED for (u32 n = 0; n < VECTOR<T>; ++n) to[n] = C(widen(made[n]));
        } else {
          UNROLLED for (u32 n = 0; n < VECTOR<T>; ++n) to[n] = one(k + n);
        }
      };
      return decltype(worker)::template reduce_vectors<F, C, VECTOR<T>>(size, many, one);
    }
  };
  reduce<Out, C>(args.rows, row, [](C*, i64, u32, i64, u64, i64) {}, finish);
}

// A row that each thread keeps `V` elements of in each of so many rounds, by `values(round, to)`.
template <class T, class F, u32 V, u32 rounds, class Values> DEV Compute<T> reduce_held(u64 size, Values values) {
  return Together::template reduce_held<F, Compute<T>, V, rounds>(size, values);
}

// A row whose elements `make(width, k, made)` computes, `width` neighbours from `k` on. The order is that of a stored row.
template <class T, class F, u32 width, class Make> DEV Compute<T> reduce_made(u64 size, Make make) {
  typedef Compute<T> C;
  const auto one = [&](u64 k) {
    T made[1];
    make(Width<1>(), k, made);
    return C(widen(made[0]));
  };
  const auto many = [&](u64 k, C* to) {
    T made[VECTOR<T>];
    if constexpr (width == VECTOR<T>) make(Width<VECTOR<T>>(), k, made);
    else UNROLLED for (u32 n = 0; n < VECTOR<T>; ++n) make(Width<1>(), k + n, made + n);
    UNROLLED for (u32 n = 0; n < VECTOR<T>; ++n) to[n] = C(widen(made[n]));
  };
  return Together::template reduce_vectors<F, C, VECTOR<T>>(size, many, one);
}

// Calls `body(width, k)` for all elements of a row, shared out to the threads: for `width` at a time, then one by one.
template <u32 width, class Body> DEV void each_of_row(u64 size, Body body) {
  each_lane([&] {
    const u64 whole = size / width * width;
    for (u64 k = threadIdx.x * width; k < whole; k += TEAM * width) body(Width<width>(), k);
    if constexpr (width > 1)
      for (u64 k = whole + threadIdx.x; k < size; k += TEAM) body(Width<1>(), k);
  });
}

// Reduces rows that lie side by side, a vector of them by each thread.
template <class Out, class T, class F, class Values, class Finish>
DEV void reduce_columns_of_vectors(const FusedReduce& args, Values values, Finish finish) {
  typedef Compute<T> C;
  constexpr u32 V = VECTOR<T>;
  const Reduce& rows = args.rows;
  Out* out = static_cast<Out*>(rows.out);
  const Range range = block_range(rows.space.count, rows.chunk);
  each_thread([&] {
    for (u64 i = range.begin + threadIdx.x * V; i < range.end; i += blockDim.x * V) {
      i64 first[1];
      place<1>(rows.space, i, first);
      const u64 size = least(rows.piece, rows.size - i / rows.outputs * rows.piece);
      C totals[V];
      const auto row = values(Width<V>(), first[0], rows.step);
      reduce_side_by_side<F, V>(totals, size, [&](u64 k, C* to) {
        T made[V];
        row(k, made);
        UNROLLED for (u32 n = 0; n < V; ++n) to[n] = C(widen(made[n]));
      });
      Out reduced[V];
      UNROLLED for (u32 n = 0; n < V; ++n) reduced[n] = narrow<Out>(finish(totals[n]));
      write_row<V>(out + i, reduced);
    }
  });
}
}  // namespace
