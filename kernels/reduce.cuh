// Reductions along one axis. The space runs over the outputs; every output has its own row of `size` elements, `step`
// apart. Long rows are cut in pieces, each an output of its own (the outermost dimension of the space), which a second
// pass reduces. The order of additions depends on shapes and strides alone.
#pragma once
#include "rows.cuh"

namespace {
struct Reduce {
  void* out;
  const void* x;
  void* values;        // of the extremes whose places are asked for, or null
  const void* places;  // of the extremes of pieces: an i64 per piece and output
  u64 chunk;           // outputs per block
  u64 size;            // of the whole axis
  i64 step;            // along the axis
  u64 piece;           // elements of the axis per output; the last piece may be shorter
  u64 pieces;
  u64 outputs;         // per piece
  u64 divisor;         // of a mean
  u64 place_bytes;     // of a place in `out`: 4 or 8
  Space space;
};

// Calls `body(output, first, begin, size, columns)` for tiles of neighbouring outputs of one piece: `columns` outputs
// from `output`, whose rows begin at element `first` of x, which is element `begin` of the axis, and have `size` elements.
template <class Body> DEV void for_tiles(const Reduce& args, u64 i, i64 first, u64 run, Body body) {
  const i64 across = args.space.strides[0][0];
  for (u64 done = 0; done < run;) {
    const u64 at = i + done, begin = at / args.outputs * args.piece;
    const u64 columns = least(least(run - done, args.outputs - at % args.outputs), u64(COLUMNS));
    body(at, first + i64(done) * across, begin, least(args.piece, args.size - begin), u32(columns));
    done += columns;
  }
}
template <class Body> DEV void for_tiles(const Reduce& args, Body body) {
  for_runs<1>(args.space, block_range(args.space.count, args.chunk),
              [&](u64 i, const i64* offsets, u64 run) { for_tiles(args, i, offsets[0], run, body); });
}

// Totals are of type C: of a row by `row(worker, first, size, step)`, of several side by side, `across` apart, by
// `by_columns(totals, first, columns, across, size, step)`. Their first element is the reduced tensor's `first`.
template <class Out, class C, class Row, class ByColumns, class Finish>
DEV void reduce(const Reduce& args, Row row, ByColumns by_columns, Finish finish) {
  Out* out = static_cast<Out*>(args.out);
  const i64 across = args.space.strides[0][0];
  const bool columnwise = by_column(across, args.step);
  const Range range = block_range(args.space.count, args.chunk);
  for_rows<1>(args.space, range, args.step, args.piece, [&](auto worker, u64 i, const i64* offsets, u64 run) {
    typedef decltype(worker) Worker;
    for_tiles(args, i, offsets[0], run, [&](u64 at, i64 first, u64, u64 size, u32 columns) {
      C totals[COLUMNS];
      if (columnwise && columns > 1)
        by_columns(totals, first, columns, across, size, args.step);
      else
        for (u32 c = 0; c < columns; ++c) totals[c] = row(worker, first + i64(c) * across, size, args.step);
      Worker::each(columns, [&](u64 c) { out[at + c] = narrow<Out>(finish(totals[c])); });
    });
  });
}
}  // namespace
