// Integers that are known to be small and not negative, in as many bits as the largest may take.
#include "coded.cuh"

namespace {
template <u32 PER, class T> DEV void encode(const Coded& args) {
  constexpr u32 MASK = ~0u >> (32 - 32 / PER);
  pack<PER>(args, [&](auto* codes, u64 first, u64 count) {
    const T* x = static_cast<const T*>(args.x) + first;
    INDEPENDENT for (u64 k = 0; k < count; ++k) codes[k] = u32(x[k]) & MASK;
  });
}
template <u32 PER, class T> DEV void decode(const Coded& args) {
  unpack<PER>(args, [&](const auto* codes, u64 first, u64 count) {
    T* out = static_cast<T*>(args.out) + first;
    INDEPENDENT for (u64 k = 0; k < count; ++k) out[k] = T(codes[k]);
  });
}
}  // namespace

#define INTEGERS_OF(PER, T)                                              \
  TEAM_KERNEL(integers_encode_##PER##_##T, Coded) { encode<PER, T>(args); }   \
  KERNEL(integers_decode_##PER##_##T, Coded) { decode<PER, T>(args); }
#define INTEGERS(T, ...)                                                     \
  INTEGERS_OF(1, T) INTEGERS_OF(2, T) INTEGERS_OF(4, T) INTEGERS_OF(8, T)    \
  INTEGERS_OF(16, T) INTEGERS_OF(32, T)
FOR(i32, INTEGERS, ) FOR(i64, INTEGERS, )

EXPORT_TABLE(integers)
