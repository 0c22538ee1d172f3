// Values of which few are not zero: of a row, the others lie side by side, and marks say which they are: a bit for each value, or a
// byte for each that is kept.
#include "form.cuh"

namespace {
constexpr u32 MARK_WORDS = ROW / 32;

DEV u32 bits_set(u32 word) {
  word -= word >> 1 & 0x55555555u;
  word = (word & 0x33333333u) + (word >> 2 & 0x33333333u);
  return ((word + (word >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24;
}

template <class T> DEV void count(const Form& p) {
  for_rows(p, p.rows, [&](u64 row) {
    const T* x = static_cast<const T*>(p.x) + row * ROW;
    const u64 some = length(p, row);
    u32 kept = 0;
    // Loops of a known length are vectorised.
    if (some == ROW) {
      for (u32 k = 0; k < ROW; ++k) kept += u32(x[k] != T(0));
    } else {
      for (u32 k = 0; k < some; ++k) kept += u32(x[k] != T(0));
    }
    p.starts[row] = kept;
  });
}

// Which of 32 values are not zero, of a row of `some`.
template <class T> DEV u32 marks_of(const T* x, u64 some, u32 from) {
  u32 word = 0;
  if (from + 32 <= some) {
    for (u32 k = 0; k < 32; ++k) word |= u32(x[from + k] != T(0)) << k;
  } else {
    for (u32 k = from; k < some; ++k) word |= u32(x[k] != T(0)) << (k - from);
  }
  return word;
}

// Calls keep(k) for each value that a word marks, the word of those from `from` on.
template <class Keep> DEV void for_marked(u32 word, u32 from, Keep keep) {
#if SIMT_DEVICE
  for (u32 k = from; word; ++k, word >>= 1)
    if (word & 1) keep(k);
#else
  for (; word; word &= word - 1) keep(from + u32(__builtin_ctz(word)));
#endif
}

template <class T> DEV void encode_bits(const Form& p) {
  for_rows(p, p.rows, [&](u64 row) {
    const T* x = static_cast<const T*>(p.x) + row * ROW;
    const u64 some = length(p, row), first = start(p, row);
    u32* marks = static_cast<u32*>(p.marks) + row * MARK_WORDS;
    u32 kept = 0;
    for (u32 w = 0; w < MARK_WORDS; ++w) {
      const u32 word = marks_of(x, some, w * 32);
      marks[w] = word;
      kept += bits_set(word);
    }
    if (!has_room(p, first, kept)) return keep_whole(p, row, x);
    T* to = static_cast<T*>(p.values) + first;
    for (u32 w = 0; w < MARK_WORDS; ++w) for_marked(marks[w], w * 32, [&](u32 k) { *to++ = x[k]; });
  });
}
template <class T> DEV void decode_bits(const Form& p) {
  for_rows(p, p.wanted, [&](u64 place) {
    T* out = static_cast<T*>(p.x) + place * ROW;
    const u64 row = p.first + place;
    const u64 some = length(p, row), first = start(p, row);
    const u32* marks = static_cast<const u32*>(p.marks) + row * MARK_WORDS;
    u32 kept = 0;
    for (u32 w = 0; w < MARK_WORDS; ++w) kept += bits_set(marks[w]);
    if (!has_room(p, first, kept)) return take_whole(p, row, out);
    const T* from = static_cast<const T*>(p.values) + first;
    if (SIMT_DEVICE) {
      for (u32 k = 0; k < some; ++k) out[k] = marks[k >> 5] >> (k & 31) & 1 ? *from++ : T(0);
    } else {
      T side_by_side[ROW + 1];
      for (u32 k = 0; k < kept; ++k) side_by_side[k] = from[k];
      side_by_side[kept] = T(0);
      const T* next = side_by_side;
      for (u32 w = 0; w * 32 < some; ++w) {
        u32 word = marks[w];
        const u32 end = u32(least(some, u64(w + 1) * 32));
        for (u32 k = w * 32; k < end; ++k) {
          const u32 is_kept = word & 1;
          word >>= 1;
          out[k] = T(*next & T(T(0) - T(is_kept)));
          next += is_kept;
        }
      }
    }
  });
}

template <class T> DEV void encode_columns(const Form& p) {
  for_rows(p, p.rows, [&](u64 row) {
    const T* x = static_cast<const T*>(p.x) + row * ROW;
    const u64 some = length(p, row), first = start(p, row);
    const u64 kept = (row + 1 < p.rows ? start(p, row + 1) : *p.total) - first;
    if (!has_room(p, first, kept)) return keep_whole(p, row, x);
    T* to = static_cast<T*>(p.values) + first;
    u8* columns = static_cast<u8*>(p.marks) + first;
    for (u32 from = 0; from < some; from += 32) {
      for_marked(marks_of(x, some, from), from, [&](u32 k) {
        *to++ = x[k];
        *columns++ = u8(k);
      });
    }
  });
}
template <class T> DEV void decode_columns(const Form& p) {
  for_rows(p, p.wanted, [&](u64 place) {
    T* out = static_cast<T*>(p.x) + place * ROW;
    const u64 row = p.first + place;
    const u64 some = length(p, row), first = start(p, row), end = row + 1 < p.rows ? start(p, row + 1) : *p.total;
    const u64 kept = end - first;
    if (kept > ROW || !has_room(p, first, kept)) return take_whole(p, row, out);
    for (u32 k = 0; k < some; ++k) out[k] = T(0);
    for (u64 k = first; k < first + kept; ++k) {
      const u32 column = static_cast<const u8*>(p.marks)[k];
      if (column < some) out[column] = static_cast<const T*>(p.values)[k];
    }
  });
}
}  // namespace

#define SPARSE(T, ...)                                                      \
  KERNEL(sparse_count_##T, Form) { count<T>(args); }                      \
  KERNEL(sparse_encode_bits_##T, Form) { encode_bits<T>(args); }          \
  KERNEL(sparse_decode_bits_##T, Form) { decode_bits<T>(args); }          \
  KERNEL(sparse_encode_columns_##T, Form) { encode_columns<T>(args); }    \
  KERNEL(sparse_decode_columns_##T, Form) { decode_columns<T>(args); }
FOR(u64, SPARSE, ) FOR(u32, SPARSE, ) FOR(u16, SPARSE, ) FOR(u32, SUMS, sparse)

EXPORT_TABLE(sparse)
