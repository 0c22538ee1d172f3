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
  u64 sizes[MAX_RANK];
  Space space;       // over the mask
};

DEV void count(const Argwhere& args) {
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
  static_cast<i64*>(args.out)[blockIdx.x] = i64(total);
}

template <class Index> DEV void indices(const Argwhere& args) {
  const u64 before = blockIdx.x == 0 ? 0 : u64(args.ends[blockIdx.x - 1]);
  Index* out = static_cast<Index*>(args.out) + before * args.rank;
  const i64 step = args.space.strides[0][0];
  for_runs<1>(args.space, block_range(args.space.count, args.chunk), [&](u64 i, const i64* offsets, u64 run) {
    const u8* at = args.mask + offsets[0];
    for (u64 k = 0; k < run; ++k) {
      if (!at[i64(k) * step]) continue;
      u64 rest = i + k;
      for (u64 axis = args.rank; axis-- > 0;) {
        const u64 next = rest / args.sizes[axis];
        out[axis] = Index(rest - next * args.sizes[axis]);
        rest = next;
      }
      out += args.rank;
    }
  });
}
}  // namespace

#define COUNT_SET(T, ...) KERNEL(count_set_##T, Argwhere) { count(args); }
#define ARGWHERE(T, ...) KERNEL(argwhere_##T, Argwhere) { indices<T>(args); }
FOR(b8, COUNT_SET, ) FOR(i32, ARGWHERE, ) FOR(i64, ARGWHERE, )

EXPORT_TABLE(argwhere)
