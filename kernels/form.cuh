// Forms whose rows of 256 values take as much room as these need, side by side: where each begins follows from counts, and a row
// for which there is no room is kept as it is beside the form. No thread needs what another of its block did.
#pragma once
#include "views.cuh"

namespace {
constexpr u32 ROW = 256, PIECE = 128;

struct Form {
  void* x;       // the values
  u32* starts;   // by row: what the rows before it in its piece take
  u32* pieces;   // by piece: what all before take
  u32* total;    // what all take
  void* marks;   // what each row is like; none where it is only counted
  void* values;  // room for `capacity`
  void* rest;    // rows from `certain` on, as they are
  u64 chunk;     // rows or pieces per block
  u64 rows, count, capacity, certain;
  u64 first, wanted;  // decoding: so many rows from that one on, the first of which goes to where `x` begins
};

DEV u64 length(const Form& p, u64 row) { return least(u64(ROW), p.count - row * ROW); }
DEV u64 start(const Form& p, u64 row) { return u64(p.starts[row]) + p.pieces[row / PIECE]; }
// Also of a form that holds anything: no row has more, and none is taken for kept that would lie beyond the end.
DEV bool has_room(const Form& p, u64 first, u64 some) { return first + some <= p.capacity; }

template <class Body> DEV void for_rows(const Form& p, u64 count, Body body) {
  const Range range = block_range(count, p.chunk);
  for (u64 row = range.begin + threadIdx.x; row < range.end; row += blockDim.x) body(row);
}

// Sums of the counts before each, in a piece; then of pieces.
DEV void add_rows(const Form& p) {
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
DEV void add_pieces(const Form& p) {
  if (threadIdx.x != 0) return;
  u32 sum = 0;
  for (u64 piece = 0; piece * PIECE < p.rows; ++piece) {
    const u32 kept = p.pieces[piece];
    p.pieces[piece] = sum;
    sum += kept;
  }
  *p.total = sum;
}

template <class T> DEV void keep_whole(const Form& p, u64 row, const T* x) {
  T* to = static_cast<T*>(p.rest) + (row - p.certain) * ROW;
  for (u64 k = 0; k < length(p, row); ++k) to[k] = x[k];
}
template <class T> DEV void take_whole(const Form& p, u64 row, T* out) {
  // A corrupt form may ask for a row that is never kept so.
  const T* from = static_cast<const T*>(p.rest) + (row < p.certain ? 0 : row - p.certain) * ROW;
  for (u64 k = 0; k < length(p, row); ++k) out[k] = row < p.certain ? T(0) : from[k];
}
}  // namespace

// Kernels for a family.
#define SUMS(T, family)                                                \
  KERNEL(family##_add_rows_##T, Form) { add_rows(args); }              \
  KERNEL(family##_add_pieces_##T, Form) { add_pieces(args); }
