// Random numbers by counting: Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
#pragma once
#include "simt.cuh"

namespace {
// Four words from a key and a counter, for each of so many counters.
template <u32 COUNTERS> DEV void philox(u32* words, u64 key, u64 counter) {
  for (u32 lane = 0; lane < COUNTERS; ++lane) {
    u32 k0 = u32(key), k1 = u32(key >> 32);
    u32 c0 = u32(counter + lane), c1 = u32((counter + lane) >> 32), c2 = 0, c3 = 0;
    for (u32 round = 0; round < 10; ++round) {
      const u64 a = u64(0xD2511F53u) * c0, b = u64(0xCD9E8D57u) * c2;
      c0 = u32(b >> 32) ^ c1 ^ k0;
      c1 = u32(b);
      c2 = u32(a >> 32) ^ c3 ^ k1;
      c3 = u32(a);
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    u32* four = words + 4 * lane;
    four[0] = c0;
    four[1] = c1;
    four[2] = c2;
    four[3] = c3;
  }
}
}  // namespace
