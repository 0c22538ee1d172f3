// Attention: of each query, the sum of values weighed by the softmax of its scores. A block has some queries, and keys and values
// pass by in tiles.
#include "attention.cuh"

namespace {
// What becomes of the largest score so far, and of the sums, as a tile is added (Milakov and Gimelshein, "Online normalizer
// calculation for softmax", 2018).
template <class Tiles> struct Online {
  f32 largest[Tiles::ROWS], total[Tiles::ROWS], more[Tiles::ROWS];
};

// NaN does not matter here: its weight is one too.
struct Larger {
#if SIMT_DEVICE
  DEV f32 f(f32 a, f32 b) { return fmaxf(a, b); }
#else
  DEV f32 f(f32 a, f32 b) { return a > b ? a : b; }
#endif
};

template <class Tiles, class T> DEV void attend(const Attention& args, typename Tiles::template Space<1>& space) {
  typedef typename Tiles::Scores Scores;
  typedef typename Tiles::Sums Sums;
  const Place at = place_of(args, Tiles::OWN, args.causal);
  const Sight sight = Sight::of(args, at);
  const auto queries = slab<const T>(args.query, at, args.queries, args.width);
  const auto keys = slab<const T>(args.key, at, args.keys, args.width);
  const auto values = slab<const T>(args.value, at, args.keys, args.value_width);
  const f32 scale = f32(args.scale) * UNIT, kept_scale = f32(args.kept_scale), none = -infinity();
  const u64 end = args.causal ? keys_before(args, at.begin + Tiles::OWN - 1) : args.keys;

  Kept<Sums> sums;
  Kept<Online<Tiles>> online;
  Tiles::load_own(space, 0, queries, at.begin);
  each_lane([&] {
    UNROLLED for (u32 r = 0; r < Tiles::ROWS; ++r) online().largest[r] = none, online().total[r] = 0;
    UNROLLED for (u32 c = 0; c < Sums::COLUMNS; ++c)
      UNROLLED for (u32 r = 0; r < Tiles::ROWS; ++r) sums().at(r, c) = 0;
  });
  for (u64 key = 0; key < end; key += Tiles::OTHER) {
    Kept<Scores> scores;
    Kept<Marks<Tiles>> kept, hidden;
    Tiles::load_other(space, 0, keys, key);
    Tiles::load_other(space, 1, values, key);
    wait_for_all();
    Tiles::scores(scores, space, 0, 0, keys.width);
    each_score<Tiles>(scores, [=](f32& score, u32, u32) { score *= scale; });
    if (args.dropped != NOTHING) mark_kept<Tiles, true>(kept, sight, at.begin, key);
    if (args.dropped == SCORES) drop<Tiles>(scores, kept, kept_scale);
    if (!sight.is_whole(at.begin, Tiles::OWN, key, Tiles::OTHER)) {
      mark_hidden<Tiles, true>(hidden, sight, at.begin, key);
      hide<Tiles>(scores, hidden);
    }

    each_lane([&] {
      f32* more = online().more;
      UNROLLED for (u32 r = 0; r < Tiles::ROWS; ++r) more[r] = online().largest[r];
      UNROLLED for (u32 c = 0; c < Tiles::COLUMNS; ++c)
        UNROLLED INDEPENDENT for (u32 r = 0; r < Tiles::ROWS; ++r) more[r] = Larger::f(more[r], scores().at(r, c));
    });
    UNROLLED for (u32 r = 0; r < Tiles::ROWS; ++r) Tiles::template join<Larger>([&]() -> f32& { return online().more[r]; });
    each_lane([&] {
      Online<Tiles>& own = online();
      f32 shift[Tiles::ROWS], less[Tiles::ROWS], sum[Tiles::ROWS];
      UNROLLED INDEPENDENT for (u32 r = 0; r < Tiles::ROWS; ++r) {
        shift[r] = own.more[r] == none ? 0 : own.more[r];
        less[r] = power(own.largest[r] - shift[r]);
        own.largest[r] = own.more[r];
        sum[r] = 0;
      }
      UNROLLED for (u32 c = 0; c < Tiles::COLUMNS; ++c) {
        UNROLLED INDEPENDENT for (u32 r = 0; r < Tiles::ROWS; ++r) {
          const f32 weight = power(scores().at(r, c) - shift[r]);
          scores().at(r, c) = weight;
          sum[r] += weight;
        }
      }
      UNROLLED INDEPENDENT for (u32 r = 0; r < Tiles::ROWS; ++r) own.total[r] = own.total[r] * less[r] + sum[r];
      UNROLLED for (u32 c = 0; c < Sums::COLUMNS; ++c)
        UNROLLED INDEPENDENT for (u32 r = 0; r < Tiles::ROWS; ++r) sums().at(r, c) *= less[r];
    });
    if (args.dropped == WEIGHTS) drop<Tiles>(scores, kept, kept_scale);
    Tiles::add(sums, scores, space, 1, values.width);
    wait_for_all();
  }

  UNROLLED for (u32 r = 0; r < Tiles::ROWS; ++r) Tiles::template join<Add>([&]() -> f32& { return online().total[r]; });
  each_lane([&] {
    UNROLLED for (u32 r = 0; r < Tiles::ROWS; ++r) {
      const u64 query = at.begin + Tiles::own_row(r);
      const f32 total = online().total[r];
      // Where no key counts, every weight is to be zero: the logarithm is infinite.
      const f32 sum = total == 0 ? infinity() : (online().largest[r] + logarithm(total)) / UNIT;
      if (query < args.queries) args.sums[at.both * args.queries + query] = sum;
    }
  });
  Tiles::store(space, 0, sums, slab<T>(args.made[0], at, args.queries, args.value_width), at.begin, [&](u32 r) {
    const f32 total = online().total[r];
    return 1 / (total == 0 ? 1 : total);
  });
}
}  // namespace

#define ATTENTION(T, WIDTH)                                            \
  TEAM_KERNEL(attention_##WIDTH##_##T, Attention) {                    \
    typedef TilesOf<T, WIDTH, 1> Tiles;                                \
    SHARED(Tiles::Space<1>, space, 1);                                 \
    attend<Tiles, T>(args, space[0]);                                  \
  }
#define ATTENTIONS(T, ...) ATTENTION(T, 32) ATTENTION(T, 64) ATTENTION(T, 128)
FOR(f32, ATTENTIONS, ) FOR_HALVES(ATTENTIONS, )

EXPORT_TABLE(attention)
