// A product on tensor cores, as kernels make it, for a test: what lanes hold of the operands is loaded as there, and what they
// hold of the sums goes where the PTX ISA says.
#include "mma.cuh"

namespace {
constexpr u32 STRIDE = 24;  // of rows of halves, 16 bytes more than a fragment's

template <class T> void multiply_matrices(const u16* left, const u16* right, float* sums) {
  TeamMemory memory;
  kept_memory = memory.kept;
  blockDim = {WARP, 1, 1};
  struct Fragments {
    u32 a[4], b[4];
    f32 c[2][4];
  };
  Kept<Fragments> own;
  alignas(16) u16 rows[16][STRIDE], others[16][STRIDE];
  for (u32 y = 0; y < 16; ++y)
    for (u32 x = 0; x < 16; ++x) rows[y][x] = left[16 * y + x], others[y][x] = right[16 * y + x];
  each_lane([&] {
    load_matrices<false>(own().a, [&](u32 row) { return rows[row % 16] + row / 16 * 8; });
    load_matrices<true>(own().b, [&](u32 row) { return others[row % 16] + row / 16 * 8; });
    for (u32 f = 0; f < 2; ++f)
      for (u32 n = 0; n < 4; ++n) own().c[f][n] = 0;
  });
  for (u32 f = 0; f < 2; ++f)
    multiply<T>([&] { return own().c[f]; }, [&] { return own().a; }, [&] { return own().b + 2 * f; });
  each_lane([&] {
    const u32 g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (u32 f = 0; f < 2; ++f)
      for (u32 n = 0; n < 4; ++n) sums[16 * (g + n / 2 * 8) + 8 * f + 2 * t + n % 2] = own().c[f][n];
  });
}
}  // namespace

// Of two matrices of 16 x 16 halves in row-major order.
extern "C" __attribute__((visibility("default"))) void standin_multiply(const u16* left, const u16* right, float* sums, int is_bf16) {
  if (is_bf16) multiply_matrices<bf16>(left, right, sums);
  else multiply_matrices<f16>(left, right, sums);
}
