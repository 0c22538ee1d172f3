// Whether each value is above zero, a bit each, and the gradient of a rectifier from that.
#include "coded.cuh"
#include "pointwise.cuh"

namespace {
template <class T> DEV void encode(const Coded& args) {
  pack_bits<T>(args, [](const T* x, u32 count) {
    u32 word = 0;
    // Loops of a known length are vectorised.
    if (count == 32) {
      for (u32 k = 0; k < 32; ++k) word |= u32(widen(x[k]) > 0) << k;
    } else {
      for (u32 k = 0; k < count; ++k) word |= u32(widen(x[k]) > 0) << k;
    }
    return word;
  });
}

// As `ReluBackward` of the values: the same bits.
template <class T> DEV void relu_backward(const Pointwise& args) {
  T* out = static_cast<T*>(args.out);
  const T* gradient = input_of<T>(args, 0);
  const u32* signs = input_of<u32>(args, 1);
  const i64 step = args.space.strides[0][0];
  for_runs<1>(args.space, block_range(args.space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    const T* sent = gradient + offsets[0];
    // Word by word, so that the compiler sees one word shifted by each of its places.
    for (u64 done = 0; done < run;) {
      const u32 place = u32(i + done) & 31u, word = signs[(i + done) >> 5] >> place;
      const u32 some = u32(least(run - done, u64(32 - place)));
      T* to = out + i + done;
      const T* from = sent + i64(done) * step;
      if (step == 1) {
        INDEPENDENT for (u32 k = 0; k < some; ++k)
          to[k] = narrow<T>(word >> k & 1 ? widen(from[k]) : Compute<T>(0));
      } else {
        for (u32 k = 0; k < some; ++k)
          to[k] = narrow<T>(word >> k & 1 ? widen(from[i64(k) * step]) : Compute<T>(0));
      }
      done += some;
    }
  });
}
}  // namespace

#define SIGNS(T, ...)                                              \
  KERNEL(signs_encode_##T, Coded) { encode<T>(args); }             \
  KERNEL(signs_relu_backward_##T, Pointwise) { relu_backward<T>(args); }
FOR_FLOATS(SIGNS, )

EXPORT_TABLE(signs)
