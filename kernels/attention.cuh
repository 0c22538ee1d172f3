// What the passes of attention share: arguments, which keys count for a query, and dropout. Tiles are read once and nothing
// of the size of the scores is written (Dao et al., "FlashAttention", 2022, section 3.1; Dao, "FlashAttention-2", 2023, section
// 3.1). Sums run over the tiles in their order, each within one block.
#pragma once
#include "philox.cuh"
#include "tiles.cuh"

namespace {
// `[batch, heads, rows, width]`, the elements of a row side by side.
struct Operand {
  void* first;
  i64 batch, head, row;
};

enum Dropped : u64 { NOTHING, SCORES, WEIGHTS };

struct Attention {
  Operand query, key, value, out, gradient;
  Operand made[2];       // what a pass writes beside the sums
  Operand mask;          // b8, true where a key does not count; or null
  i64 mask_column;
  f32* sums;             // of each query: the logarithm of the sum of its weights before they are divided by it
  f32* deltas;           // of each query: the product of what came out and its gradient
  u64 heads, queries, keys, width, value_width;
  u64 tiles;             // of own rows
  u64 causal;            // whether a query sees only the keys up to its own, the last query the last key
  f64 scale;
  u64 dropped;           // see Dropped
  u64 seed, threshold;   // what is kept has a random word below it
  f64 kept_scale;        // factor of what is kept
};

// The exponential function whose argument is in units that are cheapest.
#if SIMT_DEVICE
constexpr f32 UNIT = 1.44269504f;
// Zero where it would not be normal.
DEV f32 power(f32 x) {
#if defined(__CUDACC_RTC__)
  f32 made;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(made) : "f"(x));
  return made;
#else
  return exp2f(x);
#endif
}
DEV f32 logarithm(f32 x) { return log2f(x); }
#else
constexpr f32 UNIT = 1;
// Of what is not positive; zero where it would not be normal.
DEV f32 power(f32 x) {
  const f32 made = exp_normal(x < -87.0f ? -87.0f : x);
  return x < -87.0f ? 0.0f : made;
}
DEV f32 logarithm(f32 x) { return vlog(x); }
#endif

// Where a block works: which head of which batch, and its first own row. The blocks with most work come first.
struct Place {
  u64 batch, head, both, begin;
};
DEV Place place_of(const Attention& args, u32 own, bool last_first) {
  const u64 both = blockIdx.x / args.tiles, tile = blockIdx.x % args.tiles;
  return {both / args.heads, both % args.heads, both, (last_first ? args.tiles - 1 - tile : tile) * own};
}

template <class T> DEV Slab<T> slab(const Operand& operand, const Place& at, u64 rows, u64 width) {
  T* first = static_cast<T*>(operand.first) + i64(at.batch) * operand.batch + i64(at.head) * operand.head;
  return {first, operand.row, rows, u32(width)};
}

// How many keys a query sees, if it sees only those up to its own.
DEV u64 keys_before(const Attention& args, u64 query) {
  const i64 last = i64(query + args.keys + 1) - i64(args.queries);
  return u64(least(most(last, i64(0)), i64(args.keys)));
}

// Which keys count for which queries of a head.
struct Sight {
  const Attention& args;
  const b8* mask;
  u64 both;

  DEV Sight of(const Attention& args, const Place& at) {
    const i64 offset = i64(at.batch) * args.mask.batch + i64(at.head) * args.mask.head;
    return {args, args.mask.first ? static_cast<const b8*>(args.mask.first) + offset : nullptr, at.both};
  }
  // How many of the first keys there are for a query, but for a mask.
  DEV_MEMBER u64 seen(u64 query) const {
    return query >= args.queries ? 0 : args.causal ? keys_before(args, query) : args.keys;
  }
  DEV_MEMBER bool is_masked(u64 query, u64 key) const {
    return mask && widen(mask[i64(query) * args.mask.row + i64(key) * args.mask_column]);
  }
  // Whether all of so many queries see all of so many keys.
  DEV_MEMBER bool is_whole(u64 query, u32 queries, u64 key, u32 keys) const {
    return !mask && query + queries <= args.queries && key + keys <= seen(query);
  }
  // Which random word says whether a score is kept: as of a tensor of all scores in row-major order.
  DEV_MEMBER u64 word(u64 query, u64 key) const { return (both * args.queries + query) * args.keys + key; }
};

// Something that holds or does not, for each score of a tile.
#if SIMT_DEVICE
template <class Tiles> struct Marks {
  static_assert(Tiles::ROWS * Tiles::COLUMNS <= 32, "a bit each");
  u32 bits;
  DEV_MEMBER bool at(u32 r, u32 c) const { return bits >> (r * Tiles::COLUMNS + c) & 1; }
  // A loop that is not unrolled, since what it does is long.
  template <class Test> DEV_MEMBER void set(Test test) {
    bits = 0;
#if defined(__CUDACC_RTC__)
#pragma unroll 1
#endif
    for (u32 n = 0; n < Tiles::ROWS * Tiles::COLUMNS; ++n)
      bits |= u32(test(Tiles::own_row(n / Tiles::COLUMNS), Tiles::other_row(n % Tiles::COLUMNS))) << n;
  }
};

// Marks what does not count, of a tile whose own rows and other rows begin there.
template <class Tiles, bool own_is_query> DEV void mark_hidden(Kept<Marks<Tiles>>& marks, const Sight& sight, u64 own, u64 other) {
  each_lane([&] {
    marks().set([&](u32 own_row, u32 other_row) {
      const u64 query = own_is_query ? own + own_row : other + other_row;
      const u64 key = own_is_query ? other + other_row : own + own_row;
      return key >= sight.seen(query) || sight.is_masked(query, key);
    });
  });
}

// Marks what a dropout keeps.
template <class Tiles, bool own_is_query> DEV void mark_kept(Kept<Marks<Tiles>>& marks, const Sight& sight, u64 own, u64 other) {
  each_lane([&] {
    u32 words[4];
    u64 made = ~u64(0);
    marks().set([&](u32 own_row, u32 other_row) {
      const u64 place = own_is_query ? sight.word(own + own_row, other + other_row) : sight.word(other + other_row, own + own_row);
      if (place / 4 != made) philox<1>(words, sight.args.seed, made = place / 4);
      const u32 low = u32(place), word = low & 2 ? (low & 1 ? words[3] : words[2]) : (low & 1 ? words[1] : words[0]);
      return word < sight.args.threshold;
    });
  });
}
#else
template <class Tiles> struct Marks {
  u8 x[Tiles::OTHER][Tiles::OWN];
  u8& at(u32 r, u32 c) { return x[c][r]; }
};

template <class Tiles, bool own_is_query> DEV void mark_hidden(Kept<Marks<Tiles>>& marks, const Sight& sight, u64 own, u64 other) {
  constexpr u32 QUERIES = own_is_query ? Tiles::OWN : Tiles::OTHER, KEYS = own_is_query ? Tiles::OTHER : Tiles::OWN;
  const u64 query = own_is_query ? own : other, key = own_is_query ? other : own;
  u8 seen[QUERIES];
  for (u32 q = 0; q < QUERIES; ++q) seen[q] = u8(least(sight.seen(query + q), key + KEYS) - least(sight.seen(query + q), key));
  for (u32 c = 0; c < Tiles::OTHER; ++c)
    INDEPENDENT for (u32 r = 0; r < Tiles::OWN; ++r) marks().at(r, c) = own_is_query ? u8(c) >= seen[r] : u8(r) >= seen[c];
  if (!sight.mask) return;
  for (u32 q = 0; q < QUERIES; ++q)
    for (u32 k = 0; k < seen[q]; ++k)
      (own_is_query ? marks().at(q, k) : marks().at(k, q)) |= sight.is_masked(query + q, key + k);
}

template <class Tiles, bool own_is_query> DEV void mark_kept(Kept<Marks<Tiles>>& marks, const Sight& sight, u64 own, u64 other) {
  constexpr u32 QUERIES = own_is_query ? Tiles::OWN : Tiles::OTHER, KEYS = own_is_query ? Tiles::OTHER : Tiles::OWN;
  const u64 query = own_is_query ? own : other, key = own_is_query ? other : own;
  u32 words[KEYS + 4];
  for (u32 q = 0; q < QUERIES; ++q) {
    const u64 place = sight.word(query + q, key);
    philox<KEYS / 4 + 1>(words, sight.args.seed, place / 4);
    for (u32 k = 0; k < KEYS; ++k)
      (own_is_query ? marks().at(q, k) : marks().at(k, q)) = words[place % 4 + k] < sight.args.threshold;
  }
}
#endif

// Every score of a tile, and its place in what a thread has of it.
template <class Tiles, class Scores, class F> DEV void each_score(Kept<Scores>& scores, F f) {
  each_lane([&] {
    UNROLLED for (u32 c = 0; c < Tiles::COLUMNS; ++c)
      UNROLLED INDEPENDENT for (u32 r = 0; r < Tiles::ROWS; ++r) f(scores().at(r, c), r, c);
  });
}
// Those that are marked become -inf.
template <class Tiles> DEV void hide(Kept<typename Tiles::Scores>& scores, Kept<Marks<Tiles>>& marks) {
  each_score<Tiles>(scores, [&](f32& score, u32 r, u32 c) { score = marks().at(r, c) ? -infinity() : score; });
}
// Those that are not marked become zero, the others grow.
template <class Tiles> DEV void drop(Kept<typename Tiles::Scores>& scores, Kept<Marks<Tiles>>& marks, f32 kept_scale) {
  each_score<Tiles>(scores, [&](f32& score, u32 r, u32 c) { score *= marks().at(r, c) ? kept_scale : 0.0f; });
}

// Rows that a block of the device owns, and that pass by at once, so that both have room in shared memory and registers; a block
// of the host, so that both are in the cache.
template <class T, u32 WIDTH, u32 COUNT> struct Sizes {
  static constexpr bool wide = WIDTH > 64;
#if !SIMT_DEVICE
  static constexpr u32 OWN = 64, OTHER = 64;
#else
  static constexpr bool plain = sizeof(T) == 4;
  static constexpr u32 OWN = plain && wide && COUNT > 1 ? 32 : 64;
  static constexpr u32 OTHER = plain ? (wide ? 8 : WIDTH > 32 ? 32 / COUNT : 64 / COUNT) : (wide ? 32 / COUNT : 64 / COUNT);
#endif
};
#if !SIMT_DEVICE
template <class T, u32 W, u32 COUNT> using TilesOf = HostTiles<T, W, Sizes<T, W, COUNT>::OWN, Sizes<T, W, COUNT>::OTHER>;
#else
template <class T, u32 WIDTH, u32 OWN, u32 OTHER> struct DeviceTiles : CoreTiles<T, WIDTH, OWN, OTHER> {};
template <u32 WIDTH, u32 OWN, u32 OTHER> struct DeviceTiles<f32, WIDTH, OWN, OTHER> : PlainTiles<f32, WIDTH, OWN, OTHER> {};
template <class T, u32 W, u32 COUNT> using TilesOf = DeviceTiles<T, W, Sizes<T, W, COUNT>::OWN, Sizes<T, W, COUNT>::OTHER>;
#endif
}  // namespace
