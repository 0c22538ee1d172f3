// Floats in formats of fewer bits.
#include "coded.cuh"
#include "formats.cuh"

namespace {
template <u32 PER, class F, class T> DEV void encode(const Coded& args) {
  pack<PER>(args, [&](auto* codes, u64 first, u64 count) {
    const T* x = static_cast<const T*>(args.x) + first;
    INDEPENDENT for (u64 k = 0; k < count; ++k) codes[k] = F::encode(single(x[k]));
  });
}
template <u32 PER, class F, class T> DEV void decode(const Coded& args) {
  unpack<PER>(args, [&](const auto* codes, u64 first, u64 count) {
    T* out = static_cast<T*>(args.out) + first;
    INDEPENDENT for (u64 k = 0; k < count; ++k) out[k] = narrow<T>(Compute<T>(F::decode(codes[k])));
  });
}
}  // namespace

#define REDUCED(T, kind, PER, EXPONENT, MANTISSA)                                                     \
  TEAM_KERNEL(reduced_encode_##kind##_##T, Coded) { encode<PER, Format<EXPONENT, MANTISSA>, T>(args); }    \
  KERNEL(reduced_decode_##kind##_##T, Coded) { decode<PER, Format<EXPONENT, MANTISSA>, T>(args); }
FOR_FLOATS(REDUCED, f16, 2, 5, 10) FOR_FLOATS(REDUCED, bf16, 2, 8, 7) FOR_FLOATS(REDUCED, fp10, 3, 5, 4)
FOR_FLOATS(REDUCED, fp8_e4m3, 4, 4, 3) FOR_FLOATS(REDUCED, fp8_e5m2, 4, 5, 2)

EXPORT_TABLE(reduced)
