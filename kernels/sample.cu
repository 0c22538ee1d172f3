// Reading images between their pixels: at the places of a grid, and under the windows of a deformable convolution
// (Zhu et al. 2019, "Deformable ConvNets v2", section 3.2).
#include "image.cuh"

namespace {
// Pixels whose places are found at once, for all channels; on the device every thread has its own.
constexpr i32 LANES = SIMT_DEVICE ? 1 : 64;
// Pixels of a piece of work.
constexpr i32 PIECE = 512;

// The four elements around a place, row by row, and how far it is from the first. Elements outside count as zeros.
constexpr i64 OUTSIDE = i64(1) << 63;
template <class C> struct Place {
  i64 at[4];
  C y, x;
};
template <class C> DEV Place<C> place_of(const Image& image, const i32* size, f64 y, f64 x) {
  const f64 top = Floor::f(y), left = Floor::f(x);
  Place<C> place;
  place.y = C(y - top);
  place.x = C(x - left);
  for (i32 k = 0; k < 4; ++k) {
    const f64 row = top + k / 2, column = left + k % 2;
    // Compared as floats: places may be anywhere, and NaN is outside.
    const bool inside = row >= 0 && row < size[0] && column >= 0 && column < size[1];
    place.at[k] = inside ? i64(row) * image.strides[2] + i64(column) * image.strides[3] : OUTSIDE;
  }
  return place;
}
template <class T> DEV Compute<T> value_at(const T* plane, i64 at) { return at == OUTSIDE ? Compute<T>(0) : widen(plane[at]); }

// The value at a place, and its derivatives along both dimensions.
template <class C> struct Sample {
  C value, along_y, along_x;
};
template <class T> DEV Sample<Compute<T>> sample(const T* plane, const Place<Compute<T>>& place) {
  typedef Compute<T> C;
  C corners[4];
  for (i32 k = 0; k < 4; ++k) corners[k] = value_at(plane, place.at[k]);
  const C above = corners[0] * (C(1) - place.x) + corners[1] * place.x;
  const C below = corners[2] * (C(1) - place.x) + corners[3] * place.x;
  const C left = corners[2] - corners[0], right = corners[3] - corners[1];
  return {above * (C(1) - place.y) + below * place.y, left * (C(1) - place.x) + right * place.x,
          (corners[1] - corners[0]) * (C(1) - place.y) + (corners[3] - corners[2]) * place.y};
}

// Calls `body(first, count)` for the pixels of a piece, LANES at a time.
template <class Body> DEV void for_lanes(i32 piece, i32 pixels, Body body) {
  const i32 end = least(pixels, (piece + 1) * PIECE);
  for (i32 first = piece * PIECE + i32(threadIdx.x) * LANES; first < end; first += LANES * i32(blockDim.x))
    body(first, least(LANES, end - first));
}

// ---- the places of a grid
enum Padding { ZEROS, BORDER, REFLECTION };
struct Grid {
  void* out;
  Image x, grid;  // of the grid, the last dimension is (x, y) in -1..1
  u64 chunk, channels, count;  // of pieces of an image
  i32 in[2], made[2];
  u64 nearest, padding, align_corners;
};

// A place on the image's axis d for a coordinate in -1..1, always in f64, so that every type reads the same pixels.
DEV f64 place_on_axis(const Grid& g, u32 d, f64 coordinate) {
  const f64 size = g.in[d];
  const f64 place = g.align_corners ? (coordinate + 1) * (size - 1) / 2 : (coordinate + 1) * size / 2 - 0.5;
  if (g.padding == BORDER) return most(0.0, least(place, size - 1));
  if (g.padding == ZEROS) return place;
  const f64 low = g.align_corners ? 0 : -0.5, span = size - 1 - 2 * low;
  if (span <= 0) return low;
  const f64 from = Abs::f(place - low), rest = from - Floor::f(from / (2 * span)) * (2 * span);
  return span - Abs::f(rest - span) + low;
}

template <class C> DEV Place<C> place_in_grid(const Grid& g, f64 x, f64 y) {
  // Without a place there is zero, or the middle of the image where nothing is outside.
  const bool anywhere = x - x == 0 && y - y == 0;
  if (!anywhere && g.padding == BORDER) return place_of<C>(g.x, g.in, (g.in[0] - 1) / 2.0, (g.in[1] - 1) / 2.0);
  f64 row = place_on_axis(g, 0, y), column = place_on_axis(g, 1, x);
  if (g.nearest) {
    // Halves away from zero.
    row = row < 0 ? -Floor::f(0.5 - row) : Floor::f(row + 0.5);
    column = column < 0 ? -Floor::f(0.5 - column) : Floor::f(column + 0.5);
  }
  if (g.padding == REFLECTION && anywhere) {
    // Reflected at the edges of pixels, a place may lie half a pixel before the first: it has that one's value.
    row = most(0.0, least(row, g.in[0] - 1.0));
    column = most(0.0, least(column, g.in[1] - 1.0));
  }
  Place<C> place = place_of<C>(g.x, g.in, anywhere ? row : -9, anywhere ? column : -9);
  if (g.nearest) place.at[1] = place.at[2] = place.at[3] = OUTSIDE;  // zero times infinity is not zero
  return place;
}

template <class T> DEV void grid_sample(const Grid& g) {
  const i32 pixels = g.made[0] * g.made[1], pieces = up(pixels, PIECE);
  const Range range = block_range(g.count, g.chunk);
  for (u64 item = range.begin; item < range.end; ++item) {
    const u64 image = item / pieces;
    const T* grid = static_cast<const T*>(g.grid.data) + image * g.grid.strides[0];
    for_lanes(i32(item % pieces), pixels, [&](i32 first, i32 count) {
      Place<Compute<T>> places[LANES];
      for (i32 k = 0; k < count; ++k) {
        const T* point = grid + (first + k) / g.made[1] * g.grid.strides[1] + (first + k) % g.made[1] * g.grid.strides[2];
        places[k] = place_in_grid<Compute<T>>(g, widen(point[0]), widen(point[g.grid.strides[3]]));
      }
      for (u64 c = 0; c < g.channels; ++c) {
        const T* from = plane<T>(g.x, g.channels, image * g.channels + c);
        T* out = static_cast<T*>(g.out) + (image * g.channels + c) * pixels + first;
        for (i32 k = 0; k < count; ++k) out[k] = narrow<T>(sample(from, places[k]).value);
      }
    });
  }
}

// ---- the windows of a deformable convolution
struct Deform {
  void* out;
  void* out_mask;       // gradient of the mask, if there is a mask
  const void* columns;  // gradient of the column matrix [channels * taps, images * pixels], contiguous
  Image x, offset, mask;
  u64 chunk, count, channels, images;
  i32 in[2], made[2];
  i32 kernel[2], stride[2], padding[2], dilation[2];
  u64 offset_groups;
};

// One image, one group of channels that share offsets, and one tap of the window.
struct Tap {
  u64 image, group;
  i32 tap;
};

// Where the tap reads for an output pixel, and what it is multiplied by.
template <class C> struct Reading {
  Place<C> place;
  C mask;
};
template <class C> DEV Reading<C> reading_of(const Deform& f, const Tap& t, i32 pixel) {
  const i32 oy = pixel / f.made[1], ox = pixel % f.made[1], taps = f.kernel[0] * f.kernel[1];
  const i64 row = t.group * taps + t.tap;
  const auto of = [&](const Image& image, i64 channel) {
    return *(static_cast<const C*>(image.data) + t.image * image.strides[0] + channel * image.strides[1] +
             oy * image.strides[2] + ox * image.strides[3]);
  };
  const C y = C(oy * f.stride[0] + t.tap / f.kernel[1] * f.dilation[0] - f.padding[0]) + of(f.offset, 2 * row);
  const C x = C(ox * f.stride[1] + t.tap % f.kernel[1] * f.dilation[1] - f.padding[1]) + of(f.offset, 2 * row + 1);
  // Exactly one pixel outside, nothing is read and nothing changes with the offset.
  const bool near = y > -1 && y < f.in[0] && x > -1 && x < f.in[1];
  return {place_of<C>(f.x, f.in, near ? f64(y) : -9, near ? f64(x) : -9), f.mask.data ? of(f.mask, row) : C(1)};
}

// For every tap of this block, calls `body(tap, first pixel, count, readings)`.
template <class C, class Body> DEV void for_taps(const Deform& f, Body body) {
  const i32 pixels = f.made[0] * f.made[1], pieces = up(pixels, PIECE), taps = f.kernel[0] * f.kernel[1];
  const Range range = block_range(f.count, f.chunk);
  for (u64 item = range.begin; item < range.end; ++item) {
    const u64 rest = item / pieces;
    const Tap tap{rest / taps / f.offset_groups, rest / taps % f.offset_groups, i32(rest % taps)};
    for_lanes(i32(item % pieces), pixels, [&](i32 first, i32 count) {
      Reading<C> readings[LANES];
      for (i32 k = 0; k < count; ++k) readings[k] = reading_of<C>(f, tap, first + k);
      body(tap, first, count, readings);
    });
  }
}

// Element (channel, tap) of the column matrix at an image's pixel.
DEV u64 column_at(const Deform& f, u64 channel, const Tap& t, i32 pixel) {
  const u64 row = channel * (f.kernel[0] * f.kernel[1]) + t.tap;
  return (row * f.images + t.image) * (f.made[0] * f.made[1]) + pixel;
}

template <class C> DEV void deform_columns(const Deform& f) {
  const u64 shared = f.channels / f.offset_groups;
  for_taps<C>(f, [&](const Tap& tap, i32 first, i32 count, const Reading<C>* readings) {
    for (u64 channel = tap.group * shared; channel < (tap.group + 1) * shared; ++channel) {
      const C* image = plane<C>(f.x, f.channels, tap.image * f.channels + channel);
      C* out = static_cast<C*>(f.out) + column_at(f, channel, tap, first);
      for (i32 k = 0; k < count; ++k) out[k] = readings[k].mask * sample(image, readings[k].place).value;
    }
  });
}

template <class C> DEV void deform_backward_offset(const Deform& f) {
  const u64 shared = f.channels / f.offset_groups;
  const i64 pixels = f.made[0] * f.made[1], taps = f.kernel[0] * f.kernel[1];
  for_taps<C>(f, [&](const Tap& tap, i32 first, i32 count, const Reading<C>* readings) {
    Sample<C> totals[LANES] = {};
    for (u64 channel = tap.group * shared; channel < (tap.group + 1) * shared; ++channel) {
      const C* image = plane<C>(f.x, f.channels, tap.image * f.channels + channel);
      const C* gradient = static_cast<const C*>(f.columns) + column_at(f, channel, tap, first);
      for (i32 k = 0; k < count; ++k) {
        const Sample<C> here = sample(image, readings[k].place);
        totals[k].value += gradient[k] * here.value;
        totals[k].along_y += gradient[k] * here.along_y;
        totals[k].along_x += gradient[k] * here.along_x;
      }
    }
    const u64 row = (tap.image * f.offset_groups + tap.group) * taps + tap.tap;
    C* along_y = static_cast<C*>(f.out) + 2 * row * pixels + first;
    C* mask = static_cast<C*>(f.out_mask) + row * pixels + first;
    for (i32 k = 0; k < count; ++k) {
      along_y[k] = readings[k].mask * totals[k].along_y;
      along_y[k + pixels] = readings[k].mask * totals[k].along_x;
      if (f.out_mask) mask[k] = totals[k].value;
    }
  });
}

// A block owns the planes it adds to, so that the order of additions is fixed. On the device one thread does all.
template <class C> DEV void deform_backward_image(const Deform& f) {
  if (threadIdx.x != 0) return;
  const u64 shared = f.channels / f.offset_groups;
  const i32 pixels = f.made[0] * f.made[1], size = f.in[0] * f.in[1];
  const Range range = block_range(f.count, f.chunk);
  for (u64 p = range.begin; p < range.end; ++p) {
    C* out = static_cast<C*>(f.out) + p * size;
    for (i32 k = 0; k < size; ++k) out[k] = 0;
    const u64 channel = p % f.channels;
    Tap tap{p / f.channels, channel / shared, 0};
    for (; tap.tap < f.kernel[0] * f.kernel[1]; ++tap.tap) {
      const C* gradient = static_cast<const C*>(f.columns) + column_at(f, channel, tap, 0);
      for (i32 k = 0; k < pixels; ++k) {
        const Reading<C> reading = reading_of<C>(f, tap, k);
        const C y = reading.place.y, x = reading.place.x, sent = gradient[k] * reading.mask;
        const C weights[4] = {(1 - y) * (1 - x), (1 - y) * x, y * (1 - x), y * x};
        for (i32 corner = 0; corner < 4; ++corner)
          if (reading.place.at[corner] != OUTSIDE) out[reading.place.at[corner]] += weights[corner] * sent;
      }
    }
  }
}
}  // namespace

#define GRID(T, ...) KERNEL(grid_sample_##T, Grid) { grid_sample<T>(args); }
FOR_FLOATS(GRID, )
#define DEFORM(T, ...)                                                                   \
  KERNEL(deform_columns_##T, Deform) { deform_columns<T>(args); }                        \
  KERNEL(deform_backward_offset_##T, Deform) { deform_backward_offset<T>(args); }        \
  KERNEL(deform_backward_image_##T, Deform) { deform_backward_image<T>(args); }
FOR(f64, DEFORM, ) FOR(f32, DEFORM, )

EXPORT_TABLE(sample)
