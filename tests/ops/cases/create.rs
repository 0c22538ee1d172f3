//! Tensors from nothing, alike to an input in shape and dtype.

use burn_backend::{IntDType, Shape, TensorMetadata};

use crate::case::{EACH, Fill::*};

cases! {
    [float] zeros(x: own(Any, EACH)) => zeros(x.shape(), &B::float_device(&x), x.dtype().into());
    [float] ones(x: own(Any, EACH)) => ones(x.shape(), &B::float_device(&x), x.dtype().into());
    [float] full(x: own(Any, EACH)) => full(x.shape(), 2.5.into(), &B::float_device(&x), x.dtype().into());
    [int] zeros(x: own(Any, EACH)) => zeros(x.shape(), &B::int_device(&x), x.dtype().into());
    [int] ones(x: own(Any, EACH)) => ones(x.shape(), &B::int_device(&x), x.dtype().into());
    [int] full(x: own(Any, EACH)) => full(x.shape(), 7.into(), &B::int_device(&x), x.dtype().into());
    [bool] zeros(x: own(Any, EACH)) => zeros(x.shape(), &B::bool_device(&x), x.dtype().into());
    [bool] ones(x: own(Any, EACH)) => ones(x.shape(), &B::bool_device(&x), x.dtype().into());
    [float] to_device(x: own(Any, EACH)) => { let device = B::float_device(&x); to_device(x, &device) };
    [int] to_device(x: own(Any, EACH)) => { let device = B::int_device(&x); to_device(x, &device) };
    [bool] to_device(x: own(Any, EACH)) => { let device = B::bool_device(&x); to_device(x, &device) };
    [int] arange(x: own(Any, [1])) => arange(3..50, &B::int_device(&x), x.dtype().into());
    [int] arange_step(x: own(Any, [1])) => arange_step(3..50, 7, &B::int_device(&x), x.dtype().into());
    [int] arange: i64(x: own(Any, [1])) => arange(-7..9, &B::int_device(&x), IntDType::I64);
    [int] arange: empty(x: own(Any, [1])) => arange(4..4, &B::int_device(&x), x.dtype().into());
    [float] empty(x: own(Any, EACH)) => {
        let empty = empty(x.shape(), &B::float_device(&x), x.dtype().into());
        B::float_slice_assign(empty, &vec![burn_backend::Slice::full(); x.rank()], x)
    };
    [float] zeros: large(x: own(Any, [1], [1])) => zeros(Shape::new([512, 1024]), &B::float_device(&x), x.dtype().into());
}
