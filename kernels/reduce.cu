// Reductions of tensors, and places of extremes.
#include "reduce.cuh"

namespace {
template <class Out, class T, class F, class C, class Finish> DEV void reduce(const Reduce& args, Finish finish) {
  const T* x = static_cast<const T*>(args.x);
  reduce<Out, C>(
      args,
      [=](auto worker, i64 first, u64 size, i64 step) {
        return reduce_row<F, T, C, decltype(worker)>(x + first, size, step);
      },
      [=](C* totals, i64 first, u32 columns, i64 across, u64 size, i64 step) {
        reduce_columns<F>(totals, x + first, columns, across, size, step);
      },
      finish);
}
template <class Out, class T, class F, class C = Compute<T>> DEV void reduce(const Reduce& args) {
  reduce<Out, T, F, C>(args, [](C total) { return Compute<Out>(total); });
}
template <class Out, class T, class C = Compute<T>> DEV void mean(const Reduce& args) {
  const C divisor = C(args.divisor);
  reduce<Out, T, Sum, C>(args, [divisor](C total) { return Compute<Out>(Div::f(total, divisor)); });
}

// ---- places of extremes

// The first place from `k` of a value that the row has.
template <class T> DEV u64 find(const T* row, u64 k, u64 size, i64 step, Compute<T> value) {
  const bool nan = is_nan(value);
  const auto same = [=](u64 k) {
    const Compute<T> x = widen(row[i64(k) * step]);
    return nan ? is_nan(x) : x == value;
  };
  // Whole groups first: a loop without a way out vectorises.
  if (step == 1 && !nan) {
    for (; size - k >= LANES; k += LANES) {
      u32 hits = 0;
      for (u32 lane = 0; lane < LANES; ++lane) hits |= u32(widen(row[k + lane]) == value);
      if (hits != 0) break;
    }
  }
  while (k + 1 < size && !same(k)) ++k;
  return k;
}

// The extreme of each group first, by the fast reduction; then its first place, in the first group that has it.
template <class F, class T> DEV u64 arg_row(const T* row, u64 size, i64 step) {
  typedef Compute<T> C;
  C best = F::template start<C>();
  u64 group = 0;
  for (u64 k = 0; k < size; k += GROUP * LANES) {
    const C extreme = reduce_row<F>(row + i64(k) * step, least(size - k, u64(GROUP * LANES)), step);
    if (F::wins(extreme, best)) best = extreme, group = k;
  }
  return find(row, group, size, step, best);
}

// An index as wide as the elements it belongs to, so that they move through vectors together.
template <u32 bytes> struct PlaceOf { typedef u32 type; };
template <> struct PlaceOf<8> { typedef u64 type; };
template <class C> using Place = typename PlaceOf<sizeof(C)>::type;

// Columns side by side: the extreme of each, and its first place. There is at least one row.
template <class F, class C, class Load>
DEV void arg_columns(C* best, Place<C>* places, u32 columns, u64 size, Load load) {
  for (u32 c = 0; c < columns; ++c) best[c] = load(0, c), places[c] = 0;
  u64 k = 1;
  const auto take = [&](u64 row, u32 c, C& value, Place<C>& place) {
    const C x = load(row, c);
    const bool wins = F::wins(x, value);
    value = wins ? x : value;
    place = wins ? Place<C>(row) : place;
  };
  for (; k + 4 <= size; k += 4) {
    for (u32 c = 0; c < columns; ++c) {
      C value = best[c];
      Place<C> place = places[c];
      take(k, c, value, place), take(k + 1, c, value, place);
      take(k + 2, c, value, place), take(k + 3, c, value, place);
      best[c] = value, places[c] = place;
    }
  }
  for (; k < size; ++k)
    for (u32 c = 0; c < columns; ++c) take(k, c, best[c], places[c]);
}

DEV void put_place(const Reduce& args, u64 at, u64 place) {
  if (args.place_bytes == 8) static_cast<i64*>(args.out)[at] = i64(place);
  else static_cast<i32*>(args.out)[at] = i32(place);
}

template <class T, class F> DEV void arg_reduce(const Reduce& args) {
  typedef Compute<T> C;
  T* values = static_cast<T*>(args.values);
  const T* x = static_cast<const T*>(args.x);
  const i64 across = args.space.strides[0][0], step = args.step;
  const bool columnwise = across == 1 && by_column(across, step);
  for_tiles(args, [&](u64 at, i64 first, u64 begin, u64 size, u32 columns) {
    C best[COLUMNS];
    Place<C> places[COLUMNS];
    const T* tile = x + first;
    if (columnwise && columns > 1 && size > 0)
      arg_columns<F>(best, places, columns, size, [=](u64 k, u32 c) { return widen(tile[i64(k) * step + c]); });
    else if (0 < size && size < 2 * LANES)  // too short to be searched in groups
      arg_columns<F>(best, places, columns, size, [=](u64 k, u32 c) {
        return widen(tile[i64(k) * step + i64(c) * across]);
      });
    else
      for (u32 c = 0; c < columns; ++c) places[c] = Place<C>(arg_row<F>(tile + i64(c) * across, size, step));
    for (u32 c = 0; c < columns; ++c) put_place(args, at + c, begin + places[c]);
    if (values)
      for (u32 c = 0; c < columns; ++c) values[at + c] = tile[i64(places[c]) * step + i64(c) * across];
  });
}

// Of the places of pieces the best, the first among equals.
template <class T, class F> DEV void arg_best(const Reduce& args) {
  T* values = static_cast<T*>(args.values);
  const T* x = static_cast<const T*>(args.x);
  const i64* places = static_cast<const i64*>(args.places);
  for_tiles(args, [&](u64 at, i64 first, u64, u64, u32 columns) {
    for (u32 c = 0; c < columns; ++c) {
      const T* row = x + first + i64(c) * args.space.strides[0][0];
      i64 best = places[at + c];
      for (u64 piece = 1; piece < args.pieces; ++piece) {
        const i64 place = places[piece * args.outputs + at + c];
        if (F::wins(widen(row[place * args.step]), widen(row[best * args.step]))) best = place;
      }
      put_place(args, at + c, u64(best));
      if (values) values[at + c] = row[best * args.step];
    }
  });
}
}  // namespace

#define REDUCE(T, kind, F) \
  TEAM_KERNEL(reduce_##kind##_##T, Reduce) { reduce<T, T, F>(args); }
// Long rows of halves: pieces are kept as f32, and rounded once.
#define REDUCE_LONG(T, kind, F)                                            \
  TEAM_KERNEL(reduce_##kind##_##T##_f32, Reduce) { reduce<f32, T, F>(args); }    \
  TEAM_KERNEL(reduce_##kind##_f32_##T, Reduce) { reduce<T, f32, F>(args); }
#define MEAN(T, ...) TEAM_KERNEL(reduce_mean_##T, Reduce) { mean<T, T>(args); }
#define MEAN_LONG(T, ...) TEAM_KERNEL(reduce_mean_f32_##T, Reduce) { mean<T, f32>(args); }
// Means of integers: sums are as wide as there are, so that none wraps before it is divided.
#define MEAN_INTEGER(T, Wide)                                                    \
  TEAM_KERNEL(reduce_mean_##T, Reduce) { mean<T, T, Wide>(args); }                     \
  TEAM_KERNEL(reduce_sum_##T##_##Wide, Reduce) { reduce<Wide, T, Sum, Wide>(args); }   \
  TEAM_KERNEL(reduce_mean_##Wide##_##T, Reduce) { mean<T, Wide>(args); }
FOR_NUMBERS(REDUCE, sum, Sum) FOR_NUMBERS(REDUCE, prod, Prod)
FOR_NUMBERS(REDUCE, max, Largest) FOR_NUMBERS(REDUCE, min, Smallest) FOR_NUMBERS(REDUCE, max_abs, LargestAbs)
FOR_HALVES(REDUCE_LONG, sum, Sum) FOR_HALVES(REDUCE_LONG, prod, Prod)
FOR_HALVES(REDUCE_LONG, max, Largest) FOR_HALVES(REDUCE_LONG, min, Smallest)
FOR_HALVES(REDUCE_LONG, max_abs, LargestAbs)
FOR_FLOATS(MEAN, ) FOR_HALVES(MEAN_LONG, ) FOR(i64, MEAN, ) FOR(u64, MEAN, )
FOR(i32, MEAN_INTEGER, i64) FOR(i16, MEAN_INTEGER, i64) FOR(i8, MEAN_INTEGER, i64)
FOR(u32, MEAN_INTEGER, u64) FOR(u16, MEAN_INTEGER, u64) FOR(u8, MEAN_INTEGER, u64)

#define ARG_REDUCE(T, kind, F)                                           \
  KERNEL(reduce_arg##kind##_##T, Reduce) { arg_reduce<T, F>(args); }      \
  KERNEL(best_arg##kind##_##T, Reduce) { arg_best<T, F>(args); }
FOR_NUMBERS(ARG_REDUCE, max, Largest) FOR_NUMBERS(ARG_REDUCE, min, Smallest)

EXPORT_TABLE(reduce)
