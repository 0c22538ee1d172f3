// What has come up to each element along one axis: sums, products, extremes. The space runs over the rows, in input and
// output. Which loop is taken, and so the order of sums, depends on the output's step alone, which is one of shapes.
#include "math.cuh"
#include "views.cuh"

namespace {
struct Cumulative {
  void* out;
  const void* x;
  u64 chunk;     // rows per block
  u64 size;      // of the axis
  i64 steps[2];  // along the axis, of x and of the output
  Space space;
};

constexpr u32 GROUP = 8;      // elements of a row whose running values do not wait for those before them
constexpr u32 COLUMNS = 512;  // rows side by side

// Sums and extremes may be taken in groups. Products may not: a group's could overflow, or vanish, where the whole does
// not.
template <class F> struct Groups { static constexpr bool value = true; };
template <> struct Groups<Mul> { static constexpr bool value = false; };

// A row of the innermost axis. A step of the total takes a whole group, so that the processor computes groups at once;
// a group whose own sum is not finite is taken one by one.
template <class F, class T> DEV void scan_row(T* out, const T* x, u64 size, i64 step) {
  typedef Compute<T> C;
  C total = widen(x[0]);
  out[0] = narrow<T>(total);
  u64 k = 1;
  for (; Groups<F>::value && k + GROUP <= size; k += GROUP) {
    C group[GROUP];
    group[0] = widen(x[i64(k) * step]);
    for (u32 g = 1; g < GROUP; ++g) group[g] = F::f(group[g - 1], widen(x[i64(k + g) * step]));
    if (is_float<C> && !(group[GROUP - 1] - group[GROUP - 1] == 0)) {
      for (u32 g = 0; g < GROUP; ++g) {
        total = F::f(total, widen(x[i64(k + g) * step]));
        out[k + g] = narrow<T>(total);
      }
      continue;
    }
    for (u32 g = 0; g < GROUP; ++g) out[k + g] = narrow<T>(F::f(total, group[g]));
    total = F::f(total, group[GROUP - 1]);
  }
  for (; k < size; ++k) {
    total = F::f(total, widen(x[i64(k) * step]));
    out[k] = narrow<T>(total);
  }
}

// Rows whose elements lie side by side: the inner loop runs across them.
template <class F, class T>
DEV void scan_columns(T* out, const T* x, u32 columns, const i64* across, u64 size, const i64* along) {
  Compute<T> totals[COLUMNS];
  for (u32 c = 0; c < columns; ++c) {
    totals[c] = widen(x[c * across[0]]);
    out[c * across[1]] = narrow<T>(totals[c]);
  }
  for (u64 k = 1; k < size; ++k) {
    const T* from = x + i64(k) * along[0];
    T* to = out + i64(k) * along[1];
    if (across[0] == 1 && across[1] == 1) {
      INDEPENDENT for (u32 c = 0; c < columns; ++c) {
        totals[c] = F::f(totals[c], widen(from[c]));
        to[c] = narrow<T>(totals[c]);
      }
    } else {
      INDEPENDENT for (u32 c = 0; c < columns; ++c) {
        totals[c] = F::f(totals[c], widen(from[c * across[0]]));
        to[c * across[1]] = narrow<T>(totals[c]);
      }
    }
  }
}

template <class F, class T> DEV void scan(const Cumulative& args) {
  T* out = static_cast<T*>(args.out);
  const T* x = static_cast<const T*>(args.x);
  const i64 across[2] = {args.space.strides[0][0], args.space.strides[1][0]};
  for_runs<2>(args.space, block_range(args.space.count, args.chunk), [&](u64, const i64* offsets, u64 run) {
    const T* from = x + offsets[0];
    T* to = out + offsets[1];
    if (args.steps[1] == 1) {
      for (u64 r = 0; r < run; ++r)
        scan_row<F>(to + i64(r) * across[1], from + i64(r) * across[0], args.size, args.steps[0]);
    } else {
      for (u64 r = 0; r < run; r += COLUMNS)
        scan_columns<F>(to + i64(r) * across[1], from + i64(r) * across[0], u32(least(run - r, u64(COLUMNS))), across,
                        args.size, args.steps);
    }
  });
}
}  // namespace

#define CUMULATIVE(T, kind, F) \
  KERNEL(cumulative_##kind##_##T, Cumulative) { scan<F, T>(args); }
FOR_NUMBERS(CUMULATIVE, sum, Add) FOR_NUMBERS(CUMULATIVE, prod, Mul)
FOR_NUMBERS(CUMULATIVE, max, Max) FOR_NUMBERS(CUMULATIVE, min, Min)

EXPORT_TABLE(cumulative)
