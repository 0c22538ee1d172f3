// Products of tiles of two matrices with the same width: rows that a block owns, and other rows that pass by. `scores` is the
// product of own rows with each other row, `add` sums of the other rows, weighed by scores. A type for each way:
//
// - `HostTiles`: a thread has all of a tile. Own rows are side by side, so that every loop runs across them, and the other rows
//   are read a number at a time: nothing is summed across a vector.
// - `PlainTiles`: a warp has a quarter of the own rows, four neighbouring threads some of each; by FMA.
// - `CoreTiles`: the same by tensor cores, from halves.
//
// What a thread has of a tile is `ROWS` own rows by `COLUMNS` others: `own_row(r)`, `other_row(c)`, `Scores::at(r, c)`.
#pragma once
#include "math.cuh"
#include "mma.cuh"
#include "vectors.cuh"

namespace {
// Rows of a matrix in memory: from `first` on `row` apart, `count` of them, the elements of each side by side.
template <class T> struct Slab {
  T* first;
  i64 row;
  u64 count;
  u32 width;
};

#if !SIMT_DEVICE
// A short loop over what is in registers.
#ifdef __clang__
#define WHOLLY _Pragma("clang loop unroll(full)")
#else
#define WHOLLY _Pragma("GCC unroll 8")
#endif

// Eight floats, which the compiler keeps in a register.
typedef f32 Eight __attribute__((vector_size(32)));
DEV Eight all(f32 x) { return Eight{x, x, x, x, x, x, x, x}; }
DEV Eight read(const f32* from) {
  Eight x;
  __builtin_memcpy(&x, from, sizeof(x));
  return x;
}
DEV void write(f32* to, Eight x) { __builtin_memcpy(to, &x, sizeof(x)); }
// a b + c, rounded once where the instruction set can.
DEV Eight fused(Eight a, Eight b, Eight c) {
#ifdef __FMA__
  return Eight(__builtin_ia32_vfmaddps256(a, b, c));
#else
  return a * b + c;
#endif
}

template <class T, u32 WIDTH, u32 OWN_ROWS, u32 OTHER_ROWS> struct HostTiles {
  static constexpr u32 OWN = OWN_ROWS, OTHER = OTHER_ROWS, ROWS = OWN, COLUMNS = OTHER;
  // The product of so many others by so many vectors of own rows is kept in registers.
  static constexpr u32 FEW = 4, VECTORS = 2, LANES = 8 * VECTORS;

  template <u32 COUNT> struct Space {
    alignas(32) f32 own[COUNT][WIDTH][OWN];
    alignas(32) f32 other[2][OTHER][WIDTH];
  };
  struct Scores {
    alignas(32) f32 x[OTHER][OWN];
    f32& at(u32 r, u32 c) { return x[c][r]; }
  };
  struct Sums {
    alignas(32) f32 x[WIDTH][OWN];
    static constexpr u32 COLUMNS = WIDTH;
    f32& at(u32 r, u32 c) { return x[c][r]; }
  };
  DEV u32 own_row(u32 r) { return r; }
  DEV u32 other_row(u32 c) { return c; }
  template <class F, class Value> DEV void join(Value) {}

  // So many columns are computed; those beyond a matrix are zeros.
  DEV u32 columns(u32 width) { return (width + FEW - 1) / FEW * FEW; }

  template <class Space> DEV void load_own(Space& space, u32 n, const Slab<const T>& from, u64 begin) {
    const u64 count = begin < from.count ? least(u64(OWN), from.count - begin) : 0;
    for (u32 r = 0; r < OWN; ++r) {
      const T* row = from.first + i64(begin + r) * from.row;
      for (u32 k = 0; k < columns(from.width); ++k)
        space.own[n][k][r] = r < count && k < from.width ? widen(row[k]) : 0;
    }
  }
  template <class Space> DEV void load_other(Space& space, u32 n, const Slab<const T>& from, u64 begin) {
    for (u32 c = 0; c < OTHER; ++c) {
      const T* row = from.first + i64(begin + c) * from.row;
      f32* to = space.other[n][c];
      const u32 width = begin + c < from.count ? from.width : 0;
      for (u32 k = 0; k < width; ++k) to[k] = widen(row[k]);
      for (u32 k = width; k < columns(from.width); ++k) to[k] = 0;
    }
  }

  template <class Space> DEV void scores(Kept<Scores>& scores, const Space& space, u32 n, u32 m, u32 width) {
    for (u32 r = 0; r < OWN; r += LANES) {
      for (u32 c = 0; c < OTHER; c += FEW) {
        Eight sums[FEW][VECTORS] = {};
        const f32* other[FEW];
        WHOLLY for (u32 i = 0; i < FEW; ++i) other[i] = space.other[m][c + i];
        for (u32 k = 0; k < columns(width); ++k) {
          const f32* own = space.own[n][k] + r;
          const Eight first = read(own), second = read(own + 8);
          WHOLLY for (u32 i = 0; i < FEW; ++i) {
            const Eight value = all(other[i][k]);
            sums[i][0] = fused(value, first, sums[i][0]);
            sums[i][1] = fused(value, second, sums[i][1]);
          }
        }
        WHOLLY for (u32 i = 0; i < FEW; ++i)
          WHOLLY for (u32 v = 0; v < VECTORS; ++v) write(scores().x[c + i] + r + 8 * v, sums[i][v]);
      }
    }
  }

  template <class Space> DEV void add(Kept<Sums>& sums, Kept<Scores>& scores, Space& space, u32 m, u32 width) {
    for (u32 r = 0; r < OWN; r += LANES) {
      for (u32 k = 0; k < columns(width); k += FEW) {
        Eight more[FEW][VECTORS];
        WHOLLY for (u32 i = 0; i < FEW; ++i)
          WHOLLY for (u32 v = 0; v < VECTORS; ++v) more[i][v] = read(sums().x[k + i] + r + 8 * v);
        for (u32 c = 0; c < OTHER; ++c) {
          const Eight first = read(scores().x[c] + r), second = read(scores().x[c] + r + 8);
          WHOLLY for (u32 i = 0; i < FEW; ++i) {
            const Eight value = all(space.other[m][c][k + i]);
            more[i][0] = fused(value, first, more[i][0]);
            more[i][1] = fused(value, second, more[i][1]);
          }
        }
        WHOLLY for (u32 i = 0; i < FEW; ++i)
          WHOLLY for (u32 v = 0; v < VECTORS; ++v) write(sums().x[k + i] + r + 8 * v, more[i][v]);
      }
    }
  }

  // Writes sums times a factor of each row.
  template <class Space, class Factor>
  DEV void store(Space&, u32, Kept<Sums>& sums, const Slab<T>& to, u64 begin, Factor factor) {
    const u64 count = begin < to.count ? least(u64(OWN), to.count - begin) : 0;
    for (u32 r = 0; r < count; ++r) {
      T* row = to.first + i64(begin + r) * to.row;
      const f32 times = factor(r);
      for (u32 k = 0; k < to.width; ++k) row[k] = narrow<T>(sums().x[k][r] * times);
    }
  }
};
#else

// What both have on a device: rows that the block shares, elements of each side by side, and which of a tile is a thread's.
template <class T, u32 WIDTH, u32 OWN_ROWS, u32 OTHER_ROWS> struct TeamTiles {
  static constexpr u32 OWN = OWN_ROWS, OTHER = OTHER_ROWS, V = VECTOR<T>;
  // Rows a vector further apart than they need be are in different banks.
  static constexpr u32 STRIDE = WIDTH + V;
  static constexpr u32 WARPS = TEAM / WARP, OWN_OF_WARP = OWN / WARPS;

  DEV u32 lane() { return threadIdx.x % WARP; }
  DEV u32 first_row() { return threadIdx.x / WARP * OWN_OF_WARP; }
  template <class F, class Value> DEV void join(Value value) { join_four<F>(value); }

  // Where a thread's vectors are: some rows apart, each at one column.
  static constexpr u32 PIECES = WIDTH / V, ROWS_AT_ONCE = TEAM / PIECES;
  DEV u32 piece_row() { return threadIdx.x / PIECES; }
  DEV u32 piece_column() { return threadIdx.x % PIECES * V; }
  // Whether rows may be moved in vectors.
  template <class Of> DEV bool is_in_vectors(const Slab<Of>& slab) {
    return is_aligned<V>(slab.first) && slab.row % V == 0 && slab.width % V == 0;
  }
  // A vector, whatever it is of.
  DEV void copy(T* to, const T* from) {
    u32 words[4];
    read_row<4>(words, reinterpret_cast<const u32*>(from));
    write_row<4>(reinterpret_cast<u32*>(to), words);
  }

  // Zeros where there are no rows and no columns.
  template <u32 COUNT> DEV void load(T (*to)[STRIDE], const Slab<const T>& from, u64 begin) {
    const u32 column = piece_column();
    const T* at = from.first + i64(begin + piece_row()) * from.row + column;
    const bool in_vectors = is_in_vectors(from);
    UNROLLED for (u32 row = piece_row(); row < COUNT; row += ROWS_AT_ONCE, at += i64(ROWS_AT_ONCE) * from.row) {
      const bool is_there = begin + row < from.count;
      if (in_vectors && is_there && column < from.width) {
        copy(to[row] + column, at);
      } else {
        T values[V] = {};
        for (u32 v = 0; v < V && is_there && column + v < from.width; ++v) values[v] = at[v];
        write_row<V>(to[row] + column, values);
      }
    }
  }
  template <class Space> DEV void load_own(Space& space, u32 n, const Slab<const T>& from, u64 begin) {
    each_lane([&] { load<OWN>(space.own[n], from, begin); });
  }
  template <class Space> DEV void load_other(Space& space, u32 n, const Slab<const T>& from, u64 begin) {
    each_lane([&] { load<OTHER>(space.other[n], from, begin); });
  }

  // The own rows, once they are put in their place, to memory.
  DEV void copy_out(T (*rows)[STRIDE], const Slab<T>& to, u64 begin) {
    each_thread([&] {
      const u32 column = piece_column();
      T* at = to.first + i64(begin + piece_row()) * to.row + column;
      const bool in_vectors = is_in_vectors(to);
      UNROLLED for (u32 row = piece_row(); row < OWN; row += ROWS_AT_ONCE, at += i64(ROWS_AT_ONCE) * to.row) {
        if (begin + row >= to.count) continue;
        if (in_vectors && column < to.width) copy(at, rows[row] + column);
        else for (u32 v = 0; v < V && column + v < to.width; ++v) at[v] = rows[row][column + v];
      }
    });
  }

  template <class Space, class Sums, class Factor>
  DEV void store(Space& space, u32 n, Kept<Sums>& sums, const Slab<T>& to, u64 begin, Factor factor) {
    each_thread([&] {
      UNROLLED for (u32 r = 0; r < Sums::ROWS; ++r) {
        const u32 row = first_row() + lane() / 4 + 8 * r;
        const f32 times = factor(r);
        UNROLLED for (u32 c = 0; c < Sums::COLUMNS; ++c)
          space.own[n][row][Sums::column(c)] = narrow<T>(sums().at(r, c) * times);
      }
    });
    copy_out(space.own[n], to, begin);
  }
};

template <class T, u32 WIDTH, u32 OWN_ROWS, u32 OTHER_ROWS>
struct PlainTiles : TeamTiles<T, WIDTH, OWN_ROWS, OTHER_ROWS> {
  typedef TeamTiles<T, WIDTH, OWN_ROWS, OTHER_ROWS> Team;
  using Team::OTHER, Team::OWN, Team::STRIDE, Team::lane, Team::first_row;
  static constexpr u32 ROWS = OWN * 4 / TEAM, COLUMNS = OTHER / 4;

  template <u32 COUNT> struct Space {
    alignas(16) T own[COUNT][OWN][STRIDE];
    alignas(16) T other[2][OTHER][STRIDE];
    alignas(16) f32 weights[OWN][OTHER + 4];
  };
  struct Scores {
    f32 x[ROWS][COLUMNS];
    DEV_MEMBER f32& at(u32 r, u32 c) { return x[r][c]; }
  };
  struct Sums {
    static constexpr u32 ROWS = PlainTiles::ROWS, COLUMNS = WIDTH / 4;
    f32 x[ROWS][COLUMNS];
    DEV_MEMBER f32& at(u32 r, u32 c) { return x[r][c]; }
    // Four neighbours, and those of the next three threads after them.
    DEV u32 column(u32 c) { return c / 4 * 16 + lane() % 4 * 4 + c % 4; }
  };
  DEV u32 own_row(u32 r) { return first_row() + lane() / 4 + 8 * r; }
  DEV u32 other_row(u32 c) { return lane() % 4 + 4 * c; }

  template <class Space> DEV void scores(Kept<Scores>& scores, const Space& space, u32 n, u32 m, u32) {
    each_lane([&] {
      Scores& own = scores();
      UNROLLED for (u32 r = 0; r < ROWS; ++r)
        UNROLLED for (u32 c = 0; c < COLUMNS; ++c) own.x[r][c] = 0;
#if defined(__CUDACC_RTC__)
#pragma unroll 2
#endif
      for (u32 k = 0; k < WIDTH; k += 4) {
        f32 left[ROWS][4], right[4];
        UNROLLED for (u32 r = 0; r < ROWS; ++r) read_row<4>(left[r], space.own[n][own_row(r)] + k);
        UNROLLED for (u32 c = 0; c < COLUMNS; ++c) {
          read_row<4>(right, space.other[m][other_row(c)] + k);
          UNROLLED for (u32 r = 0; r < ROWS; ++r)
            UNROLLED for (u32 i = 0; i < 4; ++i) own.x[r][c] = fmaf(left[r][i], right[i], own.x[r][c]);
        }
      }
    });
  }

  template <class Space> DEV void add(Kept<Sums>& sums, Kept<Scores>& scores, Space& space, u32 m, u32) {
    each_lane([&] {
      UNROLLED for (u32 r = 0; r < ROWS; ++r)
        UNROLLED for (u32 c = 0; c < COLUMNS; ++c) space.weights[own_row(r)][other_row(c)] = scores().x[r][c];
    });
    wait_for_warp();
    each_lane([&] {
      Sums& own = sums();
#if defined(__CUDACC_RTC__)
#pragma unroll 1
#endif
      for (u32 c = 0; c < OTHER; c += 4) {
        f32 left[ROWS][4], right[4];
        UNROLLED for (u32 r = 0; r < ROWS; ++r) read_row<4>(left[r], space.weights[own_row(r)] + c);
        UNROLLED for (u32 i = 0; i < 4; ++i) {
          UNROLLED for (u32 k = 0; k < WIDTH / 16; ++k) {
            read_row<4>(right, space.other[m][c + i] + 16 * k + lane() % 4 * 4);
            UNROLLED for (u32 r = 0; r < ROWS; ++r)
              UNROLLED for (u32 j = 0; j < 4; ++j)
                own.x[r][4 * k + j] = fmaf(left[r][i], right[j], own.x[r][4 * k + j]);
          }
        }
      }
    });
    wait_for_warp();
  }
};

template <class T, u32 WIDTH, u32 OWN_ROWS, u32 OTHER_ROWS>
struct CoreTiles : TeamTiles<T, WIDTH, OWN_ROWS, OTHER_ROWS> {
  typedef TeamTiles<T, WIDTH, OWN_ROWS, OTHER_ROWS> Team;
  using Team::OTHER, Team::OWN, Team::STRIDE, Team::lane, Team::first_row;
  static_assert(Team::OWN_OF_WARP == 16, "as many rows as a fragment has");
  static constexpr u32 ROWS = 2, COLUMNS = OTHER / 4;

  template <u32 COUNT> struct Space {
    alignas(16) T own[COUNT][OWN][STRIDE];
    alignas(16) T other[2][OTHER][STRIDE];
  };
  // Fragments of sums, side by side.
  template <u32 FRAGMENTS> struct Fragments {
    static constexpr u32 ROWS = 2, COLUMNS = 2 * FRAGMENTS;
    f32 x[FRAGMENTS][4];
    DEV_MEMBER f32& at(u32 r, u32 c) { return x[c / 2][2 * r + c % 2]; }
    DEV u32 column(u32 c) { return c / 2 * 8 + lane() % 4 * 2 + c % 2; }
  };
  typedef Fragments<OTHER / 8> Scores;
  typedef Fragments<WIDTH / 8> Sums;
  DEV u32 own_row(u32 r) { return first_row() + lane() / 4 + 8 * r; }
  DEV u32 other_row(u32 c) { return Scores::column(c); }

  // Fragments of a left and of two rights.
  struct Operands {
    u32 left[4], right[4];
  };

  template <class Space> DEV void scores(Kept<Scores>& scores, const Space& space, u32 n, u32 m, u32) {
    Kept<Operands> operands;
    each_lane([&] {
      UNROLLED for (u32 f = 0; f < OTHER / 8; ++f)
        UNROLLED for (u32 i = 0; i < 4; ++i) scores().x[f][i] = 0;
    });
    UNROLLED for (u32 k = 0; k < WIDTH; k += 16) {
      each_lane([&] {
        load_matrices<false>(operands().left, [&](u32 row) { return space.own[n][first_row() + row % 16] + k + row / 16 * 8; });
      });
      UNROLLED for (u32 c = 0; c < OTHER; c += 16) {
        each_lane([&] {
          load_matrices<false>(operands().right, [&](u32 row) {
            return space.other[m][c + row % 8 + row / 16 * 8] + k + row / 8 % 2 * 8;
          });
        });
        UNROLLED for (u32 f = 0; f < 2; ++f)
          multiply<T>([&] { return scores().x[c / 8 + f]; }, [&] { return operands().left; },
                      [&] { return operands().right + 2 * f; });
      }
    }
  }

  template <class Space> DEV void add(Kept<Sums>& sums, Kept<Scores>& scores, Space& space, u32 m, u32) {
    Kept<Operands> operands;
    UNROLLED for (u32 c = 0; c < OTHER; c += 16) {
      each_lane([&] {
        UNROLLED for (u32 word = 0; word < 4; ++word) {
          const f32* pair = scores().x[c / 8 + word / 2] + word % 2 * 2;
          operands().left[word] = pair_of<T>(pair[0], pair[1]);
        }
      });
      UNROLLED for (u32 k = 0; k < WIDTH; k += 16) {
        each_lane([&] {
          load_matrices<true>(operands().right, [&](u32 row) {
            return space.other[m][c + row % 16] + k + row / 16 * 8;
          });
        });
        UNROLLED for (u32 f = 0; f < 2; ++f)
          multiply<T>([&] { return sums().x[k / 8 + f]; }, [&] { return operands().left; },
                      [&] { return operands().right + 2 * f; });
      }
    }
  }
};
#endif
}  // namespace
