// What pooling kernels share: arguments, where windows lie, and how the rows of an output are walked.
//
// Rows whose input is contiguous are done in segments, by loops that the C++ compiler vectorises; their borders, inputs
// with other strides, and everything on the device are done element by element.
#pragma once
#include "image.cuh"

namespace {
struct Pool {
  void* out;
  void* out_indices;
  Image x;        // or the gradient
  Image indices;  // of the maxima, backward
  u64 chunk;      // rows (tiles, where maxima go backward) of the output per block
  u64 channels;
  u64 count;       // of output rows or tiles
  u64 tile;        // elements of a plane that make a tile, at most TILE
  i32 in[2];       // height and width of the forward's input
  i32 pooled[2];   // height and width of the forward's output
  i32 kernel[2], stride[2], padding[2], dilation[2];
  u64 count_include_pad;
  u64 per_word_log2;  // of indices by their places in windows: how many there are to a word
};

// The taps `begin..end` of a window that lie inside the image, and where the window starts.
struct Window {
  i32 start, begin, end;
};
DEV Window window_of(const Pool& p, u32 d, i32 o) {
  const i32 start = o * p.stride[d] - p.padding[d];
  return {start, most(0, up(-start, p.dilation[d])), least(p.kernel[d], up(p.in[d] - start, p.dilation[d]))};
}

// The windows `begin..end` that may hold the image's index i.
DEV Span holders_of(const Pool& p, u32 d, i32 i) {
  const i32 last = i + p.padding[d], first = last - (p.kernel[d] - 1) * p.dilation[d];
  return {most(0, up(first, p.stride[d])), least(p.pooled[d], last / p.stride[d] + 1)};
}

// The outputs of a row whose windows reach over neither end of the image's rows.
DEV Span windows_inside(const Pool& p) {
  const i32 reach = (p.kernel[1] - 1) * p.dilation[1];
  const i32 begin = least(p.pooled[1], up(p.padding[1], p.stride[1]));
  const i32 room = p.in[1] + p.padding[1] - reach - 1;
  const i32 end = room < 0 ? 0 : least(p.pooled[1], room / p.stride[1] + 1);
  return {begin, most(begin, end)};
}

// A row of a [planes, height, width] output.
struct Row {
  u64 image, channel;
  i32 y;
  bool first;  // of its block or of its plane
};

// For every row of this block: `start(row)` gives a function of x and position, which is called for every element but
// those of `segments`; there `segment(row, x, count, position)` is called, for at most SEGMENT elements at a time.
template <class Start, class Segment>
DEV void for_rows(const Pool& p, const i32* size, Span segments, Start start, Segment segment) {
  const Range rows = block_range(p.count, p.chunk);
  const u64 planes = rows.begin / size[0];
  // Counted along: a division a row would take as long as a short row.
  Row row{planes / p.channels, planes % p.channels, i32(rows.begin % size[0]), true};
  for (u64 r = rows.begin; r < rows.end; ++r) {
    const u64 first = r * size[1];
    const auto element = start(row);
    for (i32 x = threadIdx.x; x < segments.begin; x += blockDim.x) element(x, first + x);
    for (i32 x = segments.begin; x < segments.end; x += SEGMENT)
      segment(row, x, least(SEGMENT, segments.end - x), first + x);
    for (i32 x = segments.end + threadIdx.x; x < size[1]; x += blockDim.x) element(x, first + x);
    row.first = ++row.y == size[0];
    if (row.first) row.y = 0;
    if (row.first && ++row.channel == p.channels) row = {row.image + 1, 0, 0, true};
  }
}

// Calls `body(Stride<n>())` for the strides that loops are written for; 0 stands for any other.
template <i32 N> struct Stride {
  static constexpr i32 value = N;
};
template <class Body> DEV void with_stride(i32 stride, Body body) {
  if (stride == 1) body(Stride<1>());
  else if (stride == 2) body(Stride<2>());
  else body(Stride<0>());
}
}  // namespace
