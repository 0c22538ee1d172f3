// Values of any kind by how far they are from the least of their row, in planes: a byte of each value, which takes as many bits as
// the largest of the row's needs. A plane of eight bits is kept byte by byte, one of fewer bit by bit.
#include "form.cuh"

namespace {
// Bytes of a unit, which is a bit of each value of a row.
constexpr u32 UNIT = ROW / 8;
// Words that tell the widths of a row's planes, and its least value.
template <class T> constexpr u32 MARKS = sizeof(T) == 8 ? 3 : 2;

// So that values which are about as large are near to each other: a float's sign is its last bit, and a negative integer is below
// the others.
template <class T, bool FLOAT> struct Ordered {
  static constexpr u32 BITS = sizeof(T) * 8;
  static constexpr T HIGHEST = T(T(1) << (BITS - 1));
  DEV T of(T x) { return FLOAT ? T(x << 1 | x >> (BITS - 1)) : T(x ^ HIGHEST); }
  DEV T back(T x) { return FLOAT ? T(x >> 1 | x << (BITS - 1)) : T(x ^ HIGHEST); }
};

// What is said of a row; widths are four bits each.
template <class T> struct Mark {
  u32 widths;
  T least;

  // Also of marks that are anything.
  DEV u32 width(u32 widths, u32 plane) { return ::least(widths >> (4 * plane) & 15u, 8u); }
  DEV u32 units(u32 widths) {
    u32 sum = 0;
    for (u32 plane = 0; plane < sizeof(T); ++plane) sum += width(widths, plane);
    return sum;
  }
  DEV Mark read(const Form& p, u64 row) {
    const u32* words = static_cast<const u32*>(p.marks) + row * MARKS<T>;
    u64 least = words[1];
    if (sizeof(T) == 8) least |= u64(words[MARKS<T> - 1]) << 32;
    return {words[0], T(least)};
  }
  DEV void write(const Form& p, u64 row, Mark mark) {
    u32* words = static_cast<u32*>(p.marks) + row * MARKS<T>;
    words[0] = mark.widths;
    words[1] = u32(mark.least);
    if (sizeof(T) == 8) words[MARKS<T> - 1] = u32(u64(mark.least) >> 32);
  }
};

// Loops of a known length are vectorised.
template <class Body> DEV void for_values(u64 some, Body body) {
  if (some == ROW) {
    INDEPENDENT for (u32 k = 0; k < ROW; ++k) body(k);
  } else {
    for (u32 k = 0; k < some; ++k) body(k);
  }
}

// A plane of eight bits is kept as it is; of one of fewer, a unit has a bit of each value, byte by byte of every 32nd value.
template <class Byte> DEV void pack(u8* to, u32 width, Byte byte) {
  if (width == 8) {
    INDEPENDENT for (u32 k = 0; k < ROW; ++k) to[k] = byte(k);
  } else {
    for (u32 bit = 0; bit < width; ++bit, to += UNIT) {
      const u8 mask = u8(1u << bit);
      INDEPENDENT for (u32 lane = 0; lane < UNIT; ++lane) {
        u8 bits = 0;
        for (u32 of = 0; of < 8; ++of) bits |= byte(of * UNIT + lane) & mask ? u8(1u << of) : u8(0);
        to[lane] = bits;
      }
    }
  }
}
DEV u8 unpacked(const u8* from, u32 width, u32 k) {
  if (width == 8) return from[k];
  u32 byte = 0;
  for (u32 bit = 0; bit < width; ++bit) byte |= u32(from[bit * UNIT + k % UNIT] >> (k / UNIT) & 1) << bit;
  return u8(byte);
}
#if !SIMT_DEVICE
// The same of a row, whose plane has a bit at least.
DEV void unpack(const u8* from, u32 width, u8* to) {
  for (u32 bit = 0; bit < width; ++bit, from += UNIT) {
    const u8 mask = u8(1u << bit), before = u8(mask - 1);
    for (u32 of = 0; of < 8; ++of)
      INDEPENDENT for (u32 lane = 0; lane < UNIT; ++lane) {
        u8& byte = to[of * UNIT + lane];
        byte = u8((byte & before) | (from[lane] & u8(1u << of) ? mask : u8(0)));
      }
  }
}
// A plane without bits.
constexpr u8 NOTHING[ROW] = {};
#endif

template <class T, bool FLOAT> DEV void count(const Form& p) {
  typedef Ordered<T, FLOAT> Order;
  for_rows(p, p.rows, [&](u64 row) {
    const T* x = static_cast<const T*>(p.x) + row * ROW;
    const u64 some = length(p, row);
    T lowest = Order::of(x[0]), differing = 0;
    for_values(some, [&](u32 k) { lowest = least(lowest, Order::of(x[k])); });
    for_values(some, [&](u32 k) { differing |= T(Order::of(x[k]) - lowest); });
    u32 widths = 0;
    for (u32 plane = 0; plane < sizeof(T); ++plane) {
      const u32 most = u32(differing >> (8 * plane)) & 0xffu;
      u32 width = 0;
      while (most >> width) ++width;
      widths |= width << (4 * plane);
    }
    p.starts[row] = Mark<T>::units(widths);
    if (p.marks) Mark<T>::write(p, row, {widths, lowest});
  });
}

template <class T, bool FLOAT> DEV void encode(const Form& p) {
  typedef Ordered<T, FLOAT> Order;
  for_rows(p, p.rows, [&](u64 row) {
    const T* x = static_cast<const T*>(p.x) + row * ROW;
    const u64 some = length(p, row), first = start(p, row);
    const Mark<T> mark = Mark<T>::read(p, row);
    if (!has_room(p, first, Mark<T>::units(mark.widths))) return keep_whole(p, row, x);
    u8* to = static_cast<u8*>(p.values) + first * UNIT;
    const T lowest = mark.least;
    u8 planes[SIMT_DEVICE ? 1 : sizeof(T)][ROW];
    if (!SIMT_DEVICE) {
      for_values(some, [&](u32 k) {
        const T off = T(Order::of(x[k]) - lowest);
        for (u32 plane = 0; plane < sizeof(T); ++plane) planes[plane][k] = u8(off >> (8 * plane));
      });
      for (u64 k = some; k < ROW; ++k)
        for (u32 plane = 0; plane < sizeof(T); ++plane) planes[plane][k] = 0;
    }
    for (u32 plane = 0; plane < sizeof(T); ++plane) {
      const u32 width = Mark<T>::width(mark.widths, plane);
      pack(to, width, [&](u32 k) {
        if (!SIMT_DEVICE) return planes[plane][k];
        return k < some ? u8(T(Order::of(x[k]) - lowest) >> (8 * plane)) : u8(0);
      });
      to += width * UNIT;
    }
  });
}

template <class T, bool FLOAT> DEV void decode(const Form& p) {
  typedef Ordered<T, FLOAT> Order;
  for_rows(p, p.wanted, [&](u64 place) {
    T* out = static_cast<T*>(p.x) + place * ROW;
    const u64 row = p.first + place;
    const u64 some = length(p, row), first = start(p, row);
    const Mark<T> mark = Mark<T>::read(p, row);
    if (!has_room(p, first, Mark<T>::units(mark.widths))) return take_whole(p, row, out);
    const u8* from = static_cast<const u8*>(p.values) + first * UNIT;
#if SIMT_DEVICE
    for (u32 k = 0; k < some; ++k) {
      T sum = mark.least;
      const u8* of = from;
      for (u32 plane = 0; plane < sizeof(T); ++plane) {
        const u32 width = Mark<T>::width(mark.widths, plane);
        sum += T(T(unpacked(of, width, k)) << (8 * plane));
        of += width * UNIT;
      }
      out[k] = Order::back(sum);
    }
#else
    u8 unpacked[sizeof(T)][ROW];
    const u8* planes[sizeof(T)];
    for (u32 plane = 0; plane < sizeof(T); ++plane) {
      const u32 width = Mark<T>::width(mark.widths, plane);
      planes[plane] = width == 8 ? from : width == 0 ? NOTHING : unpacked[plane];
      if (width < 8) unpack(from, width, unpacked[plane]);
      from += width * UNIT;
    }
    for_values(some, [&](u32 k) {
      T sum = mark.least;
      for (u32 plane = 0; plane < sizeof(T); ++plane) sum += T(T(planes[plane][k]) << (8 * plane));
      out[k] = Order::back(sum);
    });
#endif
  });
}
}  // namespace

#define PLANES(T, kind, FLOAT)                                            \
  KERNEL(planes_count_##kind##_##T, Form) { count<T, FLOAT>(args); }      \
  KERNEL(planes_encode_##kind##_##T, Form) { encode<T, FLOAT>(args); }    \
  KERNEL(planes_decode_##kind##_##T, Form) { decode<T, FLOAT>(args); }
FOR(u64, PLANES, float, true) FOR(u32, PLANES, float, true) FOR(u16, PLANES, float, true)
FOR(u64, PLANES, integer, false) FOR(u32, PLANES, integer, false) FOR(u16, PLANES, integer, false)
FOR(u8, PLANES, integer, false) FOR(u32, SUMS, planes)

EXPORT_TABLE(planes)
