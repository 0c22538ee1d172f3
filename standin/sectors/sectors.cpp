// How well the kernels' loads and stores fill the sectors that a GPU moves, counted on a CPU: for scripts/check-sectors.
//
// The kernels are compiled as a GPU is given them (SIMT_EMULATED), with calls before each access to memory (-fsanitize=thread) that
// end here instead of in ThreadSanitizer. Accesses of a warp's threads from the same place in the code, each thread's first
// together, then each one's second and so on, are a request; it moves all sectors of 32 bytes that it touches.
//
// Reads calls from its input, a line each: a label, the kernel and its file, how many blocks it has, and the words of its arguments
// in hexadecimal. Runs the first blocks of each. Memory comes into being where it is touched, as zeros.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

struct Dim3 {  // as in simt.cuh
  u32 x, y, z;
};
thread_local Dim3 threadIdx{0, 0, 0}, blockDim{1, 1, 1}, blockIdx{0, 0, 0}, gridDim{1, 1, 1};
#include "../driver/entry.h"
#include "tables.h"

namespace {
constexpr u32 WARP = 32, THREADS = 128, MOST_BLOCKS = 6;
constexpr u64 SECTOR = 32, PAGE = 2 << 20;
// Storages lie below, all that the process has of its own above.
constexpr u64 STORAGES_END = 1ull << 40;

// A place in the code that reads or writes.
struct Site {
  bool writes = false;
  std::vector<u32> times;  // that each thread has come by
  std::map<std::pair<u32, u32>, std::vector<u64>> requests;  // sectors, by how often the warp had come by
};
struct Count {
  u64 requests = 0, sectors = 0, bytes = 0;
};
struct Counts {
  Count reads, writes;
  u64 accesses = 0, locals = 0;
};
std::unordered_map<void*, Site> sites;
Counts counts;
bool counting = false;
u32 block = ~0u;
const char *args_begin, *args_end, *stack_begin, *stack_end;

void end_block() {
  for (auto& [place, site] : sites) {
    Count& count = site.writes ? counts.writes : counts.reads;
    for (auto& [at, sectors] : site.requests) {
      std::sort(sectors.begin(), sectors.end());
      count.sectors += std::unique(sectors.begin(), sectors.end()) - sectors.begin();
      count.requests++;
    }
    site.requests.clear();
    site.times.clear();
  }
}

void access(void* place, void* pointer, u32 bytes, bool writes) {
  const char* at = static_cast<char*>(pointer);
  if (!counting || (at >= args_begin && at < args_end)) return;
  if (at >= stack_begin && at < stack_end) {
    counts.locals++;
    return;
  }
  if (reinterpret_cast<u64>(at) >= STORAGES_END) return;
  if (blockIdx.x != block) end_block(), block = blockIdx.x;
  Site& site = sites[place];
  site.writes = writes;
  site.times.resize(THREADS);
  auto& sectors = site.requests[{site.times[threadIdx.x % THREADS]++, threadIdx.x / WARP}];
  const u64 first = reinterpret_cast<u64>(at);
  for (u64 sector = first / SECTOR; sector <= (first + bytes - 1) / SECTOR; ++sector) sectors.push_back(sector);
  (writes ? counts.writes : counts.reads).bytes += bytes;
  counts.accesses++;
}

void touch(int, siginfo_t* info, void*) {
  void* page = reinterpret_cast<void*>(reinterpret_cast<u64>(info->si_addr) / PAGE * PAGE);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  if (reinterpret_cast<u64>(page) >= STORAGES_END || mmap(page, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) {
    fprintf(stderr, "a kernel touched %p\n", info->si_addr);
    _exit(3);
  }
}

const Entry* find(const std::string& name) {
  for (const Table& table : TABLES) {
    u64 count = 0;
    const Entry* entries = table.entries(&count);
    for (u64 at = 0; at < count; ++at)
      if (name == entries[at].name) return entries + at;
  }
  fprintf(stderr, "there is no kernel %s\n", name.c_str());
  exit(2);
}

double used(const Count& count) { return count.sectors ? 100.0 * count.bytes / (SECTOR * count.sectors) : 100; }
double each(u64 all, u64 of) { return of ? double(all) / of : 0; }

void run(const std::string& name, u32 blocks, const std::vector<u64>& args) {
  args_begin = reinterpret_cast<const char*>(args.data());
  args_end = args_begin + args.size() * sizeof(u64);
  sites.clear();
  counts = {};
  block = ~0u;
  counting = true;
  find(name)->run(args.data(), std::min(blocks, MOST_BLOCKS), THREADS, 0);
  counting = false;
  end_block();
}
}  // namespace

extern "C" {
#define HOOKS(name, bytes, writes)                                                                     \
  void __tsan_##name##bytes(void* at) { access(__builtin_return_address(0), at, bytes, writes); }           \
  void __tsan_unaligned_##name##bytes(void* at) { access(__builtin_return_address(0), at, bytes, writes); } \
  void __tsan_volatile_##name##bytes(void* at) { access(__builtin_return_address(0), at, bytes, writes); }
#define BOTH(bytes) HOOKS(read, bytes, false) HOOKS(write, bytes, true)
BOTH(1) BOTH(2) BOTH(4) BOTH(8) BOTH(16)
void __tsan_init() {}
u8 __tsan_atomic8_load(const volatile u8* at, int) { return *at; }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void*, unsigned long) {}
void __tsan_write_range(void*, unsigned long) {}
}

// Prints of each call, by tabs: label, kernel, requests of reads, sectors of each, percent of their bytes that are used, the same of
// writes, lanes of a warp that take part, and accesses to local memory for each other one.
int main() {
  struct sigaction action {};
  action.sa_sigaction = touch;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  char here;
  stack_begin = &here - (8 << 20);
  stack_end = &here + (1 << 16);
  std::string line;
  for (int c; (c = getchar()) != EOF;) {
    if (c != '\n') {
      line += char(c);
      continue;
    }
    std::istringstream words(line);
    line.clear();
    std::string label, name, file, word;
    u32 blocks = 0;
    if (!(words >> label >> name >> file >> blocks)) continue;
    std::vector<u64> args;
    while (words >> word) args.push_back(strtoull(word.c_str(), nullptr, 16));
    run(name, blocks, args);
    const auto& [reads, writes, accesses, locals] = counts;
    const double lanes = each(accesses, reads.requests + writes.requests);
    printf("%s\t%s\t%lu\t%.1f\t%.1f\t%lu\t%.1f\t%.1f\t%.1f\t%.1f\t%lu\n", label.c_str(), name.c_str(), (unsigned long)reads.requests,
           each(reads.sectors, reads.requests), used(reads), (unsigned long)writes.requests, each(writes.sectors, writes.requests),
           used(writes), lanes, each(locals, accesses), (unsigned long)(reads.sectors + writes.sectors));
  }
}
