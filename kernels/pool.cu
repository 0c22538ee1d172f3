// Pooling over two dimensions. Backwards gather: each input element adds what the windows that hold it send, in the
// order of the windows, so nothing is atomic and the order is fixed.
#include "math.cuh"
#include "views.cuh"

namespace {
// A view of [n, c, h, w].
struct Image {
  const void* data;
  i64 strides[4];
};
struct Pool {
  void* out;
  void* out_indices;
  Image x;        // or the gradient
  Image indices;  // of the maxima, backward
  u64 chunk;      // rows of the output per block
  u64 channels;
  u64 count;       // of output rows
  i32 in[2];       // height and width of the forward's input
  i32 pooled[2];   // height and width of the forward's output
  i32 kernel[2], stride[2], padding[2], dilation[2];
  u64 count_include_pad;
};

DEV i32 up(i32 a, i32 b) { return a <= 0 ? -(-a / b) : (a + b - 1) / b; }  // ceil(a / b)

// The taps `begin..end` of a window that lie inside the image, and where the window starts.
struct Window {
  i32 start, begin, end;
};
DEV Window window_of(const Pool& p, u32 d, i32 o) {
  const i32 start = o * p.stride[d] - p.padding[d];
  return {start, most(0, up(-start, p.dilation[d])), least(p.kernel[d], up(p.in[d] - start, p.dilation[d]))};
}
// The taps that count for an average: those in the image, or in the image and its border.
DEV i32 taps(const Pool& p, u32 d, i32 o) {
  const Window window = window_of(p, d, o);
  if (!p.count_include_pad) return window.end - window.begin;
  return least(p.kernel[d], up(p.in[d] + p.padding[d] - window.start, p.dilation[d]));
}
DEV float divisor_of(const Pool& p, i32 oy, i32 ox) { return float(taps(p, 0, oy) * taps(p, 1, ox)); }

// The windows `begin..end` that may hold the image's index i.
struct Holders {
  i32 begin, end;
};
DEV Holders holders_of(const Pool& p, u32 d, i32 i) {
  const i32 last = i + p.padding[d], first = last - (p.kernel[d] - 1) * p.dilation[d];
  return {most(0, up(first, p.stride[d])), least(p.pooled[d], last / p.stride[d] + 1)};
}
// Whether window o holds index i: with dilation some are skipped.
DEV bool holds(const Pool& p, u32 d, i32 o, i32 i) {
  return p.dilation[d] == 1 || (i + p.padding[d] - o * p.stride[d]) % p.dilation[d] == 0;
}

template <class T> DEV const T* plane(const Image& image, u64 channels, u64 index) {
  const i64 offset = i64(index / channels) * image.strides[0] + i64(index % channels) * image.strides[1];
  return static_cast<const T*>(image.data) + offset;
}
template <class T> DEV Compute<T> at(const T* plane, const Image& image, i32 y, i32 x) {
  return widen(plane[y * image.strides[2] + x * image.strides[3]]);
}

// For every row of this block in a [planes, height, width] output: `row(plane, y)` gives a function of x and position,
// which is called for every element. What a row's elements share is computed once.
template <class Row> DEV void for_rows(const Pool& p, const i32* size, Row row) {
  const Range rows = block_range(p.count, p.chunk);
  for (u64 r = rows.begin; r < rows.end; ++r) {
    const auto element = row(r / size[0], i32(r % size[0]));
    for (i32 x = threadIdx.x; x < size[1]; x += blockDim.x) element(x, r * size[1] + x);
  }
}

template <class T, class Index> DEV void max_pool(const Pool& p) {
  T* out = static_cast<T*>(p.out);
  Index* indices = static_cast<Index*>(p.out_indices);
  for_rows(p, p.pooled, [&](u64 which, i32 oy) {
    const T* image = plane<T>(p.x, p.channels, which);
    const Window rows = window_of(p, 0, oy);
    return [=, &p](i32 ox, u64 position) {
      const Window columns = window_of(p, 1, ox);
      Compute<T> best = -infinity();
      i32 best_at = -1;
      for (i32 i = rows.begin; i < rows.end; ++i)
        for (i32 j = columns.begin; j < columns.end; ++j) {
          const i32 y = rows.start + i * p.dilation[0], x = columns.start + j * p.dilation[1];
          const Compute<T> value = at(image, p.x, y, x);
          const bool better = (value > best) | (best_at < 0) | (is_nan(value) & !is_nan(best));
          best = better ? value : best;
          best_at = better ? y * p.in[1] + x : best_at;
        }
      out[position] = narrow<T>(best);
      if (indices) indices[position] = Index(most(best_at, 0));
    };
  });
}

template <class T, class Index> DEV void max_pool_backward(const Pool& p) {
  T* out = static_cast<T*>(p.out);
  for_rows(p, p.in, [&](u64 which, i32 y) {
    const T* gradient = plane<T>(p.x, p.channels, which);
    const Index* indices = plane<Index>(p.indices, p.channels, which);
    const Holders rows = holders_of(p, 0, y);
    return [=, &p](i32 x, u64 position) {
      const Holders columns = holders_of(p, 1, x);
      const Index here = Index(y * p.in[1] + x);
      Compute<T> total = 0;
      for (i32 oy = rows.begin; oy < rows.end; ++oy)
        for (i32 ox = columns.begin; ox < columns.end; ++ox)
          if (at(indices, p.indices, oy, ox) == here) total += at(gradient, p.x, oy, ox);
      out[position] = narrow<T>(total);
    };
  });
}

template <class T> DEV void avg_pool(const Pool& p) {
  T* out = static_cast<T*>(p.out);
  for_rows(p, p.pooled, [&](u64 which, i32 oy) {
    const T* image = plane<T>(p.x, p.channels, which);
    const Window rows = window_of(p, 0, oy);
    return [=, &p](i32 ox, u64 position) {
      const Window columns = window_of(p, 1, ox);
      Compute<T> total = 0;
      for (i32 i = rows.begin; i < rows.end; ++i)
        for (i32 j = columns.begin; j < columns.end; ++j)
          total += at(image, p.x, rows.start + i * p.dilation[0], columns.start + j * p.dilation[1]);
      out[position] = narrow<T>(total / divisor_of(p, oy, ox));
    };
  });
}

template <class T> DEV void avg_pool_backward(const Pool& p) {
  T* out = static_cast<T*>(p.out);
  for_rows(p, p.in, [&](u64 which, i32 y) {
    const T* gradient = plane<T>(p.x, p.channels, which);
    const Holders rows = holders_of(p, 0, y);
    return [=, &p](i32 x, u64 position) {
      const Holders columns = holders_of(p, 1, x);
      Compute<T> total = 0;
      for (i32 oy = rows.begin; oy < rows.end; ++oy)
        for (i32 ox = columns.begin; ox < columns.end; ++ox)
          if (holds(p, 0, oy, y) && holds(p, 1, ox, x)) total += at(gradient, p.x, oy, ox) / divisor_of(p, oy, ox);
      out[position] = narrow<T>(total);
    };
  });
}

// Adaptive: window o of dimension d covers begin..end, and the windows begin..end hold index i.
DEV Holders adaptive_window(const Pool& p, u32 d, i32 o) {
  return {o * p.in[d] / p.pooled[d], up((o + 1) * p.in[d], p.pooled[d])};
}
DEV Holders adaptive_holders(const Pool& p, u32 d, i32 i) {
  return {i * p.pooled[d] / p.in[d], up((i + 1) * p.pooled[d], p.in[d])};
}

template <class T> DEV void adaptive(const Pool& p) {
  T* out = static_cast<T*>(p.out);
  for_rows(p, p.pooled, [&](u64 which, i32 oy) {
    const T* image = plane<T>(p.x, p.channels, which);
    const Holders rows = adaptive_window(p, 0, oy);
    return [=, &p](i32 ox, u64 position) {
      const Holders columns = adaptive_window(p, 1, ox);
      Compute<T> total = 0;
      for (i32 y = rows.begin; y < rows.end; ++y)
        for (i32 x = columns.begin; x < columns.end; ++x) total += at(image, p.x, y, x);
      out[position] = narrow<T>(total / float((rows.end - rows.begin) * (columns.end - columns.begin)));
    };
  });
}

template <class T> DEV void adaptive_backward(const Pool& p) {
  T* out = static_cast<T*>(p.out);
  for_rows(p, p.in, [&](u64 which, i32 y) {
    const T* gradient = plane<T>(p.x, p.channels, which);
    const Holders rows = adaptive_holders(p, 0, y);
    return [=, &p](i32 x, u64 position) {
      const Holders columns = adaptive_holders(p, 1, x);
      Compute<T> total = 0;
      for (i32 oy = rows.begin; oy < rows.end; ++oy) {
        const Holders high = adaptive_window(p, 0, oy);
        for (i32 ox = columns.begin; ox < columns.end; ++ox) {
          const Holders wide = adaptive_window(p, 1, ox);
          total += at(gradient, p.x, oy, ox) / float((high.end - high.begin) * (wide.end - wide.begin));
        }
      }
      out[position] = narrow<T>(total);
    };
  });
}
}  // namespace

#define POOL_INDEXED(T, Index)                                                            \
  KERNEL(pool_max_##T##_##Index, Pool) { max_pool<T, Index>(args); }                       \
  KERNEL(pool_max_backward_##T##_##Index, Pool) { max_pool_backward<T, Index>(args); }
#define POOL(T, ...)                                                                      \
  KERNEL(pool_max_##T, Pool) { max_pool<T, i32>(args); }                                   \
  POOL_INDEXED(T, i32) POOL_INDEXED(T, i64)                                               \
  KERNEL(pool_average_##T, Pool) { avg_pool<T>(args); }                                    \
  KERNEL(pool_average_backward_##T, Pool) { avg_pool_backward<T>(args); }                  \
  KERNEL(pool_adaptive_##T, Pool) { adaptive<T>(args); }                                   \
  KERNEL(pool_adaptive_backward_##T, Pool) { adaptive_backward<T>(args); }
FOR_FLOATS(POOL, )

EXPORT_TABLE(pool)
