// Sorting along one axis: elements become unsigned integers in the same order, which are sorted by their digits.
//
// A block sorts its rows one after another, in workspace of its own. A stable order is the same however it is found: a team does it by
// other means than a single thread.
#include "views.cuh"

namespace {
struct Sort {
  void* out;
  const void* x;
  u8* scratch;
  u64 room;      // bytes of workspace per block
  u64 chunk;     // rows per block
  u64 size;      // of the axis
  u64 count;     // of the axis of the output: how many of the first are wanted
  i64 steps[2];  // along the axis, of x and of the output
  u64 flip;      // all bits set to sort in descending order
  Space space;   // over the rows, in x and in the output
};

// ---- elements and keys: negative zero before zero, NaN after all numbers
template <u32 bytes> struct Unsigned;
template <> struct Unsigned<1> { typedef u8 type; };
template <> struct Unsigned<2> { typedef u16 type; };
template <> struct Unsigned<4> { typedef u32 type; };
template <> struct Unsigned<8> { typedef u64 type; };
template <class T> using KeyOf = typename Unsigned<sizeof(T)>::type;

template <class T> constexpr u64 infinite = 0;  // the bits of infinity; 0 for integers
template <> constexpr u64 infinite<f64> = 0x7ff0000000000000ull;
template <> constexpr u64 infinite<f32> = 0x7f800000u;
template <> constexpr u64 infinite<f16> = 0x7c00u;
template <> constexpr u64 infinite<bf16> = 0x7f80u;

template <class T> constexpr KeyOf<T> sign_bit = KeyOf<T>(u64(1) << (sizeof(T) * 8 - 1));

template <class T> DEV KeyOf<T> key_from(T x) {
  typedef KeyOf<T> K;
  const K bits = bits_as<K>(x);
  if constexpr (infinite<T> != 0) {
    if (K(bits & ~sign_bit<T>) > K(infinite<T>)) return K(~K(0));
    return bits & sign_bit<T> ? K(~bits) : K(bits | sign_bit<T>);
  } else if constexpr (is_signed<T>) return K(bits ^ sign_bit<T>);
  else return bits;
}

template <class T> DEV T element_from(KeyOf<T> key) {
  typedef KeyOf<T> K;
  if constexpr (infinite<T> != 0) return bits_as<T>(K(key & sign_bit<T> ? key ^ sign_bit<T> : ~key));
  else if constexpr (is_signed<T>) return bits_as<T>(K(key ^ sign_bit<T>));
  else return bits_as<T>(key);
}

// ---- what is sorted: a key, or a key and where it was
template <class K> struct Placed {
  K key;
  u32 index;
};
template <class K> DEV K key_of(K item) { return item; }
template <class K> DEV K key_of(const Placed<K>& item) { return item.key; }
template <class Item> using Key = decltype(key_of(Item()));

#if SIMT_DEVICE
// Rows of at most as many elements as a team has threads, several at once: an element's place is how many come before it.
template <class Item, class T, class Out, class Load, class Store>
DEV void sort_short(const Sort& args, Load load, Store store) {
  SHARED(Item, items, TEAM);
  const u32 size = u32(args.size), at_once = TEAM / size;
  const Range range = block_range(args.space.count, args.chunk);
  for (u64 first = range.begin; first < range.end; first += at_once) {
    // Calls `body(k, offsets)` for a thread's element, which is k of its row.
    const auto each_element = [&](auto body) {
      each_thread([&] {
        const u64 row = first + threadIdx.x / size;
        if (threadIdx.x >= at_once * size || row >= range.end) return;
        i64 offsets[2];
        place<2>(args.space, row, offsets);
        body(threadIdx.x % size, static_cast<const i64*>(offsets));
      });
    };
    each_element([&](u32 k, const i64* offsets) {
      items[threadIdx.x] = load(key_from(static_cast<const T*>(args.x)[offsets[0] + i64(k) * args.steps[0]]), k);
    });
    each_element([&](u32 k, const i64* offsets) {
      const Item own = items[threadIdx.x];
      const Item* row = items + (threadIdx.x - k);
      u32 before = 0;
      for (u32 n = 0; n < size; ++n) before += key_of(row[n]) < key_of(own) || (key_of(row[n]) == key_of(own) && n < k);
      if (before < args.count) static_cast<Out*>(args.out)[offsets[1] + i64(before) * args.steps[1]] = store(own);
    });
  }
}

constexpr u32 DIGIT = 4, DIGITS = 1 << DIGIT;
struct Counts {
  u32 of[DIGITS * TEAM];  // of digit d in the part of thread t: d * TEAM + t
  u32 sums[TEAM];         // of so many neighbouring counts as there are digits
};

// Makes of each count how many come before: what is lower, and what is alike in the parts of threads before.
DEV void add_up(Counts* counts) {
  each_thread([&] {
    u32 sum = 0;
    for (u32 k = 0; k < DIGITS; ++k) sum += counts->of[threadIdx.x * DIGITS + k];
    counts->sums[threadIdx.x] = sum;
  });
  each_thread([&] {
    u32 before = 0;
    for (u32 t = 0; t < threadIdx.x; ++t) before += counts->sums[t];
    for (u32 k = 0; k < DIGITS; ++k) {
      u32& count = counts->of[threadIdx.x * DIGITS + k];
      const u32 some = count;
      count = before;
      before += some;
    }
  });
}

// From the last digit to the first, back and forth between two arrays. Returns the one that the result is in. A thread takes a part
// of neighbours.
template <class Item> DEV Item* sort_items(Item* items, Item* other, u64 size, u64) {
  SHARED(Counts, counts, 1);
  const u64 part = (size + TEAM - 1) / TEAM;
  for (u32 shift = 0; shift < sizeof(Key<Item>) * 8; shift += DIGIT) {
    const auto for_part = [&](auto body) {
      const u64 end = least((threadIdx.x + 1) * part, size);
      for (u64 k = threadIdx.x * part; k < end; ++k)
        body(items[k], counts->of[(key_of(items[k]) >> shift & (DIGITS - 1)) * TEAM + threadIdx.x]);
    };
    each_thread([&] {
      for (u32 digit = 0; digit < DIGITS; ++digit) counts->of[digit * TEAM + threadIdx.x] = 0;
      for_part([](const Item&, u32& count) { ++count; });
    });
    add_up(counts);
    each_thread([&] { for_part([&](const Item& item, u32& next) { other[next++] = item; }); });
    Item* const sorted = other;
    other = items;
    items = sorted;
  }
  return items;
}
#else
constexpr u32 DIGIT = 8, DIGITS = 1 << DIGIT;
constexpr u64 SHORT = 64;  // rows up to this long are sorted by insertion

// Stable, as all of them.
template <class Item> DEV void insertion_sort(Item* items, u64 size) {
  for (u64 k = 1; k < size; ++k) {
    const Item item = items[k];
    u64 to = k;
    for (; to > 0 && key_of(items[to - 1]) > key_of(item); --to) items[to] = items[to - 1];
    items[to] = item;
  }
}

// From the last digit to the first, back and forth between two arrays. Returns the one that the result is in.
template <class Item> DEV Item* radix_sort(Item* items, Item* other, u64 size) {
  constexpr u32 PASSES = sizeof(Key<Item>);
  u32 counts[PASSES][DIGITS], next[DIGITS];
  for (u32 pass = 0; pass < PASSES; ++pass)
    for (u32 digit = 0; digit < DIGITS; ++digit) counts[pass][digit] = 0;
  for (u64 k = 0; k < size; ++k)
    for (u32 pass = 0; pass < PASSES; ++pass) ++counts[pass][key_of(items[k]) >> (DIGIT * pass) & (DIGITS - 1)];
  for (u32 pass = 0; pass < PASSES; ++pass) {
    const u32 shift = DIGIT * pass;
    if (counts[pass][key_of(items[0]) >> shift & (DIGITS - 1)] == size) continue;  // one digit for all
    u32 before = 0;
    for (u32 digit = 0; digit < DIGITS; ++digit) {
      next[digit] = before;
      before += counts[pass][digit];
    }
    for (u64 k = 0; k < size; ++k) other[next[key_of(items[k]) >> shift & (DIGITS - 1)]++] = items[k];
    Item* const sorted = other;
    other = items;
    items = sorted;
  }
  return items;
}

// Drops items that are not among the first `count`, as far as a few digits tell, and returns how many are left, in
// the order they were in.
template <class Item> DEV u64 keep_first(Item* items, u64 size, u64 count) {
  typedef Key<Item> K;
  u64 counts[DIGITS];
  K prefix = 0;  // the digits so far of the last that is wanted
  for (i32 shift = sizeof(K) * 8 - DIGIT; shift >= 0 && size > 2 * count; shift -= DIGIT) {
    u64 before = 0;
    for (u32 digit = 0; digit < DIGITS; ++digit) counts[digit] = 0;
    for (u64 k = 0; k < size; ++k) {
      const K key = K(key_of(items[k]) >> shift);
      if (u64(key) >> DIGIT == prefix) ++counts[key & (DIGITS - 1)];
      else ++before;  // none above the prefix is left
    }
    u32 digit = 0;
    while (before + counts[digit] < count) before += counts[digit++];
    prefix = K(u64(prefix) << DIGIT | digit);
    u64 kept = 0;
    for (u64 k = 0; k < size; ++k) {
      const Item item = items[k];
      items[kept] = item;
      kept += K(key_of(item) >> shift) <= prefix;
    }
    size = kept;
  }
  return size;
}

template <class Item> DEV Item* sort_items(Item* items, Item* other, u64 size, u64 count) {
  if (size > SHORT && count < size / 4) size = keep_first(items, size, count);
  if (size > SHORT) return radix_sort(items, other, size);
  insertion_sort(items, size);
  return items;
}
#endif

// `load(key, k)` makes the items of a row, `store(item)` an element of the output.
template <class Item, class T, class Out, class Load, class Store>
DEV void sort_rows(const Sort& args, Load load, Store store) {
#if SIMT_DEVICE
  if (args.size <= TEAM) return sort_short<Item, T, Out>(args, load, store);
#endif
  Item* items = reinterpret_cast<Item*>(args.scratch + blockIdx.x * args.room);
  const T* x = static_cast<const T*>(args.x);
  Out* out = static_cast<Out*>(args.out);
  for_team_rows<2>(args.space, block_range(args.space.count, args.chunk), [&](const i64* offsets) {
    const T* from = x + offsets[0];
    Out* to = out + offsets[1];
    if (args.steps[0] == 1)
      share(args.size, [&](u64 k) { items[k] = load(key_from(from[k]), k); });
    else
      share(args.size, [&](u64 k) { items[k] = load(key_from(from[i64(k) * args.steps[0]]), k); });
    const Item* sorted = sort_items(items, items + args.size, args.size, args.count);
    share(args.count, [&](u64 k) { to[i64(k) * args.steps[1]] = store(sorted[k]); });
  });
}

template <class T> DEV void sort(const Sort& args) {
  typedef KeyOf<T> K;
  const K flip = K(args.flip);
  sort_rows<K, T, T>(
      args, [flip](K key, u64) { return K(key ^ flip); }, [flip](K key) { return element_from<T>(K(key ^ flip)); });
}

template <class T, class Index> DEV void argsort(const Sort& args) {
  typedef KeyOf<T> K;
  const K flip = K(args.flip);
  sort_rows<Placed<K>, T, Index>(
      args, [flip](K key, u64 k) { return Placed<K>{K(key ^ flip), u32(k)}; },
      [](const Placed<K>& item) { return Index(item.index); });
}
}  // namespace

#define SORT(T, ...)                                           \
  TEAM_KERNEL(sort_##T, Sort) { sort<T>(args); }                     \
  TEAM_KERNEL(argsort_##T##_i32, Sort) { argsort<T, i32>(args); }    \
  TEAM_KERNEL(argsort_##T##_i64, Sort) { argsort<T, i64>(args); }
FOR_NUMBERS(SORT, )

EXPORT_TABLE(sort)
