// Convolution and its gradients as they are defined, an output element at a time, and the column matrix of an image: for devices
// without a library of convolutions. Halves are added up in f32 and rounded once. The order of additions depends on shapes
// alone.
#include "math.cuh"

namespace {
struct Direct {
  void* out;
  const void* a;      // image, or weight where the image's gradient is asked for
  const void* b;      // weight, or gradient of the output
  const void* bias;   // of the output's channels, or null
  u64 chunk, count;   // of elements of the output
  u64 images, groups;
  u64 channels[2];    // of image and output, in a group
  i64 strides_a[5], strides_b[5], stride_bias;
  i32 in[3], made[3], kernel[3];  // depth, height and width
  i32 stride[3], padding[3], dilation[3];
};

// An element of a contiguous [.., .., sizes]: its two outer indices, and its place.
struct Element {
  u64 outer, inner;
  i32 at[3];
};
DEV Element element_of(u64 index, u64 inner, const i32* sizes) {
  Element element;
  for (i32 d = 2; d >= 0; --d) {
    element.at[d] = i32(index % u64(sizes[d]));
    index /= u64(sizes[d]);
  }
  element.outer = index / inner, element.inner = index % inner;
  return element;
}

template <class T> DEV Compute<T> read(const void* data, const i64* strides, u64 outer, u64 inner, const i32* at) {
  const i64 place = i64(outer) * strides[0] + i64(inner) * strides[1] + at[0] * strides[2] + at[1] * strides[3];
  return widen(static_cast<const T*>(data)[place + at[2] * strides[4]]);
}

// Calls body(at) for all places of a size; sums what it gives, plane by plane, row by row.
template <class C, class Body> DEV C sum_over(const i32* sizes, Body body) {
  C total = 0;
  i32 at[3];
  for (at[0] = 0; at[0] < sizes[0]; ++at[0]) {
    C plane = 0;
    for (at[1] = 0; at[1] < sizes[1]; ++at[1]) {
      C row = 0;
      for (at[2] = 0; at[2] < sizes[2]; ++at[2]) row += body(static_cast<const i32*>(at));
      plane += row;
    }
    total += plane;
  }
  return total;
}

// Where the window at `made` reads with tap `tap`; false outside of the image.
DEV bool pixel_of(const Direct& p, const i32* made, const i32* tap, i32* pixel) {
  bool inside = true;
  for (i32 d = 0; d < 3; ++d) {
    pixel[d] = made[d] * p.stride[d] + tap[d] * p.dilation[d] - p.padding[d];
    inside = inside && pixel[d] >= 0 && pixel[d] < p.in[d];
  }
  return inside;
}

// The window that reads `pixel` with tap `tap`; false if there is none.
DEV bool window_of(const Direct& p, const i32* pixel, const i32* tap, i32* made) {
  bool exists = true;
  for (i32 d = 0; d < 3; ++d) {
    const i32 start = pixel[d] + p.padding[d] - tap[d] * p.dilation[d];
    made[d] = start / p.stride[d];
    exists = exists && start >= 0 && start % p.stride[d] == 0 && made[d] < p.made[d];
  }
  return exists;
}

template <class T> DEV Compute<T> forward(const Direct& p, u64 index) {
  typedef Compute<T> C;
  const Element out = element_of(index, p.channels[1] * p.groups, p.made);
  const u64 first = out.inner / p.channels[1] * p.channels[0];
  C total = 0;
  for (u64 c = 0; c < p.channels[0]; ++c)
    total += sum_over<C>(p.kernel, [&](const i32* tap) {
      i32 pixel[3];
      if (!pixel_of(p, out.at, tap, pixel)) return C(0);
      return read<T>(p.a, p.strides_a, out.outer, first + c, pixel) * read<T>(p.b, p.strides_b, out.inner, c, tap);
    });
  if (p.bias) total += widen(static_cast<const T*>(p.bias)[i64(out.inner) * p.stride_bias]);
  return total;
}

template <class T> DEV Compute<T> backward_input(const Direct& p, u64 index) {
  typedef Compute<T> C;
  const Element image = element_of(index, p.channels[0] * p.groups, p.in);
  const u64 channel = image.inner % p.channels[0], first = image.inner / p.channels[0] * p.channels[1];
  C total = 0;
  for (u64 o = first; o < first + p.channels[1]; ++o)
    total += sum_over<C>(p.kernel, [&](const i32* tap) {
      i32 made[3];
      if (!window_of(p, image.at, tap, made)) return C(0);
      return read<T>(p.a, p.strides_a, o, channel, tap) * read<T>(p.b, p.strides_b, image.outer, o, made);
    });
  return total;
}

template <class T> DEV Compute<T> backward_weight(const Direct& p, u64 index) {
  typedef Compute<T> C;
  const Element weight = element_of(index, p.channels[0], p.kernel);
  const u64 channel = weight.outer / p.channels[1] * p.channels[0] + weight.inner;
  C total = 0;
  for (u64 n = 0; n < p.images; ++n)
    total += sum_over<C>(p.made, [&](const i32* made) {
      i32 pixel[3];
      if (!pixel_of(p, made, weight.at, pixel)) return C(0);
      return read<T>(p.a, p.strides_a, n, channel, pixel) * read<T>(p.b, p.strides_b, n, weight.outer, made);
    });
  return total;
}

// The column matrix has a row for every (channel, tap) and a column for every place of the window. `a` is one image.
template <class T> DEV Compute<T> columns(const Direct& p, u64 index) {
  const Element column = element_of(index, 1, p.made);
  const Element row = element_of(column.outer, 1, p.kernel);
  i32 pixel[3];
  if (!pixel_of(p, column.at, row.at, pixel)) return 0;
  return read<T>(p.a, p.strides_a, 0, row.outer, pixel);
}

// What an image's pixel gets from the columns that it is in: `a` is the column matrix, `strides_a` are those of its rows by
// channel and tap, and of its columns.
template <class T> DEV Compute<T> from_columns(const Direct& p, u64 index) {
  typedef Compute<T> C;
  const Element image = element_of(index, 1, p.in);
  i64 row = i64(image.outer) * p.strides_a[0];
  return sum_over<C>(p.kernel, [&](const i32* tap) {
    i32 made[3];
    const i64 place = row;
    row += p.strides_a[1];
    if (!window_of(p, image.at, tap, made)) return C(0);
    const i64 column = (i64(made[0]) * p.made[1] + made[1]) * p.made[2] + made[2];
    return C(widen(static_cast<const T*>(p.a)[place + column]));
  });
}

template <class T, class Body> DEV void for_elements(const Direct& p, Body body) {
  const Range range = block_range(p.count, p.chunk);
  for (u64 i = range.begin + threadIdx.x; i < range.end; i += blockDim.x) static_cast<T*>(p.out)[i] = narrow<T>(body(i));
}
}  // namespace

#define DIRECT(T, kind) \
  KERNEL(direct_##kind##_##T, Direct) { for_elements<T>(args, [&](u64 index) { return kind<T>(args, index); }); }
FOR_FLOATS(DIRECT, forward) FOR_FLOATS(DIRECT, backward_input) FOR_FLOATS(DIRECT, backward_weight)
FOR_FLOATS(DIRECT, columns) FOR_FLOATS(DIRECT, from_columns)

EXPORT_TABLE(direct)
