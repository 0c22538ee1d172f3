use super::{Device, Tensor};
use crate::backend::{FloatElement, IntElement, Overcommit, create, index, pointwise::*, reduce, view};
use crate::op::{Binary, Compare, Unary};
use burn_backend::ops::BoolTensorOps;
use burn_backend::{BoolStore, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData};

impl<F: FloatElement, I: IntElement> BoolTensorOps<Self> for Overcommit<F, I> {
    forward! {
        bool_empty(shape: Shape, device: &Device, dtype: BoolStore) -> Tensor = create::full(&shape, false, device, dtype);
        bool_zeros(shape: Shape, device: &Device, dtype: BoolStore) -> Tensor = create::full(&shape, false, device, dtype);
        bool_ones(shape: Shape, device: &Device, dtype: BoolStore) -> Tensor = create::full(&shape, true, device, dtype);
        bool_from_data(data: TensorData, device: &Device) -> Tensor = create::bool_from_data(data, device);
        bool_into_int(x: Tensor, dtype: IntDType) -> Tensor = convert_to(x, dtype);
        bool_into_float(x: Tensor, dtype: FloatDType) -> Tensor = convert_to(x, dtype);
        bool_device(x: &Tensor) -> Device = x.device();
        bool_to_device(x: Tensor, device: &Device) -> Tensor = create::to_device(x, device);

        bool_reshape(x: Tensor, shape: Shape) -> Tensor = view::reshape_to(x, &shape);
        bool_swap_dims(x: Tensor, first: usize, second: usize) -> Tensor = view::swap_dims(x, first, second);
        bool_permute(x: Tensor, axes: &[usize]) -> Tensor = view::permute(x, axes);
        bool_flip(x: Tensor, axes: &[usize]) -> Tensor = view::flip(x, axes);
        bool_expand(x: Tensor, shape: Shape) -> Tensor = view::expand(x, &shape);
        bool_unfold(x: Tensor, axis: usize, size: usize, step: usize) -> Tensor = view::windows(x, axis, size, step);
        bool_slice(x: Tensor, slices: &[Slice]) -> Tensor = view::slice(x, slices);
        bool_slice_assign(x: Tensor, slices: &[Slice], value: Tensor) -> Tensor = view::slice_assign(x, slices, value);
        bool_cat(tensors: Vec<Tensor>, axis: usize) -> Tensor = view::cat(tensors, axis);
        bool_repeat_dim(x: Tensor, axis: usize, times: usize) -> Tensor = view::repeat_dim(x, axis, times);

        bool_mask_where(x: Tensor, mask: Tensor, value: Tensor) -> Tensor = mask_where(x, mask, value);
        bool_mask_fill(x: Tensor, mask: Tensor, value: Scalar) -> Tensor = mask_fill(x, mask, value);
        bool_gather(axis: usize, x: Tensor, indices: Tensor) -> Tensor = index::gather(axis, x, indices);
        bool_scatter_or(axis: usize, x: Tensor, indices: Tensor, value: Tensor) -> Tensor = index::scatter_add(axis, x, indices, value);
        bool_select(x: Tensor, axis: usize, indices: Tensor) -> Tensor = index::select(x, axis, indices);
        bool_select_or(x: Tensor, axis: usize, indices: Tensor, value: Tensor) -> Tensor = index::select_add(x, axis, indices, value);

        bool_equal(a: Tensor, b: Tensor) -> Tensor = { let dtype = a.dtype(); compare(Compare::Equal, a, b, dtype) };
        bool_not_equal(a: Tensor, b: Tensor) -> Tensor = { let dtype = a.dtype(); compare(Compare::NotEqual, a, b, dtype) };
        bool_equal_elem(a: Tensor, value: Scalar) -> Tensor = bool_equal_scalar(a, value.elem());
        bool_not_equal_elem(a: Tensor, value: Scalar) -> Tensor = bool_equal_scalar(a, !value.elem::<bool>());
        bool_not(x: Tensor) -> Tensor = unary(Unary::Not, x);
        bool_and(a: Tensor, b: Tensor) -> Tensor = binary(Binary::And, a, b);
        bool_or(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Or, a, b);
        bool_xor(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Xor, a, b);

        bool_any(x: Tensor) -> Tensor = { let dtype = x.dtype(); reduce::any(x, None, dtype) };
        bool_any_dim(x: Tensor, axis: usize) -> Tensor = { let dtype = x.dtype(); reduce::any(x, Some(axis), dtype) };
        bool_all(x: Tensor) -> Tensor = { let dtype = x.dtype(); reduce::every(x, None, dtype) };
        bool_all_dim(x: Tensor, axis: usize) -> Tensor = { let dtype = x.dtype(); reduce::every(x, Some(axis), dtype) };
    }

    async fn bool_argwhere(x: Tensor, dtype: IntDType) -> Tensor {
        index::argwhere(x, dtype)
    }

    async fn bool_into_data(x: Tensor) -> Result<TensorData, ExecutionError> {
        create::into_data(x)
    }
}
