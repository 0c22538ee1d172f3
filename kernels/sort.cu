// Sorting along one axis: elements become unsigned integers in the same order, which are sorted by their digits.
//
// A block sorts its rows one after another, in workspace of its own, with one thread.
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
  ALONE u32 counts[PASSES][DIGITS], next[DIGITS];
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
  ALONE u64 counts[DIGITS];
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

// `load(item, element, k)` makes the items of a row, `store(item)` an element of the output.
template <class Item, class T, class Out, class Load, class Store>
DEV void sort_rows(const Sort& args, Load load, Store store) {
  Item* items = reinterpret_cast<Item*>(args.scratch + blockIdx.x * args.room);
  const T* x = static_cast<const T*>(args.x);
  Out* out = static_cast<Out*>(args.out);
  const auto& strides = args.space.strides;
  for_runs<2>(args.space, block_range(args.space.count, args.chunk), [&](u64, const i64* offsets, u64 run) {
    for (u64 r = 0; r < run; ++r) {
      const T* from = x + offsets[0] + i64(r) * strides[0][0];
      Out* to = out + offsets[1] + i64(r) * strides[1][0];
      if (args.steps[0] == 1)
        for (u64 k = 0; k < args.size; ++k) items[k] = load(key_from(from[k]), k);
      else
        for (u64 k = 0; k < args.size; ++k) items[k] = load(key_from(from[i64(k) * args.steps[0]]), k);
      const Item* sorted = sort_items(items, items + args.size, args.size, args.count);
      for (u64 k = 0; k < args.count; ++k) to[i64(k) * args.steps[1]] = store(sorted[k]);
    }
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
  KERNEL(sort_##T, Sort) { sort<T>(args); }                     \
  KERNEL(argsort_##T##_i32, Sort) { argsort<T, i32>(args); }    \
  KERNEL(argsort_##T##_i64, Sort) { argsort<T, i64>(args); }
FOR_NUMBERS(SORT, )

EXPORT_TABLE(sort)
