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

// A copy whose input runs along another dimension than its output, tile by tile.
struct Transpose {
  void* out;
  const void* x;
  u64 chunk;     // tiles per block
  u64 sizes[2];  // of the dimension that the output runs along, and of the one that the input runs along
  i64 steps[2];  // of the input along the first, of the output along the second
  Space space;   // of the other dimensions: input, output
};

constexpr u32 TILE = 32;

// Where a tile lies, and how much of it there is.
template <class T> struct Tile {
  T* out;
  const T* x;
  u32 rows, columns;  // along the output, along the input
};
// In 32 bits, for which a GPU takes far less than for 64: there are not more tiles, as blocks are counted so.
template <class T> DEV Tile<T> tile_of(const Transpose& args, u32 across, u32 down, u32 tile) {
  const u32 strip = tile / across, plane = strip / down;
  const u64 row = u64(tile - strip * across) * TILE, column = u64(strip - plane * down) * TILE;
  T* out = static_cast<T*>(args.out) + i64(row) + i64(column) * args.steps[1];
  const T* x = static_cast<const T*>(args.x) + i64(row) * args.steps[0] + i64(column);
  u32 rest = plane;
  for (u32 axis = 0; rest > 0; ++axis) {
    const u32 next = rest / u32(args.space.sizes[axis]), index = rest - next * u32(args.space.sizes[axis]);
    x += i64(index) * args.space.strides[0][axis];
    out += i64(index) * args.space.strides[1][axis];
    rest = next;
  }
  return {out, x, u32(least(args.sizes[0] - row, u64(TILE))), u32(least(args.sizes[1] - column, u64(TILE)))};
}
DEV u32 tiles(u64 size) { return u32((size + TILE - 1) / TILE); }

#if SIMT_DEVICE
// What waits in shared memory for its new place: words at least, and a row of them longer than a tile, so that a column is spread
// over the banks.
template <class T, bool is_word> struct Waiting { typedef T type; };
template <class T> struct Waiting<T, false> { typedef u32 type; };
constexpr u32 ROOM = TILE + 1;

// A warp reads neighbours along the input, and writes neighbours along the output.
template <class T> DEV void transpose(const Transpose& args) {
  typedef typename Waiting<T, (sizeof(T) >= sizeof(u32))>::type Word;
  SHARED(Word, waiting, TILE * ROOM);
  const u32 across = tiles(args.sizes[0]), down = tiles(args.sizes[1]);
  const Range range = block_range(args.space.count * across * down, args.chunk);
  for (u64 i = range.begin; i < range.end; ++i) {
    const Tile<T> tile = tile_of<T>(args, across, down, u32(i));
    // Calls `body(other, neighbour)` for the thread's part of a tile, unrolled so that loads do not wait for each other.
    const auto for_part = [&](auto body) {
      each_thread([&] {
        UNROLLED for (u32 n = 0; n < TILE; n += TEAM / TILE) body(n + threadIdx.x / TILE, threadIdx.x % TILE);
      });
    };
    for_part([&](u32 row, u32 column) {
      if (row < tile.rows && column < tile.columns)
        waiting[row * ROOM + column] = tile.x[i64(row) * args.steps[0] + column];
    });
    for_part([&](u32 column, u32 row) {
      if (row < tile.rows && column < tile.columns)
        tile.out[i64(column) * args.steps[1] + row] = T(waiting[row * ROOM + column]);
    });
  }
}
#else
// Squares of a tile go through a local buffer, so that whole cache lines are read and written even where the lines of a square take
// each other's place in a cache.
constexpr u32 SQUARE = 16;

template <class T> DEV void transpose_square(T* out, i64 step_out, const T* x, i64 step_x, u32 rows, u32 columns) {
  T square[SQUARE][SQUARE];
  if (rows == SQUARE && columns == SQUARE) {
    for (u32 r = 0; r < SQUARE; ++r)
      for (u32 c = 0; c < SQUARE; ++c) square[c][r] = x[i64(r) * step_x + i64(c)];
    for (u32 c = 0; c < SQUARE; ++c)
      for (u32 r = 0; r < SQUARE; ++r) out[i64(c) * step_out + i64(r)] = square[c][r];
    return;
  }
  for (u32 c = 0; c < columns; ++c)
    for (u32 r = 0; r < rows; ++r) out[i64(c) * step_out + i64(r)] = x[i64(r) * step_x + i64(c)];
}

template <class T> DEV void transpose(const Transpose& args) {
  const u32 across = tiles(args.sizes[0]), down = tiles(args.sizes[1]);
  const Range range = block_range(args.space.count * across * down, args.chunk);
  for (u64 i = range.begin; i < range.end;) {
    // Tiles that follow each other along the output, so that it is written in long runs.
    const u64 some = least(u64(across - i % across), range.end - i);
    const Tile<T> first = tile_of<T>(args, across, down, u32(i));
    const u32 rows = u32(least(args.sizes[0] - i % across * TILE, some * TILE));
    for (u32 column = 0; column < first.columns; column += SQUARE)
      for (u32 row = 0; row < rows; row += SQUARE)
        transpose_square(first.out + row + column * args.steps[1], args.steps[1], first.x + row * args.steps[0] + column,
                         args.steps[0], least(rows - row, SQUARE), least(first.columns - column, SQUARE));
    i += some;
  }
}
#endif
}  // namespace

#define MOVES(T, ...)                                                      \
  COPY(T, T)                                                               \
  TEAM_KERNEL(transpose_##T, Transpose) { transpose<T>(args); }                  \
  KERNEL(where_##T, Pointwise) { where<T>(args); }                          \
  KERNEL(mask_fill_##T, Pointwise) { mask_fill<T>(args); }
FOR_RAW(MOVES, )

EXPORT_TABLE(move)
