/// The methods of `FloatTensorOps` that are the same in every version of Burn that has a face.
#[doc(hidden)]
#[macro_export]
macro_rules! face_float_ops {
    () => {
        $crate::face_forward! {
            float_empty(shape: Shape, device: &Device, dtype: FloatDType) -> Tensor = create::full(shape, 0, device, dtype);
            float_zeros(shape: Shape, device: &Device, dtype: FloatDType) -> Tensor = create::full(shape, 0, device, dtype);
            float_ones(shape: Shape, device: &Device, dtype: FloatDType) -> Tensor = create::full(shape, 1, device, dtype);
            float_full(shape: Shape, value: Scalar, device: &Device, dtype: FloatDType) -> Tensor = create::full(shape, value, device, dtype);
            float_random(shape: Shape, distribution: Distribution, device: &Device, dtype: FloatDType) -> Tensor =
                create::random(shape, distribution, 0.0..1.0, device, dtype);
            float_from_data(data: TensorData, device: &Device) -> Tensor = create::float_from_data(data, device);
            float_to_device(x: Tensor, device: &Device) -> Tensor = create::to_device(x, device);
            float_into_int(x: Tensor, dtype: IntDType) -> Tensor = cast(x, dtype);
            float_cast(x: Tensor, dtype: FloatDType) -> Tensor = cast(x, dtype);
        }

        async fn float_into_data(x: Tensor) -> Result<TensorData, ExecutionError> {
            into_data(x)
        }

        $crate::face_forward! {
            float_reshape(x: Tensor, shape: Shape) -> Tensor = view::reshape(x, shape);
            float_swap_dims(x: Tensor, first: usize, second: usize) -> Tensor = view::swap_dims(x, first, second);
            float_permute(x: Tensor, axes: &[usize]) -> Tensor = view::permute(x, axes);
            float_flip(x: Tensor, axes: &[usize]) -> Tensor = view::flip(x, axes);
            float_expand(x: Tensor, shape: Shape) -> Tensor = view::expand(x, shape);
            float_unfold(x: Tensor, axis: usize, size: usize, step: usize) -> Tensor = view::windows(x, axis, size, step);
            float_slice(x: Tensor, slices: &[Slice]) -> Tensor = view::slice(x, &slices);
            float_slice_assign(x: Tensor, slices: &[Slice], value: Tensor) -> Tensor = view::slice_assign(x, &slices, value);
            float_cat(tensors: Vec<Tensor>, axis: usize) -> Tensor = view::cat(tensors, axis);
            float_repeat_dim(x: Tensor, axis: usize, times: usize) -> Tensor = view::repeat_dim(x, axis, times);
        }

        $crate::face_forward! {
            float_gather(axis: usize, x: Tensor, indices: Tensor) -> Tensor = index::gather(axis, x, indices);
            float_select(x: Tensor, axis: usize, indices: Tensor) -> Tensor = index::select(x, axis, indices);
            float_gather_nd(x: Tensor, indices: Tensor) -> Tensor = index::gather_nd(x, indices);
            float_mask_where(x: Tensor, mask: Tensor, value: Tensor) -> Tensor = mask_where(x, mask, value);
            float_mask_fill(x: Tensor, mask: Tensor, value: Scalar) -> Tensor = mask_fill(x, mask, value);
            float_scatter_nd(x: Tensor, indices: Tensor, values: Tensor, update: IndexingUpdateOp) -> Tensor =
                index::scatter_nd(x, indices, values, update);
        }

        $crate::face_forward! {
            float_equal(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::Equal, a, b, store);
            float_equal_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::Equal, a, b, store);
            float_not_equal(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::NotEqual, a, b, store);
            float_not_equal_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::NotEqual, a, b, store);
            float_greater(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::Greater, a, b, store);
            float_greater_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::Greater, a, b, store);
            float_greater_equal(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::GreaterEqual, a, b, store);
            float_greater_equal_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::GreaterEqual, a, b, store);
            float_lower(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::Lower, a, b, store);
            float_lower_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::Lower, a, b, store);
            float_lower_equal(a: Tensor, b: Tensor, store: BoolStore) -> Tensor = compare(Compare::LowerEqual, a, b, store);
            float_lower_equal_elem(a: Tensor, b: Scalar, store: BoolStore) -> Tensor = compare_scalar(Compare::LowerEqual, a, b, store);
            float_any(x: Tensor, store: BoolStore) -> Tensor = reduce::any(x, None, store);
            float_any_dim(x: Tensor, axis: usize, store: BoolStore) -> Tensor = reduce::any(x, Some(axis), store);
            float_all(x: Tensor, store: BoolStore) -> Tensor = reduce::every(x, None, store);
            float_all_dim(x: Tensor, axis: usize, store: BoolStore) -> Tensor = reduce::every(x, Some(axis), store);
        }

        $crate::face_forward! {
            float_add(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Add, a, b);
            float_add_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Add, a, b);
            float_sub(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Sub, a, b);
            float_sub_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Sub, a, b);
            float_mul(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Mul, a, b);
            float_mul_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Mul, a, b);
            float_div(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Div, a, b);
            float_div_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Div, a, b);
            float_remainder(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Remainder, a, b);
            float_remainder_scalar(a: Tensor, b: Scalar) -> Tensor = scalar(Binary::Remainder, a, b);
            float_clamp_min(x: Tensor, low: Scalar) -> Tensor = scalar(Binary::Max, x, low);
            float_clamp_max(x: Tensor, high: Scalar) -> Tensor = scalar(Binary::Min, x, high);
            float_clamp(x: Tensor, low: Scalar, high: Scalar) -> Tensor = clamp(x, low, high);
            float_matmul(a: Tensor, b: Tensor) -> Tensor = linear::matmul(a, b);
            float_neg(x: Tensor) -> Tensor = unary(Unary::Neg, x);
            float_abs(x: Tensor) -> Tensor = unary(Unary::Abs, x);
            float_sign(x: Tensor) -> Tensor = unary(Unary::Sign, x);
            float_powf(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Pow, a, b);
            float_powf_scalar(a: Tensor, b: Scalar) -> Tensor = power(a, b);
            float_powf_scalar_impl(a: Tensor, b: Scalar) -> Tensor = power(a, b);
            float_powi_scalar(a: Tensor, b: Scalar) -> Tensor = power(a, b);
            float_powi_scalar_impl(a: Tensor, b: Scalar) -> Tensor = power(a, b);
            float_atan2(a: Tensor, b: Tensor) -> Tensor = binary(Binary::Atan2, a, b);
            float_cross(a: Tensor, b: Tensor, axis: usize) -> Tensor = linear::cross(a, b, axis);
            float_recip(x: Tensor) -> Tensor = unary(Unary::Recip, x);
            float_exp(x: Tensor) -> Tensor = unary(Unary::Exp, x);
            float_log(x: Tensor) -> Tensor = unary(Unary::Log, x);
            float_log1p(x: Tensor) -> Tensor = unary(Unary::Log1p, x);
            float_sqrt(x: Tensor) -> Tensor = unary(Unary::Sqrt, x);
            float_cos(x: Tensor) -> Tensor = unary(Unary::Cos, x);
            float_sin(x: Tensor) -> Tensor = unary(Unary::Sin, x);
            float_tan(x: Tensor) -> Tensor = unary(Unary::Tan, x);
            float_cosh(x: Tensor) -> Tensor = unary(Unary::Cosh, x);
            float_sinh(x: Tensor) -> Tensor = unary(Unary::Sinh, x);
            float_tanh(x: Tensor) -> Tensor = unary(Unary::Tanh, x);
            float_acos(x: Tensor) -> Tensor = unary(Unary::Acos, x);
            float_acosh(x: Tensor) -> Tensor = unary(Unary::Acosh, x);
            float_asin(x: Tensor) -> Tensor = unary(Unary::Asin, x);
            float_asinh(x: Tensor) -> Tensor = unary(Unary::Asinh, x);
            float_atan(x: Tensor) -> Tensor = unary(Unary::Atan, x);
            float_atanh(x: Tensor) -> Tensor = unary(Unary::Atanh, x);
            float_round(x: Tensor) -> Tensor = unary(Unary::Round, x);
            float_floor(x: Tensor) -> Tensor = unary(Unary::Floor, x);
            float_ceil(x: Tensor) -> Tensor = unary(Unary::Ceil, x);
            float_trunc(x: Tensor) -> Tensor = unary(Unary::Trunc, x);
            float_erf(x: Tensor) -> Tensor = unary(Unary::Erf, x);
        }

        $crate::face_forward! {
            float_sum(x: Tensor) -> Tensor = reduce::all(Reduce::Sum, x);
            float_sum_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::Sum, x, axis);
            float_prod(x: Tensor) -> Tensor = reduce::all(Reduce::Prod, x);
            float_prod_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::Prod, x, axis);
            float_mean(x: Tensor) -> Tensor = reduce::all(Reduce::Mean, x);
            float_mean_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::Mean, x, axis);
            float_max(x: Tensor) -> Tensor = reduce::all(Reduce::Max, x);
            float_max_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::Max, x, axis);
            float_min(x: Tensor) -> Tensor = reduce::all(Reduce::Min, x);
            float_min_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::Min, x, axis);
            float_argmax(x: Tensor, axis: usize, dtype: IntDType) -> Tensor = reduce::arg(ArgReduce::Max, x, axis, dtype);
            float_argmin(x: Tensor, axis: usize, dtype: IntDType) -> Tensor = reduce::arg(ArgReduce::Min, x, axis, dtype);
            float_max_dim_with_indices(x: Tensor, axis: usize, dtype: IntDType) -> (Tensor, Tensor) =
                reduce::with_indices(ArgReduce::Max, x, axis, dtype);
            float_min_dim_with_indices(x: Tensor, axis: usize, dtype: IntDType) -> (Tensor, Tensor) =
                reduce::with_indices(ArgReduce::Min, x, axis, dtype);
            float_max_abs(x: Tensor) -> Tensor = reduce::all(Reduce::MaxAbs, x);
            float_max_abs_dim(x: Tensor, axis: usize) -> Tensor = reduce::dim(Reduce::MaxAbs, x, axis);
            float_cumsum(x: Tensor, axis: usize) -> Tensor = reduce::cumulative(Cumulative::Sum, x, axis);
            float_cumprod(x: Tensor, axis: usize) -> Tensor = reduce::cumulative(Cumulative::Prod, x, axis);
            float_cummin(x: Tensor, axis: usize) -> Tensor = reduce::cumulative(Cumulative::Min, x, axis);
            float_cummax(x: Tensor, axis: usize) -> Tensor = reduce::cumulative(Cumulative::Max, x, axis);
        }

        $crate::face_forward! {
            float_sort(x: Tensor, axis: usize, descending: bool) -> Tensor = sort::values(x, axis, descending, None);
            float_topk(x: Tensor, axis: usize, count: usize) -> Tensor = sort::values(x, axis, true, Some(count));
            float_argsort(x: Tensor, axis: usize, descending: bool, dtype: IntDType) -> Tensor =
                sort::indices(x, axis, descending, None, dtype);
            float_argtopk(x: Tensor, axis: usize, count: usize, dtype: IntDType) -> Tensor =
                sort::indices(x, axis, true, Some(count), dtype);
            float_sort_with_indices(x: Tensor, axis: usize, descending: bool, dtype: IntDType) -> (Tensor, Tensor) =
                sort::both(x, axis, descending, dtype);
            float_grid_sample_2d(x: Tensor, grid: Tensor, options: GridSampleOptions) -> Tensor = vision::grid_sample(x, grid, options);
        }
    };
}
