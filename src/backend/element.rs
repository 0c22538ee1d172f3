use burn_backend::Element;
use burn_backend::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// Types that a backend can have for floats by default: `f32`, `f64`, `f16` or `bf16`.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn_overcommit::{Overcommit, OvercommitDevice};
///
/// let x = Tensor::<Overcommit<f64, i64>, 1>::ones([2], &OvercommitDevice::Host(0));
/// assert_eq!(x.into_data().to_vec::<f64>().unwrap(), [1.0; 2]);
/// ```
pub trait FloatElement: Element + sealed::Sealed {}

/// Types that a backend can have for integers by default: `i32` or any other signed or unsigned integer.
///
/// ```
/// use burn::tensor::{Int, Tensor};
/// use burn_overcommit::{Overcommit, OvercommitDevice};
///
/// let x = Tensor::<Overcommit<f32, i64>, 1, Int>::arange(0..3, &OvercommitDevice::Host(0));
/// assert_eq!(x.into_data().to_vec::<i64>().unwrap(), [0, 1, 2]);
/// ```
pub trait IntElement: Element + sealed::Sealed {}

macro_rules! elements {
    ($trait:ident: $($type:ty)*) => {$(
        impl sealed::Sealed for $type {}
        impl $trait for $type {}
    )*};
}
elements!(FloatElement: f64 f32 f16 bf16);
elements!(IntElement: i64 i32 i16 i8 u64 u32 u16 u8);
