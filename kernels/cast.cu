// Conversions between element types.
#include "copy.cuh"

// From every type to every other: a copy to the same type is not a conversion.
#define CASTS_TO_FLOATS(From) COPY(f64, From) COPY(f32, From) COPY(f16, From) COPY(bf16, From)
#define CASTS_TO_SIGNED(From) COPY(i64, From) COPY(i32, From) COPY(i16, From) COPY(i8, From)
#define CASTS_TO_UNSIGNED(From) COPY(u64, From) COPY(u32, From) COPY(u16, From) COPY(u8, From)
#define CASTS_TO_BOOLS(From) COPY(b8, From) COPY(b32, From)
#define CASTS_OF_FLOAT(From, ...) CASTS_TO_SIGNED(From) CASTS_TO_UNSIGNED(From) CASTS_TO_BOOLS(From)
#define CASTS_OF_SIGNED(From, ...) CASTS_TO_FLOATS(From) CASTS_TO_UNSIGNED(From) CASTS_TO_BOOLS(From)
#define CASTS_OF_UNSIGNED(From, ...) CASTS_TO_FLOATS(From) CASTS_TO_SIGNED(From) CASTS_TO_BOOLS(From)
#define CASTS_OF_BOOL(From, ...) CASTS_TO_FLOATS(From) CASTS_TO_SIGNED(From) CASTS_TO_UNSIGNED(From)
FOR_FLOATS(CASTS_OF_FLOAT, ) FOR_RAW(CASTS_OF_UNSIGNED, ) FOR_BOOLS(CASTS_OF_BOOL, )
FOR(i64, CASTS_OF_SIGNED, ) FOR(i32, CASTS_OF_SIGNED, ) FOR(i16, CASTS_OF_SIGNED, ) FOR(i8, CASTS_OF_SIGNED, )
// Within a class.
#define COPY_FROM(From, To) COPY(To, From)
#define COPIES_FROM(From, A, B, C) COPY(A, From) COPY(B, From) COPY(C, From)
FOR(f64, COPIES_FROM, f32, f16, bf16) FOR(f32, COPIES_FROM, f64, f16, bf16)
FOR(f16, COPIES_FROM, f64, f32, bf16) FOR(bf16, COPIES_FROM, f64, f32, f16)
FOR(i64, COPIES_FROM, i32, i16, i8) FOR(i32, COPIES_FROM, i64, i16, i8)
FOR(i16, COPIES_FROM, i64, i32, i8) FOR(i8, COPIES_FROM, i64, i32, i16)
FOR(u64, COPIES_FROM, u32, u16, u8) FOR(u32, COPIES_FROM, u64, u16, u8)
FOR(u16, COPIES_FROM, u64, u32, u8) FOR(u8, COPIES_FROM, u64, u32, u16)
FOR(b8, COPY_FROM, b32) FOR(b32, COPY_FROM, b8)

EXPORT_TABLE(cast)
