// Stands in for NVIDIA's cuBLASLt, as far as the engine uses it: strided batches of column-major matrices, transposed or
// not, with a bias or added to what is there. Sums are made in two parts, the first of which goes through the workspace.
// What an algorithm was chosen by is held against what it is used with.
#include <algorithm>
#include <cstring>

#include "library.h"
#include "types.cuh"

namespace {
// As the library's results and names of types.
enum { SUCCESS = 0, INVALID_VALUE = 7, INTERNAL_ERROR = 14, NOT_SUPPORTED = 15 };
enum { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };
enum { COMPUTE_32F = 68, COMPUTE_64F = 70, COMPUTE_TF32 = 77 };
enum { EPILOGUE_NONE = 1, EPILOGUE_BIAS = 4, COMPUTE_TYPE_SCHEME = 2 };
constexpr u64 LEAST_SPLIT = 16;  // inner elements from which on the sum is made in parts

struct Handle { int any; };
struct Description {
  int compute, scale;
  int transposed[2] = {0, 0};
  int epilogue = EPILOGUE_NONE;
  u64 bias = 0;
};
struct Layout {
  int type;
  u64 rows, columns;
  i64 leading;
  int batches = 1;
  i64 batch_stride = 0;
};
struct Preference {
  u64 workspace_bytes = 0;
  u32 schemes = 7;
  u32 align_bytes[4] = {256, 256, 256, 256};  // of A, B, C and D
};
// What is in the 64 bytes of an algorithm.
struct Algorithm {
  u64 split, workspace_bytes;
  u32 align_bytes[4];
  u64 rows, columns, inner, batches;
};
struct Algo { u64 data[8]; };
static_assert(sizeof(Algorithm) == sizeof(Algo));
struct Result {
  Algo algo;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

u64 size_of(int type) { return type == R_64F ? 8 : type == R_32F ? 4 : 2; }
int sum_type(const Description& d) { return d.compute == COMPUTE_64F ? R_64F : R_32F; }

// The sizes of a product; false if the layouts do not go together.
bool sizes_of(const Description& d, const Layout& a, const Layout& b, const Layout& out, u64 sizes[3]) {
  const bool ta = d.transposed[0], tb = d.transposed[1];
  sizes[0] = ta ? a.columns : a.rows, sizes[1] = tb ? b.rows : b.columns, sizes[2] = ta ? a.rows : a.columns;
  for (const Layout* layout : {&a, &b, &out})
    if (layout->leading < i64(layout->rows) || layout->batches != out.batches || layout->batches < 1 || layout->type != out.type ||
        layout->batch_stride < 0 || !layout->rows || !layout->columns)
      return false;
  const bool types = (out.type == R_64F) == (d.compute == COMPUTE_64F) && d.scale == sum_type(d) &&
                     (d.compute != COMPUTE_TF32 || out.type == R_32F);
  const bool batches = out.batches == 1 || out.batch_stride >= out.leading * i64(out.columns);
  return types && batches && (tb ? b.columns : b.rows) == sizes[2] && out.rows == sizes[0] && out.columns == sizes[1];
}

u64 bytes_of(const Layout& layout) {
  const u64 last = u64(layout.batches - 1) * layout.batch_stride + (layout.columns - 1) * layout.leading + layout.rows;
  return last * size_of(layout.type);
}

struct Call {
  Description d;
  Layout a, b, out;
  Algorithm algorithm;
  u64 at_a, at_b, at_out, workspace;
  double alpha, beta;
};

template <class T> void multiply(const Call& call) {
  typedef Compute<T> C;
  const Algorithm& sizes = call.algorithm;
  C* parts = reinterpret_cast<C*>(call.workspace);
  const auto element = [](const Layout& layout, u64 start, bool transposed, u64 batch, u64 row, u64 column) {
    if (transposed) std::swap(row, column);
    return reinterpret_cast<T*>(start) + batch * layout.batch_stride + column * layout.leading + row;
  };
  const auto sum = [&](u64 batch, u64 row, u64 column, u64 begin, u64 end) {
    C total = 0;
    for (u64 k = begin; k < end; ++k)
      total += widen(*element(call.a, call.at_a, call.d.transposed[0], batch, row, k)) *
               widen(*element(call.b, call.at_b, call.d.transposed[1], batch, k, column));
    return total;
  };
  const auto each = [&](auto body) {
    u64 index = 0;
    for (u64 batch = 0; batch < sizes.batches; ++batch)
      for (u64 column = 0; column < sizes.columns; ++column)
        for (u64 row = 0; row < sizes.rows; ++row) body(batch, row, column, index++);
  };
  if (sizes.workspace_bytes) {
    memset(parts, 0xCD, sizes.workspace_bytes);
    each([&](u64 batch, u64 row, u64 column, u64 index) { parts[index] = sum(batch, row, column, 0, sizes.split); });
  }
  each([&](u64 batch, u64 row, u64 column, u64 index) {
    T* out = element(call.out, call.at_out, false, batch, row, column);
    C total = sum(batch, row, column, sizes.split, sizes.inner);
    if (sizes.workspace_bytes) total = parts[index] + total;
    total = C(call.alpha) * total;
    if (call.beta != 0) total += C(call.beta) * widen(*out);
    if (call.d.epilogue == EPILOGUE_BIAS) total += widen(reinterpret_cast<T*>(call.d.bias)[row]);
    *out = narrow<T>(total);
  });
}

// Whether everything a product touches is where it may be.
bool is_valid(const Call& call) {
  const Algorithm& algorithm = call.algorithm;
  u64 sizes[3];
  if (!sizes_of(call.d, call.a, call.b, call.out, sizes)) return false;
  if (sizes[0] != algorithm.rows || sizes[1] != algorithm.columns || sizes[2] != algorithm.inner) return false;
  if (u64(call.out.batches) != algorithm.batches) return false;
  const u64 at[3] = {call.at_a, call.at_b, call.at_out};
  const u64 bytes[3] = {bytes_of(call.a), bytes_of(call.b), bytes_of(call.out)};
  const int aligned[3] = {0, 1, 3};
  for (int n = 0; n < 3; ++n) {
    if (!is_aligned(at[n], algorithm.align_bytes[aligned[n]]) || !standin_owns(at[n], bytes[n])) return false;
    if (n < 2 && overlap(at[n], bytes[n], call.at_out, bytes[2])) return false;
    if (algorithm.workspace_bytes && overlap(at[n], bytes[n], call.workspace, algorithm.workspace_bytes)) return false;
  }
  if (call.d.epilogue == EPILOGUE_BIAS) {
    const u64 bias_bytes = algorithm.rows * size_of(call.out.type);
    if (call.out.type == R_64F || !is_aligned(call.d.bias, 16) || !standin_owns(call.d.bias, bias_bytes)) return false;
  }
  if (!algorithm.workspace_bytes) return true;
  return is_aligned(call.workspace, 256) && standin_owns(call.workspace, algorithm.workspace_bytes);
}

template <class T> int set(T& to, const void* from, size_t bytes) {
  if (bytes != sizeof(T)) return INVALID_VALUE;
  memcpy(&to, from, bytes);
  return SUCCESS;
}
}  // namespace

extern "C" __attribute__((visibility("default"))) size_t cublasLtGetVersion() { return 130000; }
API cublasLtCreate(void** handle) { CALL; return make(handle, new Handle); }
API cublasLtDestroy(void* handle) { return give_back<Handle>(handle); }
API cublasLtMatmulDescCreate(void** description, int compute, int scale) {
  CALL;
  if (compute != COMPUTE_32F && compute != COMPUTE_64F && compute != COMPUTE_TF32) return NOT_SUPPORTED;
  return make(description, new Description{compute, scale});
}
API cublasLtMatmulDescDestroy(void* description) { return give_back<Description>(description); }
API cublasLtMatmulDescSetAttribute(void* description, int attribute, const void* from, size_t bytes) {
  CALL;
  Description& d = *static_cast<Description*>(description);
  switch (attribute) {
    case 3: return set(d.transposed[0], from, bytes);
    case 4: return set(d.transposed[1], from, bytes);
    case 7: return set(d.epilogue, from, bytes);
    case 8: return set(d.bias, from, bytes);
    default: return NOT_SUPPORTED;
  }
}
API cublasLtMatrixLayoutCreate(void** layout, int type, u64 rows, u64 columns, i64 leading) {
  CALL;
  return make(layout, new Layout{type, rows, columns, leading});
}
API cublasLtMatrixLayoutDestroy(void* layout) { return give_back<Layout>(layout); }
API cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* from, size_t bytes) {
  CALL;
  Layout& l = *static_cast<Layout*>(layout);
  switch (attribute) {
    case 5: return set(l.batches, from, bytes);
    case 6: return set(l.batch_stride, from, bytes);
    default: return NOT_SUPPORTED;
  }
}
API cublasLtMatmulPreferenceCreate(void** preference) { CALL; return make(preference, new Preference); }
API cublasLtMatmulPreferenceDestroy(void* preference) { return give_back<Preference>(preference); }
API cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* from, size_t bytes) {
  CALL;
  Preference& p = *static_cast<Preference*>(preference);
  if (attribute >= 5 && attribute <= 8) return set(p.align_bytes[attribute - 5], from, bytes);
  if (attribute == 1) return set(p.workspace_bytes, from, bytes);
  return attribute == 3 ? set(p.schemes, from, bytes) : int(NOT_SUPPORTED);
}
API cublasLtMatmulAlgoGetHeuristic(void* handle, void* description, void* a, void* b, void* c, void* out, void* preference,
                                   int wanted, Result* results, int* count) {
  CALL;
  const auto layout = [](void* of) -> const Layout& { return *static_cast<Layout*>(of); };
  const Preference& p = *static_cast<Preference*>(preference);
  u64 sizes[3];
  *count = 0;
  if (!handle || wanted < 1 || c != out || p.schemes != COMPUTE_TYPE_SCHEME) return INVALID_VALUE;
  const Description& d = *static_cast<Description*>(description);
  if (d.epilogue == EPILOGUE_BIAS && (!d.bias || !is_aligned(d.bias, 16))) return INVALID_VALUE;
  if (!sizes_of(d, layout(a), layout(b), layout(out), sizes)) return INVALID_VALUE;
  const u64 batches = u64(layout(out).batches);
  const u64 parts_bytes = sizes[0] * sizes[1] * batches * size_of(sum_type(d));
  const bool splits = sizes[2] >= LEAST_SPLIT && parts_bytes <= p.workspace_bytes;
  Algorithm algorithm{splits ? sizes[2] / 2 : 0, splits ? parts_bytes : 0, {}, sizes[0], sizes[1], sizes[2], batches};
  std::copy_n(p.align_bytes, 4, algorithm.align_bytes);
  memcpy(&results->algo, &algorithm, sizeof algorithm);
  results->workspace_bytes = algorithm.workspace_bytes, results->state = SUCCESS, results->waves = 1;
  *count = 1;
  return SUCCESS;
}
API cublasLtMatmul(void* handle, void* description, const void* alpha, const void* a, void* layout_a, const void* b, void* layout_b,
                   const void* beta, const void* c, void* layout_c, void* out, void* layout_out, const Algo* algo, void* workspace,
                   size_t workspace_bytes, void* stream) {
  CALL;
  const Description& d = *static_cast<Description*>(description);
  const auto layout = [](void* of) { return *static_cast<Layout*>(of); };
  const auto factor = [&](const void* of) {
    return d.scale == R_64F ? *static_cast<const double*>(of) : double(*static_cast<const float*>(of));
  };
  Call call{d,          layout(layout_a), layout(layout_b), layout(layout_out), {}, address_of(a), address_of(b), address_of(out),
            address_of(workspace), factor(alpha),    factor(beta)};
  memcpy(&call.algorithm, algo, sizeof call.algorithm);
  if (!handle || c != out || layout_c != layout_out || workspace_bytes < call.algorithm.workspace_bytes) return INVALID_VALUE;
  if (!is_valid(call)) return INVALID_VALUE;
  standin_worked(call.algorithm.workspace_bytes, d.compute == COMPUTE_TF32);
  standin_push(stream, [call] {
    switch (call.out.type) {
      case R_64F: return multiply<f64>(call);
      case R_32F: return multiply<f32>(call);
      case R_16F: return multiply<f16>(call);
      default: return multiply<bf16>(call);
    }
  });
  return SUCCESS;
}
