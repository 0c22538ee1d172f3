// Reductions of a row, and of neighbouring columns side by side. The order of additions depends on sizes alone.
#pragma once
#include "math.cuh"
#include "vectors.cuh"

namespace {
struct Sum : Add { template <class T> DEV T start() { return T(0); } };
struct Prod : Mul { template <class T> DEV T start() { return T(1); } };
// Extremes, of which NaN is the greatest. `wins` says whether a comes before b. Choices are one after the other, which
// the compiler turns into vectors where it does not for a choice by two conditions.
struct Largest {
  template <class T> DEV T start() { return lowest<T>(); }
  template <class T> DEV T f(T a, T b) {
    const T larger = a > b ? a : b;
    return is_nan(a) ? a : larger;
  }
  template <class T> DEV bool wins(T a, T b) { return a > b || (is_nan(a) && !is_nan(b)); }
};
struct Smallest {
  template <class T> DEV T start() { return highest<T>(); }
  template <class T> DEV T f(T a, T b) {
    const T smaller = a < b ? a : b;
    return is_nan(a) ? a : smaller;
  }
  template <class T> DEV bool wins(T a, T b) { return a < b || (is_nan(a) && !is_nan(b)); }
};
struct LargestAbs {
  template <class T> DEV T start() { return T(0); }
  template <class T> DEV T f(T a, T b) { return Largest::f(Abs::f(a), Abs::f(b)); }
};

constexpr u32 LANES = SIMT_DEVICE ? 4 : 32;  // independent accumulators of a row
constexpr u32 GROUP = 128;    // elements added up before they join the total: keeps float sums accurate
constexpr u32 COLUMNS = SIMT_DEVICE ? 1 : 512;  // columns reduced side by side, on the device by as many threads

// The `size` values that `load` gives, once `ready(k, end)` was called for them. Neighbours go to different lanes, so that loads
// of neighbours vectorise.
template <class F, class C, class Load, class Ready> DEV C reduce_values(u64 size, Load load, Ready ready) {
  C total = F::template start<C>();
  u64 k = 0;
  while (size - k >= LANES) {
    const u64 end = k + least(size - k, u64(GROUP * LANES)) / LANES * LANES;
    ready(k, end);
    C lanes[LANES];
    for (u32 lane = 0; lane < LANES; ++lane) lanes[lane] = F::template start<C>();
    for (; k < end; k += LANES)
      for (u32 lane = 0; lane < LANES; ++lane) lanes[lane] = F::f(lanes[lane], load(k + lane));
    for (u32 width = LANES / 2; width > 0; width /= 2)
      for (u32 lane = 0; lane < width; ++lane) lanes[lane] = F::f(lanes[lane], lanes[lane + width]);
    total = F::f(total, lanes[0]);
  }
  ready(k, size);
  for (; k < size; ++k) total = F::f(total, load(k));
  return total;
}
template <class F, class C, class Load> DEV C reduce_values(u64 size, Load load) {
  return reduce_values<F, C>(size, load, [](u64, u64) {});
}

// Who works on a row. A thread by itself:
struct Alone {
  template <class F, class C, class Load> DEV C reduce(u64 size, Load load) { return reduce_values<F, C>(size, load); }
  template <class F, class C, u32 V, class Many, class One> DEV C reduce_vectors(u64 size, Many, One one) {
    return reduce_values<F, C>(size, one);
  }
  template <class Body> DEV void each(u64 size, Body body) {
    INDEPENDENT for (u64 k = 0; k < size; ++k) body(k);
  }
};

#if SIMT_DEVICE
// `reduce_values` of `V` rows at once, of which `load(k, values)` gives the elements `k`.
template <class F, u32 V, class C, class Load> DEV void reduce_side_by_side(C* totals, u64 size, Load load) {
  UNROLLED for (u32 v = 0; v < V; ++v) totals[v] = F::template start<C>();
  C values[V];
  u64 k = 0;
  while (size - k >= LANES) {
    const u64 end = k + least(size - k, u64(GROUP * LANES)) / LANES * LANES;
    C lanes[LANES][V];
    UNROLLED for (u32 lane = 0; lane < LANES; ++lane)
      UNROLLED for (u32 v = 0; v < V; ++v) lanes[lane][v] = F::template start<C>();
    for (; k < end; k += LANES) {
      UNROLLED for (u32 lane = 0; lane < LANES; ++lane) {
        load(k + lane, values);
        UNROLLED for (u32 v = 0; v < V; ++v) lanes[lane][v] = F::f(lanes[lane][v], values[v]);
      }
    }
    UNROLLED for (u32 width = LANES / 2; width > 0; width /= 2)
      UNROLLED for (u32 lane = 0; lane < width; ++lane)
        UNROLLED for (u32 v = 0; v < V; ++v) lanes[lane][v] = F::f(lanes[lane][v], lanes[lane + width][v]);
    UNROLLED for (u32 v = 0; v < V; ++v) totals[v] = F::f(totals[v], lanes[0][v]);
  }
  for (; k < size; ++k) {
    load(k, values);
    UNROLLED for (u32 v = 0; v < V; ++v) totals[v] = F::f(totals[v], values[v]);
  }
}

// Or all threads of a block, neighbours on neighbours. They call these together, and all get the result.
struct Together {
  template <class F, class C, class Load> DEV C reduce(u64 size, Load load) {
    return reduce_parts<F, C>([&] { return own_part<F, C>(size, load); });
  }

  // Of values that a thread gets `V` at a time by `many(k, values)`, and one by one by `one(k)` where the row ends.
  template <class F, class C, u32 V, class Many, class One> DEV C reduce_vectors(u64 size, Many many, One one) {
    return reduce_parts<F, C>([&] { return own_vectors<F, C, V>(size, many, one); });
  }

  // The same of a row of which each thread has `V` values in each of so many rounds, by `values(round, to)`. None is left over.
  template <class F, class C, u32 V, u32 rounds, class Values> DEV C reduce_held(u64 size, Values values) {
    static_assert(rounds * V <= GROUP, "they are one group");
    return reduce_parts<F, C>([&] {
      C group = F::template start<C>();
      UNROLLED for (u32 r = 0; r < rounds; ++r) {
        if ((r * TEAM + threadIdx.x) * V >= size) continue;
        C made[V];
        values(r, made);
        UNROLLED for (u32 width = V / 2; width > 0; width /= 2)
          UNROLLED for (u32 v = 0; v < width; ++v) made[v] = F::f(made[v], made[v + width]);
        group = F::f(group, made[0]);
      }
      return F::f(F::template start<C>(), group);
    });
  }

  template <class Body> DEV void each(u64 size, Body body) {
    each_thread([&] {
      for (u64 k = threadIdx.x; k < size; k += TEAM) body(k);
    });
  }

 private:
  // The total of what each thread makes by itself.
  template <class F, class C, class Own> DEV C reduce_parts(Own own) {
    constexpr u32 FEW = 16;
    SHARED(C, parts, TEAM);
    each_thread([&] { parts[threadIdx.x] = own(); });
    each_thread([&] {
      if (threadIdx.x >= FEW) return;
      C part = parts[threadIdx.x];
      for (u32 t = threadIdx.x + FEW; t < TEAM; t += FEW) part = F::f(part, parts[t]);
      parts[threadIdx.x] = part;
    });
    C total = parts[0];
    for (u32 t = 1; t < FEW; ++t) total = F::f(total, parts[t]);
    wait_for_all();  // before anybody writes parts of something else
    return total;
  }

  // What one thread takes of a row: four elements at once, so that loads do not wait for each other.
  template <class F, class C, class Load> DEV C own_part(u64 size, Load load) {
    C total = F::template start<C>();
    u64 k = threadIdx.x;
    while (k + 3 * TEAM < size) {
      C group = F::template start<C>();
      for (u32 n = 0; n < GROUP && k + 3 * TEAM < size; n += 4, k += 4 * TEAM)
        group = F::f(group, F::f(F::f(load(k), load(k + TEAM)), F::f(load(k + 2 * TEAM), load(k + 3 * TEAM))));
      total = F::f(total, group);
    }
    for (; k < size; k += TEAM) total = F::f(total, load(k));
    return total;
  }

  // The same in vectors, neighbouring vectors on neighbours.
  template <class F, class C, u32 V, class Many, class One> DEV C own_vectors(u64 size, Many many, One one) {
    C total = F::template start<C>();
    u64 k = threadIdx.x * V;
    while (k + V <= size) {
      C group = F::template start<C>();
      for (u32 n = 0; n < GROUP && k + V <= size; n += V, k += TEAM * V) {
        C values[V];
        many(k, values);
        UNROLLED for (u32 width = V / 2; width > 0; width /= 2)
          UNROLLED for (u32 v = 0; v < width; ++v) values[v] = F::f(values[v], values[v + width]);
        group = F::f(group, values[0]);
      }
      total = F::f(total, group);
    }
    for (; k < size; ++k) total = F::f(total, one(k));  // of one thread
    return total;
  }
};

// Whether a block's threads share rows of a space: where they are long, and neighbours in them not further apart than
// neighbouring rows.
DEV bool are_shared(const Space& space, i64 step, u64 size) {
  const i64 across = space.strides[0][0];
  const bool side_by_side = space.sizes[0] >= 32 && most(across, -across) < most(step, -step);
  return size >= TEAM && !side_by_side;
}
#endif

// Calls `body(worker, position, offsets, run)` for the rows of a team's block, as `for_runs` does. The rows are `size` elements,
// `step` apart.
template <u32 N, class Body> DEV void for_rows(const Space& space, Range range, i64 step, u64 size, Body body) {
#if SIMT_DEVICE
  if (are_shared(space, step, size)) {
    for (u64 i = range.begin; i < range.end; ++i) {
      i64 offsets[N];
      place<N>(space, i, offsets);
      body(Together(), i, static_cast<const i64*>(offsets), u64(1));
    }
    return;
  }
#endif
  each_thread([&] {
    for_runs<N>(space, range, [&](u64 i, const i64* offsets, u64 run) { body(Alone(), i, offsets, run); });
  });
}

template <class F, class T, class C = Compute<T>, class Worker = Alone>
COMMON C reduce_row(const T* x, u64 size, i64 step) {
#if SIMT_DEVICE
  // The order is the same whether vectors can be moved or not.
  const bool in_vectors = step == 1 && is_aligned<VECTOR<T>>(x);
  return Worker::template reduce_vectors<F, C, VECTOR<T>>(
      size,
      [=](u64 k, C* values) {
        T read[VECTOR<T>];
        if (in_vectors) read_row<VECTOR<T>>(read, x + k);
        else UNROLLED for (u32 n = 0; n < VECTOR<T>; ++n) read[n] = x[i64(k + n) * step];
        UNROLLED for (u32 n = 0; n < VECTOR<T>; ++n) values[n] = C(widen(read[n]));
      },
      [=](u64 k) { return C(widen(x[i64(k) * step])); });
#endif
  if (step == 1) return Worker::template reduce<F, C>(size, [x](u64 k) { return C(widen(x[k])); });
  return Worker::template reduce<F, C>(size, [x, step](u64 k) { return C(widen(x[i64(k) * step])); });
}

// `columns` columns whose element k of column c is `load(k, c)`, once `ready(k, end)` was called for its row. The inner loop runs
// across them; if loads are cheap, so many rows at a time that totals are read and written seldom.
constexpr u32 ROWS_AT_ONCE = 8;
template <class F, bool cheap, class C, class Load, class Ready>
DEV void reduce_columns(C* totals, u32 columns, u64 size, Load load, Ready ready) {
  C group[COLUMNS];
  for (u32 c = 0; c < columns; ++c) totals[c] = F::template start<C>();
  for (u64 k = 0; k < size;) {
    const u64 end = least(size, k + GROUP);
    C* sums = k == 0 ? totals : group;
    for (u32 c = 0; c < columns; ++c) sums[c] = F::template start<C>();
    for (; cheap && end - k >= ROWS_AT_ONCE; k += ROWS_AT_ONCE) {
      ready(k, k + ROWS_AT_ONCE);
      for (u32 c = 0; c < columns; ++c) {
        const auto pair = [&](u32 row) { return F::f(load(k + row, c), load(k + row + 1, c)); };
        const C first = F::f(pair(0), pair(2)), second = F::f(pair(4), pair(6));
        sums[c] = F::f(sums[c], F::f(first, second));
      }
    }
    for (; k < end; ++k) {
      ready(k, k + 1);
      for (u32 c = 0; c < columns; ++c) sums[c] = F::f(sums[c], load(k, c));
    }
    if (sums == group)
      for (u32 c = 0; c < columns; ++c) totals[c] = F::f(totals[c], group[c]);
  }
}

template <class F, bool cheap, class C, class Load>
DEV void reduce_columns(C* totals, u32 columns, u64 size, Load load) {
  reduce_columns<F, cheap>(totals, columns, size, load, [](u64, u64) {});
}

// Columns side by side of rows `step` apart, whose element k of column c is `load(k, c, step)`, once `ready(k, end, columns, step)`
// was called for its row; the step may be that of several rows which count as one.
template <class F, class C, class Load, class Ready>
DEV void reduce_neighbours(C* totals, u32 columns, u64 size, i64 step, Load load, Ready ready) {
  // Few columns without gaps: several rows count as one, so that the inner loop is long.
  u32 rows = step == i64(columns) ? COLUMNS / columns : 1;
  if (size < 2 * rows) rows = 1;
  C wide[COLUMNS];
  C* sums = rows > 1 ? wide : totals;
  const u64 whole = size / rows;
  const i64 wide_step = step * rows;
  const u32 width = rows * columns;
  reduce_columns<F, true>(
      sums, width, whole, [=](u64 k, u32 c) { return load(k, c, wide_step); },
      [=](u64 k, u64 end) { ready(k, end, width, wide_step); });
  if (rows == 1) return;
  for (u64 k = whole * rows; k < size; ++k) {
    ready(k, k + 1, columns, step);
    for (u32 c = 0; c < columns; ++c) wide[c] = F::f(wide[c], load(k, c, step));
  }
  // Halves of the wide row are added while there are two; then row by row.
  for (; rows % 2 == 0; rows /= 2)
    for (u32 c = 0; c < rows / 2 * columns; ++c) wide[c] = F::f(wide[c], wide[rows / 2 * columns + c]);
  for (u32 c = 0; c < columns; ++c) totals[c] = wide[c];
  for (u32 k = 1; k < rows; ++k)
    for (u32 c = 0; c < columns; ++c) totals[c] = F::f(totals[c], wide[k * columns + c]);
}

// Columns `across` apart of rows `step` apart.
template <class F, class T, class C>
COMMON void reduce_columns(C* totals, const T* x, u32 columns, i64 across, u64 size, i64 step) {
  if (across == 1) {
    const auto load = [x](u64 k, u32 c, i64 step) { return C(widen(x[i64(k) * step + c])); };
    return reduce_neighbours<F>(totals, columns, size, step, load, [](u64, u64, u32, i64) {});
  }
  for (u32 c = 0; c < columns; ++c) totals[c] = F::template start<C>();
  for (u64 k = 0; k < size; ++k)
    for (u32 c = 0; c < columns; ++c) totals[c] = F::f(totals[c], C(widen(x[i64(k) * step + i64(c) * across])));
}

// Mean of a row, or zero where it is not to be centred, and the root of its mean square distance from it. In two passes,
// which loses nothing where the mean is large.
template <class C> struct Moments {
  C mean, deviation;
};
template <bool centred, class Worker, class C, class Read> DEV Moments<C> moments(u64 size, C epsilon, Read read) {
  C mean = C(0);
  if constexpr (centred) mean = Worker::template reduce<Sum, C>(size, read) / C(size);
  const C squares = Worker::template reduce<Sum, C>(size, [=](u64 k) {
    const C from_mean = read(k) - mean;
    return from_mean * from_mean;
  });
  return {mean, Sqrt::f(squares / C(size) + epsilon)};
}

// Whether neighbouring rows, `across` apart, are better reduced side by side than one by one.
DEV bool by_column(i64 across, i64 step) { return most(across, -across) < most(step, -step); }
}  // namespace
