// Neighbouring elements that a thread of the device moves at once.
#pragma once
#include "views.cuh"

namespace {
constexpr u32 VECTOR_BYTES = 16;
// So many elements of a type are a vector.
template <class T> constexpr u32 VECTOR = VECTOR_BYTES / sizeof(T);

#if SIMT_DEVICE
// Whether so many neighbours from there on may be moved at once.
template <u32 V, class T> DEV bool is_aligned(const T* at) { return reinterpret_cast<u64>(at) % (V * sizeof(T)) == 0; }

#if defined(__CUDACC_RTC__)
// Of 4, 8 or 16 bytes.
template <u32 bytes> struct Words;
template <> struct Words<4> {
  u32 words[1];
  DEV Words read(const void* from) { return {{*static_cast<const u32*>(from)}}; }
  DEV void write(void* to, const u32* words) { *static_cast<u32*>(to) = words[0]; }
};
template <> struct Words<8> {
  u32 words[2];
  DEV Words read(const void* from) {
    const uint2 raw = *static_cast<const uint2*>(from);
    return {{raw.x, raw.y}};
  }
  DEV void write(void* to, const u32* words) { *static_cast<uint2*>(to) = make_uint2(words[0], words[1]); }
};
template <> struct Words<16> {
  u32 words[4];
  DEV Words read(const void* from) {
    const uint4 raw = *static_cast<const uint4*>(from);
    return {{raw.x, raw.y, raw.z, raw.w}};
  }
  DEV void write(void* to, const u32* words) {
    *static_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
  }
};
template <u32 V, class T> constexpr bool is_moved_at_once = V > 1 && V * sizeof(T) >= 4 && V * sizeof(T) <= VECTOR_BYTES;
#else
template <class T, u32 V> struct alignas(sizeof(T) * V) Pack { T values[V]; };
#endif

// Elements side by side; where there are several, aligned.
template <u32 V, class T> DEV void read_row(T* to, const T* from) {
#if defined(__CUDACC_RTC__)
  if constexpr (is_moved_at_once<V, T>) {
    const auto read = Words<V * sizeof(T)>::read(from);
    UNROLLED for (u32 k = 0; k < V; ++k) {
      if constexpr (sizeof(T) == 8) to[k] = bits_as<T>(u64(read.words[2 * k]) | u64(read.words[2 * k + 1]) << 32);
      else if constexpr (sizeof(T) == 4) to[k] = bits_as<T>(read.words[k]);
      else if constexpr (sizeof(T) == 2) to[k] = bits_as<T>(u16(read.words[k / 2] >> k % 2 * 16));
      else to[k] = bits_as<T>(u8(read.words[k / 4] >> k % 4 * 8));
    }
  } else UNROLLED for (u32 k = 0; k < V; ++k) to[k] = from[k];
#else
  const Pack<T, V> read = *reinterpret_cast<const Pack<T, V>*>(from);
  for (u32 k = 0; k < V; ++k) to[k] = read.values[k];
#endif
}
template <u32 V, class T> DEV void write_row(T* to, const T* from) {
#if defined(__CUDACC_RTC__)
  if constexpr (is_moved_at_once<V, T>) {
    u32 words[V * sizeof(T) / 4] = {};
    UNROLLED for (u32 k = 0; k < V; ++k) {
      if constexpr (sizeof(T) == 8) {
        const u64 bits = bits_as<u64>(from[k]);
        words[2 * k] = u32(bits), words[2 * k + 1] = u32(bits >> 32);
      } else if constexpr (sizeof(T) == 4) words[k] = bits_as<u32>(from[k]);
      else if constexpr (sizeof(T) == 2) words[k / 2] |= u32(bits_as<u16>(from[k])) << k % 2 * 16;
      else words[k / 4] |= u32(bits_as<u8>(from[k])) << k % 4 * 8;
    }
    Words<V * sizeof(T)>::write(to, words);
  } else UNROLLED for (u32 k = 0; k < V; ++k) to[k] = from[k];
#else
  Pack<T, V> made;
  for (u32 k = 0; k < V; ++k) made.values[k] = from[k];
  *reinterpret_cast<Pack<T, V>*>(to) = made;
#endif
}

// Whether operand `n`, from `from` on, has for every `V` neighbours of a space one element, or as many that can be moved at once.
template <u32 V, class T, u32 OPERANDS> DEV bool is_in_vectors(const SpaceOf<OPERANDS>& space, u32 n, const T* from) {
  const i64 step = space.strides[n][0];
  bool fits = step == 0 || (step == 1 && is_aligned<V>(from));
  for (u32 axis = 1; axis < space.rank; ++axis) fits &= step == 0 || space.strides[n][axis] % i64(V) == 0;
  return fits;
}
template <u32 V, class T> DEV void read_vector(T* to, const T* from, i64 step) {
  if (step == 1) return read_row<V>(to, from);
  const T value = *from;
  UNROLLED for (u32 k = 0; k < V; ++k) to[k] = value;
}

// Where the element of a flat index lies, of a space of less than 2^31: in 32 bits, for which a GPU takes far less than for 64.
template <u32 N, u32 OPERANDS> DEV void place_small(const SpaceOf<OPERANDS>& space, u32 i, i64* offsets) {
  for (u32 n = 0; n < N; ++n) offsets[n] = 0;
  const u32 last = u32(space.rank) - 1;
  for (u32 axis = 0; axis <= last; ++axis) {
    const u32 next = axis < last ? i / u32(space.sizes[axis]) : 0;
    const u32 index = axis < last ? i - next * u32(space.sizes[axis]) : i;
    for (u32 n = 0; n < N; ++n) offsets[n] += i64(index) * space.strides[n][axis];
    i = next;
  }
}

// Calls `body(i, offsets)` for every `V` neighbours of a block, if the space is of whole vectors; says if so.
template <u32 V, u32 N, class Body> DEV bool for_vectors(const Space& space, Range range, u64 chunk, bool fits, Body body) {
  if (!fits || space.count >> 31 != 0 || space.sizes[0] % V != 0 || chunk % V != 0) return false;
  for (u32 i = u32(range.begin) + threadIdx.x * V; i < u32(range.end); i += blockDim.x * V) {
    i64 offsets[N];
    place_small<N>(space, i, offsets);
    body(u64(i), static_cast<const i64*>(offsets));
  }
  return true;
}
#endif
}  // namespace
