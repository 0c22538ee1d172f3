use burn_backend::Element;
use burn_backend::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// Types that a backend can have for floats by default: `f32`, `f64`, `f16` or `bf16`.
pub trait FloatElement: Element + sealed::Sealed {}

/// Types that a backend can have for integers by default: `i32` or any other signed or unsigned integer.
pub trait IntElement: Element + sealed::Sealed {}

macro_rules! elements {
    ($trait:ident: $($type:ty)*) => {$(
        impl sealed::Sealed for $type {}
        impl $trait for $type {}
    )*};
}
elements!(FloatElement: f64 f32 f16 bf16);
elements!(IntElement: i64 i32 i16 i8 u64 u32 u16 u8);
