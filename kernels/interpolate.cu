// Images in another size. An output element is a weighted sum of a few elements around its place; as weights belong to
// rows and to columns, a table for each dimension says them all. Cubic convolution is that of Keys (1981), "Cubic
// convolution interpolation for digital image processing", section III, with a = -3/4; the windowed sine is that of
// Duchon (1979), "Lanczos filtering in one and two dimensions".
#include "image.cuh"

namespace {
enum Mode { NEAREST, BILINEAR, BICUBIC, LANCZOS };

// Of output index o along dimension d, tap k is at indices[d][k * made[d] + o] and weighs weights[d][k * made[d] + o].
// Along a row of a table neither end of the taps moves backward.
struct Tables {
  void* weights[2];
  i32* indices[2];
  i32 in[2], made[2];  // sizes of the forward's input and output
  u64 mode, align_corners, taps;
  u64 count, chunk;  // of outputs, those of both dimensions one after the other
};
struct Interpolate {
  void* out;
  Image x;  // or the gradient
  u64 chunk, channels, count;  // of output rows
  Tables tables;
};
template <class C> DEV const C* weights_of(const Tables& t, u32 d) { return static_cast<const C*>(t.weights[d]); }

DEV f64 cubic(f64 distance) {
  const f64 a = -0.75, t = Abs::f(distance);
  if (t < 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}
DEV f64 lanczos(f64 distance) {
  if (distance == 0) return 1;
  if (Abs::f(distance) >= 3) return 0;
  const f64 x = 3.141592653589793 * distance;
  return Sin::f(x) * Sin::f(x / 3) / (x * (x / 3));
}

// Calls `body(k)` for each tap. Unrolled, so that what a thread has for each stays in registers.
constexpr i32 MOST_TAPS = 6;
template <class Body> DEV void for_taps(const Tables& t, Body body) {
  UNROLLED for (i32 k = 0; k < MOST_TAPS; ++k)
    if (k < i32(t.taps)) body(k);
}

// The weights of the taps around the place of output o, and the index of the first tap.
DEV i32 weigh(const Tables& t, u32 d, i32 o, f64* weights) {
  const i32 in = t.in[d], made = t.made[d];
  const f64 ratio = f64(in) / made;
  if (t.mode == NEAREST) {
    weights[0] = 1;
    return i32(Floor::f(o * ratio));
  }
  const f64 place = t.align_corners ? o * ((in - 1.0) / most(made - 1, 1)) : (o + 0.5) * ratio - 0.5;
  if (t.mode == BILINEAR) {
    const f64 inside = most(place, 0.0), fraction = inside - Floor::f(inside);
    weights[0] = 1 - fraction;
    weights[1] = fraction;
    return i32(Floor::f(inside));
  }
  const i32 first = i32(Floor::f(place)) - (i32(t.taps) / 2 - 1);
  f64 total = 0;
  for_taps(t, [&](i32 k) {
    const bool outside = first + k < 0 || first + k >= in;
    weights[k] = t.mode == BICUBIC ? cubic(place - (first + k)) : outside ? 0 : lanczos(place - (first + k));
    total += weights[k];
  });
  // Elements outside are the nearest inside for the cubic, and left out for the windowed sine.
  if (t.mode == LANCZOS && total != 0) for_taps(t, [&](i32 k) { weights[k] /= total; });
  return first;
}

template <class C> DEV void fill_tables(const Tables& t) {
  const Range range = block_range(t.count, t.chunk);
  for (u64 item = range.begin + threadIdx.x; item < range.end; item += blockDim.x) {
    const u32 d = item >= u64(t.made[0]);
    const i32 o = i32(item) - (d ? t.made[0] : 0);
    f64 weights[MOST_TAPS];
    const i32 first = weigh(t, d, o, weights);
    for_taps(t, [&](i32 k) {
      static_cast<C*>(t.weights[d])[k * t.made[d] + o] = C(weights[k]);
      t.indices[d][k * t.made[d] + o] = most(0, least(first + k, t.in[d] - 1));
    });
  }
}

// ---- forward

// The most elements of an input row that a segment of outputs reads.
constexpr i32 REACH = 1024;

// Columns `o..o + count` of output row y: the rows are added up first, where they are needed, and then the columns.
template <i32 TAPS, class T>
DEV void forward_segment(const Interpolate& p, const T* image, i32 y, i32 o, i32 count, i32 reach, T* out) {
  typedef Compute<T> C;
  const Tables& t = p.tables;
  const i32 *rows = t.indices[0] + y, *columns = t.indices[1] + o, first = columns[0];
  if constexpr (TAPS == 1) {
    const T* row = image + rows[0] * p.x.strides[2];
    INDEPENDENT for (i32 x = 0; x < count; ++x) out[x] = row[columns[x]];
    return;
  }
  const C *down = weights_of<C>(t, 0) + y, *across = weights_of<C>(t, 1) + o;
  C sums[REACH];
  const T* row[TAPS];
  C weight[TAPS];
  for (i32 k = 0; k < TAPS; ++k) {
    row[k] = image + rows[k * t.made[0]] * p.x.strides[2] + first;
    weight[k] = down[k * t.made[0]];
  }
  INDEPENDENT for (i32 x = 0; x < reach; ++x) {
    C sum = weight[0] * widen(row[0][x]);
    for (i32 k = 1; k < TAPS; ++k) sum += weight[k] * widen(row[k][x]);
    sums[x] = sum;
  }
  INDEPENDENT for (i32 x = 0; x < count; ++x) {
    C sum = across[x] * sums[columns[x] - first];
    for (i32 k = 1; k < TAPS; ++k) sum += across[k * t.made[1] + x] * sums[columns[k * t.made[1] + x] - first];
    out[x] = narrow<T>(sum);
  }
}

template <i32 TAPS, class T> DEV void forward_row(const Interpolate& p, const T* image, i32 y, T* out) {
  const Tables& t = p.tables;
  const i32 *begins = t.indices[1], *ends = t.indices[1] + (TAPS - 1) * t.made[1];
  for (i32 o = 0; o < t.made[1];) {
    i32 count = least(2 * SEGMENT, t.made[1] - o);
    while (ends[o + count - 1] - begins[o] >= REACH) count = (count + 1) / 2;
    forward_segment<TAPS>(p, image, y, o, count, ends[o + count - 1] - begins[o] + 1, out + o);
    o += count;
  }
}

template <i32 TAPS, class T> DEV void forward_element(const Interpolate& p, const T* image, i32 y, i32 x, T* out) {
  typedef Compute<T> C;
  const Tables& t = p.tables;
  C total = 0;
  for (i32 i = 0; i < TAPS; ++i) {
    const i32 row = t.indices[0][i * t.made[0] + y];
    C sum = 0;
    for (i32 j = 0; j < TAPS; ++j) {
      const i32 column = j * t.made[1] + x;
      sum += weights_of<C>(t, 1)[column] * at(image, p.x, row, t.indices[1][column]);
    }
    total += weights_of<C>(t, 0)[i * t.made[0] + y] * sum;
  }
  *out = narrow<T>(total);
}

template <i32 TAPS, class T> DEV void forward(const Interpolate& p) {
  const Tables& t = p.tables;
  const i32 height = t.made[0], width = t.made[1];
  const Range range = block_range(p.count, p.chunk);
  for (u64 r = range.begin; r < range.end; ++r) {
    const T* image = plane<T>(p.x, p.channels, r / height);
    const i32 y = i32(r % height);
    T* out = static_cast<T*>(p.out) + r * width;
    if (!has_rows(p.x)) {
      for (i32 x = threadIdx.x; x < width; x += blockDim.x) forward_element<TAPS>(p, image, y, x, out + x);
    } else if (TAPS == 1 && y > 0 && r > range.begin && t.indices[0][y] == t.indices[0][y - 1]) {
      memcpy(out, out - width, width * sizeof(T));
    } else {
      forward_row<TAPS>(p, image, y, out);
    }
  }
}

// ---- backward: the transpose, gathered by rows in the order of the outputs

// The outputs `begin..end` along dimension d that may read input index i.
DEV Span readers_of(const Tables& t, u32 d, i32 i) {
  const i32 *begins = t.indices[d], *ends = begins + (t.taps - 1) * t.made[d];
  // The first o for which `table[o]` is at least `value`.
  const auto first = [&](const i32* table, i32 value) {
    i32 low = 0, high = t.made[d];
    while (low < high) {
      const i32 middle = (low + high) / 2;
      if (table[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  return {first(ends, i), first(begins, i + 1)};
}

// What output o weighs input i by: ends of the image may be read by several taps.
template <class C> DEV C weight_of(const Tables& t, u32 d, i32 o, i32 i) {
  C total = 0;
  for (i32 k = 0; k < i32(t.taps); ++k)
    if (t.indices[d][k * t.made[d] + o] == i) total += weights_of<C>(t, d)[k * t.made[d] + o];
  return total;
}

// Columns `x..x + count` of row y of the input's gradient, and the outputs that may read that row and those columns.
template <class T>
DEV void backward_segment(const Interpolate& p, const T* gradient, i32 y, i32 x, i32 count, Span rows, Span columns,
                          T* out) {
  typedef Compute<T> C;
  const Tables& t = p.tables;
  C total[SEGMENT], sent[SEGMENT];
  for (i32 k = 0; k < count; ++k) total[k] = 0;
  for (i32 o = columns.begin; o < columns.end; o += SEGMENT) {
    const i32 readers = least(SEGMENT, columns.end - o);
    for (i32 k = 0; k < readers; ++k) sent[k] = 0;
    for (i32 oy = rows.begin; oy < rows.end; ++oy) {
      const C weight = weight_of<C>(t, 0, oy, y);
      const T* row = gradient + oy * p.x.strides[2] + o;
      INDEPENDENT for (i32 k = 0; k < readers; ++k) sent[k] += weight * widen(row[k]);
    }
    for (i32 tap = 0; tap < i32(t.taps); ++tap) {
      const i32* indices = t.indices[1] + tap * t.made[1] + o;
      const C* weights = weights_of<C>(t, 1) + tap * t.made[1] + o;
      for (i32 k = 0; k < readers; ++k)
        if (u32(indices[k] - x) < u32(count)) total[indices[k] - x] += weights[k] * sent[k];
    }
  }
  INDEPENDENT for (i32 k = 0; k < count; ++k) out[k] = narrow<T>(total[k]);
}

template <class T> DEV void backward_element(const Interpolate& p, const T* gradient, i32 y, i32 x, T* out) {
  typedef Compute<T> C;
  const Tables& t = p.tables;
  const Span rows = readers_of(t, 0, y), columns = readers_of(t, 1, x);
  C total = 0;
  for (i32 oy = rows.begin; oy < rows.end; ++oy) {
    C sum = 0;
    for (i32 ox = columns.begin; ox < columns.end; ++ox)
      sum += weight_of<C>(t, 1, ox, x) * at(gradient, p.x, oy, ox);
    total += weight_of<C>(t, 0, oy, y) * sum;
  }
  *out = narrow<T>(total);
}

template <class T> DEV void backward(const Interpolate& p) {
  const i32 height = p.tables.in[0], width = p.tables.in[1];
  Span columns{0, 0};
  i32 known = -1;  // where the segment begins whose readers `columns` are
  const Range range = block_range(p.count, p.chunk);
  for (u64 r = range.begin; r < range.end; ++r) {
    const T* gradient = plane<T>(p.x, p.channels, r / height);
    const i32 y = i32(r % height);
    T* out = static_cast<T*>(p.out) + r * width;
    if (has_rows(p.x)) {
      const Span rows = readers_of(p.tables, 0, y);
      for (i32 x = 0; x < width; x += SEGMENT) {
        const i32 count = least(SEGMENT, width - x);
        // The same for every row of an image that is a segment wide.
        if (x != known) columns = {readers_of(p.tables, 1, x).begin, readers_of(p.tables, 1, x + count - 1).end};
        known = x;
        backward_segment(p, gradient, y, x, count, rows, rows.begin < rows.end ? columns : Span{0, 0}, out + x);
      }
    } else {
      for (i32 x = threadIdx.x; x < width; x += blockDim.x) backward_element(p, gradient, y, x, out + x);
    }
  }
}
}  // namespace

#define TABLES(T, ...) KERNEL(interpolate_tables_##T, Tables) { fill_tables<T>(args); }
FOR(f64, TABLES, ) FOR(f32, TABLES, )
#define INTERPOLATE(T, ...)                                                             \
  KERNEL(interpolate_forward_##T, Interpolate) {                                        \
    switch (args.tables.mode) {                                                         \
      case NEAREST: return forward<1, T>(args);                                         \
      case BILINEAR: return forward<2, T>(args);                                        \
      case BICUBIC: return forward<4, T>(args);                                         \
      default: return forward<6, T>(args);                                              \
    }                                                                                   \
  }                                                                                     \
  KERNEL(interpolate_backward_##T, Interpolate) { backward<T>(args); }
FOR_FLOATS(INTERPOLATE, )

EXPORT_TABLE(interpolate)
