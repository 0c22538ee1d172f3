// The tables of kernels that the files of kernels/ export.
#pragma once
struct Entry {  // as in simt.cuh
  const char* name;
  void (*run)(const void* args, u32 blocks, u32 threads, u32 backward);
  u64 args_bytes, args_align;
};
struct Table {
  const char* file;
  const Entry* (*entries)(u64* count);
};
