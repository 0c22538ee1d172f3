// The data movement of convolution by matrix multiplication, for the host engine; a GPU has libraries for it.
//
// The column matrix has a row for every (channel, kernel y, kernel x) and a column for every output pixel. One block
// does a range of its rows for a band of output rows.
#include "simt.cuh"

namespace {
struct ColumnsArgs {
  float* image;    // im2col reads it; col2im adds to it
  float* columns;  // element (row_begin, first pixel of the band)
  float* plane;    // workspace: the part of one channel that the band's windows cover
  i64 channel_stride, y_stride, x_stride;  // of the image, in elements
  i64 height, width;                       // of the image
  i64 kernel_height, kernel_width, stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x;
  i64 row_begin, row_end;              // of the column matrix
  i64 out_begin, out_rows, out_width;  // the band
  i64 pitch;                           // elements from one row of the column matrix to the next
};

// Where a channel's pixels are read from: element (y, x) of the area under the band's windows.
struct Source {
  const float* start;
  i64 pitch;
};

DEV i64 covered(i64 count, i64 stride, i64 kernel, i64 dilation) {
  return (count - 1) * stride + (kernel - 1) * dilation + 1;
}

// A copy of the area with zeros around the image, so that the windows need no bounds checks.
DEV Source padded(const ColumnsArgs& a, const float* channel, i64 top, i64 rows, i64 width) {
  const i64 left = least(a.padding_x, width), right = most(left, least(width, a.padding_x + a.width));
  for (i64 row = 0; row < rows; ++row) {
    float* to = a.plane + row * width;
    const i64 y = top + row;
    if (y < 0 || y >= a.height) {
      memset(to, 0, width * sizeof(float));
      continue;
    }
    const float* from = channel + y * a.y_stride;
    for (i64 x = 0; x < left; ++x) to[x] = 0;
    if (a.x_stride == 1) {
      for (i64 x = left; x < right; ++x) to[x] = from[x - a.padding_x];
    } else {
      for (i64 x = left; x < right; ++x) to[x] = from[(x - a.padding_x) * a.x_stride];
    }
    for (i64 x = right; x < width; ++x) to[x] = 0;
  }
  return {a.plane, width};
}

DEV Source source(const ColumnsArgs& a, i64 channel) {
  const float* start = a.image + channel * a.channel_stride;
  const i64 top = a.out_begin * a.stride_y - a.padding_y;
  const i64 rows = covered(a.out_rows, a.stride_y, a.kernel_height, a.dilation_y);
  const i64 width = covered(a.out_width, a.stride_x, a.kernel_width, a.dilation_x);
  const bool inside = a.padding_x == 0 && top >= 0 && top + rows <= a.height;
  if (inside && a.x_stride == 1) return {start + top * a.y_stride, a.y_stride};
  return padded(a, start, top, rows, width);
}

// Rows of a width known to the compiler are a few vector moves each; a call to memcpy would cost more than the copy.
template <i64 WIDTH> DEV void copy_rows(float* to, const float* from, i64 rows, i64 step) {
  for (i64 y = 0; y < rows; ++y) memcpy(to + y * WIDTH, from + y * step, WIDTH * sizeof(float));
}

template <i64 STRIDE> DEV void gather_rows(float* to, const float* from, i64 rows, i64 step, i64 width, i64 stride) {
  if (STRIDE) stride = STRIDE;
  for (i64 y = 0; y < rows; ++y) {
    for (i64 x = 0; x < width; ++x) to[y * width + x] = from[y * step + x * stride];
  }
}

DEV void window_row(const ColumnsArgs& a, float* to, const float* from, i64 step) {
  if (a.stride_x == 2) return gather_rows<2>(to, from, a.out_rows, step, a.out_width, 2);
  if (a.stride_x != 1) return gather_rows<0>(to, from, a.out_rows, step, a.out_width, a.stride_x);
  switch (a.out_width) {
    case 4: return copy_rows<4>(to, from, a.out_rows, step);
    case 7: return copy_rows<7>(to, from, a.out_rows, step);
    case 8: return copy_rows<8>(to, from, a.out_rows, step);
    case 14: return copy_rows<14>(to, from, a.out_rows, step);
    case 16: return copy_rows<16>(to, from, a.out_rows, step);
    case 28: return copy_rows<28>(to, from, a.out_rows, step);
    case 32: return copy_rows<32>(to, from, a.out_rows, step);
    default: return gather_rows<1>(to, from, a.out_rows, step, a.out_width, 1);
  }
}
}  // namespace

KERNEL(im2col_f32, ColumnsArgs) {
  const ColumnsArgs& a = args;
  const i64 window = a.kernel_height * a.kernel_width;
  for (i64 row = a.row_begin; row < a.row_end;) {
    const i64 channel = row / window;
    const Source from = source(a, channel);
    const i64 end = least((channel + 1) * window, a.row_end);
    for (; row < end; ++row) {
      const i64 y = row % window / a.kernel_width * a.dilation_y, x = row % a.kernel_width * a.dilation_x;
      float* to = a.columns + (row - a.row_begin) * a.pitch;
      window_row(a, to, from.start + y * from.pitch + x, a.stride_y * from.pitch);
    }
  }
}

// The image is contiguous along x. Sums run in the order of the column matrix's rows.
KERNEL(col2im_f32, ColumnsArgs) {
  const ColumnsArgs& a = args;
  const i64 window = a.kernel_height * a.kernel_width;
  for (i64 row = a.row_begin; row < a.row_end; ++row) {
    const i64 kernel_y = row % window / a.kernel_width, kernel_x = row % a.kernel_width;
    float* channel = a.image + row / window * a.channel_stride;
    const float* from = a.columns + (row - a.row_begin) * a.pitch;
    const i64 shift = kernel_x * a.dilation_x - a.padding_x;
    const i64 begin = shift >= 0 ? 0 : (-shift + a.stride_x - 1) / a.stride_x;
    const i64 end = a.width <= shift ? 0 : least(a.out_width, (a.width - shift - 1) / a.stride_x + 1);
    for (i64 out = 0; out < a.out_rows; ++out) {
      const i64 y = (a.out_begin + out) * a.stride_y + kernel_y * a.dilation_y - a.padding_y;
      if (y < 0 || y >= a.height) continue;
      float* to = channel + y * a.y_stride + shift;
      for (i64 x = begin; x < end; ++x) to[x * a.stride_x] += from[out * a.out_width + x];
    }
  }
}

EXPORT_TABLE(conv)
