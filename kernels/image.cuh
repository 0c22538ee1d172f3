// Images as kernels see them: views of [n, c, h, w].
#pragma once
#include "math.cuh"
#include "views.cuh"

namespace {
struct Image {
  const void* data;
  i64 strides[4];
};

// Columns done at a time: what is kept of them stays in the first cache.
constexpr i32 SEGMENT = 128;

// A range of indices along one dimension.
struct Span {
  i32 begin, end;
};

DEV i32 up(i32 a, i32 b) { return a <= 0 ? -(-a / b) : (a + b - 1) / b; }  // ceil(a / b)

template <class T> DEV const T* plane_of(const Image& images, u64 image, u64 channel) {
  return static_cast<const T*>(images.data) + i64(image) * images.strides[0] + i64(channel) * images.strides[1];
}
// Plane `index` of all images, counted by image and channel.
template <class T> DEV const T* plane(const Image& images, u64 channels, u64 index) {
  return plane_of<T>(images, index / channels, index % channels);
}
template <class T> DEV Compute<T> at(const T* plane, const Image& image, i32 y, i32 x) {
  return widen(plane[y * image.strides[2] + x * image.strides[3]]);
}

// Whether loops along the rows of an image are worth having: never on the device, where neighbours are threads.
DEV bool has_rows(const Image& image) { return !SIMT_DEVICE && image.strides[3] == 1; }
}  // namespace
