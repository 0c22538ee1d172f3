// Values of which few are not zero: rows of 256, in which the others lie side by side. Where they begin follows from counts,
// and a row for which there is no room is kept as it is beside the form. No thread needs what another of its block did.
#include "views.cuh"

namespace {
constexpr u32 ROW = 256, PIECE = 128, MARK_WORDS = ROW / 32;

struct Sparse {
  void* x;       // the values
  u32* starts;   // by row: kept values of the rows before it in its piece
  u32* pieces;   // by piece: those of all before
  u32* total;    // how many there are
  void* marks;   // which: a bit for each value, or a byte for each that is kept
  void* values;  // room for `capacity`
  void* rest;    // rows from `certain` on, as they are
  u64 chunk;     // rows or pieces per block
  u64 rows, count, capacity, certain;
  u64 first, wanted;  // decoding: so many rows from that one on, the first of which goes to where `x` begins
};

DEV u64 length(const Sparse& p, u64 row) { return least(u64(ROW), p.count - row * ROW); }
DEV u64 start(const Sparse& p, u64 row) { return u64(p.starts[row]) + p.pieces[row / PIECE]; }
// Also of a form that holds anything: no row has more, and none is taken for kept that would lie beyond the end.
DEV bool has_room(const Sparse& p, u64 first, u64 some) { return first + some <= p.capacity; }

template <class Body> DEV void for_rows(const Sparse& p, u64 count, Body body) {
  const Range range = block_range(count, p.chunk);
  for (u64 row = range.begin + threadIdx.x; row < range.end; row += blockDim.x) body(row);
}

DEV u32 bits_set(u32 word) {
  word -= word >> 1 & 0x55555555u;
  word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
  return ((word + (word >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

template <class T> DEV void count(const Sparse& p) {
  for_rows(p, p.rows, [&](u64 row) {
    const T* x = static_cast<const T*>(p.x) + row * ROW;
    const u64 some = length(p, row);
    u32 kept = 0;
    // Loops of a known length are vectorised.
    if (some == ROW) {
      for (u32 k = 0; k < ROW; ++k) kept += u32(x[k] != T(0));
    } else {
      for (u32 k = 0; k < some; ++k) kept += u32(x[k] != T(0));
    }
    p.starts[row] = kept;
  });
}

// Sums of the counts before each, in a piece; then of pieces.
DEV void add_rows(const Sparse& p) {
  for_rows(p, (p.rows + PIECE - 1) / PIECE, [&](u64 piece) {
    u32 sum = 0;
    for (u64 row = piece * PIECE; row < least(p.rows, (piece + 1) * PIECE); ++row) {
      const u32 kept = p.starts[row];
      p.starts[row] = sum;
      sum += kept;
    }
    p.pieces[piece] = sum;
  });
}
DEV void add_pieces(const Sparse& p) {
  if (threadIdx.x != 0) return;
  u32 sum = 0;
  for (u64 piece = 0; piece * PIECE < p.rows; ++piece) {
    const u32 kept = p.pieces[piece];
    p.pieces[piece] = sum;
    sum += kept;
  }
  *p.total = sum;
}

template <class T> DEV void keep_whole(const Sparse& p, u64 row, const T* x) {
  T* to = static_cast<T*>(p.rest) + (row - p.certain) * ROW;
  for (u64 k = 0; k < length(p, row); ++k) to[k] = x[k];
}
template <class T> DEV void take_whole(const Sparse& p, u64 row, T* out) {
  // A corrupt form may ask for a row that is never kept so.
  const T* from = static_cast<const T*>(p.rest) + (row < p.certain ? 0 : row - p.certain) * ROW;
  for (u64 k = 0; k < length(p, row); ++k) out[k] = row < p.certain ? T(0) : from[k];
}

// Puts the values of a row that are not zero side by side, and says which they are; returns how many. Without a branch, so what
// is written beyond the last one means nothing.
template <class T> DEV u32 gather(const T* x, u64 some, T* to, u8* columns) {
  u32 kept = 0;
  for (u32 k = 0; k < some; ++k) {
    to[kept] = x[k];
    columns[kept] = u8(k);
    kept += u32(x[k] != T(0));
  }
  return kept;
}
template <class T> DEV u32 gather(const T* x, u64 some, T* to) {
  u32 kept = 0;
  for (u32 k = 0; k < some; ++k) {
    to[kept] = x[k];
    kept += u32(x[k] != T(0));
  }
  return kept;
}

template <class T> DEV void encode_bits(const Sparse& p) {
  for_rows(p, p.rows, [&](u64 row) {
    const T* x = static_cast<const T*>(p.x) + row * ROW;
    const u64 some = length(p, row), first = start(p, row);
    u32* marks = static_cast<u32*>(p.marks) + row * MARK_WORDS;
    u32 kept = 0;
    for (u32 w = 0; w < MARK_WORDS; ++w) {
      u32 word = 0;
      const u32 from = w * 32;
      if (from + 32 <= some) {
        for (u32 k = 0; k < 32; ++k) word |= u32(x[from + k] != T(0)) << k;
      } else {
        for (u32 k = from; k < some; ++k) word |= u32(x[k] != T(0)) << (k - from);
      }
      marks[w] = word;
      kept += bits_set(word);
    }
    if (!has_room(p, first, kept)) return keep_whole(p, row, x);
    T* to = static_cast<T*>(p.values) + first;
    if (SIMT_DEVICE) {
      for (u32 k = 0; k < some; ++k)
        if (x[k] != T(0)) *to++ = x[k];
    } else {
      T side_by_side[ROW + 1];
      gather(x, some, side_by_side);
      for (u32 k = 0; k < kept; ++k) to[k] = side_by_side[k];
    }
  });
}
template <class T> DEV void decode_bits(const Sparse& p) {
  for_rows(p, p.wanted, [&](u64 place) {
    T* out = static_cast<T*>(p.x) + place * ROW;
    const u64 row = p.first + place;
    const u64 some = length(p, row), first = start(p, row);
    const u32* marks = static_cast<const u32*>(p.marks) + row * MARK_WORDS;
    u32 kept = 0;
    for (u32 w = 0; w < MARK_WORDS; ++w) kept += bits_set(marks[w]);
    if (!has_room(p, first, kept)) return take_whole(p, row, out);
    const T* from = static_cast<const T*>(p.values) + first;
    if (SIMT_DEVICE) {
      for (u32 k = 0; k < some; ++k) out[k] = marks[k >> 5] >> (k & 31) & 1 ? *from++ : T(0);
    } else {
      T side_by_side[ROW + 1];
      for (u32 k = 0; k < kept; ++k) side_by_side[k] = from[k];
      side_by_side[kept] = T(0);
      const T* next = side_by_side;
      for (u32 w = 0; w * 32 < some; ++w) {
        u32 word = marks[w];
        const u32 end = u32(least(some, u64(w + 1) * 32));
        for (u32 k = w * 32; k < end; ++k) {
          const u32 is_kept = word & 1;
          word >>= 1;
          out[k] = T(*next & T(T(0) - T(is_kept)));
          next += is_kept;
        }
      }
    }
  });
}

template <class T> DEV void encode_columns(const Sparse& p) {
  for_rows(p, p.rows, [&](u64 row) {
    const T* x = static_cast<const T*>(p.x) + row * ROW;
    const u64 some = length(p, row), first = start(p, row);
    const u64 kept = (row + 1 < p.rows ? start(p, row + 1) : *p.total) - first;
    if (!has_room(p, first, kept)) return keep_whole(p, row, x);
    T* to = static_cast<T*>(p.values) + first;
    u8* columns = static_cast<u8*>(p.marks) + first;
    if (SIMT_DEVICE) {
      for (u32 k = 0; k < some; ++k) {
        if (x[k] == T(0)) continue;
        *to++ = x[k];
        *columns++ = u8(k);
      }
    } else {
      T side_by_side[ROW + 1];
      u8 places[ROW + 1];
      gather(x, some, side_by_side, places);
      for (u32 k = 0; k < kept; ++k) to[k] = side_by_side[k];
      for (u32 k = 0; k < kept; ++k) columns[k] = places[k];
    }
  });
}
template <class T> DEV void decode_columns(const Sparse& p) {
  for_rows(p, p.wanted, [&](u64 place) {
    T* out = static_cast<T*>(p.x) + place * ROW;
    const u64 row = p.first + place;
    const u64 some = length(p, row), first = start(p, row), end = row + 1 < p.rows ? start(p, row + 1) : *p.total;
    const u64 kept = end - first;
    if (kept > ROW || !has_room(p, first, kept)) return take_whole(p, row, out);
    for (u32 k = 0; k < some; ++k) out[k] = T(0);
    for (u64 k = first; k < first + kept; ++k) {
      const u32 column = static_cast<const u8*>(p.marks)[k];
      if (column < some) out[column] = static_cast<const T*>(p.values)[k];
    }
  });
}
}  // namespace

#define SPARSE(T, ...)                                                      \
  KERNEL(sparse_count_##T, Sparse) { count<T>(args); }                      \
  KERNEL(sparse_encode_bits_##T, Sparse) { encode_bits<T>(args); }          \
  KERNEL(sparse_decode_bits_##T, Sparse) { decode_bits<T>(args); }          \
  KERNEL(sparse_encode_columns_##T, Sparse) { encode_columns<T>(args); }    \
  KERNEL(sparse_decode_columns_##T, Sparse) { decode_columns<T>(args); }
#define SUMS(T, ...)                                                  \
  KERNEL(sparse_add_rows_##T, Sparse) { add_rows(args); }             \
  KERNEL(sparse_add_pieces_##T, Sparse) { add_pieces(args); }
FOR(u64, SPARSE, ) FOR(u32, SPARSE, ) FOR(u16, SPARSE, ) FOR(u32, SUMS, )

EXPORT_TABLE(sparse)
