// The data movement of convolution by matrix multiplication, and convolution of few channels without it: for the host
// engine alone. A GPU has libraries for it, and `columns.cu`.
//
// The column matrix has a row for every (channel, kernel z, kernel y, kernel x) and a column for every output pixel.
// One block does a range of its rows for a band of output rows, which are counted through all planes of the output.
#include "simt.cuh"

#if !SIMT_DEVICE
namespace {
template <class T> struct ColumnsArgs {
  T* image;    // what windows move over
  T* columns;  // element (row_begin, first pixel of the band); in the depthwise kernels the band of one output channel
  T* plane;    // workspace: the part of one plane of a channel that the band's windows cover
  T* weights;  // depthwise kernels: one per row of the column matrix
  i64 weight_step;
  i64 channel_stride, z_stride, y_stride, x_stride;  // of the image, in elements
  i64 depth, height, width;                          // of the image
  i64 kernel_depth, kernel_height, kernel_width;
  i64 stride_z, stride_y, stride_x, padding_z, padding_y, padding_x, dilation_z, dilation_y, dilation_x;
  i64 row_begin, row_end;                          // of the column matrix
  i64 out_begin, out_rows, out_height, out_width;  // the band, and the size of an output plane
  i64 pitch;                                       // elements from one row of the column matrix to the next
};

// The rows of a band in one output plane, and the plane of the image that one kernel plane meets there.
struct Part {
  i64 z, y, rows;
  i64 first;  // row of the band
};

template <class T, class Body> DEV void each_part(const ColumnsArgs<T>& a, i64 kernel_z, Body body) {
  for (i64 first = 0; first < a.out_rows;) {
    const i64 row = a.out_begin + first, y = row % a.out_height;
    const i64 rows = least(a.out_height - y, a.out_rows - first);
    body(Part{row / a.out_height * a.stride_z + kernel_z * a.dilation_z - a.padding_z, y, rows, first});
    first += rows;
  }
}

// Where a channel's pixels are read from: element (y, x) of the area under a part's windows; nowhere outside of the image.
template <class T> struct Source {
  const T* start;
  i64 pitch;
};

DEV i64 covered(i64 count, i64 stride, i64 kernel, i64 dilation) {
  return (count - 1) * stride + (kernel - 1) * dilation + 1;
}

// A copy of the area with zeros around the image, so that the windows need no bounds checks.
template <class T> DEV Source<T> padded(const ColumnsArgs<T>& a, const T* plane, i64 top, i64 rows, i64 width) {
  const i64 left = least(a.padding_x, width), right = most(left, least(width, a.padding_x + a.width));
  for (i64 row = 0; row < rows; ++row) {
    T* to = a.plane + row * width;
    const i64 y = top + row;
    if (y < 0 || y >= a.height) {
      memset(to, 0, width * sizeof(T));
      continue;
    }
    const T* from = plane + y * a.y_stride;
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

template <class T> DEV Source<T> source(const ColumnsArgs<T>& a, i64 channel, const Part& part) {
  if (part.z < 0 || part.z >= a.depth) return {nullptr, 0};
  const T* plane = a.image + channel * a.channel_stride + part.z * a.z_stride;
  const i64 top = part.y * a.stride_y - a.padding_y;
  const i64 rows = covered(part.rows, a.stride_y, a.kernel_height, a.dilation_y);
  const i64 width = covered(a.out_width, a.stride_x, a.kernel_width, a.dilation_x);
  const bool inside = a.padding_x == 0 && top >= 0 && top + rows <= a.height;
  if (inside && a.x_stride == 1) return {plane + top * a.y_stride, a.y_stride};
  return padded(a, plane, top, rows, width);
}

// Calls body(first row, one after the last, part, source) for each kernel plane among the column matrix's rows.
template <class T, class Body> DEV void each_source(const ColumnsArgs<T>& a, Body body) {
  const i64 window = a.kernel_height * a.kernel_width;
  for (i64 row = a.row_begin; row < a.row_end;) {
    const i64 plane = row / window, end = least((plane + 1) * window, a.row_end);
    each_part(a, plane % a.kernel_depth, [&](const Part& part) {
      body(row, end, part, source(a, plane / a.kernel_depth, part));
    });
    row = end;
  }
}

// Elements from a source's start to the first pixel under row `row` of the column matrix.
template <class T> DEV i64 shift(const ColumnsArgs<T>& a, i64 row, i64 pitch) {
  return row / a.kernel_width % a.kernel_height * a.dilation_y * pitch + row % a.kernel_width * a.dilation_x;
}

// Rows of a width known to the compiler are a few vector moves each; a call to memcpy would cost more than the copy.
template <i64 WIDTH, class T> DEV void copy_rows(T* to, const T* from, i64 rows, i64 step) {
  for (i64 y = 0; y < rows; ++y) memcpy(to + y * WIDTH, from + y * step, WIDTH * sizeof(T));
}

template <i64 STRIDE, class T> DEV void gather_rows(T* to, const T* from, i64 rows, i64 step, i64 width, i64 stride) {
  if (STRIDE) stride = STRIDE;
  for (i64 y = 0; y < rows; ++y) {
    for (i64 x = 0; x < width; ++x) to[y * width + x] = from[y * step + x * stride];
  }
}

template <class T> DEV void window_row(const ColumnsArgs<T>& a, T* to, const T* from, i64 rows, i64 step) {
  if (a.stride_x == 2) return gather_rows<2>(to, from, rows, step, a.out_width, 2);
  if (a.stride_x != 1) return gather_rows<0>(to, from, rows, step, a.out_width, a.stride_x);
  switch (a.out_width) {
    case 4: return copy_rows<4>(to, from, rows, step);
    case 7: return copy_rows<7>(to, from, rows, step);
    case 8: return copy_rows<8>(to, from, rows, step);
    case 14: return copy_rows<14>(to, from, rows, step);
    case 16: return copy_rows<16>(to, from, rows, step);
    case 28: return copy_rows<28>(to, from, rows, step);
    case 32: return copy_rows<32>(to, from, rows, step);
    default: return gather_rows<1>(to, from, rows, step, a.out_width, 1);
  }
}

template <class T> DEV void im2col(const ColumnsArgs<T>& a) {
  each_source(a, [&](i64 begin, i64 end, const Part& part, const Source<T>& from) {
    for (i64 row = begin; row < end; ++row) {
      T* to = a.columns + (row - a.row_begin) * a.pitch + part.first * a.out_width;
      if (!from.start) {
        memset(to, 0, part.rows * a.out_width * sizeof(T));
        continue;
      }
      window_row(a, to, from.start + shift(a, row, from.pitch), part.rows, a.stride_y * from.pitch);
    }
  });
}

// Where an output row meets the image at one place of the kernel: the image's row, and the pixels `begin..end` of the
// output row that are inside, the first at `start` if it were.
template <class T> struct Meeting {
  T* start;
  i64 begin, end;
};

// Calls body(meeting, output row of the band) for each output row that meets the image at row `row` of the columns.
template <class T, class Body> DEV void each_meeting(const ColumnsArgs<T>& a, i64 row, Body body) {
  const i64 window = a.kernel_height * a.kernel_width, plane = row / window;
  const i64 kernel_y = row % window / a.kernel_width, kernel_x = row % a.kernel_width;
  const i64 shift = kernel_x * a.dilation_x - a.padding_x;
  const i64 begin = shift >= 0 ? 0 : (-shift + a.stride_x - 1) / a.stride_x;
  const i64 end = a.width <= shift ? 0 : least(a.out_width, (a.width - shift - 1) / a.stride_x + 1);
  T* channel = a.image + plane / a.kernel_depth * a.channel_stride;
  each_part(a, plane % a.kernel_depth, [&](const Part& part) {
    if (part.z < 0 || part.z >= a.depth) return;
    for (i64 out = 0; out < part.rows; ++out) {
      const i64 y = (part.y + out) * a.stride_y + kernel_y * a.dilation_y - a.padding_y;
      if (y < 0 || y >= a.height) continue;
      body(Meeting<T>{channel + part.z * a.z_stride + y * a.y_stride + shift, begin, end}, part.first + out);
    }
  });
}

// The image is contiguous along x. Sums run in the order of the column matrix's rows.
template <class T> DEV void col2im(const ColumnsArgs<T>& a) {
  for (i64 row = a.row_begin; row < a.row_end; ++row) {
    const T* columns = a.columns + (row - a.row_begin) * a.pitch;
    each_meeting(a, row, [&](const Meeting<T>& to, i64 out) {
      const T* from = columns + out * a.out_width;
      for (i64 x = to.begin; x < to.end; ++x) to.start[x * a.stride_x] += from[x];
    });
  }
}

// `image += weight * columns` for every weight: `columns` is the gradient of one output channel.
template <class T> DEV void depthwise_input(const ColumnsArgs<T>& a) {
  for (i64 row = a.row_begin; row < a.row_end; ++row) {
    const T weight = a.weights[row * a.weight_step];
    each_meeting(a, row, [&](const Meeting<T>& to, i64 out) {
      const T* from = a.columns + out * a.out_width;
      for (i64 x = to.begin; x < to.end; ++x) to.start[x * a.stride_x] += weight * from[x];
    });
  }
}

// Registers of neighbouring pixels. The compiler's vector types, because it finds no vectors of its own in rows that are
// short or end in between.
template <class T> struct Lanes;
template <> struct Lanes<float> {
  typedef float Vector __attribute__((vector_size(32)));
  typedef i32 Mask __attribute__((vector_size(32)));
  static constexpr i64 COUNT = 8;
  DEV Mask below(i64 count) { return Mask{0, 1, 2, 3, 4, 5, 6, 7} < Mask{} + i32(count); }
};
template <> struct Lanes<double> {
  typedef double Vector __attribute__((vector_size(32)));
  typedef i64 Mask __attribute__((vector_size(32)));
  static constexpr i64 COUNT = 4;
  DEV Mask below(i64 count) { return Mask{0, 1, 2, 3} < Mask{} + count; }
};

template <i64 STRIDE, class T> DEV typename Lanes<T>::Vector load(const T* from, i64 stride) {
  typename Lanes<T>::Vector lanes;
  if (STRIDE == 1) {
    memcpy(&lanes, from, sizeof lanes);
  } else {
    for (i64 k = 0; k < Lanes<T>::COUNT; ++k) lanes[k] = from[k * (STRIDE ? STRIDE : stride)];
  }
  return lanes;
}

template <i64 N> struct Size {
  static constexpr i64 value = N;
};
// Calls body(registers, first, skip) for pieces of a row that fill 4 registers or 1. The last piece overlaps the one
// before it by `skip` elements. False where the row is shorter than a register.
template <class T, class Body> DEV bool each_piece(i64 width, Body body) {
  constexpr i64 COUNT = Lanes<T>::COUNT;
  if (width < COUNT) return false;
  i64 x = 0;
  for (; x + 4 * COUNT <= width; x += 4 * COUNT) body(Size<4>{}, x, 0);
  for (; x + COUNT <= width; x += COUNT) body(Size<1>{}, x, 0);
  if (x < width) body(Size<1>{}, width - COUNT, x + COUNT - width);
  return true;
}

// Adds to neighbouring pixels in N registers what the weights of one kernel plane give them, but for the first `skip`.
template <i64 N, i64 STRIDE, class T>
DEV void add_weighted(const ColumnsArgs<T>& a, T* to, const T* from, i64 pitch, const T* weight, i64 skip) {
  typedef Lanes<T> L;
  const i64 stride = STRIDE ? STRIDE : a.stride_x;
  typename L::Vector before[N], sums[N];
  memcpy(before, to, sizeof before);
  for (i64 k = 0; k < N; ++k) sums[k] = before[k];
  for (i64 y = 0; y < a.kernel_height; ++y, from += a.dilation_y * pitch) {
    const T* pixels = from;
    for (i64 x = 0; x < a.kernel_width; ++x, pixels += a.dilation_x, weight += a.weight_step) {
      for (i64 k = 0; k < N; ++k) sums[k] += *weight * load<STRIDE>(pixels + k * L::COUNT * stride, stride);
    }
  }
  if (skip > 0) sums[0] = L::below(skip) ? before[0] : sums[0];
  memcpy(to, sums, sizeof sums);
}

// The same for one pixel.
template <class T> DEV void add_weighted_pixel(const ColumnsArgs<T>& a, T* to, const T* from, i64 pitch, const T* weight) {
  T sum = *to;
  for (i64 y = 0; y < a.kernel_height; ++y, from += a.dilation_y * pitch) {
    for (i64 x = 0; x < a.kernel_width; ++x, weight += a.weight_step) sum += *weight * from[x * a.dilation_x];
  }
  *to = sum;
}

template <i64 STRIDE, class T> DEV void depthwise_strided(const ColumnsArgs<T>& a) {
  const i64 stride = STRIDE ? STRIDE : a.stride_x;
  each_source(a, [&](i64 begin, i64, const Part& part, const Source<T>& source) {
    if (!source.start) return;
    const T* weights = a.weights + begin * a.weight_step;
    for (i64 y = 0; y < part.rows; ++y) {
      T* to = a.columns + (part.first + y) * a.out_width;
      const T* from = source.start + y * a.stride_y * source.pitch;
      const bool done = each_piece<T>(a.out_width, [&](auto size, i64 x, i64 skip) {
        constexpr i64 N = decltype(size)::value;
        add_weighted<N, STRIDE>(a, to + x, from + x * stride, source.pitch, weights, skip);
      });
      if (done) continue;
      for (i64 x = 0; x < a.out_width; ++x) add_weighted_pixel(a, to + x, from + x * stride, source.pitch, weights);
    }
  });
}

// `columns += weight * image` for every weight: `columns` is one output channel. Whole kernel planes only.
template <class T> DEV void depthwise(const ColumnsArgs<T>& a) {
  if (a.stride_x == 1) return depthwise_strided<1>(a);
  if (a.stride_x == 2) return depthwise_strided<2>(a);
  return depthwise_strided<0>(a);
}

// The sum of the products of two sets of rows, in as many parts as registers have lanes, which are added in order.
template <i64 STRIDE, class T>
DEV T dot_rows(const T* a, i64 width, const T* b, i64 step, i64 rows, i64 stride) {
  typedef Lanes<T> L;
  if (STRIDE) stride = STRIDE;
  typename L::Vector sums[4] = {};
  T sum = 0;
  for (i64 y = 0; y < rows; ++y, a += width, b += step) {
    const bool done = each_piece<T>(width, [&](auto size, i64 x, i64 skip) {
      for (i64 k = 0; k < decltype(size)::value; ++k) {
        const i64 first = x + k * L::COUNT;
        typename L::Vector product = load<1>(a + first, 1) * load<STRIDE>(b + first * stride, stride);
        if (skip > 0) product = L::below(skip) ? typename L::Vector{} : product;
        sums[k] += product;
      }
    });
    if (done) continue;
    for (i64 x = 0; x < width; ++x) sum += a[x] * b[x * stride];
  }
  const typename L::Vector all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (i64 k = 0; k < L::COUNT; ++k) sum += all[k];
  return sum;
}

template <i64 STRIDE, class T> DEV void depthwise_weight_strided(const ColumnsArgs<T>& a) {
  each_source(a, [&](i64 begin, i64 end, const Part& part, const Source<T>& source) {
    if (!source.start) return;
    const T* gradient = a.columns + part.first * a.out_width;
    const i64 step = a.stride_y * source.pitch;
    for (i64 row = begin; row < end; ++row) {
      const T* from = source.start + shift(a, row, source.pitch);
      T* to = a.weights + row * a.weight_step;
      *to += dot_rows<STRIDE>(gradient, a.out_width, from, step, part.rows, a.stride_x);
    }
  });
}

// `weights += columns * image` for every weight: `columns` is the gradient of one output channel.
template <class T> DEV void depthwise_weight(const ColumnsArgs<T>& a) {
  if (a.stride_x == 1) return depthwise_weight_strided<1>(a);
  if (a.stride_x == 2) return depthwise_weight_strided<2>(a);
  return depthwise_weight_strided<0>(a);
}
}  // namespace

#define CONV(name)                                          \
  KERNEL(name##_f32, ColumnsArgs<float>) { name(args); }    \
  KERNEL(name##_f64, ColumnsArgs<double>) { name(args); }

CONV(im2col)
CONV(col2im)
CONV(depthwise)
CONV(depthwise_input)
CONV(depthwise_weight)
#endif

EXPORT_TABLE(conv)
