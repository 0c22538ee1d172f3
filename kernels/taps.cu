// The indices of a max-pool, by the place of each in its window.
#include "coded.cuh"

namespace {
// Calls `body(k, run, top, left)` for values of one row of an output: `run` values from number `k` of those given; the window
// of the first begins at row `top` and column `left` of the image, that of each other a stride further.
template <class Body> DEV void for_rows(const Coded& p, u64 first, u64 count, Body body) {
  // In 32 bits where that does: a GPU takes far longer for 64.
  const u32 size = u32(p.pooled[0]) * u32(p.pooled[1]), width = u32(p.pooled[1]);
  const u32 place = first >> 32 ? u32(first % size) : u32(first) % size;
  i32 y = i32(place / width), x = i32(place % width);
  for (u64 k = 0; k < count;) {
    const u64 run = least(count - k, u64(p.pooled[1] - x));
    body(k, i32(run), y * p.stride[0] - p.padding[0], x * p.stride[1] - p.padding[1]);
    k += run;
    x = 0;
    if (++y == p.pooled[0]) y = 0;
  }
}

// Quotients by sizes are products with their inverses: an `f32` is exact below 2^22, an `f64` for all 31 bits.
template <class Float> DEV i32 quotient(i32 value, f64 inverse) { return i32((Float(value) + Float(0.5)) * Float(inverse)); }
DEV bool is_small(i64 value) { return value < (1 << 22); }

// Windows without gaps that are no wider than the image: an index is rows and columns from where its window begins.
template <class Code, class Index>
DEV void encode_near(const Coded& p, Code* codes, const Index* indices, i32 run, i32 top, i32 left) {
  const i32 start = top * p.width + left, stride = p.stride[1], rest = p.width - p.kernel[1], outside = p.outside;
  const f64 inverse = p.inverse_width;
  INDEPENDENT for (i32 k = 0; k < run; ++k) {
    const i32 index = i32(indices[k]), distance = index - (start + k * stride);
    const i32 tap = distance - quotient<f32>(distance, inverse) * rest;
    codes[k] = Code(index < 0 ? outside : tap);
  }
}

template <class Code, class Index>
DEV void encode_any(const Coded& p, Code* codes, const Index* indices, i32 run, i32 top, i32 left) {
  for (i32 k = 0; k < run; ++k) {
    const i32 index = i32(indices[k]), y = quotient<f64>(index, p.inverse_width), x = index - y * p.width;
    const i32 i = (y - top) / p.dilation[0], j = (x - (left + k * p.stride[1])) / p.dilation[1];
    codes[k] = Code(index < 0 ? p.outside : i * p.kernel[1] + j);
  }
}

template <class Float, class Code, class Index>
DEV void decode_row(const Coded& p, const Code* codes, Index* indices, i32 run, i32 top, i32 left) {
  const i32 start = top * p.width + left, stride = p.stride[1], right = p.dilation[1];
  const i32 down = p.dilation[0] * p.width - p.kernel[1] * right;
  const Code outside = Code(p.outside);
  const f64 inverse = p.inverse_kernel;
  INDEPENDENT for (i32 k = 0; k < run; ++k) {
    const i32 tap = i32(codes[k]), index = start + k * stride + quotient<Float>(tap, inverse) * down + tap * right;
    indices[k] = Index(codes[k] >= outside ? -1 : index);
  }
}

template <u32 PER, class Index> DEV void encode(const Coded& p) {
  const bool near = p.dilation[0] == 1 && p.dilation[1] == 1 && p.kernel[1] <= p.width &&
                    is_small(i64(p.kernel[0]) * p.width);
  pack<PER>(p, [&](auto* codes, u64 first, u64 count) {
    const Index* indices = static_cast<const Index*>(p.x) + first;
    for_rows(p, first, count, [&](u64 k, i32 run, i32 top, i32 left) {
      if (near) encode_near(p, codes + k, indices + k, run, top, left);
      else encode_any(p, codes + k, indices + k, run, top, left);
    });
  });
}
template <u32 PER, class Index> DEV void decode(const Coded& p) {
  unpack<PER>(p, [&](const auto* codes, u64 first, u64 count) {
    Index* indices = static_cast<Index*>(p.out) + first;
    for_rows(p, first, count, [&](u64 k, i32 run, i32 top, i32 left) {
      // Of 16 bits and less.
      if constexpr (PER > 1) decode_row<f32>(p, codes + k, indices + k, run, top, left);
      else decode_row<f64>(p, codes + k, indices + k, run, top, left);
    });
  });
}
}  // namespace

#define TAPS_OF(PER, T)                                          \
  TEAM_KERNEL(taps_encode_##PER##_##T, Coded) { encode<PER, T>(args); } \
  KERNEL(taps_decode_##PER##_##T, Coded) { decode<PER, T>(args); }
#define TAPS(T, ...) TAPS_OF(1, T) TAPS_OF(2, T) TAPS_OF(4, T) TAPS_OF(8, T) TAPS_OF(16, T) TAPS_OF(32, T)
FOR(i32, TAPS, ) FOR(i64, TAPS, )

EXPORT_TABLE(taps)
