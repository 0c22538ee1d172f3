// What the libraries that stand in for NVIDIA's others have in common: checks of calls, objects, addresses.
#pragma once
#include "standin.h"

// At the beginning of a call, with the library's name for what went wrong inside.
#define CALL \
  if (!standin_call()) return INTERNAL_ERROR

namespace {
template <class T> int make(void** to, T* object) {
  standin_count(1);
  *to = object;
  return 0;
}
template <class T> int give_back(void* object) {
  standin_count(-1);
  delete static_cast<T*>(object);
  return 0;
}
bool is_aligned(u64 address, u32 bytes) { return bytes && address % bytes == 0; }
bool overlap(u64 a, u64 a_bytes, u64 b, u64 b_bytes) { return a < b + b_bytes && b < a + a_bytes; }
u64 address_of(const void* pointer) { return reinterpret_cast<u64>(pointer); }
}  // namespace
