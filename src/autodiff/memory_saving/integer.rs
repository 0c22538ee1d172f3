//! Integers, bools and quantized tensors, which have no gradients.

use std::ops::Range;

use burn_backend::ops::{BoolTensorOps, IntTensorOps, QTensorOps, TransactionOps};
use burn_backend::quantization::{QuantScheme, QuantizationParametersPrimitive};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
};

use super::{Device, MemorySaving, Unremade, untracked};
use crate::autodiff::step::Tracked as Float;
use crate::backend::{FloatElement, IntElement, Overcommit, Quantized};
use crate::runtime::Tensor;

impl<F: FloatElement, I: IntElement> IntTensorOps<Self> for MemorySaving<Overcommit<F, I>> {
    forward! { IntTensorOps, Overcommit<F, I>;
        (shape: Shape, device: &Device, dtype: IntDType) -> Tensor: int_empty int_zeros int_ones;
        (data: TensorData, device: &Device) -> Tensor: int_from_data;
        (tensor: &Tensor) -> Device: int_device;
        (tensor: Tensor, device: &Device) -> Tensor: int_to_device;
        (tensor: Tensor, shape: Shape) -> Tensor: int_reshape int_expand;
        (tensor: Tensor, slices: &[Slice]) -> Tensor: int_slice;
        (tensor: Tensor, slices: &[Slice], value: Tensor) -> Tensor: int_slice_assign;
        (tensor: Tensor, mask: Tensor, value: Tensor) -> Tensor: int_mask_where;
        (tensor: Tensor, mask: Tensor, value: Scalar) -> Tensor: int_mask_fill;
        (dim: usize, tensor: Tensor, indices: Tensor) -> Tensor: int_gather;
        (dim: usize, tensor: Tensor, indices: Tensor, value: Tensor) -> Tensor: int_scatter_add;
        (data: Tensor, indices: Tensor, values: Tensor, reduction: IndexingUpdateOp) -> Tensor:
            int_scatter_nd;
        (data: Tensor, indices: Tensor) -> Tensor:
            int_gather_nd int_add int_powi int_sub int_mul int_div int_remainder int_matmul
            bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift;
        (tensor: Tensor, dim: usize, indices: Tensor) -> Tensor: int_select;
        (tensor: Tensor, dim: usize, indices: Tensor, value: Tensor) -> Tensor: int_select_add;
        (tensor: Tensor, dim: usize, times: usize) -> Tensor:
            int_repeat_dim int_argtopk int_topk int_swap_dims;
        (tensors: Vec<Tensor>, dim: usize) -> Tensor: int_cat;
        (lhs: Tensor, rhs: Tensor, out_dtype: BoolDType) -> Tensor:
            int_equal int_not_equal int_greater int_greater_equal int_lower int_lower_equal;
        (lhs: Tensor, rhs: Scalar, out_dtype: BoolDType) -> Tensor:
            int_equal_elem int_not_equal_elem int_greater_elem int_greater_equal_elem int_lower_elem
            int_lower_equal_elem;
        (lhs: Tensor, rhs: Scalar) -> Tensor:
            int_add_scalar int_powi_scalar int_powi_scalar_impl int_clamp_min int_clamp_max
            int_sub_scalar int_mul_scalar int_div_scalar int_remainder_scalar bitwise_and_scalar
            bitwise_or_scalar bitwise_xor_scalar bitwise_left_shift_scalar
            bitwise_right_shift_scalar;
        (tensor: Tensor, min: Scalar, max: Scalar) -> Tensor: int_clamp;
        (tensor: Tensor) -> Tensor:
            int_neg int_sum int_prod int_mean int_max int_max_abs int_min int_abs int_transpose
            int_sign bitwise_not;
        (shape: Shape, fill_value: Scalar, device: &Device, dtype: IntDType) -> Tensor: int_full;
        (tensor: Tensor, dim: usize) -> Tensor:
            int_sum_dim int_prod_dim int_mean_dim int_cumsum int_cumprod int_cummin int_cummax
            int_argmax int_argmin int_max_dim int_max_abs_dim int_min_dim;
        (tensor: Tensor, dim: usize) -> (Tensor, Tensor): int_max_dim_with_indices int_min_dim_with_indices;
        (tensor: Tensor, axes: &[usize]) -> Tensor: int_permute int_flip;
        (shape: Shape, distribution: Distribution, device: &Device, dtype: IntDType) -> Tensor: int_random;
        (range: Range<i64>, step: usize, device: &Device, dtype: IntDType) -> Tensor: int_arange_step;
        (range: Range<i64>, device: &Device, dtype: IntDType) -> Tensor: int_arange;
        (tensor: Tensor, out_dtype: BoolDType) -> Tensor: int_any int_all;
        (tensor: Tensor, dim: usize, out_dtype: BoolDType) -> Tensor: int_any_dim int_all_dim;
        (tensor: Tensor, dim: usize, descending: bool) -> Tensor: int_sort int_argsort;
        (tensor: Tensor, dim: usize, descending: bool) -> (Tensor, Tensor): int_sort_with_indices;
        (tensor: Tensor, dtype: IntDType) -> Tensor: int_cast;
        (tensor: Tensor, dim: usize, size: usize, step: usize) -> Tensor: int_unfold;
    }

    async fn int_into_data(tensor: Tensor) -> Result<TensorData, ExecutionError> {
        Overcommit::<F, I>::int_into_data(tensor).await
    }

    fn int_into_float(tensor: Tensor, out_dtype: FloatDType) -> Float<F, I> {
        untracked::<F, I>(Overcommit::<F, I>::int_into_float(tensor, out_dtype))
    }
}

impl<F: FloatElement, I: IntElement> BoolTensorOps<Self> for MemorySaving<Overcommit<F, I>> {
    forward! { BoolTensorOps, Overcommit<F, I>;
        (shape: Shape, device: &Device, dtype: BoolDType) -> Tensor: bool_empty bool_zeros bool_ones;
        (data: TensorData, device: &Device) -> Tensor: bool_from_data;
        (tensor: Tensor, out_dtype: IntDType) -> Tensor: bool_into_int;
        (tensor: &Tensor) -> Device: bool_device;
        (tensor: Tensor, device: &Device) -> Tensor: bool_to_device;
        (tensor: Tensor, shape: Shape) -> Tensor: bool_reshape bool_expand;
        (tensor: Tensor, slices: &[Slice]) -> Tensor: bool_slice;
        (tensor: Tensor, slices: &[Slice], value: Tensor) -> Tensor: bool_slice_assign;
        (tensor: Tensor, mask: Tensor, value: Tensor) -> Tensor: bool_mask_where;
        (tensor: Tensor, mask: Tensor, value: Scalar) -> Tensor: bool_mask_fill;
        (dim: usize, tensor: Tensor, indices: Tensor) -> Tensor: bool_gather;
        (dim: usize, tensor: Tensor, indices: Tensor, value: Tensor) -> Tensor: bool_scatter_or;
        (tensor: Tensor, dim: usize, indices: Tensor) -> Tensor: bool_select;
        (tensor: Tensor, dim: usize, indices: Tensor, value: Tensor) -> Tensor: bool_select_or;
        (tensor: Tensor, dim: usize, times: usize) -> Tensor: bool_repeat_dim bool_swap_dims;
        (tensors: Vec<Tensor>, dim: usize) -> Tensor: bool_cat;
        (lhs: Tensor, rhs: Tensor) -> Tensor: bool_equal bool_not_equal bool_and bool_or bool_xor;
        (lhs: Tensor, rhs: Scalar) -> Tensor: bool_equal_elem bool_not_equal_elem;
        (tensor: Tensor) -> Tensor: bool_not bool_transpose bool_any bool_all;
        (tensor: Tensor, axes: &[usize]) -> Tensor: bool_permute bool_flip;
        (tensor: Tensor, dim: usize) -> Tensor: bool_any_dim bool_all_dim;
        (tensor: Tensor, dim: usize, size: usize, step: usize) -> Tensor: bool_unfold;
    }

    async fn bool_into_data(tensor: Tensor) -> Result<TensorData, ExecutionError> {
        Overcommit::<F, I>::bool_into_data(tensor).await
    }

    async fn bool_argwhere(tensor: Tensor, out_dtype: IntDType) -> Tensor {
        Overcommit::<F, I>::bool_argwhere(tensor, out_dtype).await
    }

    fn bool_into_float(tensor: Tensor, out_dtype: FloatDType) -> Float<F, I> {
        untracked::<F, I>(Overcommit::<F, I>::bool_into_float(tensor, out_dtype))
    }
}

// Burn's autodiff implements hardly any of these, and neither does this backend.
impl<F: FloatElement, I: IntElement> QTensorOps<Self> for MemorySaving<Overcommit<F, I>> {
    forward! { QTensorOps, Unremade<F, I>;
        (data: TensorData, device: &Device) -> Quantized: q_from_data;
        (tensor: Float<F, I>, scheme: &QuantScheme) -> Quantized: quantize_dynamic;
        (tensor: Quantized, dtype: FloatDType) -> Float<F, I>: dequantize;
        (tensor: &Quantized) -> Device: q_device;
        (tensor: Quantized, device: &Device) -> Quantized: q_to_device;
        (tensor: Quantized, shape: Shape) -> Quantized: q_reshape q_expand;
        (tensor: Quantized, dim1: usize, dim2: usize) -> Quantized: q_swap_dims;
        (tensor: Quantized, axes: &[usize]) -> Quantized: q_permute q_flip;
        (tensor: Quantized, dim: usize, indices: Tensor) -> Quantized: q_select;
        (tensor: Quantized, slices: &[Slice]) -> Quantized: q_slice;
        (dim: usize, tensor: Quantized, indices: Tensor) -> Quantized: q_gather;
        (tensor: Quantized, dim: usize, out_dtype: IntDType) -> Tensor: q_argmax q_argmin;
    }

    fn quantize(
        tensor: Float<F, I>,
        scheme: &QuantScheme,
        parameters: QuantizationParametersPrimitive<Self>,
    ) -> Quantized {
        let parameters = QuantizationParametersPrimitive { scales: parameters.scales };
        Unremade::<F, I>::quantize(tensor, scheme, parameters)
    }

    async fn q_into_data(tensor: Quantized) -> Result<TensorData, ExecutionError> {
        Overcommit::<F, I>::q_into_data(tensor).await
    }
}

impl<F: FloatElement, I: IntElement> TransactionOps<Self> for MemorySaving<Overcommit<F, I>> {}
