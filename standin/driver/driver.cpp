// Stands in for NVIDIA's driver on a CPU, as far as the engine uses it.
//
// Work in streams is done when something waits for it, and no earlier: a missing wait gives wrong data every time. Device
// memory is bounded and begins as garbage; copies are only between memory that the driver gave, within its bounds. Pages
// are those of a file in memory, behind reserved addresses. Kernels are those of `kernels/` as a GPU is given them, a
// block's threads one after the other, every other launch from the last to the first. `standin_*` is for tests.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "standin.h"

#include "entry.h"
#include "tables.h"

namespace {
// As the driver's results.
enum {
  SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, DEINITIALIZED = 4, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201, NOT_FOUND = 500, NOT_READY = 600, NOT_PERMITTED = 800, NOT_SUPPORTED = 801, UNKNOWN = 999
};
constexpr u64 PAGE = 2 << 20;
constexpr u64 SMALL = 8 << 20;  // what is larger begins as zeros: a program that has room to spare touches little of it

std::recursive_mutex mutex;

// ---- what tests choose
struct Settings {
  u64 memory_bytes = 4ull << 30, pinned_bytes = ~0ull, reserved_bytes = ~0ull;  // device, pinned and addresses, at most
  int version = 13000, devices = 64, says_pages = 1, maps_pages = 1, is_integrated = 0;
} settings;
u64 failing = 0;  // the number, from one, of the call that fails; 0: none
u64 calls = 0;
// NVIDIA's driver ends before what was registered to run at the process's end before it began.
bool is_over = false;

// ---- streams: work that was put in, and how much of it is done
struct Stream {
  void* context = nullptr;  // of the device that it belongs to
  std::deque<std::function<void()>> work;
  u64 issued = 0, done = 0;
  bool is_busy = false;  // while a thread runs its oldest piece, which may let others have the mutex
};
struct Event {
  Stream* stream = nullptr;
  u64 at = 0;
  std::shared_ptr<u64> time_ns = std::make_shared<u64>(0);  // work that records it may outlive the event
};
std::set<Stream*> streams;
std::multiset<std::pair<u64, u64>> awaited;  // counters that streams wait for, and their values
thread_local bool is_host_function = false;
u64 clock_ns = 0;  // a microsecond for each piece of work

// Lets other threads call the driver, which every function has locked once.
void let_others() {
  mutex.unlock();
  std::this_thread::yield();
  mutex.lock();
}
void run_to(Stream* stream, u64 end) {
  while (stream->done < end && (stream->is_busy || !stream->work.empty())) {
    if (stream->is_busy) {
      let_others();
      continue;
    }
    const auto piece = std::move(stream->work.front());
    stream->work.pop_front();
    stream->is_busy = true;
    piece();
    stream->is_busy = false;
    stream->done++;
    clock_ns += 1000;
  }
}
bool is_reached(u64 address, u64 value) {
  return __atomic_load_n(reinterpret_cast<u64*>(address), __ATOMIC_SEQ_CST) >= value;
}
// As calls that wait for the device and hold the driver's lock meanwhile: what streams wait for must come without it.
void synchronize_holding_the_lock() {
  for (const auto& [address, value] : awaited)
    while (!is_reached(address, value)) std::this_thread::yield();
}
void drain(Stream* stream) { run_to(stream, stream->issued); }
void drain_all() {
  for (Stream* stream : std::set<Stream*>(streams))
    if (streams.count(stream)) drain(stream);
}
// Whether kernels and libraries do nothing: for who measures what it takes to launch them.
bool is_idle() {
  static const bool idle = getenv("STANDIN_IDLE");
  return idle;
}
void push(void* stream, std::function<void()> piece) {
  Stream* s = static_cast<Stream*>(stream);
  s->work.push_back(std::move(piece));
  s->issued++;
}

// ---- memory
std::map<u64, u64> device, pinned;  // sizes by address
u64 used_bytes = 0;
std::map<u64, u64> ranges;   // reserved
std::map<u64, u64> mapped;   // handles by address of a page, for each page of a handle
std::map<u64, u64> sizes;    // of handles, in bytes: whole pages
std::set<u64> readable;      // pages that were made so
std::map<u64, u64> handles;  // how often each is mapped
std::set<u64> released;      // handles that are gone once they are mapped nowhere
std::map<u64, std::vector<u64>> spare;  // places in the file, by size
u64 file_pages = 0;
int file = -1;
thread_local void* context = nullptr;

bool holds(const std::map<u64, u64>& memory, u64 address, u64 bytes) {
  auto next = memory.upper_bound(address);
  if (next == memory.begin()) return false;
  --next;
  return address + bytes <= next->first + next->second;
}
bool is_mapped(u64 address, u64 bytes) {
  for (u64 page = address / PAGE * PAGE; page < address + bytes; page += PAGE)
    if (!readable.count(page)) return false;
  return true;
}
bool is_ours(u64 address, u64 bytes) {
  return holds(device, address, bytes) || holds(pinned, address, bytes) || is_mapped(address, bytes);
}
void* at(u64 address) { return reinterpret_cast<void*>(address); }
// AddressSanitizer knows the bounds of what is on the heap.
#ifdef __SANITIZE_ADDRESS__
void* get(u64 bytes) {
  void* start = nullptr;
  return posix_memalign(&start, 256, bytes) ? MAP_FAILED : start;
}
void put_back(void* start, u64) { free(start); }
#else
void* get(u64 bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
void put_back(void* start, u64 bytes) { munmap(start, bytes); }
#endif
int give(std::map<u64, u64>& memory, u64 address) {
  auto found = memory.find(address);
  if (found == memory.end()) return INVALID_VALUE;
  synchronize_holding_the_lock();
  drain_all();
  if (&memory == &device) used_bytes -= found->second;
  put_back(at(address), found->second);
  memory.erase(found);
  return SUCCESS;
}
u64 bytes_of(const std::map<u64, u64>& memory) {
  u64 bytes = 0;
  for (const auto& piece : memory) bytes += piece.second;
  return bytes;
}
int take(std::map<u64, u64>& memory, u64* address, u64 bytes) {
  if (bytes == 0) return INVALID_VALUE;
  if (&memory == &device && used_bytes + bytes > settings.memory_bytes) return OUT_OF_MEMORY;
  if (&memory == &pinned && bytes_of(pinned) + bytes > settings.pinned_bytes) return OUT_OF_MEMORY;
  void* start = get(bytes);
  if (start == MAP_FAILED) return OUT_OF_MEMORY;
  if (bytes <= SMALL) memset(start, 0xCD, bytes);
  if (&memory == &device) used_bytes += bytes;
  *address = reinterpret_cast<u64>(start);
  memory[*address] = bytes;
  return SUCCESS;
}
void forget(u64 handle) {
  if (handles[handle] > 0 || !released.count(handle)) return;
  handles.erase(handle), released.erase(handle);
  used_bytes -= sizes[handle];
  spare[sizes[handle]].push_back(handle);
}

// ---- modules: the kernels of a file for a type, or those of a library
struct Module {
  std::string file, instance;
  void* library = nullptr;
};

// The library that an image is, by a file whose name no other has.
void* opened(const char* code, u64 bytes) {
  char path[] = "/tmp/standin-code-XXXXXX";
  const int image = mkstemp(path);
  if (image < 0) return nullptr;
  const bool is_written = write(image, code, bytes) == ssize_t(bytes);
  close(image);
  void* library = is_written ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path);
  return library;
}
u64 launches = 0;

// ---- of other libraries
u64 objects = 0;
struct Work {
  u64 count, reduced, workspace_bytes;
} work;

// Whether this is the call that is to fail.
bool fails() { return ++calls == failing; }
#define CALL                                            \
  if (is_host_function) return NOT_PERMITTED;           \
  std::lock_guard<std::recursive_mutex> guard(mutex);   \
  if (is_over) return DEINITIALIZED;                    \
  if (fails()) return UNKNOWN
#define IN_CONTEXT \
  CALL;            \
  if (!context) return INVALID_CONTEXT
// Work goes to streams of the thread's own context only.
#define INTO(stream) \
  IN_CONTEXT;        \
  if (static_cast<Stream*>(stream)->context != context) return INVALID_CONTEXT
}  // namespace

// ---- for other libraries
bool standin_call() {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  return !fails() && context;
}
bool standin_owns(u64 address, u64 bytes) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  return is_ours(address, bytes);
}
void standin_push(void* stream, std::function<void()> piece) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  push(stream, is_idle() ? std::function<void()>([] {}) : std::move(piece));
}
void standin_count(int count) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  objects += count;
}
void standin_worked(u64 workspace_bytes, bool reduced) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  work.count++, work.reduced += reduced;
  work.workspace_bytes = std::max(work.workspace_bytes, workspace_bytes);
}

// ---- for tests
API standin_set(const Settings* changed) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  settings = *changed;
  return SUCCESS;
}
API standin_fail(u64 call) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  calls = 0, failing = call;
  return SUCCESS;
}
extern "C" __attribute__((visibility("default"))) u64 standin_calls() { return calls; }
extern "C" __attribute__((visibility("default"))) u64 standin_launches() { return launches; }
extern "C" __attribute__((visibility("default"))) u64 standin_used_bytes() { return used_bytes; }
extern "C" __attribute__((visibility("default"))) u64 standin_objects() {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  return streams.size() + device.size() + pinned.size() + ranges.size() + mapped.size() + handles.size() + objects;
}
// What other libraries were given since this was last asked.
API standin_work(Work* given) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  *given = std::exchange(work, Work{});
  return SUCCESS;
}

// ---- the driver and its devices
API cuInit(u32) {
  CALL;
  static const int registered = atexit([] { is_over = true; });
  (void)registered;
  return settings.devices ? SUCCESS : NO_DEVICE;
}
API cuDriverGetVersion(int* version) { CALL; *version = settings.version; return SUCCESS; }
API cuDeviceGetCount(int* count) { CALL; *count = settings.devices; return SUCCESS; }
API cuDeviceGet(int* device, int index) { CALL; *device = index; return index < settings.devices ? SUCCESS : INVALID_DEVICE; }
API cuDeviceGetName(char* text, int size, int) { CALL; snprintf(text, size, "stand-in"); return SUCCESS; }
API cuDeviceGetAttribute(int* value, int attribute, int) {
  CALL;
  switch (attribute) {
    case 75: *value = 9; break;                     // compute capability
    case 76: *value = 0; break;
    case 13: *value = 1000000; break;               // kHz
    case 16: *value = 10; break;                    // multiprocessors
    case 36: *value = 1000000; break;               // kHz of the memory
    case 37: *value = 256; break;                   // bits of its bus
    case 18: *value = settings.is_integrated; break;
    case 102: *value = settings.says_pages; break;
    default: return INVALID_VALUE;
  }
  return SUCCESS;
}
API cuDevicePrimaryCtxRetain(void** c, int device) {
  CALL;
  static std::map<int, int> of_devices;
  *c = &of_devices[device];
  return SUCCESS;
}
API cuDevicePrimaryCtxRelease_v2(int) { return SUCCESS; }
API cuCtxGetCurrent(void** c) { CALL; *c = context; return SUCCESS; }
API cuCtxSetCurrent(void* c) { CALL; context = c; return SUCCESS; }
API cuCtxSynchronize() { IN_CONTEXT; drain_all(); return SUCCESS; }
API cuDeviceCanAccessPeer(int* can, int device, int peer) { CALL; *can = device != peer; return SUCCESS; }
API cuCtxEnablePeerAccess(void* peer, u32) { IN_CONTEXT; return peer ? SUCCESS : INVALID_VALUE; }
API cuMemGetInfo_v2(size_t* free, size_t* total) {
  IN_CONTEXT;
  *free = settings.memory_bytes - used_bytes, *total = settings.memory_bytes;
  return SUCCESS;
}
API cuGetErrorString(int error, const char** text) {
  *text = error == OUT_OF_MEMORY ? "out of memory" : error == UNKNOWN ? "unknown error" : "an error of the stand-in";
  return SUCCESS;
}
API cuGetErrorName(int, const char** text) { *text = "STANDIN"; return SUCCESS; }

// ---- streams and events
API cuStreamCreate(void** stream, u32) {
  IN_CONTEXT;
  Stream* made = new Stream;
  made->context = context;
  streams.insert(made);
  *stream = made;
  return SUCCESS;
}
API cuStreamDestroy_v2(void* stream) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  Stream* s = static_cast<Stream*>(stream);
  drain(s);
  streams.erase(s);
  delete s;
  return SUCCESS;
}
API cuStreamSynchronize(void* stream) { IN_CONTEXT; drain(static_cast<Stream*>(stream)); return SUCCESS; }
API cuStreamWaitEvent(void* stream, void* event, u32) {
  INTO(stream);
  const Event seen = *static_cast<Event*>(event);
  if (seen.stream) push(stream, [seen] { run_to(seen.stream, seen.at); });
  return SUCCESS;
}
// Of a counter in pinned memory that a thread of the program advances.
API cuStreamWaitValue64_v2(void* stream, u64 address, u64 value, u32 flags) {
  INTO(stream);
  if (flags != 0 || !holds(pinned, address, sizeof(u64))) return INVALID_VALUE;
  awaited.insert({address, value});
  push(stream, [address, value] {
    while (!is_reached(address, value)) let_others();
    awaited.erase(awaited.find({address, value}));
  });
  return SUCCESS;
}
API cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  INTO(stream);
  push(stream, [function, data] {
    is_host_function = true;
    function(data);
    is_host_function = false;
  });
  return SUCCESS;
}
API cuEventCreate(void** event, u32) { IN_CONTEXT; *event = new Event; return SUCCESS; }
API cuEventDestroy_v2(void* event) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  delete static_cast<Event*>(event);
  return SUCCESS;
}
API cuEventRecord(void* event, void* stream) {
  INTO(stream);
  Event* e = static_cast<Event*>(event);
  push(stream, [time_ns = e->time_ns] { *time_ns = clock_ns; });
  e->stream = static_cast<Stream*>(stream), e->at = e->stream->issued;
  return SUCCESS;
}
API cuEventQuery(void* event) {
  IN_CONTEXT;
  const Event* e = static_cast<Event*>(event);
  return !e->stream || e->stream->done >= e->at ? SUCCESS : NOT_READY;
}
API cuEventSynchronize(void* event) {
  IN_CONTEXT;
  const Event* e = static_cast<Event*>(event);
  if (e->stream) run_to(e->stream, e->at);
  return SUCCESS;
}
API cuEventElapsedTime_v2(float* ms, void* from, void* to) {
  IN_CONTEXT;
  *ms = float(double(*static_cast<Event*>(to)->time_ns - *static_cast<Event*>(from)->time_ns) / 1e6);
  return SUCCESS;
}

// ---- memory
API cuMemAlloc_v2(u64* address, size_t bytes) { IN_CONTEXT; return take(device, address, bytes); }
API cuMemFree_v2(u64 address) { std::lock_guard<std::recursive_mutex> guard(mutex); return give(device, address); }
API cuMemHostAlloc(void** start, size_t bytes, u32) {
  IN_CONTEXT;
  synchronize_holding_the_lock();
  u64 address = 0;
  const int result = take(pinned, &address, bytes);
  *start = at(address);
  return result;
}
API cuMemFreeHost(void* start) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  return give(pinned, reinterpret_cast<u64>(start));
}
API cuMemcpyAsync(u64 to, u64 from, size_t bytes, void* stream) {
  INTO(stream);
  if (!is_ours(to, bytes) || !is_ours(from, bytes)) return INVALID_VALUE;
  push(stream, [=] { memcpy(at(to), at(from), bytes); });
  return SUCCESS;
}

// ---- pages
API cuMemGetAllocationGranularity(size_t* bytes, const void*, int) { IN_CONTEXT; *bytes = PAGE; return SUCCESS; }
API cuMemAddressReserve(u64* address, size_t bytes, size_t alignment, u64, u64) {
  IN_CONTEXT;
  if (bytes % PAGE || alignment % PAGE) return INVALID_VALUE;
  if (bytes_of(ranges) + bytes > settings.reserved_bytes) return OUT_OF_MEMORY;
  const u64 aligned = std::max<u64>(alignment, PAGE);
  void* start = mmap(nullptr, bytes + aligned, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return OUT_OF_MEMORY;
  *address = (reinterpret_cast<u64>(start) + aligned - 1) / aligned * aligned;
  ranges[*address] = bytes;
  return SUCCESS;
}
API cuMemAddressFree(u64 address, size_t bytes) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  if (!ranges.count(address) || ranges[address] != bytes) return INVALID_VALUE;
  for (u64 page = address; page < address + bytes; page += PAGE)
    if (mapped.count(page)) return INVALID_VALUE;
  ranges.erase(address);
  munmap(at(address), bytes);
  return SUCCESS;
}
API cuMemCreate(u64* handle, size_t bytes, const void*, u64) {
  IN_CONTEXT;
  if (!bytes || bytes % PAGE) return INVALID_VALUE;
  if (used_bytes + bytes > settings.memory_bytes) return OUT_OF_MEMORY;
  if (file < 0) file = memfd_create("standin", 0);
  std::vector<u64>& places = spare[bytes];
  if (places.empty()) {
    places.push_back(file_pages + 1);
    file_pages += bytes / PAGE;
    if (ftruncate(file, off_t(file_pages * PAGE))) return OUT_OF_MEMORY;
  }
  *handle = places.back();
  places.pop_back();
  handles[*handle] = 0;
  sizes[*handle] = bytes;
  used_bytes += bytes;
  std::vector<u8> garbage(bytes, 0xCD);
  return pwrite(file, garbage.data(), bytes, off_t((*handle - 1) * PAGE)) == ssize_t(bytes) ? SUCCESS : OUT_OF_MEMORY;
}
API cuMemRelease(u64 handle) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  if (!handles.count(handle) || released.count(handle)) return INVALID_VALUE;
  released.insert(handle);
  forget(handle);
  return SUCCESS;
}
API cuMemMap(u64 address, size_t bytes, size_t offset, u64 handle, u64) {
  IN_CONTEXT;
  if (!settings.maps_pages) return NOT_SUPPORTED;
  if (!handles.count(handle) || released.count(handle) || bytes != sizes[handle] || offset) return INVALID_VALUE;
  if (!holds(ranges, address, bytes)) return INVALID_VALUE;
  for (u64 page = address; page < address + bytes; page += PAGE)
    if (mapped.count(page)) return INVALID_VALUE;
  void* there = mmap(at(address), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file, off_t((handle - 1) * PAGE));
  if (there == MAP_FAILED) return OUT_OF_MEMORY;
  for (u64 page = address; page < address + bytes; page += PAGE) mapped[page] = handle;
  handles[handle]++;
  return SUCCESS;
}
API cuMemUnmap(u64 address, size_t bytes) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  if (fails()) return UNKNOWN;
  if (!bytes || bytes % PAGE || !holds(ranges, address, bytes)) return INVALID_VALUE;
  // What is behind one page of a handle is behind the others.
  for (u64 page = address; page < address + bytes; page += sizes[mapped[page]])
    if (!mapped.count(page)) return INVALID_VALUE;
  mmap(at(address), bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  for (u64 at = address; at < address + bytes;) {
    const u64 handle = mapped[at], end = at + sizes[handle];
    for (; at < end; at += PAGE) mapped.erase(at), readable.erase(at);
    handles[handle]--;
    forget(handle);
  }
  return SUCCESS;
}
API cuMemSetAccess(u64 address, size_t bytes, const void*, size_t) {
  IN_CONTEXT;
  for (u64 page = address; page < address + bytes; page += PAGE)
    if (!mapped.count(page)) return INVALID_VALUE;
  mprotect(at(address), bytes, PROT_READ | PROT_WRITE);
  for (u64 page = address; page < address + bytes; page += PAGE) readable.insert(page);
  return SUCCESS;
}

// ---- kernels
API cuModuleLoadData(void** module, const void* image) {
  IN_CONTEXT;
  synchronize_holding_the_lock();
  char file[64], instance[64];
  u64 bytes = 0;
  int begin = 0;
  if (sscanf(static_cast<const char*>(image), "standin-code %llu%n", &bytes, &begin) == 1) {
    void* library = opened(static_cast<const char*>(image) + begin + 1, bytes);
    if (!library) return INVALID_IMAGE;
    *module = new Module{"", "", library};
    return SUCCESS;
  }
  if (sscanf(static_cast<const char*>(image), "standin %63s %63s", file, instance) != 2) return INVALID_IMAGE;
  *module = new Module{file, instance};
  return SUCCESS;
}
API cuModuleUnload(void* module) {
  std::lock_guard<std::recursive_mutex> guard(mutex);
  Module* m = static_cast<Module*>(module);
  if (m->library) {
    drain_all();
    dlclose(m->library);
  }
  delete m;
  return SUCCESS;
}
API cuModuleGetFunction(void** function, void* module, const char* name) {
  IN_CONTEXT;
  const Module* m = static_cast<Module*>(module);
  const auto find = [&](const Entry* (*entries_of)(u64*)) {
    u64 count = 0;
    const Entry* entries = entries_of(&count);
    for (u64 n = 0; n < count; ++n)
      // A copy that stays: a library's table ends with the process, before work that is done at its end.
      if (!strcmp(entries[n].name, name) && strstr(name, m->instance.c_str())) *function = new Entry(entries[n]);
  };
  *function = nullptr;
  if (m->library) {
    if (void* table = dlsym(m->library, "overcommit_kernels_generated_emulated"))
      find(reinterpret_cast<const Entry* (*)(u64*)>(table));
  }
  for (const Table& table : TABLES)
    if (m->file == table.file) find(table.entries);
  return *function ? SUCCESS : NOT_FOUND;
}
API cuLaunchKernel(void* function, u32 blocks, u32 y, u32 z, u32 threads, u32 ty, u32 tz, u32, void* stream,
                   void** parameters, void**) {
  INTO(stream);
  if (!blocks || !threads || threads > 1024 || y * z * ty * tz != 1) return INVALID_VALUE;
  const Entry* entry = static_cast<const Entry*>(function);
  std::vector<u64> args((entry->args_bytes + 7) / 8);  // copied when launched, as the driver does
  memcpy(args.data(), parameters[0], entry->args_bytes);
  const u32 backward = launches++ % 2;
  if (getenv("STANDIN_RACE")) {  // for who looks for races to find one
    static int everybodys = 0;
    std::thread([] { everybodys++; }).detach();
    everybodys++;
  }
  if (getenv("STANDIN_OVERFLOW") && !strcmp(entry->name, "fill_u32")) {  // for who looks for accesses beyond memory
    args[1] += 64, args[2] += 64;                                            // how much is filled, and in each block
  }
  if (is_idle()) return SUCCESS;
  push(stream, [=] { entry->run(args.data(), blocks, threads, backward); });
  return SUCCESS;
}

// NVRTC opens the driver and asks for this.
API cuGetExportTable(const void** table, const void*) {
  *table = nullptr;
  return NOT_FOUND;
}
