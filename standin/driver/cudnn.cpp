// Stands in for NVIDIA's cuDNN, as far as the engine uses it: convolutions and their gradients by the calls of version 7, in
// planes or in space. Each pass has an algorithm that gives other bits every time, to be left alone, one with a workspace,
// through which everything goes, and one without. Sums are made in the order of the output's elements.
#include <cstring>
#include <vector>

#include "library.h"
#include "types.cuh"

namespace {
// As the library's results and names.
enum { SUCCESS = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, INTERNAL_ERROR = 4000 };
enum { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT16 = 9 };
enum { DEFAULT_MATH = 0, TENSOR_OP_MATH = 1, FMA_MATH = 3 };
enum { FORWARD, INPUT, WEIGHT };
// Algorithms of each pass: one that is not repeatable (of the gradients), one with a workspace, one without.
constexpr int UNREPEATABLE[3] = {-1, 0, 0}, ROOMY[3] = {1, 1, 1}, PLAIN[3] = {0, 4, 5};

struct Handle { void* stream = nullptr; };
struct Tensor {
  int type, rank;
  int sizes[5], strides[5];
};
struct Filter {
  int type, rank;
  int sizes[5];
};
struct Window {
  int rank;
  int padding[3], stride[3], dilation[3];
  int sums, groups = 1, math = DEFAULT_MATH;
};
struct Result {  // of one algorithm
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math;
  int reserved[3];
};

u64 size_of(int type) { return type == DOUBLE ? 8 : type == FLOAT ? 4 : 2; }

// A tensor as [n, c, d, h, w].
struct Space {
  i64 sizes[5], strides[5];
  u64 bytes = 0;
};
Space space_of(const Tensor& tensor) {
  Space space{{1, 1, 1, 1, 1}, {0, 0, 0, 0, 0}};
  i64 last = 0;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    const int to = axis < 2 ? axis : axis + 5 - tensor.rank;
    space.sizes[to] = tensor.sizes[axis], space.strides[to] = tensor.strides[axis];
    last += i64(tensor.sizes[axis] - 1) * tensor.strides[axis];
  }
  space.bytes = u64(last + 1) * size_of(tensor.type);
  return space;
}
Tensor tensor_of(const Filter& filter) {
  Tensor tensor{filter.type, filter.rank, {}, {}};
  int step = 1;
  for (int axis = filter.rank - 1; axis >= 0; --axis)
    tensor.sizes[axis] = filter.sizes[axis], tensor.strides[axis] = step, step *= filter.sizes[axis];
  return tensor;
}

struct Problem {
  int type, pass, groups;
  Space image, weight, result;
  i64 padding[3] = {0, 0, 0}, stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1};
};

// Whether the descriptions go together, and as what.
bool problem_of(int pass, const Tensor& image, const Filter& filter, const Tensor& result, const Window& window, Problem* to) {
  const int sums = image.type == DOUBLE ? DOUBLE : FLOAT;
  if (image.type != filter.type || image.type != result.type || window.sums != sums) return false;
  if (image.rank != filter.rank || image.rank != result.rank || image.rank != window.rank + 2) return false;
  *to = {image.type, pass, window.groups, space_of(image), space_of(tensor_of(filter)), space_of(result)};
  for (int axis = 0; axis < window.rank; ++axis) {
    const int at = axis + 3 - window.rank;
    to->padding[at] = window.padding[axis], to->stride[at] = window.stride[axis], to->dilation[at] = window.dilation[axis];
  }
  const Problem& p = *to;
  bool fits = p.image.sizes[0] == p.result.sizes[0] && p.image.sizes[1] == p.weight.sizes[1] * p.groups &&
              p.result.sizes[1] == p.weight.sizes[0] && p.weight.sizes[0] % p.groups == 0;
  for (int axis = 0; axis < 3; ++axis) {
    const i64 room = p.image.sizes[axis + 2] + 2 * p.padding[axis] - (p.weight.sizes[axis + 2] - 1) * p.dilation[axis] - 1;
    fits = fits && room >= 0 && room / p.stride[axis] + 1 == p.result.sizes[axis + 2];
  }
  return fits;
}

const Space& output_of(const Problem& p) { return p.pass == FORWARD ? p.result : p.pass == INPUT ? p.image : p.weight; }
u64 count_of(const Space& space) {
  u64 count = 1;
  for (i64 size : space.sizes) count *= u64(size);
  return count;
}
// All that is made goes through it.
u64 workspace_of(const Problem& p, int algorithm) {
  return algorithm == ROOMY[p.pass] ? count_of(output_of(p)) * (p.type == DOUBLE ? 8 : 4) : 0;
}

struct Call {
  Problem p;
  u64 image, weight, result, workspace;
  double alpha, beta;
  bool roomy;
};

template <class T> T* element(const Space& space, u64 start, const i64 (&at)[5]) {
  i64 offset = 0;
  for (int axis = 0; axis < 5; ++axis) offset += at[axis] * space.strides[axis];
  return reinterpret_cast<T*>(start) + offset;
}

// Calls body(place, index) for every element of these sizes.
template <class Body> void each(const i64 (&sizes)[5], Body body) {
  i64 at[5] = {};
  u64 index = 0;
  for (at[0] = 0; at[0] < sizes[0]; ++at[0])
    for (at[1] = 0; at[1] < sizes[1]; ++at[1])
      for (at[2] = 0; at[2] < sizes[2]; ++at[2])
        for (at[3] = 0; at[3] < sizes[3]; ++at[3])
          for (at[4] = 0; at[4] < sizes[4]; ++at[4]) body(at, index++);
}

template <class T> void convolve(const Call& call) {
  typedef Compute<T> C;
  const Problem& p = call.p;
  const Space& made = output_of(p);
  const u64 out = p.pass == FORWARD ? call.result : p.pass == INPUT ? call.image : call.weight;
  std::vector<C> own(call.roomy ? 0 : count_of(made));
  C* sums = call.roomy ? reinterpret_cast<C*>(call.workspace) : own.data();
  for (u64 n = 0; n < count_of(made); ++n) sums[n] = 0;
  const i64 filters = p.weight.sizes[0] / p.groups, channels = p.weight.sizes[1];
  const auto index_in = [](const Space& space, const i64 (&at)[5]) {
    i64 index = 0;
    for (int axis = 0; axis < 5; ++axis) index = index * space.sizes[axis] + at[axis];
    return index;
  };
  each(p.result.sizes, [&](const i64(&at)[5], u64 result_index) {
    const i64 window[5] = {1, channels, p.weight.sizes[2], p.weight.sizes[3], p.weight.sizes[4]};
    each(window, [&](const i64(&tap)[5], u64) {
      const i64 weight_at[5] = {at[1], tap[1], tap[2], tap[3], tap[4]};
      i64 image_at[5] = {at[0], at[1] / filters * channels + tap[1], 0, 0, 0};
      for (int axis = 0; axis < 3; ++axis) {
        image_at[axis + 2] = at[axis + 2] * p.stride[axis] + tap[axis + 2] * p.dilation[axis] - p.padding[axis];
        if (image_at[axis + 2] < 0 || image_at[axis + 2] >= p.image.sizes[axis + 2]) return;
      }
      const auto image = [&] { return widen(*element<T>(p.image, call.image, image_at)); };
      const auto weight = [&] { return widen(*element<T>(p.weight, call.weight, weight_at)); };
      const auto gradient = [&] { return widen(*element<T>(p.result, call.result, at)); };
      if (p.pass == FORWARD) sums[result_index] += image() * weight();
      if (p.pass == INPUT) sums[index_in(p.image, image_at)] += weight() * gradient();
      if (p.pass == WEIGHT) sums[index_in(p.weight, weight_at)] += image() * gradient();
    });
  });
  each(made.sizes, [&](const i64(&at)[5], u64 index) {
    T* to = element<T>(made, out, at);
    C total = C(call.alpha) * sums[index];
    if (call.beta != 0) total += C(call.beta) * widen(*to);
    *to = narrow<T>(total);
  });
}

// Whether everything a convolution touches is where it may be.
bool is_valid(const Call& call, u64 workspace_bytes) {
  const Problem& p = call.p;
  const Space* spaces[3] = {&p.image, &p.weight, &p.result};
  const u64 starts[3] = {call.image, call.weight, call.result};
  const int made = p.pass == FORWARD ? 2 : p.pass == INPUT ? 0 : 1;
  for (int n = 0; n < 3; ++n) {
    if (!is_aligned(starts[n], 16) || !standin_owns(starts[n], spaces[n]->bytes)) return false;
    if (n != made && overlap(starts[n], spaces[n]->bytes, starts[made], spaces[made]->bytes)) return false;
    if (call.roomy && overlap(starts[n], spaces[n]->bytes, call.workspace, workspace_bytes)) return false;
  }
  return !call.roomy || (is_aligned(call.workspace, 16) && standin_owns(call.workspace, workspace_bytes));
}

bool is_type(int type) { return type == FLOAT || type == DOUBLE || type == HALF || type == BFLOAT16; }

// What each pass's algorithms say of themselves. Arithmetic of tensor cores is offered whatever was asked for.
int ways(int pass, void* image, void* filter, void* window, void* result, int most, int* count, Result* results) {
  Problem p;
  *count = 0;
  const Window& w = *static_cast<Window*>(window);
  if (most < 3) return BAD_PARAM;
  if (!problem_of(pass, *static_cast<Tensor*>(image), *static_cast<Filter*>(filter), *static_cast<Tensor*>(result), w, &p))
    return BAD_PARAM;
  const int math = p.type == DOUBLE ? int(FMA_MATH) : int(TENSOR_OP_MATH);
  if (UNREPEATABLE[pass] >= 0) results[(*count)++] = {UNREPEATABLE[pass], SUCCESS, -1, 0, 0, math, {}};
  results[(*count)++] = {ROOMY[pass], SUCCESS, -1, workspace_of(p, ROOMY[pass]), 1, math, {}};
  results[(*count)++] = {PLAIN[pass], SUCCESS, -1, 0, 1, math, {}};
  results[(*count)++] = {3, NOT_SUPPORTED, -1, 0, 1, math, {}};
  return SUCCESS;
}
int workspace(int pass, void* image, void* filter, void* window, void* result, int algorithm, size_t* bytes) {
  Problem p;
  const Window& w = *static_cast<Window*>(window);
  if (!problem_of(pass, *static_cast<Tensor*>(image), *static_cast<Filter*>(filter), *static_cast<Tensor*>(result), w, &p))
    return BAD_PARAM;
  *bytes = workspace_of(p, algorithm);
  return SUCCESS;
}
int run(int pass, void* handle, const void* alpha, void* image, const void* at_image, void* filter, const void* at_weight,
        void* window, int algorithm, void* workspace, size_t workspace_bytes, const void* beta, void* result,
        const void* at_result) {
  Problem p;
  const Window& w = *static_cast<Window*>(window);
  if (!problem_of(pass, *static_cast<Tensor*>(image), *static_cast<Filter*>(filter), *static_cast<Tensor*>(result), w, &p))
    return BAD_PARAM;
  if (algorithm != ROOMY[pass] && algorithm != PLAIN[pass]) return NOT_SUPPORTED;
  const auto factor = [&](const void* of) {
    return p.type == DOUBLE ? *static_cast<const double*>(of) : double(*static_cast<const float*>(of));
  };
  const Call call{p,
                  address_of(at_image),
                  address_of(at_weight),
                  address_of(at_result),
                  address_of(workspace),
                  factor(alpha),
                  factor(beta),
                  algorithm == ROOMY[pass]};
  const u64 needed_bytes = workspace_of(p, algorithm);
  if (workspace_bytes < needed_bytes || !is_valid(call, needed_bytes)) return BAD_PARAM;
  standin_worked(needed_bytes, p.type == FLOAT && w.math != FMA_MATH);
  standin_push(static_cast<Handle*>(handle)->stream, [call] {
    switch (call.p.type) {
      case DOUBLE: return convolve<f64>(call);
      case FLOAT: return convolve<f32>(call);
      case HALF: return convolve<f16>(call);
      default: return convolve<bf16>(call);
    }
  });
  return SUCCESS;
}
}  // namespace

extern "C" __attribute__((visibility("default"))) size_t cudnnGetVersion() { return 91000; }
API cudnnCreate(void** handle) { CALL; return make(handle, new Handle); }
API cudnnDestroy(void* handle) { return give_back<Handle>(handle); }
API cudnnSetStream(void* handle, void* stream) {
  CALL;
  static_cast<Handle*>(handle)->stream = stream;
  return SUCCESS;
}
API cudnnCreateTensorDescriptor(void** tensor) { CALL; return make(tensor, new Tensor()); }
API cudnnDestroyTensorDescriptor(void* tensor) { return give_back<Tensor>(tensor); }
API cudnnSetTensorNdDescriptor(void* tensor, int type, int rank, const int* sizes, const int* strides) {
  CALL;
  Tensor& t = *static_cast<Tensor*>(tensor);
  if (!is_type(type) || rank < 4 || rank > 5) return BAD_PARAM;
  for (int axis = 0; axis < rank; ++axis)
    if (sizes[axis] <= 0 || strides[axis] <= 0) return BAD_PARAM;
  t.type = type, t.rank = rank;
  memcpy(t.sizes, sizes, sizeof(int) * rank), memcpy(t.strides, strides, sizeof(int) * rank);
  return SUCCESS;
}
API cudnnCreateFilterDescriptor(void** filter) { CALL; return make(filter, new Filter()); }
API cudnnDestroyFilterDescriptor(void* filter) { return give_back<Filter>(filter); }
API cudnnSetFilterNdDescriptor(void* filter, int type, int format, int rank, const int* sizes) {
  CALL;
  Filter& f = *static_cast<Filter*>(filter);
  if (!is_type(type) || format != 0 || rank < 4 || rank > 5) return BAD_PARAM;
  f.type = type, f.rank = rank;
  memcpy(f.sizes, sizes, sizeof(int) * rank);
  return SUCCESS;
}
API cudnnCreateConvolutionDescriptor(void** window) { CALL; return make(window, new Window()); }
API cudnnDestroyConvolutionDescriptor(void* window) { return give_back<Window>(window); }
API cudnnSetConvolutionNdDescriptor(void* window, int rank, const int* padding, const int* stride, const int* dilation, int mode,
                                    int sums) {
  CALL;
  Window& w = *static_cast<Window*>(window);
  if (rank < 2 || rank > 3 || mode != 1) return BAD_PARAM;
  w.rank = rank, w.sums = sums;
  memcpy(w.padding, padding, sizeof(int) * rank), memcpy(w.stride, stride, sizeof(int) * rank);
  memcpy(w.dilation, dilation, sizeof(int) * rank);
  return SUCCESS;
}
API cudnnSetConvolutionGroupCount(void* window, int groups) {
  CALL;
  static_cast<Window*>(window)->groups = groups;
  return SUCCESS;
}
API cudnnSetConvolutionMathType(void* window, int math) {
  CALL;
  static_cast<Window*>(window)->math = math;
  return SUCCESS;
}
API cudnnGetConvolutionForwardAlgorithm_v7(void*, void* x, void* w, void* window, void* y, int most, int* count, Result* results) {
  CALL;
  return ways(FORWARD, x, w, window, y, most, count, results);
}
API cudnnGetConvolutionForwardWorkspaceSize(void*, void* x, void* w, void* window, void* y, int algorithm, size_t* bytes) {
  CALL;
  return workspace(FORWARD, x, w, window, y, algorithm, bytes);
}
API cudnnConvolutionForward(void* handle, const void* alpha, void* x, const void* at_x, void* w, const void* at_w, void* window,
                            int algorithm, void* room, size_t room_bytes, const void* beta, void* y, void* at_y) {
  CALL;
  return run(FORWARD, handle, alpha, x, at_x, w, at_w, window, algorithm, room, room_bytes, beta, y, at_y);
}
API cudnnGetConvolutionBackwardDataAlgorithm_v7(void*, void* w, void* y, void* window, void* x, int most, int* count,
                                                Result* results) {
  CALL;
  return ways(INPUT, x, w, window, y, most, count, results);
}
API cudnnGetConvolutionBackwardDataWorkspaceSize(void*, void* w, void* y, void* window, void* x, int algorithm, size_t* bytes) {
  CALL;
  return workspace(INPUT, x, w, window, y, algorithm, bytes);
}
API cudnnConvolutionBackwardData(void* handle, const void* alpha, void* w, const void* at_w, void* y, const void* at_y, void* window,
                                 int algorithm, void* room, size_t room_bytes, const void* beta, void* x, void* at_x) {
  CALL;
  return run(INPUT, handle, alpha, x, at_x, w, at_w, window, algorithm, room, room_bytes, beta, y, at_y);
}
API cudnnGetConvolutionBackwardFilterAlgorithm_v7(void*, void* x, void* y, void* window, void* w, int most, int* count,
                                                  Result* results) {
  CALL;
  return ways(WEIGHT, x, w, window, y, most, count, results);
}
API cudnnGetConvolutionBackwardFilterWorkspaceSize(void*, void* x, void* y, void* window, void* w, int algorithm, size_t* bytes) {
  CALL;
  return workspace(WEIGHT, x, w, window, y, algorithm, bytes);
}
API cudnnConvolutionBackwardFilter(void* handle, const void* alpha, void* x, const void* at_x, void* y, const void* at_y,
                                   void* window, int algorithm, void* room, size_t room_bytes, const void* beta, void* w,
                                   void* at_w) {
  CALL;
  return run(WEIGHT, handle, alpha, x, at_x, w, at_w, window, algorithm, room, room_bytes, beta, y, at_y);
}
