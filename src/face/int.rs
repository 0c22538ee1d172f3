/// The methods of `IntTensorOps` that are the same in every version of Burn that has a face.
#[doc(hidden)]
#[macro_export]
macro_rules! face_int_ops {
    () => {
        $crate::face_forward! {
            int_empty(shape: Shape, device: &Device, dtype: IntDType) -> Tensor = create::full(shape, 0, device, dtype);
            int_zeros(shape: Shape, device: &Device, dtype: IntDType) -> Tensor = create::full(shape, 0, device, dtype);
            int_ones(shape: Shape, device: &Device, dtype: IntDType) -> Tensor = create::full(shape, 1, device, dtype);
            int_full(shape: Shape, value: Scalar, device: &Device, dtype: IntDType) -> Tensor = create::full(shape, value, device, dtype);
            int_arange_step(range: std::ops::Range<i64>, step: usize, device: &Device, dtype: IntDType) -> Tensor =
                create::arange(range, step, device, dtype);
            int_random(shape: Shape, distribution: Distribution, device: &Device, dtype: IntDType) -> Tensor =
                create::random(shape, distribution, 0.0..255.0, device, dtype);
            int_from_data(data: TensorData, device: &Device) -> Tensor = create::int_from_data(data, device);
            int_to_device(x: Tensor, device: &Device) -> Tensor = create::to_device(x, device);
            int_into_float(x: Tensor, dtype: FloatDType) -> Tensor = cast(x, dtype);
            int_cast(x: Tensor, dtype: IntDType) -> Tensor = cast(x, dtype);
        }

        async fn int_into_data(x: Tensor) -> Result<TensorData, ExecutionError> {
            into_data(x)
        }

        $crate::face_forward! {
            int_reshape(x: Tensor, shape: Shape) -> Tensor = view::reshape(x, shape);
            int_swap_dims(x: Tensor, first: usize, second: usize) -> Tensor = view::swap_dims(x, first, second);
            int_permute(x: Tensor, axes: &[usize]) -> Tensor = view::permute(x, axes);
            int_flip(x: Tensor, axes: &[usize]) -> Tensor = view::flip(x, axes);
            int_expand(x: Tensor, shape: Shape) -> Tensor = view::expand(x, shape);
            int_unfold(x: Tensor, axis: usize, size: usize, step: usize) -> Tensor = view::windows(x, axis, size, step);
            int_slice(x: Tensor, slices: &[Slice]) -> Tensor = view::slice(x, &slices);
            int_slice_assign(x: Tensor, slices: &[Slice], value: Tensor) -> Tensor = view::slice_assign(x, &slices, value);
            int_cat(tensors: Vec<Tensor>, axis: usize) -> Tensor = view::cat(tensors, axis);
            int_repeat_dim(x: Tensor, axis: usize, times: usize) -> Tensor = view::repeat_dim(x, axis, times);
        }

        $crate::face_forward! {
            int_gather(axis: usize, x: Tensor, indices: Tensor) -> Tensor = index::gather(axis, x, indices);
            int_select(x: Tensor, axis: usize, indices: Tensor) -> Tensor = index::select(x, axis, indices);
            int_gather_nd(x: Tensor, indices: Tensor) -> Tensor = index::gather_nd(x, indices);
            int_mask_where(x: Tensor, mask: Tensor, value: Tensor) -> Tensor = mask_where(x, mask, value);
            int_mask_fill(x: Tensor, mask: Tensor, value: Scalar) -> Tensor = mask_fill(x, mask, value);
            int_scatter_nd(x: Tensor, indices: Tensor, values: Tensor, update: IndexingUpdateOp) -> Tensor =
                index::scatter_nd(x, indices, values, update);
        }

        $crate::face_forward! {
            int_equal(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::Equal, a, b, store);
            int_equal_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::Equal, a, b, store);
            int_not_equal(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::NotEqual, a, b, store);
            int_not_equal_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::NotEqual, a, b, store);
            int_greater(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::Greater, a, b, store);
            int_greater_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::Greater, a, b, store);
            int_greater_equal(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::GreaterEqual, a, b, store);
            int_greater_equal_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::GreaterEqual, a, b, store);
            int_lower(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::Lower, a, b, store);
            int_lower_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::Lower, a, b, store);
            int_lower_equal(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::LowerEqual, a, b, store);
            int_lower_equal_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::LowerEqual, a, b, store);
            int_any(x: Tensor, store: BoolStore) -> Tensor = reduce::any(x, None, store);
            int_any_dim(x: Tensor, axis: usize, store: BoolStore) -> Tensor = reduce::any(x, Some(axis), store);
            int_all(x: Tensor, store: BoolStore) -> Tensor = reduce::every(x, None, store);
            int_all_dim(x: Tensor, axis: usize, store: BoolStore) -> Tensor = reduce::every(x, Some(axis), store);
        }

        $crate::face_forward! {
            int_add(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Add, a, b);
            int_add_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Add, a, b);
            int_sub(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Sub, a, b);
            int_sub_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Sub, a, b);
            int_mul(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Mul, a, b);
            int_mul_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Mul, a, b);
            int_div(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Div, a, b);
            int_div_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Div, a, b);
            int_remainder(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Remainder, a, b);
            int_remainder_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Remainder, a, b);
            int_clamp_min(x: Tensor, low: Scalar) -> Tensor = scalar(Binary::Max, x, low);
            int_clamp_max(x: Tensor, high: Scalar) -> Tensor = scalar(Binary::Min, x, high);
            int_clamp(x: Tensor, low: Scalar, high: Scalar) -> Tensor = clamp(x, low, high);
            int_matmul(a: Tensor, b: Tensor) -> Tensor = linear::matmul(a, b);
            int_neg(x: Tensor) -> Tensor = unary(Unary::Neg, x);
            int_abs(x: Tensor) -> Tensor = unary(Unary::Abs, x);
            int_sign(x: Tensor) -> Tensor = unary(Unary::Sign, x);
            int_powi(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Pow, a, b);
            int_powi_scalar(a: Tensor, b: Scalar) -> Tensor = power(a, b);
            int_powi_scalar_impl(a: Tensor, b: Scalar) -> Tensor = power(a, b);
        }

        $crate::face_forward! {
            int_sum(x: Tensor) -> Tensor = reduce::all(Reduce::Sum, x);
            int_sum_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::Sum, x, axis);
            int_prod(x: Tensor) -> Tensor = reduce::all(Reduce::Prod, x);
            int_prod_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::Prod, x, axis);
            int_mean(x: Tensor) -> Tensor = reduce::all(Reduce::Mean, x);
            int_mean_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::Mean, x, axis);
            int_max(x: Tensor) -> Tensor = reduce::all(Reduce::Max, x);
            int_max_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::Max, x, axis);
            int_min(x: Tensor) -> Tensor = reduce::all(Reduce::Min, x);
            int_min_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::Min, x, axis);
            int_argmax(x: Tensor, axis: usize) -> Tensor = reduce::arg_like(ArgReduce::Max, x, axis);
            int_argmin(x: Tensor, axis: usize) -> Tensor = reduce::arg_like(ArgReduce::Min, x, axis);
            int_max_dim_with_indices(x: Tensor, axis: usize) -> (Tensor, Tensor) = { let dtype = x.dtype(); reduce::with_indices(ArgReduce::Max, x, axis, dtype) };
            int_min_dim_with_indices(x: Tensor, axis: usize) -> (Tensor, Tensor) = { let dtype = x.dtype(); reduce::with_indices(ArgReduce::Min, x, axis, dtype) };
            int_max_abs(x: Tensor) -> Tensor = reduce::all(Reduce::MaxAbs, x);
            int_max_abs_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::MaxAbs, x, axis);
            int_cumsum(x: Tensor, axis: usize) -> Tensor = reduce::cumulative(Cumulative::Sum, x, axis);
            int_cumprod(x: Tensor, axis: usize) -> Tensor = reduce::cumulative(Cumulative::Prod, x, axis);
            int_cummin(x: Tensor, axis: usize) -> Tensor = reduce::cumulative(Cumulative::Min, x, axis);
            int_cummax(x: Tensor, axis: usize) -> Tensor = reduce::cumulative(Cumulative::Max, x, axis);
        }

        $crate::face_forward! {
            int_sort(x: Tensor, axis: usize, descending: bool) -> Tensor = sort::values(x, axis, descending, None);
            int_topk(x: Tensor, axis: usize, count: usize) -> Tensor = sort::values(x, axis, true, Some(count));
            int_argsort(x: Tensor, axis: usize, descending: bool) -> Tensor =
                { let dtype = x.dtype(); sort::indices(x, axis, descending, None, dtype) };
            int_argtopk(x: Tensor, axis: usize, count: usize) -> Tensor =
                { let dtype = x.dtype(); sort::indices(x, axis, true, Some(count), dtype) };
            int_sort_with_indices(x: Tensor, axis: usize, descending: bool) -> (Tensor, Tensor) =
                { let dtype = x.dtype(); sort::both(x, axis, descending, dtype) };
        }

        $crate::face_forward! {
            bitwise_and(a: Tensor, b: Tensor) -> Tensor = binary(Binary::And, a, b);
            bitwise_and_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::And, a, b);
            bitwise_or(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Or, a, b);
            bitwise_or_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Or, a, b);
            bitwise_xor(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Xor, a, b);
            bitwise_xor_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Xor, a, b);
            bitwise_left_shift(a: Tensor, b: Tensor) -> Tensor = binary(Binary::ShiftLeft, a, b);
            bitwise_left_shift_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::ShiftLeft, a, b);
            bitwise_right_shift(a: Tensor, b: Tensor) -> Tensor = binary(Binary::ShiftRight, a, b);
            bitwise_right_shift_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::ShiftRight, a, b);
            bitwise_not(x: Tensor) -> Tensor = unary(Unary::Not, x);
        }
    };
}
