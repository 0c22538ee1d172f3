// What the libraries that stand in for NVIDIA's others use of the driver that stands in.
#pragma once
#include <functional>

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
#define API extern "C" __attribute__((visibility("default"))) int
#define SHARED __attribute__((visibility("default")))

// Counts a call; whether it is one that can be done: not the one that is to fail, and with a context.
SHARED bool standin_call();
// Whether these bytes are of memory that the driver gave.
SHARED bool standin_owns(u64 address, u64 bytes);
// Puts work into a stream.
SHARED void standin_push(void* stream, std::function<void()> piece);
// Counts objects that were made, or given back.
SHARED void standin_count(int objects);
// Counts work that a library was given, and whether it may read floats with fewer bits: for tests.
SHARED void standin_worked(u64 workspace_bytes, bool reduced);
