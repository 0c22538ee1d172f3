// Maxima under windows that move over two dimensions.
#include "pool.cuh"

namespace {
// Larger wins, NaN wins, and of equals the first stays.
template <class C> DEV bool wins(C value, C best) { return !(value <= best) & !is_nan(best); }

// The place of the maximum of nothing: a window may lie outside the image.
constexpr i32 NOWHERE = -1;

// The maxima of `count` windows that are inside the image from left to right, tap by tap.
template <i32 STRIDE, bool INDEXED, class T, class Index>
DEV void max_segment(const Pool& p, const T* image, const Window& rows, i32 x, i32 count, T* out, Index* indices) {
  const i32 stride = STRIDE ? STRIDE : p.stride[1], left = x * stride - p.padding[1];
  const i32 first = (rows.start + rows.begin * p.dilation[0]) * p.in[1] + left;
  const bool any = rows.begin < rows.end;
  Compute<T> best[SEGMENT];
  i32 best_at[SEGMENT];
  for (i32 k = 0; k < count; ++k) {
    best[k] = -infinity();
    if (INDEXED) best_at[k] = any ? first + k * stride : NOWHERE;
  }
  for (i32 i = rows.begin; i < rows.end; ++i) {
    const i32 y = rows.start + i * p.dilation[0];
    for (i32 j = 0; j < p.kernel[1]; ++j) {
      const i32 from = left + j * p.dilation[1], place = y * p.in[1] + from;
      const T* taps = image + y * p.x.strides[2] + from;
      INDEPENDENT for (i32 k = 0; k < count; ++k) {
        const Compute<T> value = widen(taps[k * stride]);
        const bool better = wins(value, best[k]);
        best[k] = better ? value : best[k];
        if (INDEXED) best_at[k] = better ? place + k * stride : best_at[k];
      }
    }
  }
  INDEPENDENT for (i32 k = 0; k < count; ++k) out[k] = narrow<T>(best[k]);
  if (INDEXED)
    INDEPENDENT for (i32 k = 0; k < count; ++k) indices[k] = Index(best_at[k]);
}

template <bool INDEXED, class T, class Index> DEV void max_pool(const Pool& p) {
  T* out = static_cast<T*>(p.out);
  Index* indices = static_cast<Index*>(p.out_indices);
  const auto start = [&](Row row) {
    const T* image = plane_of<T>(p.x, row.image, row.channel);
    const Window rows = window_of(p, 0, row.y);
    return [=, &p](i32 ox, u64 position) {
      const Window columns = window_of(p, 1, ox);
      Compute<T> best = -infinity();
      i32 best_at = NOWHERE;
      for (i32 i = rows.begin; i < rows.end; ++i)
        for (i32 j = columns.begin; j < columns.end; ++j) {
          const i32 y = rows.start + i * p.dilation[0], x = columns.start + j * p.dilation[1];
          const Compute<T> value = at(image, p.x, y, x);
          const bool better = wins(value, best) | (best_at == NOWHERE);
          best = better ? value : best;
          best_at = better ? y * p.in[1] + x : best_at;
        }
      out[position] = narrow<T>(best);
      if (INDEXED) indices[position] = Index(best_at);
    };
  };
  const Span segments = has_rows(p.x) ? windows_inside(p) : Span{0, 0};
  for_rows(p, p.pooled, segments, start, [&](Row row, i32 x, i32 count, u64 position) {
    const T* image = plane_of<T>(p.x, row.image, row.channel);
    const Window rows = window_of(p, 0, row.y);
    with_stride(p.stride[1], [&](auto stride) {
      max_segment<stride.value, INDEXED>(p, image, rows, x, count, out + position, indices + position);
    });
  });
}

// Where the maxima of a plane are: flat indices as the pool made them,
template <class Index> struct Flat {
  const Index* plane;
  DEV Flat of(const Pool& p, u64 which) { return {::plane<Index>(p.indices, p.channels, which)}; }
  DEV bool has_rows(const Pool& p) { return ::has_rows(p.indices); }
  DEV i64 at(Flat places, const Pool& p, i32 oy, i32 ox) {
    return places.plane[oy * p.indices.strides[2] + ox * p.indices.strides[3]];
  }
};

// or the place of each in its window, in a few bits (taps.cu).
struct Packed {
  const u32* words;
  u64 first;
  DEV Packed of(const Pool& p, u64 which) {
    return {static_cast<const u32*>(p.indices.data), which * p.pooled[0] * p.pooled[1]};
  }
  DEV bool has_rows(const Pool&) { return true; }
  DEV i64 at(Packed places, const Pool& p, i32 oy, i32 ox) {
    const u64 position = places.first + u64(oy) * p.pooled[1] + ox;
    const u32 log2 = u32(p.per_word_log2), bits = 32u >> log2, mask = ~0u >> (32 - bits);
    const u32 tap = places.words[position >> log2] >> ((u32(position) & ((1u << log2) - 1)) * bits) & mask;
    const i32 i = i32(tap) / p.kernel[1], j = i32(tap) - i * p.kernel[1];
    const i32 y = oy * p.stride[0] - p.padding[0] + i * p.dilation[0];
    const i32 x = ox * p.stride[1] - p.padding[1] + j * p.dilation[1];
    return i32(tap) >= p.kernel[0] * p.kernel[1] ? NOWHERE : i64(y) * p.in[1] + x;
  }
};

// The most elements of a tile: with the gradients that meet in them, what the first cache holds.
constexpr u64 TILE = 4096;

// Elements `begin..end` of a plane by their flat index: every window that may have its maximum among them is read, in
// order, and sends its gradient if it has.
template <class T, class Places>
DEV void scatter_tile(const Pool& p, const T* gradient, Places places, u64 begin, u64 end, T* out) {
  const i32 width = p.in[1], top = i32(begin / width), bottom = i32((end - 1) / width);
  const Span rows{holders_of(p, 0, top).begin, holders_of(p, 0, bottom).end};
  const Span within{holders_of(p, 1, i32(begin % width)).begin, holders_of(p, 1, i32((end - 1) % width)).end};
  const Span columns = top == bottom ? within : Span{0, p.pooled[1]};
  const u64 count = end - begin;
  // Halves are added up apart and rounded once.
  constexpr bool apart = sizeof(T) != sizeof(Compute<T>);
  Compute<T> sums[apart ? TILE : 1], *total = apart ? sums : reinterpret_cast<Compute<T>*>(out);
  for (u64 k = 0; k < count; ++k) total[k] = 0;
  for (i32 oy = rows.begin; oy < rows.end; ++oy) {
    const T* sent = gradient + oy * p.x.strides[2];
    for (i32 ox = columns.begin; ox < columns.end; ++ox) {
      const u64 place = u64(Places::at(places, p, oy, ox)) - begin;
      if (place < count) total[place] += widen(sent[ox]);
    }
  }
  if (apart)
    INDEPENDENT for (u64 k = 0; k < count; ++k) out[k] = narrow<T>(total[k]);
}

// What the windows that hold an element send it, in their order.
template <class T, class Places>
DEV Compute<T> gathered(const Pool& p, const T* gradient, Places places, i32 y, i32 x) {
  const Span rows = holders_of(p, 0, y), columns = holders_of(p, 1, x);
  const i64 here = i64(y) * p.in[1] + x;
  Compute<T> total = 0;
  for (i32 oy = rows.begin; oy < rows.end; ++oy)
    for (i32 ox = columns.begin; ox < columns.end; ++ox)
      if (Places::at(places, p, oy, ox) == here) total += at(gradient, p.x, oy, ox);
  return total;
}

template <class T, class Places> DEV void max_pool_backward(const Pool& p) {
  const u64 elements = u64(p.in[0]) * p.in[1], tiles = (elements + p.tile - 1) / p.tile;
  const Range range = block_range(p.count, p.chunk);
  for (u64 t = range.begin; t < range.end; ++t) {
    const u64 which = t / tiles, begin = t % tiles * p.tile, end = least(begin + p.tile, elements);
    const T* gradient = plane<T>(p.x, p.channels, which);
    const Places places = Places::of(p, which);
    T* out = static_cast<T*>(p.out) + which * elements;
    if (has_rows(p.x) && Places::has_rows(p)) {
      scatter_tile(p, gradient, places, begin, end, out + begin);
    } else {
      for (u64 k = begin + threadIdx.x; k < end; k += blockDim.x)
        out[k] = narrow<T>(gathered(p, gradient, places, i32(k / p.in[1]), i32(k % p.in[1])));
    }
  }
}
}  // namespace

#define POOL_INDEXED(T, Index)                                                             \
  KERNEL(pool_max_##T##_##Index, Pool) { max_pool<true, T, Index>(args); }                 \
  KERNEL(pool_max_backward_##T##_##Index, Pool) { max_pool_backward<T, Flat<Index>>(args); }
#define POOL(T, ...)                                                                       \
  KERNEL(pool_max_##T, Pool) { max_pool<false, T, i32>(args); }                            \
  KERNEL(pool_max_backward_taps_##T, Pool) { max_pool_backward<T, Packed>(args); }         \
  POOL_INDEXED(T, i32) POOL_INDEXED(T, i64)
FOR_FLOATS(POOL, )

EXPORT_TABLE(pool_max)
