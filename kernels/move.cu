// Kernels that only move elements, by their size: copies, transposing ones apart, and choices by mask.
#include "copy.cuh"

namespace {
template <class T> DEV void mask_fill(const Pointwise& args) {
  const T value = *reinterpret_cast<const T*>(&args.scalars[0]);
  pointwise2<T, T, b8>(args, [value](T x, b8 mask) { return mask.bits ? value : x; });
}

template <class T> DEV void where(const Pointwise& args) {
  T* out = static_cast<T*>(args.out);
  const u8* mask = input_of<u8>(args, 0);
  const T* a = input_of<T>(args, 1);
  const T* b = input_of<T>(args, 2);
  const Space& space = args.space;
  const i64 step_mask = space.strides[0][0], step_a = space.strides[1][0], step_b = space.strides[2][0];
  for_runs<3>(space, block_range(space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    const u8* m = mask + offsets[0];
    const T *x = a + offsets[1], *y = b + offsets[2];
    T* o = out + i;
    if (step_mask == 1 && step_a == 1 && step_b == 1) {
      INDEPENDENT for (u64 k = 0; k < run; ++k) {
        const T then = x[k], otherwise = y[k];  // read both: a choice without a branch vectorises
        o[k] = m[k] ? then : otherwise;
      }
    } else if (step_mask == 0) {
      m[0] ? map(o, x, step_a, run, [](T v) { return v; }) : map(o, y, step_b, run, [](T v) { return v; });
    } else {
      INDEPENDENT for (u64 k = 0; k < run; ++k) {
        const T then = x[i64(k) * step_a], otherwise = y[i64(k) * step_b];
        o[k] = m[i64(k) * step_mask] ? then : otherwise;
      }
    }
  });
}

// A copy whose input runs along another dimension than its output. Square tiles go through a local buffer, so that
// whole cache lines are read and written even where the lines of a tile take each other's place in a cache.
struct Transpose {
  void* out;
  const void* x;
  u64 chunk;     // tiles per block
  u64 sizes[2];  // of the dimension that the output runs along, and of the one that the input runs along
  i64 steps[2];  // of the input along the first, of the output along the second
  Space space;   // of the other dimensions: input, output
};

constexpr u64 TILE = 16;

template <class T> DEV void transpose_tile(T* out, i64 step_out, const T* x, i64 step_x, u64 rows, u64 columns) {
  T tile[TILE][TILE];
  if (rows == TILE && columns == TILE) {
    for (u64 r = 0; r < TILE; ++r)
      for (u64 c = 0; c < TILE; ++c) tile[c][r] = x[i64(r) * step_x + i64(c)];
    for (u64 c = 0; c < TILE; ++c)
      for (u64 r = 0; r < TILE; ++r) out[i64(c) * step_out + i64(r)] = tile[c][r];
    return;
  }
  for (u64 c = 0; c < columns; ++c)
    for (u64 r = 0; r < rows; ++r) out[i64(c) * step_out + i64(r)] = x[i64(r) * step_x + i64(c)];
}

template <class T> DEV void transpose(const Transpose& args) {
  const u64 across = (args.sizes[0] + TILE - 1) / TILE, down = (args.sizes[1] + TILE - 1) / TILE;
  const Range range = block_range(args.space.count * across * down, args.chunk);
  for (u64 i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) {
    const i64 row = i64(i % across * TILE), column = i64(i / across % down * TILE);
    T* to = static_cast<T*>(args.out) + row + column * args.steps[1];
    const T* from = static_cast<const T*>(args.x) + row * args.steps[0] + column;
    u64 plane = i / (across * down);
    for (u32 axis = 0; axis < args.space.rank; ++axis) {
      const i64 index = i64(plane % args.space.sizes[axis]);
      from += index * args.space.strides[0][axis];
      to += index * args.space.strides[1][axis];
      plane /= args.space.sizes[axis];
    }
    transpose_tile(to, args.steps[1], from, args.steps[0], least(args.sizes[0] - u64(row), TILE),
                   least(args.sizes[1] - u64(column), TILE));
  }
}
}  // namespace

#define MOVES(T, ...)                                                      \
  COPY(T, T)                                                               \
  KERNEL(transpose_##T, Transpose) { transpose<T>(args); }                  \
  KERNEL(where_##T, Pointwise) { where<T>(args); }                          \
  KERNEL(mask_fill_##T, Pointwise) { mask_fill<T>(args); }
FOR_RAW(MOVES, )

EXPORT_TABLE(move)
