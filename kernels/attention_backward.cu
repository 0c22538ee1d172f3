// The gradients of attention. The weights are worked out again from the scores and the logarithms of their sums, once by the block
// that has some queries and once by the one that has some keys, so that each sum is one block's (Dao, "FlashAttention-2", 2023,
// sections 3.1.2 and 3.2; it adds the gradients of queries up atomically instead).
#include "attention.cuh"

namespace {
// What a thread knows of the queries of its scores.
template <u32 COUNT> struct OfQueries {
  f32 sums[COUNT], deltas[COUNT];
};

// Own rows 0 and 1 and other rows 0 and 1 are those of the scores' product and those of the gradients of the weights. Scores become
// weights as they were added up; slopes become the gradients of the scores, but for the scale.
template <class Tiles, bool own_is_query, class Of>
DEV void differentiate(const Attention& args, const Sight& sight, Kept<typename Tiles::Scores>& scores,
                       Kept<typename Tiles::Scores>& slopes, u64 own, u64 other, Of of) {
  const f32 scale = f32(args.scale) * UNIT, kept_scale = f32(args.kept_scale);
  Kept<Marks<Tiles>> kept, hidden;
  each_score<Tiles>(scores, [=](f32& score, u32, u32) { score *= scale; });
  if (args.dropped != NOTHING) mark_kept<Tiles, own_is_query>(kept, sight, own, other);
  if (args.dropped == SCORES) drop<Tiles>(scores, kept, kept_scale);
  const bool is_whole = own_is_query ? sight.is_whole(own, Tiles::OWN, other, Tiles::OTHER)
                                     : sight.is_whole(other, Tiles::OTHER, own, Tiles::OWN);
  if (!is_whole) {
    mark_hidden<Tiles, own_is_query>(hidden, sight, own, other);
    hide<Tiles>(scores, hidden);
  }
  if (args.dropped == WEIGHTS) drop<Tiles>(slopes, kept, kept_scale);
  each_lane([&] {
    UNROLLED for (u32 c = 0; c < Tiles::COLUMNS; ++c) {
      UNROLLED INDEPENDENT for (u32 r = 0; r < Tiles::ROWS; ++r) {
        const f32 weight = power(scores().at(r, c) - of().sums[own_is_query ? r : c]);
        scores().at(r, c) = weight;
        slopes().at(r, c) = weight * (slopes().at(r, c) - of().deltas[own_is_query ? r : c]);
      }
    }
  });
  if (args.dropped == WEIGHTS) drop<Tiles>(scores, kept, kept_scale);
  if (args.dropped == SCORES) drop<Tiles>(slopes, kept, kept_scale);
}

template <class Sums, class Tiles> DEV void clear(Kept<Sums>& sums) {
  each_lane([&] {
    UNROLLED for (u32 c = 0; c < Sums::COLUMNS; ++c)
      UNROLLED for (u32 r = 0; r < Tiles::ROWS; ++r) sums().at(r, c) = 0;
  });
}

// The gradients of the queries, and what is subtracted from those of the weights: of each query the sum over the keys of weights
// times their gradients, which is what came out times its gradient.
template <class Tiles, class T> DEV void of_queries(const Attention& args, typename Tiles::template Space<2>& space) {
  const Place at = place_of(args, Tiles::OWN, args.causal);
  const Sight sight = Sight::of(args, at);
  const auto keys = slab<const T>(args.key, at, args.keys, args.width);
  const auto values = slab<const T>(args.value, at, args.keys, args.value_width);
  const auto out = slab<const T>(args.out, at, args.queries, args.value_width);
  const auto gradient = slab<const T>(args.gradient, at, args.queries, args.value_width);
  const u64 end = args.causal ? keys_before(args, at.begin + Tiles::OWN - 1) : args.keys;

  Kept<typename Tiles::Sums> sums;
  Kept<OfQueries<Tiles::ROWS>> of;
  f32* deltas = args.deltas + at.both * args.queries;
  each_thread([&] {
    for (u32 row = threadIdx.x; row < Tiles::OWN && at.begin + row < args.queries; row += TEAM) {
      const T* x = out.first + i64(at.begin + row) * out.row;
      const T* y = gradient.first + i64(at.begin + row) * gradient.row;
      f32 sum = 0;
      for (u32 k = 0; k < out.width; ++k) sum += widen(x[k]) * widen(y[k]);
      deltas[at.begin + row] = sum;
    }
  });
  Tiles::load_own(space, 0, slab<const T>(args.query, at, args.queries, args.width), at.begin);
  Tiles::load_own(space, 1, gradient, at.begin);
  clear<typename Tiles::Sums, Tiles>(sums);
  each_lane([&] {
    UNROLLED for (u32 r = 0; r < Tiles::ROWS; ++r) {
      const u64 query = at.begin + Tiles::own_row(r);
      of().sums[r] = query < args.queries ? args.sums[at.both * args.queries + query] * UNIT : infinity();
      of().deltas[r] = query < args.queries ? deltas[query] : 0;
    }
  });
  for (u64 key = 0; key < end; key += Tiles::OTHER) {
    Kept<typename Tiles::Scores> scores, slopes;
    Tiles::load_other(space, 0, keys, key);
    Tiles::load_other(space, 1, values, key);
    wait_for_all();
    Tiles::scores(scores, space, 0, 0, keys.width);
    Tiles::scores(slopes, space, 1, 1, values.width);
    differentiate<Tiles, true>(args, sight, scores, slopes, at.begin, key, [&]() -> OfQueries<Tiles::ROWS>& { return of(); });
    Tiles::add(sums, slopes, space, 0, keys.width);
    wait_for_all();
  }
  const auto made = slab<T>(args.made[0], at, args.queries, args.width);
  Tiles::store(space, 0, sums, made, at.begin, [&](u32) { return f32(args.scale); });
}

// The gradients of keys and values.
template <class Tiles, class T> DEV void of_keys(const Attention& args, typename Tiles::template Space<2>& space) {
  const Place at = place_of(args, Tiles::OWN, false);
  const Sight sight = Sight::of(args, at);
  const auto queries = slab<const T>(args.query, at, args.queries, args.width);
  const auto gradient = slab<const T>(args.gradient, at, args.queries, args.value_width);
  // The first query that sees the first key.
  const u64 late = args.causal && at.begin + args.queries > args.keys ? at.begin + args.queries - args.keys : 0;

  Kept<typename Tiles::Sums> of_keys, of_values;
  Tiles::load_own(space, 0, slab<const T>(args.key, at, args.keys, args.width), at.begin);
  Tiles::load_own(space, 1, slab<const T>(args.value, at, args.keys, args.value_width), at.begin);
  clear<typename Tiles::Sums, Tiles>(of_keys);
  clear<typename Tiles::Sums, Tiles>(of_values);
  for (u64 query = late / Tiles::OTHER * Tiles::OTHER; query < args.queries; query += Tiles::OTHER) {
    Kept<typename Tiles::Scores> scores, slopes;
    Kept<OfQueries<Tiles::COLUMNS>> of;
    Tiles::load_other(space, 0, queries, query);
    Tiles::load_other(space, 1, gradient, query);
    each_lane([&] {
      UNROLLED for (u32 c = 0; c < Tiles::COLUMNS; ++c) {
        const u64 of_this = query + Tiles::other_row(c), place = at.both * args.queries + of_this;
        of().sums[c] = of_this < args.queries ? args.sums[place] * UNIT : infinity();
        of().deltas[c] = of_this < args.queries ? args.deltas[place] : 0;
      }
    });
    wait_for_all();
    Tiles::scores(scores, space, 0, 0, queries.width);
    Tiles::scores(slopes, space, 1, 1, gradient.width);
    differentiate<Tiles, false>(args, sight, scores, slopes, at.begin, query, [&]() -> OfQueries<Tiles::COLUMNS>& { return of(); });
    Tiles::add(of_values, scores, space, 1, gradient.width);
    Tiles::add(of_keys, slopes, space, 0, queries.width);
    wait_for_all();
  }
  const auto to_keys = slab<T>(args.made[0], at, args.keys, args.width);
  const auto to_values = slab<T>(args.made[1], at, args.keys, args.value_width);
  Tiles::store(space, 0, of_keys, to_keys, at.begin, [&](u32) { return f32(args.scale); });
  Tiles::store(space, 1, of_values, to_values, at.begin, [&](u32) { return 1.0f; });
}
}  // namespace

#define BACKWARD(name, pass, T, WIDTH)                     \
  TEAM_KERNEL(attention_##name##_##WIDTH##_##T, Attention) { \
    typedef TilesOf<T, WIDTH, 2> Tiles;                    \
    SHARED(Tiles::Space<2>, space, 1);                     \
    pass<Tiles, T>(args, space[0]);                        \
  }
#define BACKWARDS(T, ...)                                                                                       \
  BACKWARD(query, of_queries, T, 32) BACKWARD(query, of_queries, T, 64) BACKWARD(query, of_queries, T, 128)     \
  BACKWARD(key, of_keys, T, 32) BACKWARD(key, of_keys, T, 64) BACKWARD(key, of_keys, T, 128)
FOR(f32, BACKWARDS, ) FOR_HALVES(BACKWARDS, )

EXPORT_TABLE(attention_backward)
