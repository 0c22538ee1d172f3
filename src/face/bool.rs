/// The methods of `BoolTensorOps` that are the same in every version of Burn that has a face.
#[doc(hidden)]
#[macro_export]
macro_rules! face_bool_ops {
    () => {
        $crate::face_forward! {
            bool_empty(shape: Shape, device: &Device, dtype: BoolStore) -> Tensor = create::full(shape, false, device, dtype);
            bool_zeros(shape: Shape, device: &Device, dtype: BoolStore) -> Tensor = create::full(shape, false, device, dtype);
            bool_ones(shape: Shape, device: &Device, dtype: BoolStore) -> Tensor = create::full(shape, true, device, dtype);
            bool_from_data(data: TensorData, device: &Device) -> Tensor = create::bool_from_data(data, device);
            bool_into_int(x: Tensor, dtype: IntDType) -> Tensor = cast(x, dtype);
            bool_into_float(x: Tensor, dtype: FloatDType) -> Tensor = cast(x, dtype);
            bool_to_device(x: Tensor, device: &Device) -> Tensor = create::to_device(x, device);

            bool_reshape(x: Tensor, shape: Shape) -> Tensor = view::reshape(x, shape);
            bool_swap_dims(x: Tensor, first: usize, second: usize) -> Tensor = view::swap_dims(x, first, second);
            bool_permute(x: Tensor, axes: &[usize]) -> Tensor = view::permute(x, axes);
            bool_flip(x: Tensor, axes: &[usize]) -> Tensor = view::flip(x, axes);
            bool_expand(x: Tensor, shape: Shape) -> Tensor = view::expand(x, shape);
            bool_unfold(x: Tensor, axis: usize, size: usize, step: usize) -> Tensor = view::windows(x, axis, size, step);
            bool_slice(x: Tensor, slices: &[Slice]) -> Tensor = view::slice(x, &slices);
            bool_slice_assign(x: Tensor, slices: &[Slice], value: Tensor) -> Tensor = view::slice_assign(x, &slices, value);
            bool_cat(tensors: Vec<Tensor>, axis: usize) -> Tensor = view::cat(tensors, axis);
            bool_repeat_dim(x: Tensor, axis: usize, times: usize) -> Tensor = view::repeat_dim(x, axis, times);

            bool_mask_where(x: Tensor, mask: Tensor, value: Tensor) -> Tensor = mask_where(x, mask, value);
            bool_mask_fill(x: Tensor, mask: Tensor, value: Scalar) -> Tensor = mask_fill(x, mask, value);
            bool_gather(axis: usize, x: Tensor, indices: Tensor) -> Tensor = index::gather(axis, x, indices);
            bool_select(x: Tensor, axis: usize, indices: Tensor) -> Tensor = index::select(x, axis, indices);

            bool_equal(a: Tensor, b: Tensor) -> Tensor = { let dtype = a.dtype(); compare(Compare::Equal, a, b, dtype) };
            bool_not_equal(a: Tensor, b: Tensor) -> Tensor = { let dtype = a.dtype(); compare(Compare::NotEqual, a, b, dtype) };
            bool_equal_elem(a: Tensor, value: Scalar) -> Tensor = bool_equal_scalar(a, value.as_bool());
            bool_not_equal_elem(a: Tensor, value: Scalar) -> Tensor = bool_equal_scalar(a, !value.as_bool());
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
            FromCore::from_core(index::argwhere(x.into_core(), dtype.into_core()))
        }

        async fn bool_into_data(x: Tensor) -> Result<TensorData, ExecutionError> {
            into_data(x)
        }
    };
}
