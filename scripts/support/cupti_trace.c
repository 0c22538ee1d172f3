// Writes what a GPU did, as CUPTI tells it: CUDA loads this library into a process whose environment names it in
// CUDA_INJECTION64_PATH. A line for each kernel, copy and fill, in the file that CUPTI_TRACE names: when it began and ended, in
// nanoseconds, and its name.
#include <cupti.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static FILE* file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void line(uint64_t begin, uint64_t end, const char* name) {
  fprintf(file, "%llu\t%llu\t%s\n", (unsigned long long)begin, (unsigned long long)end, name);
}

static void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most_records) {
  *size = 8 << 20;
  *buffer = aligned_alloc(64, *size);
  *most_records = 0;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  (void)context, (void)stream, (void)size;
  CUpti_Activity* record = NULL;
  pthread_mutex_lock(&lock);
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const CUpti_ActivityKernel10* kernel = (const void*)record;
      line(kernel->start, kernel->end, kernel->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const CUpti_ActivityMemcpy6* copy = (const void*)record;
      const int is_small_result = copy->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH && copy->bytes <= 8;
      line(copy->start, copy->end, is_small_result ? "[result]" : "[copy]");
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      const CUpti_ActivityMemset4* fill = (const void*)record;
      line(fill->start, fill->end, "[fill]");
    }
  }
  pthread_mutex_unlock(&lock);
  free(buffer);
}

static void end(void) {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  fflush(file);
}

int InitializeInjection(void) {
  const char* path = getenv("CUPTI_TRACE");
  file = path ? fopen(path, "w") : NULL;
  if (!file || cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) return 0;
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMCPY);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMSET);
  atexit(end);
  return 1;
}
