// Where the elements of a mask are that are set, in two steps: how many are in each run of a fixed length, and, once
// those counts are added up and the size of the output is known, their indices.
#include "views.cuh"

namespace {
struct Argwhere {
  void* out;         // counts, one per block; or indices, `rank` per element that is set
  const u8* mask;
  const i64* ends;   // how many are set up to the end of each block's run
  u64 chunk;         // length of a run
  u64 rank;          // of the mask
  u64 rows;          // of the indices' output: no more are written, whatever `ends` say
  u64 sizes[MAX_RANK];
  Space space;       // over the mask
};

DEV void count(const Argwhere& args) {
  SHARED(u64, counts, TEAM);
  each_thread([&] {
    u64 total = 0;
    for_runs<1>(args.space, block_range(args.space.count, args.chunk), [&](u64, const i64* offsets, u64 run) {
      const u8* at = args.mask + offsets[0];
      const i64 step = args.space.strides[0][0];
      u32 some = 0;
      if (step == 1)
        for (u64 k = 0; k < run; ++k) some += at[k];
      else
        for (u64 k = 0; k < run; ++k) some += at[i64(k) * step];
      total += some;
    });
    counts[threadIdx.x] = total;
  });
  each_thread([&] {
    if (threadIdx.x != 0) return;
    u64 total = 0;
    for (u32 t = 0; t < TEAM; ++t) total += counts[t];
    static_cast<i64*>(args.out)[blockIdx.x] = i64(total);
  });
}

// Calls `body(i)` for the elements of a thread that are set: each thread of a team has neighbours, so that what it finds lies side
// by side.
template <class Body> DEV void for_own(const Argwhere& args, Body body) {
  const Range range = block_range(args.space.count, args.chunk);
#if SIMT_DEVICE
  const u64 each = (range.end - range.begin + TEAM - 1) / TEAM;
  const u64 begin = range.begin + threadIdx.x * each, end = least(begin + each, range.end);
  for (u64 i = begin; i < end; ++i) {
    i64 offsets[1];
    place<1>(args.space, i, offsets);
    if (args.mask[offsets[0]]) body(i);
  }
#else
  for_runs<1>(args.space, range, [&](u64 i, const i64* offsets, u64 run) {
    const u8* at = args.mask + offsets[0];
    for (u64 k = 0; k < run; ++k)
      if (at[i64(k) * args.space.strides[0][0]]) body(i + k);
  });
#endif
}

template <class Index> DEV void indices(const Argwhere& args) {
  SHARED(u64, counts, TEAM);
#if SIMT_DEVICE
  each_thread([&] {
    u64 own = 0;
    for_own(args, [&](u64) { ++own; });
    counts[threadIdx.x] = own;
  });
#endif
  each_thread([&] {
    u64 before = blockIdx.x == 0 ? 0 : u64(args.ends[blockIdx.x - 1]);
    for (u32 t = 0; t < threadIdx.x; ++t) before += counts[t];
    before = least(before, args.rows);
    u64 left = args.rows - before;
    Index* out = static_cast<Index*>(args.out) + before * args.rank;
    for_own(args, [&](u64 i) {
      if (left == 0) return;
      --left;
      for (u64 axis = args.rank; axis-- > 0;) {
        const u64 next = i / args.sizes[axis];
        out[axis] = Index(i - next * args.sizes[axis]);
        i = next;
      }
      out += args.rank;
    });
  });
}
}  // namespace

#define COUNT_SET(T, ...) TEAM_KERNEL(count_set_##T, Argwhere) { count(args); }
#define ARGWHERE(T, ...) TEAM_KERNEL(argwhere_##T, Argwhere) { indices<T>(args); }
FOR(b8, COUNT_SET, ) FOR(i32, ARGWHERE, ) FOR(i64, ARGWHERE, )

EXPORT_TABLE(argwhere)
