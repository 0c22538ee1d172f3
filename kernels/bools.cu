// Bools, a bit each.
#include "coded.cuh"

namespace {
// Eight bools of a byte and eight bits, by a product that brings each to its place (a byte is 0 or 1).
DEV u32 gathered(u64 bytes) { return u32(bytes * 0x0102040810204080ull >> 56); }
DEV u64 spread(u32 bits) {
  const u64 apart = u64(bits) * 0x0101010101010101ull & 0x8040201008040201ull;
  return (apart + 0x7f7f7f7f7f7f7f7full) >> 7 & 0x0101010101010101ull;
}
// On the device neighbours need not be aligned to more than they are.
template <class T> constexpr bool by_eight = !SIMT_DEVICE && sizeof(T) == 1;

template <class T> DEV void encode(const Coded& args) {
  pack_bits<T>(args, [](const T* x, u32 count) {
    u32 word = 0;
    if (by_eight<T> && count == 32) {
      const u64* eight = reinterpret_cast<const u64*>(x);
      for (u32 k = 0; k < 4; ++k) word |= gathered(eight[k]) << (k * 8);
    } else {
      for (u32 k = 0; k < count; ++k) word |= u32(widen(x[k])) << k;
    }
    return word;
  });
}
template <class T> DEV void decode(const Coded& args) {
  const Range words = block_range(args.words, args.chunk);
  for (u64 w = words.begin + threadIdx.x; w < words.end; w += blockDim.x) {
    T* out = static_cast<T*>(args.out) + w * 32;
    const u32 word = static_cast<const u32*>(args.x)[w], count = u32(least(u64(32), args.count - w * 32));
    if (by_eight<T> && count == 32) {
      u64* eight = reinterpret_cast<u64*>(out);
      for (u32 k = 0; k < 4; ++k) eight[k] = spread(word >> (k * 8) & 0xff);
    } else {
      for (u32 k = 0; k < count; ++k) out[k] = narrow<T>((word >> k & 1) != 0);
    }
  }
}
}  // namespace

#define BOOLS(T, ...)                                     \
  KERNEL(bools_encode_##T, Coded) { encode<T>(args); }    \
  KERNEL(bools_decode_##T, Coded) { decode<T>(args); }
FOR_BOOLS(BOOLS, )

EXPORT_TABLE(bools)
