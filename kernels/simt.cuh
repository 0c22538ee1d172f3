// One kernel source, two compilers: NVRTC for the GPU, the C++ compiler for the host engine. The C++ compiler also makes
// what NVRTC is given run on a CPU (SIMT_EMULATED), for tests: a block's threads one after the other, or beside each other
// (SIMT_THREADS) for ThreadSanitizer.
//
// A kernel is `KERNEL(name, Args) { ... args.field ... }`: one plain-data argument struct, passed by value, mirrored in
// Rust. On the host a block has one thread, which the compiler vectorises; blocks are spread over threads by the caller.
//
// The threads of a `KERNEL`'s block know nothing of each other. Those of a `TEAM_KERNEL`'s can share work: what each does by itself
// is in phases (`each_thread`), after which all have what any has written; all else every thread does alike.
//
// Rules: bodies are templates in an anonymous namespace. A block works on a contiguous chunk (`block_range`), never a
// grid-stride loop. No float atomics. Inputs may be the output (in place), so nothing is `restrict` but by proof.
#pragma once
typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define SIMT_DEVICE 1
#define DEV static __device__ __forceinline__
#define DEV_MEMBER __device__ __forceinline__
#define CALLED static __device__ __noinline__
// A function that kernels of a file share. The C++ compiler makes it once, since compiling takes as long as there is code.
#define COMMON DEV
// Where what is called has the arguments by address, they stay where they are.
#define KERNEL(name, Args) extern "C" __global__ void name(const __grid_constant__ Args args)
#define TEAM_KERNEL KERNEL
#define EXPORT_TABLE(file)
#define SHARED(T, name, count) __shared__ T name[count]
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED
#ifdef SIMT_EMULATED
#define SIMT_DEVICE 1
#else
#define SIMT_DEVICE 0
#endif
#include <cmath>
#include <cstddef>
#include <cstring>
#ifdef SIMT_THREADS
#include <condition_variable>
#include <mutex>
#include <thread>
#endif
#include <vector>
#define DEV static inline __attribute__((always_inline))
#define DEV_MEMBER inline __attribute__((always_inline))
#define CALLED static __attribute__((noinline))
#define COMMON CALLED

struct Dim3 {
  u32 x, y, z;
};
// Where accesses are counted (SIMT_COUNTED), whoever counts sees which thread it is.
#ifdef SIMT_COUNTED
extern thread_local Dim3 threadIdx, blockDim, blockIdx, gridDim;
#endif
namespace {
#ifdef SIMT_EMULATED
// Executes `blocks` blocks of `threads` threads on the calling thread, the last first if `backward`.
typedef void (*Run)(const void* args, u32 blocks, u32 threads, u32 backward);
#ifndef SIMT_COUNTED
thread_local Dim3 threadIdx{0, 0, 0}, blockDim{1, 1, 1};
#endif
// Of a team's block: memory of all its threads, as much as a block has on a GPU without asking for more, what each of them
// keeps, and whether they come the last first.
constexpr u32 SHARED_WORDS = 6144, KEPT_WORDS = 1 << 16;
struct alignas(16) TeamMemory {
  u64 shared[SHARED_WORDS], kept[KEPT_WORDS];
};
thread_local u64 *shared_memory = nullptr, *kept_memory = nullptr;
thread_local bool is_backward = false;
#define SHARED(T, name, count)                                     \
  static_assert(sizeof(T) * (count) <= sizeof(u64) * SHARED_WORDS); \
  T* const name = reinterpret_cast<T*>(shared_memory)
#else
#define SHARED(T, name, count) T name[count]
// Executes blocks [begin, end) of `blocks` on the calling thread.
typedef void (*Run)(const void* args, u32 blocks, u32 begin, u32 end);
constexpr Dim3 threadIdx{0, 0, 0}, blockDim{1, 1, 1};
#endif
#ifndef SIMT_COUNTED
thread_local Dim3 blockIdx{0, 0, 0}, gridDim{1, 1, 1};
#endif

// What Rust, or the driver that stands in for CUDA's, sees of a kernel.
struct Entry {
  const char* name;
  Run run;
  u64 args_bytes, args_align;
};
// It is never destroyed, since another thread may still read it when the process ends.
std::vector<Entry>& table() {
  static auto& entries = *new std::vector<Entry>;
  return entries;
}
#ifdef SIMT_THREADS
constexpr u32 WORKERS = 4;
// Where all workers wait for each other.
struct Barrier {
  std::mutex mutex;
  std::condition_variable all_here;
  u32 missing = WORKERS;
  u64 round = 0;
  void wait() {
    std::unique_lock<std::mutex> lock(mutex);
    const u64 now = round;
    if (--missing == 0) missing = WORKERS, ++round, all_here.notify_all();
    else all_here.wait(lock, [&] { return round != now; });
  }
};
// Of workers that are the threads of one block; null where each has blocks of its own.
thread_local Barrier* barrier = nullptr;
thread_local u32 worker_index = 0;

// Calls work(worker) on several threads.
template <class Work> DEV void work_together(Work work) {
  std::vector<std::thread> others;
  for (u32 worker = 1; worker < WORKERS; ++worker) others.emplace_back(work, worker);
  work(0);
  for (std::thread& other : others) other.join();
}

// A launch's threads dealt out to several of the processor, otherwise in every other launch.
template <class Args>
DEV void run_blocks(void (*kernel)(const Args&), const void* args, u32 blocks, u32 threads, u32 backward) {
  work_together([=](u32 worker) {
    gridDim = {blocks, 1, 1};
    blockDim = {threads, 1, 1};
    for (u32 b = 0; b < blocks; ++b) {
      for (u32 t = 0; t < threads; ++t) {
        const u32 thread = b * threads + t;
        if ((backward ? thread : thread * 0x9e3779b1u >> 16) % WORKERS != worker) continue;
        blockIdx = {b, 0, 0};
        threadIdx = {t, 0, 0};
        kernel(*static_cast<const Args*>(args));
      }
    }
  });
}

// In every other launch the workers are the threads of one block after the other, else each takes whole blocks.
template <class Args>
DEV void run_teams(void (*kernel)(const Args&), const void* args, u32 blocks, u32 threads, u32 backward) {
  Barrier together;
  TeamMemory everybodys;
  work_together([&](u32 worker) {
    TeamMemory own;
    TeamMemory& memory = backward ? own : everybodys;
    shared_memory = memory.shared;
    kept_memory = memory.kept;
    barrier = backward ? nullptr : &together;
    worker_index = worker;
    gridDim = {blocks, 1, 1};
    blockDim = {threads, 1, 1};
    for (u32 b = 0; b < blocks; ++b) {
      if (backward && b % WORKERS != worker) continue;
      blockIdx = {b, 0, 0};
      kernel(*static_cast<const Args*>(args));
    }
  });
}
#elif defined(SIMT_EMULATED)
template <class Args>
DEV void run_blocks(void (*kernel)(const Args&), const void* args, u32 blocks, u32 threads, u32 backward) {
  gridDim = {blocks, 1, 1};
  blockDim = {threads, 1, 1};
  for (u32 b = 0; b < blocks; ++b) {
    for (u32 t = 0; t < threads; ++t) {
      blockIdx = {backward ? blocks - 1 - b : b, 0, 0};
      threadIdx = {backward ? threads - 1 - t : t, 0, 0};
      kernel(*static_cast<const Args*>(args));
    }
  }
}

template <class Args>
DEV void run_teams(void (*kernel)(const Args&), const void* args, u32 blocks, u32 threads, u32 backward) {
  TeamMemory memory;
  shared_memory = memory.shared;
  kept_memory = memory.kept;
  is_backward = backward;
  gridDim = {blocks, 1, 1};
  blockDim = {threads, 1, 1};
  for (u32 b = 0; b < blocks; ++b) {
    blockIdx = {backward ? blocks - 1 - b : b, 0, 0};
    kernel(*static_cast<const Args*>(args));
  }
}
#else
template <class Args> DEV void run_blocks(void (*kernel)(const Args&), const void* args, u32 blocks, u32 begin, u32 end) {
  gridDim = {blocks, 1, 1};
  for (u32 block = begin; block < end; ++block) {
    blockIdx = {block, 0, 0};
    kernel(*static_cast<const Args*>(args));
  }
}
#endif
struct Registration {
  explicit Registration(const Entry& entry) { table().push_back(entry); }
};
}  // namespace

#define KERNEL_RUN_BY(run, name, Args)                                                                      \
  static void name(const Args& args);                                                                       \
  static void name##_run(const void* args, u32 blocks, u32 a, u32 b) { run<Args>(&name, args, blocks, a, b); } \
  static const Registration name##_registration({#name, &name##_run, sizeof(Args), alignof(Args)});         \
  static void name(const Args& args)
#define KERNEL(name, Args) KERNEL_RUN_BY(run_blocks, name, Args)
#ifdef SIMT_EMULATED
#define TEAM_KERNEL(name, Args) KERNEL_RUN_BY(run_teams, name, Args)
#else
#define TEAM_KERNEL KERNEL
#endif

// Every file ends with one of these; SIMT_SUFFIX tells the host engine's build from those of emulations.
#define SIMT_JOIN_(a, b, c) a##b##c
#define SIMT_JOIN(a, b, c) SIMT_JOIN_(a, b, c)
#define EXPORT_TABLE(file)                                                              \
  extern "C" const Entry* SIMT_JOIN(overcommit_kernels_, file, SIMT_SUFFIX)(u64 * n) {   \
    *n = table().size();                                                                \
    return table().data();                                                              \
  }
#endif

// Asserts that a loop's iterations are independent. An output is either apart from an input or exactly on it (in place,
// each element at its own position), so this holds for every elementwise loop; the compiler cannot know.
#if SIMT_DEVICE
#define INDEPENDENT
#elif defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

namespace {
template <class T> DEV constexpr T least(T a, T b) { return a < b ? a : b; }
template <class T> DEV constexpr T most(T a, T b) { return a > b ? a : b; }

// The contiguous range of a block: chunk elements each, the last block what is left.
struct Range {
  u64 begin, end;
};
DEV Range block_range(u64 count, u64 chunk) {
  const u64 begin = blockIdx.x * chunk;
  return {least(begin, count), least(begin + chunk, count)};
}

// A team has as many threads.
constexpr u32 TEAM = SIMT_DEVICE ? 128 : 1;

DEV void wait_for_all() {
#if defined(SIMT_THREADS)
  if (barrier) barrier->wait();
#elif SIMT_DEVICE && !defined(SIMT_EMULATED)
  __syncthreads();
#endif
}
// Until a warp's lanes have what its lanes have written.
DEV void wait_for_warp() {
#if SIMT_DEVICE && !defined(SIMT_EMULATED)
  __syncwarp();
#endif
}

// What each thread does by itself, with what only it and its warp write.
template <class Phase> DEV void each_lane(Phase phase) {
#ifdef SIMT_EMULATED
  for (u32 t = 0; t < blockDim.x; ++t) {
    threadIdx = {is_backward ? blockDim.x - 1 - t : t, 0, 0};
#ifdef SIMT_THREADS
    if (barrier && t % WORKERS != worker_index) continue;
#endif
    phase();
  }
#ifdef SIMT_THREADS
  wait_for_all();
#endif
#else
  phase();
#endif
}

// A phase: what each thread does, and then all are done.
template <class Phase> DEV void each_thread(Phase phase) {
  each_lane(phase);
#ifndef SIMT_THREADS
  wait_for_all();
#endif
}

// What each thread of a team keeps from one phase to the next: on a GPU, in registers.
template <class T> struct Kept {
#ifdef SIMT_EMULATED
  T* const all = reinterpret_cast<T*>(kept_memory);
  Kept() { kept_memory += words(); }
  ~Kept() { kept_memory -= words(); }
  Kept(const Kept&) = delete;
  T& operator()() { return all[threadIdx.x]; }
  static u64 words() { return (TEAM * sizeof(T) + 15) / 16 * 2; }
#else
  T own;
  DEV_MEMBER T& operator()() { return own; }
#endif
};

// A phase in which a team's threads share independent pieces of work, neighbours on neighbours.
template <class Body> DEV void share(u64 count, Body body) {
  each_thread([&] {
    INDEPENDENT for (u64 k = threadIdx.x; k < count; k += blockDim.x) body(k);
  });
}
}  // namespace
