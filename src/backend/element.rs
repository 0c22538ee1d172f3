use burn_backend::Element;

mod sealed {
    pub trait Sealed {}
}

/// Float types there are kernels for: `f32`.
pub trait FloatElement: Element + sealed::Sealed {}

/// Integer types there are kernels for: `i32` and `i64`.
pub trait IntElement: Element + sealed::Sealed {}

impl sealed::Sealed for f32 {}
impl sealed::Sealed for i32 {}
impl sealed::Sealed for i64 {}
impl FloatElement for f32 {}
impl IntElement for i32 {}
impl IntElement for i64 {}
