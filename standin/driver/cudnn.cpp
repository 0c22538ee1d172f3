// Stands in for NVIDIA's cuDNN, as far as the engine uses it: graphs of one convolution or gradient, in planes or in space.
// Each pass has an engine that gives other bits every time and one that sums in fewer bits, to be left alone, one that fails
// late, one with a workspace, through which everything goes, and one without. Sums are made in the order of the output's
// elements.
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include <unistd.h>

#include "library.h"
#include "types.cuh"

namespace {
// As the library's results and names.
enum { SUCCESS = 0, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, INTERNAL_ERROR = 4000 };
enum { FLOAT = 0, DOUBLE = 1, HALF = 2, BFLOAT16 = 9 };
enum { FORWARD, INPUT, WEIGHT };
enum { UNREPEATABLE, ROOMY, PLAIN, UNSUPPORTED, REDUCED, REDUCED_SUMS, COLUMNS, TILED, ENGINES };
enum { TENSOR_CORE_NOTE = 0, DOWN_CONVERT_NOTE = 1, REDUCED_SUMS_NOTE = 2, NONDETERMINISTIC_NOTE = 4 };
namespace kind {
enum {
  WINDOW = 1, ENGINE = 2, CONFIGURATION = 3, HEURISTIC = 4, PLAN = 5, FORWARD = 10, WEIGHT = 11, INPUT = 12, GRAPH = 15,
  PACK = 16, TENSOR = 17
};
}
namespace type {
enum {
  HANDLE = 0, DATA_TYPE = 1, INT64 = 3, FLOAT = 4, DOUBLE = 5, POINTER = 6, MODE = 7, HEURISTIC_MODE = 8, NOTE = 11,
  DESCRIPTOR = 15
};
}

// Attributes, by the library's numbers. Those of an operation are six from its own on.
namespace attribute {
enum {
  WINDOW_SUMS = 100, WINDOW_MODE = 101, WINDOW_DILATION = 102, WINDOW_STRIDE = 103, WINDOW_PADDING_AFTER = 104,
  WINDOW_PADDING = 105, WINDOW_RANK = 106, HEURISTIC_MODE = 200, HEURISTIC_GRAPH = 201, HEURISTIC_RESULTS = 202,
  CONFIGURATION_ENGINE = 300, PLAN_HANDLE = 400, PLAN_CONFIGURATION = 401, PLAN_WORKSPACE = 402, FORWARD = 700, INPUT = 706,
  WEIGHT = 712, GRAPH_HANDLE = 800, GRAPH_OPERATION = 801, GRAPH_ENGINES = 802, TENSOR_ALIGNMENT = 900, TENSOR_TYPE = 901,
  TENSOR_SIZES = 902, TENSOR_STRIDES = 903, TENSOR_NAME = 906, PACK_NAMES = 1000, PACK_ADDRESSES = 1001, PACK_WORKSPACE = 1003,
  ENGINE_GRAPH = 1300, ENGINE_NUMBER = 1301, ENGINE_NOTES = 1303
};
}

struct Handle { void* stream = nullptr; };

u64 size_of(int type) { return type == DOUBLE ? 8 : type == FLOAT ? 4 : 2; }

// A tensor as [n, c, d, h, w].
struct Space {
  i64 sizes[5], strides[5];
  u64 bytes = 0;
};
struct Problem {
  int type, pass;
  i64 groups;
  Space image, weight, result;
  i64 padding[3], stride[3], dilation[3];
  double alpha, beta;
};

// What was set of an object, by the numbers of attributes, and what it came to.
struct Descriptor {
  int kind;
  bool is_final = false;
  std::map<int, std::vector<u8>> values = {};
  Problem p = {};
  int engine = 0;
  std::shared_ptr<int> life = std::make_shared<int>(0);  // of a plan, which must not end before its work does

  template <class T> u64 count(int name) const {
    const auto found = values.find(name);
    return found == values.end() ? 0 : found->second.size() / sizeof(T);
  }
  template <class T> const T* all(int name) const { return reinterpret_cast<const T*>(values.at(name).data()); }
  template <class T> T one(int name, T otherwise = T()) const { return count<T>(name) == 1 ? *all<T>(name) : otherwise; }
  const Descriptor* part(int name, int of) const {
    const Descriptor* found = one<const Descriptor*>(name);
    return found && found->kind == of && found->is_final ? found : nullptr;
  }
};

Space space_of(const Descriptor& tensor, int type) {
  Space space{{1, 1, 1, 1, 1}, {0, 0, 0, 0, 0}};
  const int rank = int(tensor.count<i64>(attribute::TENSOR_SIZES));
  i64 last = 0;
  for (int axis = 0; axis < rank; ++axis) {
    const int to = axis < 2 ? axis : axis + 5 - rank;
    space.sizes[to] = tensor.all<i64>(attribute::TENSOR_SIZES)[axis];
    space.strides[to] = tensor.all<i64>(attribute::TENSOR_STRIDES)[axis];
    last += (space.sizes[to] - 1) * space.strides[to];
  }
  space.bytes = u64(last + 1) * size_of(type);
  return space;
}

// The problem of an operation whose parts were set; whether they go together. `at` is the first of its attributes: factors of what
// is made and of what was there, window, weight, image, result.
bool problem_of(int pass, int at, const Descriptor& operation, Problem* to) {
  const Descriptor* window = operation.part(at + 2, kind::WINDOW);
  const Descriptor* weight = operation.part(at + 3, kind::TENSOR);
  const Descriptor* image = operation.part(at + 4, kind::TENSOR);
  const Descriptor* result = operation.part(at + 5, kind::TENSOR);
  if (!window || !image || !weight || !result) return false;
  const int of = image->one<int>(attribute::TENSOR_TYPE);
  const u64 rank = image->count<i64>(attribute::TENSOR_SIZES);
  // As the engine names them.
  i64 name = 0;
  for (const Descriptor* tensor : {image, weight, result}) {
    if (tensor->one<int>(attribute::TENSOR_TYPE) != of || tensor->count<i64>(attribute::TENSOR_SIZES) != rank) return false;
    if (tensor->one<i64>(attribute::TENSOR_NAME) != name++) return false;
  }
  if (window->one<int>(attribute::WINDOW_SUMS) != (of == DOUBLE ? DOUBLE : FLOAT)) return false;
  if (window->count<i64>(attribute::WINDOW_PADDING_AFTER) + 2 != rank) return false;
  *to = {of, pass, 1, space_of(*image, of), space_of(*weight, of), space_of(*result, of), {0, 0, 0}, {1, 1, 1}, {1, 1, 1}, 0, 0};
  Problem& p = *to;
  const auto factor = [&](int name, double* factor) {
    const u64 bytes = of == DOUBLE ? 8 : 4;
    if (operation.count<u8>(name) != bytes) return false;
    *factor = of == DOUBLE ? *operation.all<double>(name) : double(*operation.all<float>(name));
    return true;
  };
  if (!factor(at, &p.alpha) || !factor(at + 1, &p.beta)) return false;
  for (u64 axis = 0; axis < rank - 2; ++axis) {
    const u64 to = axis + 5 - rank;
    p.padding[to] = window->all<i64>(attribute::WINDOW_PADDING)[axis];
    p.stride[to] = window->all<i64>(attribute::WINDOW_STRIDE)[axis];
    p.dilation[to] = window->all<i64>(attribute::WINDOW_DILATION)[axis];
    if (window->all<i64>(attribute::WINDOW_PADDING_AFTER)[axis] != p.padding[to]) return false;
  }
  p.groups = p.image.sizes[1] / p.weight.sizes[1];
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
bool is_roomy(int engine) { return engine == ROOMY || engine == REDUCED || engine == COLUMNS || engine == TILED; }
// Winograd's tiles, by an engine that no heuristic names; like the columns of all images, before it.
bool has_tiles(const Problem& p) {
  bool is_plain = p.type == FLOAT && p.groups == 1;
  for (int axis = 0; axis < 3; ++axis)
    is_plain = is_plain && p.stride[axis] == 1 && p.dilation[axis] == 1 && p.weight.sizes[axis + 2] == (axis ? 3 : 1);
  return is_plain && p.image.sizes[2] == 1;
}
// All that is made goes through it.
u64 workspace_of(const Problem& p, int engine) {
  if (engine == TILED) {
    const i64 tiles = p.result.sizes[0] * ((p.result.sizes[3] + 3) / 4) * ((p.result.sizes[4] + 3) / 4);
    const i64 filters = p.weight.sizes[0], channels = p.weight.sizes[1];
    return u64(36 * 4 * (tiles * channels + tiles * filters + filters * channels));
  }
  if (engine == COLUMNS) return 9 * 4 * u64(p.weight.sizes[1]) * count_of(p.result) / u64(p.result.sizes[1]);
  return is_roomy(engine) ? count_of(output_of(p)) * (p.type == DOUBLE ? 8 : 4) : 0;
}

struct Call {
  Problem p;
  u64 image, weight, result, workspace;
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
    C total = C(p.alpha) * sums[index];
    if (p.beta != 0) total += C(p.beta) * widen(*to);
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

u64 bytes_of(int of) {
  switch (of) {
    case type::HANDLE: case type::INT64: case type::DOUBLE: case type::POINTER: case type::DESCRIPTOR: return 8;
    case type::DATA_TYPE: case type::FLOAT: case type::MODE: case type::HEURISTIC_MODE: return 4;
    default: return 0;
  }
}

// Engines for a problem, the fastest first. Those of tensor cores are first, whatever is asked for.
std::vector<int> engines_of(const Problem& p, int mode) {
  if (mode == 2) return {PLAIN};
  std::vector<int> engines;
  if (p.type == FLOAT) engines.push_back(REDUCED);
  if (p.type == HALF || p.type == BFLOAT16) engines.push_back(REDUCED_SUMS);
  if (p.pass != FORWARD) engines.push_back(UNREPEATABLE);
  engines.insert(engines.end(), {UNSUPPORTED, ROOMY});
  return engines;
}
std::vector<int> notes_of(const Descriptor& engine) {
  switch (engine.engine) {
    case UNREPEATABLE: return {NONDETERMINISTIC_NOTE};
    case REDUCED: return {TENSOR_CORE_NOTE, DOWN_CONVERT_NOTE};
    case REDUCED_SUMS: return {TENSOR_CORE_NOTE, REDUCED_SUMS_NOTE};
    default: return size_of(engine.p.type) == 2 ? std::vector<int>{TENSOR_CORE_NOTE} : std::vector<int>{};
  }
}

// Whether what was set of a descriptor goes together.
int finalized(Descriptor& d) {
  switch (d.kind) {
    case kind::TENSOR: {
      const u64 rank = d.count<i64>(attribute::TENSOR_SIZES);
      bool fits = is_type(d.one<int>(attribute::TENSOR_TYPE, -1)) && rank >= 4 && rank <= 5;
      fits = fits && d.count<i64>(attribute::TENSOR_STRIDES) == rank && d.count<i64>(attribute::TENSOR_NAME) == 1;
      fits = fits && d.one<i64>(attribute::TENSOR_ALIGNMENT) == 16;
      for (int name : {attribute::TENSOR_SIZES, attribute::TENSOR_STRIDES})
        for (u64 axis = 0; fits && axis < rank; ++axis) fits = d.all<i64>(name)[axis] > 0;
      return fits ? SUCCESS : BAD_PARAM;
    }
    case kind::WINDOW: {
      const u64 rank = u64(d.one<i64>(attribute::WINDOW_RANK));
      bool fits = rank >= 2 && rank <= 3 && d.one<int>(attribute::WINDOW_MODE) == 1;
      const int names[] = {attribute::WINDOW_DILATION, attribute::WINDOW_STRIDE, attribute::WINDOW_PADDING_AFTER,
                           attribute::WINDOW_PADDING};
      for (int name : names)
        fits = fits && d.count<i64>(name) == rank;
      return fits ? SUCCESS : BAD_PARAM;
    }
    case kind::FORWARD: return problem_of(FORWARD, attribute::FORWARD, d, &d.p) ? SUCCESS : BAD_PARAM;
    case kind::INPUT: return problem_of(INPUT, attribute::INPUT, d, &d.p) ? SUCCESS : BAD_PARAM;
    case kind::WEIGHT: return problem_of(WEIGHT, attribute::WEIGHT, d, &d.p) ? SUCCESS : BAD_PARAM;
    case kind::GRAPH: {
      const Descriptor* operation = d.one<const Descriptor*>(attribute::GRAPH_OPERATION);
      if (!operation || !operation->is_final || !d.one<Handle*>(attribute::GRAPH_HANDLE)) return BAD_PARAM;
      d.p = operation->p;
      return SUCCESS;
    }
    case kind::ENGINE: {
      const Descriptor* graph = d.part(attribute::ENGINE_GRAPH, kind::GRAPH);
      if (!graph || d.count<i64>(attribute::ENGINE_NUMBER) != 1) return BAD_PARAM;
      d.p = graph->p, d.engine = int(d.one<i64>(attribute::ENGINE_NUMBER));
      return d.engine == ROOMY || d.engine == PLAIN || ((d.engine == COLUMNS || d.engine == TILED) && has_tiles(d.p)) ? SUCCESS : NOT_SUPPORTED;
    }
    case kind::CONFIGURATION: {
      const Descriptor* engine = d.part(attribute::CONFIGURATION_ENGINE, kind::ENGINE);
      if (!engine) return BAD_PARAM;
      d.p = engine->p, d.engine = engine->engine;
      return SUCCESS;
    }
    case kind::HEURISTIC: {
      const Descriptor* graph = d.part(attribute::HEURISTIC_GRAPH, kind::GRAPH);
      if (!graph || d.count<int>(attribute::HEURISTIC_MODE) != 1) return BAD_PARAM;
      d.p = graph->p;
      return SUCCESS;
    }
    case kind::PLAN: {
      const Descriptor* configuration = d.part(attribute::PLAN_CONFIGURATION, kind::CONFIGURATION);
      if (!configuration || !d.one<Handle*>(attribute::PLAN_HANDLE)) return BAD_PARAM;
      d.p = configuration->p, d.engine = configuration->engine;
      if (const char* slow_ms = getenv("STANDIN_PLAN_MS")) usleep(u32(atoi(slow_ms)) * 1000);
      return d.engine == UNSUPPORTED ? NOT_SUPPORTED : SUCCESS;
    }
    case kind::PACK: {
      const bool has_all = d.count<i64>(attribute::PACK_NAMES) == 3 && d.count<u64>(attribute::PACK_ADDRESSES) == 3;
      return has_all && d.count<u64>(attribute::PACK_WORKSPACE) == 1 ? SUCCESS : BAD_PARAM;
    }
    default: return BAD_PARAM;
  }
}

// Makes descriptors that were created engines or configurations.
int fill(const Descriptor& from, const std::vector<int>& engines, int of, i64 most, i64* count, void* to) {
  *count = i64(engines.size());
  if (!to) return SUCCESS;
  *count = *count < most ? *count : most;
  for (i64 n = 0; n < *count; ++n) {
    Descriptor& made = *static_cast<Descriptor**>(to)[n];
    if (made.kind != of) return BAD_PARAM;
    made.p = from.p, made.engine = engines[u64(n)], made.is_final = true;
  }
  return SUCCESS;
}

int got(const Descriptor& d, int name, int of, i64 most, i64* count, void* to) {
  if (!d.is_final) return BAD_PARAM;
  if (d.kind == kind::HEURISTIC && name == attribute::HEURISTIC_RESULTS && of == type::DESCRIPTOR)
    return fill(d, engines_of(d.p, d.one<int>(attribute::HEURISTIC_MODE)), kind::CONFIGURATION, most, count, to);
  if (d.kind == kind::CONFIGURATION && name == attribute::CONFIGURATION_ENGINE && of == type::DESCRIPTOR)
    return fill(d, {d.engine}, kind::ENGINE, most, count, to);
  if (d.kind == kind::ENGINE && name == attribute::ENGINE_NOTES && of == type::NOTE) {
    const std::vector<int> notes = notes_of(d);
    *count = i64(notes.size());
    for (i64 n = 0; n < *count && n < most; ++n) static_cast<int*>(to)[n] = notes[u64(n)];
    return SUCCESS;
  }
  if (d.kind == kind::GRAPH && name == attribute::GRAPH_ENGINES && of == type::INT64 && most == 1) {
    *count = 1, *static_cast<i64*>(to) = ENGINES;
    return SUCCESS;
  }
  if (d.kind == kind::ENGINE && name == attribute::ENGINE_NUMBER && of == type::INT64 && most == 1) {
    *count = 1, *static_cast<i64*>(to) = d.engine;
    return SUCCESS;
  }
  if (d.kind == kind::PLAN && name == attribute::PLAN_WORKSPACE && of == type::INT64 && most == 1) {
    *count = 1, *static_cast<i64*>(to) = i64(workspace_of(d.p, d.engine));
    return SUCCESS;
  }
  return BAD_PARAM;
}

int run(const Handle& handle, const Descriptor& plan, const Descriptor& pack) {
  const Problem& p = plan.p;
  if (!is_roomy(plan.engine) && plan.engine != PLAIN) return NOT_SUPPORTED;
  u64 at[3] = {};
  for (int n = 0; n < 3; ++n) {
    const i64 name = pack.all<i64>(attribute::PACK_NAMES)[n];
    if (name < 0 || name > 2) return BAD_PARAM;
    at[name] = pack.all<u64>(attribute::PACK_ADDRESSES)[n];
  }
  const u64 workspace_bytes = workspace_of(p, plan.engine);
  const Call call{p, at[0], at[1], at[2], pack.one<u64>(attribute::PACK_WORKSPACE), is_roomy(plan.engine)};
  if (!is_valid(call, workspace_bytes)) return BAD_PARAM;
  standin_worked(workspace_bytes, plan.engine == REDUCED);
  standin_push(handle.stream, [call, life = std::weak_ptr<int>(plan.life)] {
    if (life.expired()) return;
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
API cudnnBackendCreateDescriptor(int kind, void** to) { CALL; return make(to, new Descriptor{kind}); }
API cudnnBackendDestroyDescriptor(void* descriptor) { return give_back<Descriptor>(descriptor); }
API cudnnBackendSetAttribute(void* descriptor, int name, int of, i64 count, const void* values) {
  CALL;
  Descriptor& d = *static_cast<Descriptor*>(descriptor);
  if (d.is_final || !bytes_of(of) || count <= 0) return BAD_PARAM;
  const u8* begin = static_cast<const u8*>(values);
  d.values[name].assign(begin, begin + bytes_of(of) * u64(count));
  return SUCCESS;
}
API cudnnBackendFinalize(void* descriptor) {
  CALL;
  Descriptor& d = *static_cast<Descriptor*>(descriptor);
  const int status = d.is_final ? int(BAD_PARAM) : finalized(d);
  d.is_final = status == SUCCESS;
  return status;
}
API cudnnBackendGetAttribute(void* descriptor, int name, int of, i64 most, i64* count, void* to) {
  CALL;
  return got(*static_cast<Descriptor*>(descriptor), name, of, most, count, to);
}
API cudnnBackendExecute(void* handle, void* plan, void* pack) {
  CALL;
  const Descriptor &p = *static_cast<Descriptor*>(plan), &v = *static_cast<Descriptor*>(pack);
  if (p.kind != kind::PLAN || v.kind != kind::PACK || !p.is_final || !v.is_final) return BAD_PARAM;
  return run(*static_cast<Handle*>(handle), p, v);
}
