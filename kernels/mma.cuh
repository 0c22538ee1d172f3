// Products on tensor cores. A warp's lanes hold its matrices in fragments: lane 4 g + t has of a product's sums, 16 x 8, places
// (g, 2 t), (g, 2 t + 1), (g + 8, 2 t) and (g + 8, 2 t + 1); of the left, 16 x 16, the same places and those 8 columns on; of the
// right, 16 x 8, places (2 t, g), (2 t + 1, g), (2 t + 8, g) and (2 t + 9, g). Two halves are a word, the first in its low bits.
// (PTX ISA, "Matrix fragments for mma.m16n8k16".)
#pragma once
#include "types.cuh"

namespace {
#if SIMT_DEVICE
constexpr u32 WARP = 32;

// Two halves as a word.
template <class T> DEV u32 pair_of(f32 first, f32 second) {
#if defined(__CUDACC_RTC__)
#if __CUDA_ARCH__ >= 800
  u32 pair;
  if constexpr (is_same<T, bf16>) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  else asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#endif
#endif
  return u32(narrow<T>(first).bits) | u32(narrow<T>(second).bits) << 16;
}

#if defined(__CUDACC_RTC__)
#if __CUDA_ARCH__ < 800
// Where tensor cores have no such product: by shuffles and FMA, in a function of its own, since there are many.
struct Fragment {
  f32 values[4];
};
template <class T> CALLED Fragment add_product(Fragment sums, uint4 rows, uint2 columns) {
  const u32 lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, a[4] = {rows.x, rows.y, rows.z, rows.w}, b[2] = {columns.x, columns.y};
  f32* c = sums.values;
  const auto half = [](u32 word, u32 place) { return widen(T{u16(word >> place * 16)}); };
  for (u32 from = 0; from < 4; ++from) {
    u32 left[4], right[2][2];
    UNROLLED for (u32 word = 0; word < 4; ++word) left[word] = __shfl_sync(0xffffffffu, a[word], 4 * g + from);
    UNROLLED for (u32 word = 0; word < 2; ++word)
      UNROLLED for (u32 n = 0; n < 2; ++n) right[n][word] = __shfl_sync(0xffffffffu, b[word], 4 * (2 * t + n) + from);
    UNROLLED for (u32 n = 0; n < 4; ++n)
      UNROLLED for (u32 word = 0; word < 2; ++word)
        UNROLLED for (u32 place = 0; place < 2; ++place)
          c[n] = fmaf(half(left[2 * word + n / 2], place), half(right[n % 2][word], place), c[n]);
  }
  return sums;
}
template <class T> DEV void multiply_fragments(f32* c, const u32* a, const u32* b) {
  const Fragment sums = add_product<T>({c[0], c[1], c[2], c[3]}, make_uint4(a[0], a[1], a[2], a[3]), make_uint2(b[0], b[1]));
  UNROLLED for (u32 n = 0; n < 4; ++n) c[n] = sums.values[n];
}
#else
#define MMA(type)                                                                                  \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0, %1, %2, %3}, "             \
      "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                              \
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                             \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
template <class T> DEV void multiply_fragments(f32* c, const u32* a, const u32* b) {
  if constexpr (is_same<T, bf16>) MMA("bf16");
  else MMA("f16");
}
#endif
#else
// The same of a whole warp, whose lanes' fragments are given one after the other.
template <class T> DEV void multiply_fragments(f32 (*c)[4], const u32 (*a)[4], const u32 (*b)[2]) {
  const auto half = [](u32 word, u32 place) { return widen(T{u16(word >> place * 16)}); };
  f32 left[16][16], right[16][8];
  for (u32 lane = 0; lane < WARP; ++lane) {
    const u32 g = lane / 4, t = lane % 4;
    for (u32 n = 0; n < 2; ++n) {
      for (u32 word = 0; word < 4; ++word) left[g + word % 2 * 8][2 * t + word / 2 * 8 + n] = half(a[lane][word], n);
      for (u32 word = 0; word < 2; ++word) right[2 * t + word * 8 + n][g] = half(b[lane][word], n);
    }
  }
  for (u32 lane = 0; lane < WARP; ++lane) {
    for (u32 n = 0; n < 4; ++n) {
      const u32 row = lane / 4 + n / 2 * 8, column = lane % 4 * 2 + n % 2;
      for (u32 k = 0; k < 16; ++k) c[lane][n] += left[row][k] * right[k][column];
    }
  }
}
#endif

// sums += left right, in every warp: each gives a thread's own fragment.
template <class T, class Sums, class Left, class Right> DEV void multiply(Sums sums, Left left, Right right) {
#if defined(__CUDACC_RTC__)
  multiply_fragments<T>(sums(), left(), right());
#else
  for (u32 warp = 0; warp < blockDim.x / WARP; ++warp) {
#ifdef SIMT_THREADS
    if (barrier && warp % WORKERS != worker_index) continue;
#endif
    f32 c[WARP][4];
    u32 a[WARP][4], b[WARP][2];
    const auto each_fragment = [&](auto what) {
      for (u32 lane = 0; lane < WARP; ++lane) {
        threadIdx = {warp * WARP + lane, 0, 0};
        what(lane);
      }
    };
    each_fragment([&](u32 lane) {
      for (u32 n = 0; n < 4; ++n) c[lane][n] = sums()[n], a[lane][n] = left()[n];
      for (u32 n = 0; n < 2; ++n) b[lane][n] = right()[n];
    });
    multiply_fragments<T>(c, a, b);
    each_fragment([&](u32 lane) {
      for (u32 n = 0; n < 4; ++n) sums()[n] = c[lane][n];
    });
  }
#ifdef SIMT_THREADS
  wait_for_all();
#endif
#endif
}

// Four matrices of 8 x 8 halves from memory that a block shares, a word of each for each lane: lane 4 g + t gets (g, 2 t) and
// (g, 2 t + 1), or of the transposed ones. `row(n)` is where row n of all 32 begins, 16 bytes of it; 8 rows are a matrix.
template <bool transposed, class Row> DEV void load_matrices(u32* words, Row row) {
  const u32 lane = threadIdx.x % WARP;
#if defined(__CUDACC_RTC__)
  const u32 at = u32(__cvta_generic_to_shared(row(lane)));
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(at) : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3]) : "r"(at) : "memory");
#else
  const u32 g = lane / 4, t = lane % 4;
  for (u32 matrix = 0; matrix < 4; ++matrix) {
    const auto half = [&](u32 y, u32 x) { return u32(reinterpret_cast<const u16*>(row(matrix * 8 + y))[x]); };
    words[matrix] = transposed ? half(2 * t, g) | half(2 * t + 1, g) << 16 : half(g, 2 * t) | half(g, 2 * t + 1) << 16;
  }
#endif
}

// What a function makes of the values of four neighbouring lanes, to which `value` refers; all four get it.
template <class F, class Value> DEV void join_four(Value value) {
#if defined(__CUDACC_RTC__)
  f32& own = value();
  own = F::f(own, __shfl_xor_sync(0xffffffffu, own, 1));
  own = F::f(own, __shfl_xor_sync(0xffffffffu, own, 2));
#else
  for (u32 first = 0; first < blockDim.x; first += 4) {
#ifdef SIMT_THREADS
    if (barrier && first / 4 % WORKERS != worker_index) continue;
#endif
    f32 made[4];
    const auto of = [&](u32 thread) -> f32& {
      threadIdx = {first + thread, 0, 0};
      return value();
    };
    for (u32 thread = 0; thread < 4; ++thread)
      made[thread] = F::f(F::f(of(thread), of(thread ^ 1)), F::f(of(thread ^ 2), of(thread ^ 3)));
    for (u32 thread = 0; thread < 4; ++thread) of(thread) = made[thread];
  }
#ifdef SIMT_THREADS
  wait_for_all();
#endif
#endif
}
#endif
}  // namespace
