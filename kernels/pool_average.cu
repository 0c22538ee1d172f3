// Averages under windows that move over two dimensions, or that divide them evenly. Backwards gather: each input element
// adds what the windows that hold it send, so nothing is atomic and the order is fixed.
#include "pool.cuh"

namespace {
// ---- windows that move
struct Moving {
  // The taps that count for an average: those in the image, or in the image and its border.
  DEV i32 size(const Pool& p, u32 d, i32 o) {
    const Window window = window_of(p, d, o);
    const i32 border = up(p.in[d] + p.padding[d] - window.start, p.dilation[d]);
    // In ceil mode a window may lie outside: its average is 0.
    return most(1, p.count_include_pad ? least(p.kernel[d], border) : window.end - window.begin);
  }
  DEV Span holders(const Pool& p, u32 d, i32 i) { return holders_of(p, d, i); }
  // Whether window o holds index i: with dilation some are skipped.
  DEV bool holds(const Pool& p, u32 d, i32 o, i32 i) {
    return p.dilation[d] == 1 || (i + p.padding[d] - o * p.stride[d]) % p.dilation[d] == 0;
  }
  // Divides what windows `o..o + count` send by their widths. All inside the image have the kernel's.
  template <class C> DEV void divide(const Pool& p, C* sent, i32 o, i32 count) {
    const Span inside = windows_inside(p);
    const i32 begin = most(0, least(inside.begin - o, count)), end = most(begin, least(inside.end - o, count));
    const C width = C(p.kernel[1]);
    for (i32 k = 0; k < begin; ++k) sent[k] /= C(size(p, 1, o + k));
    INDEPENDENT for (i32 k = begin; k < end; ++k) sent[k] /= width;
    for (i32 k = end; k < count; ++k) sent[k] /= C(size(p, 1, o + k));
  }
  // Adds what windows `o..o + count` send to the columns `x..x + width` that they hold.
  template <class C> DEV void spread(const Pool& p, const C* sent, i32 o, i32 count, C* total, i32 x, i32 width) {
    with_stride(p.stride[1], [&](auto fixed) {
      const i32 stride = fixed.value ? fixed.value : p.stride[1];
      for (i32 j = 0; j < p.kernel[1]; ++j) {
        const i32 shift = j * p.dilation[1] - p.padding[1] - x;  // window w adds to total[w * stride + shift]
        const i32 begin = most(o, up(-shift, stride)), end = least(o + count, up(width - shift, stride));
        INDEPENDENT for (i32 w = begin; w < end; ++w) total[w * stride + shift] += sent[w - o];
      }
    });
  }
};

// ---- windows that divide the image evenly
struct Adaptive {
  // (index * of + more) / by; the short division, where it does, takes a fraction of the time.
  DEV i32 scaled(i32 index, i32 of, i32 by, i32 more) {
    const u64 product = u64(index) * u64(of) + u64(more);
    return product >> 32 ? i32(product / u64(by)) : i32(u32(product) / u32(by));
  }
  DEV Span window(const Pool& p, u32 d, i32 o) {
    return {scaled(o, p.in[d], p.pooled[d], 0), scaled(o + 1, p.in[d], p.pooled[d], p.pooled[d] - 1)};
  }
  DEV i32 size(const Pool& p, u32 d, i32 o) {
    const Span span = window(p, d, o);
    return span.end - span.begin;
  }
  DEV Span holders(const Pool& p, u32 d, i32 i) {
    return {scaled(i, p.pooled[d], p.in[d], 0), scaled(i + 1, p.pooled[d], p.in[d], p.in[d] - 1)};
  }
  DEV bool holds(const Pool&, u32, i32, i32) { return true; }
  template <class C> DEV void divide(const Pool& p, C* sent, i32 o, i32 count) {
    for (i32 k = 0; k < count; ++k) sent[k] /= C(size(p, 1, o + k));
  }
  template <class C> DEV void spread(const Pool& p, const C* sent, i32 o, i32 count, C* total, i32 x, i32 width) {
    for (i32 w = 0; w < count; ++w) {
      const Span span = window(p, 1, o + w);
      const i32 begin = most(span.begin - x, 0), end = least(span.end - x, width);
      for (i32 k = begin; k < end; ++k) total[k] += sent[w];
    }
  }
};

// ---- forward

// The sum of `count` elements, `step` apart. Long runs are summed in as many parts as two vectors have.
template <class T> DEV Compute<T> sum(const T* x, i64 step, i32 count) {
  constexpr i32 LANES = 16;
  Compute<T> total = 0;
  i32 k = 0;
  if (!SIMT_DEVICE && step == 1 && count >= LANES) {
    Compute<T> parts[LANES] = {};
    for (; k + LANES <= count; k += LANES)
      for (i32 lane = 0; lane < LANES; ++lane) parts[lane] += widen(x[k + lane]);
    for (i32 lane = 0; lane < LANES; ++lane) total += parts[lane];
  }
  for (; k < count; ++k) total += widen(x[k * step]);
  return total;
}

// The averages of `count` windows that are inside the image from left to right, tap by tap.
template <i32 STRIDE, class T>
DEV void average_segment(const Pool& p, const T* image, const Window& rows, i32 height, i32 x, i32 count, T* out) {
  const i32 stride = STRIDE ? STRIDE : p.stride[1], left = x * stride - p.padding[1];
  Compute<T> total[SEGMENT];
  for (i32 k = 0; k < count; ++k) total[k] = 0;
  for (i32 i = rows.begin; i < rows.end; ++i) {
    const T* row = image + (rows.start + i * p.dilation[0]) * p.x.strides[2] + left;
    for (i32 j = 0; j < p.kernel[1]; ++j) {
      const T* taps = row + j * p.dilation[1];
      INDEPENDENT for (i32 k = 0; k < count; ++k) total[k] += widen(taps[k * stride]);
    }
  }
  const Compute<T> divisor = Compute<T>(height * p.kernel[1]);
  INDEPENDENT for (i32 k = 0; k < count; ++k) out[k] = narrow<T>(total[k] / divisor);
}

template <class T> DEV void average(const Pool& p) {
  T* out = static_cast<T*>(p.out);
  const auto start = [&](Row row) {
    const T* image = plane_of<T>(p.x, row.image, row.channel);
    const Window rows = window_of(p, 0, row.y);
    const i32 height = Moving::size(p, 0, row.y);
    return [=, &p](i32 ox, u64 position) {
      const Window columns = window_of(p, 1, ox);
      const T* first = image + (columns.start + columns.begin * p.dilation[1]) * p.x.strides[3];
      Compute<T> total = 0;
      for (i32 i = rows.begin; i < rows.end; ++i)
        total += sum(first + (rows.start + i * p.dilation[0]) * p.x.strides[2], p.dilation[1] * p.x.strides[3],
                     columns.end - columns.begin);
      out[position] = narrow<T>(total / Compute<T>(height * Moving::size(p, 1, ox)));
    };
  };
  // Of a few wide windows each is summed for itself.
  const Span inside = windows_inside(p);
  const bool many = inside.end - inside.begin >= least(p.kernel[1], 8);
  const Span segments = has_rows(p.x) && many ? inside : Span{0, 0};
  for_rows(p, p.pooled, segments, start, [&](Row row, i32 x, i32 count, u64 position) {
    const T* image = plane_of<T>(p.x, row.image, row.channel);
    const Window rows = window_of(p, 0, row.y);
    const i32 height = Moving::size(p, 0, row.y);
    with_stride(p.stride[1], [&](auto stride) {
      average_segment<stride.value>(p, image, rows, height, x, count, out + position);
    });
  });
}

template <class T> DEV void adaptive(const Pool& p) {
  T* out = static_cast<T*>(p.out);
  const auto start = [&](Row row) {
    const T* image = plane_of<T>(p.x, row.image, row.channel);
    const Span rows = Adaptive::window(p, 0, row.y);
    return [=, &p](i32 ox, u64 position) {
      const Span columns = Adaptive::window(p, 1, ox);
      const i32 width = columns.end - columns.begin;
      Compute<T> total = 0;
      for (i32 y = rows.begin; y < rows.end; ++y)
        total += sum(image + y * p.x.strides[2] + columns.begin * p.x.strides[3], p.x.strides[3], width);
      out[position] = narrow<T>(total / Compute<T>((rows.end - rows.begin) * width));
    };
  };
  for_rows(p, p.pooled, Span{0, 0}, start, [](Row, i32, i32, u64) {});
}

// ---- backward

// Columns `x..x + count` of a row: the gradients of the windows that hold the row are added up first, and their sums
// sent to the columns.
template <class Windows, class T>
DEV void backward_segment(const Pool& p, const T* gradient, i32 y, Span rows, i32 x, i32 count, T* out) {
  const Span columns{Windows::holders(p, 1, x).begin, Windows::holders(p, 1, x + count - 1).end};
  Compute<T> total[SEGMENT], sent[SEGMENT];
  for (i32 k = 0; k < count; ++k) total[k] = 0;
  for (i32 o = columns.begin; o < columns.end; o += SEGMENT) {
    const i32 windows = least(SEGMENT, columns.end - o);
    for (i32 k = 0; k < windows; ++k) sent[k] = 0;
    for (i32 oy = rows.begin; oy < rows.end; ++oy) {
      if (!Windows::holds(p, 0, oy, y)) continue;
      const T* row = gradient + oy * p.x.strides[2] + o;
      const Compute<T> height = Compute<T>(Windows::size(p, 0, oy));
      INDEPENDENT for (i32 k = 0; k < windows; ++k) sent[k] += widen(row[k]) / height;
    }
    Windows::divide(p, sent, o, windows);
    Windows::spread(p, sent, o, windows, total, x, count);
  }
  INDEPENDENT for (i32 k = 0; k < count; ++k) out[k] = narrow<T>(total[k]);
}

template <class Windows, class T> DEV void average_backward(const Pool& p) {
  T* out = static_cast<T*>(p.out);
  Span rows{0, 0};     // the windows that hold the current row
  bool again = false;  // whether the row above has the same, and so the same gradient
  const auto start = [&](Row row) {
    const T* gradient = plane_of<T>(p.x, row.image, row.channel);
    const i32 y = row.y;
    const Span above = rows;
    rows = Windows::holders(p, 0, y);
    again = !row.first && p.dilation[0] <= 1 && rows.begin == above.begin && rows.end == above.end;
    return [=, &p, &rows](i32 x, u64 position) {
      const Span columns = Windows::holders(p, 1, x);
      Compute<T> total = 0;
      for (i32 oy = rows.begin; oy < rows.end; ++oy)
        for (i32 ox = columns.begin; ox < columns.end; ++ox) {
          if (!Windows::holds(p, 0, oy, y) || !Windows::holds(p, 1, ox, x)) continue;
          const i32 size = Windows::size(p, 0, oy) * Windows::size(p, 1, ox);
          total += at(gradient, p.x, oy, ox) / Compute<T>(size);
        }
      out[position] = narrow<T>(total);
    };
  };
  const Span segments = has_rows(p.x) ? Span{0, p.in[1]} : Span{0, 0};
  for_rows(p, p.in, segments, start, [&](Row row, i32 x, i32 count, u64 position) {
    if (again) {
      memcpy(out + position, out + position - p.in[1], count * sizeof(T));
    } else {
      const T* gradient = plane_of<T>(p.x, row.image, row.channel);
      backward_segment<Windows>(p, gradient, row.y, rows, x, count, out + position);
    }
  });
}
}  // namespace

#define POOL(T, ...)                                                                           \
  KERNEL(pool_average_##T, Pool) { average<T>(args); }                                          \
  KERNEL(pool_average_backward_##T, Pool) { average_backward<Moving, T>(args); }                \
  KERNEL(pool_adaptive_##T, Pool) { adaptive<T>(args); }                                        \
  KERNEL(pool_adaptive_backward_##T, Pool) { average_backward<Adaptive, T>(args); }
FOR_FLOATS(POOL, )

EXPORT_TABLE(pool_average)
