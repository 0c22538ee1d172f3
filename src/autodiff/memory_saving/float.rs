use burn_backend::ops::FloatTensorOps;
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    BoolDType, Distribution, ExecutionError, FloatDType, IntDType, Scalar, Shape, Slice, TensorData,
};

use super::cost::activation;
use super::{Balanced, Device, MemorySaving, Unremade};
use crate::autodiff::step::Tracked as Float;
use crate::backend::{FloatElement, IntElement, Overcommit};
use crate::op::Unary;
use crate::runtime::Tensor;

impl<F: FloatElement, I: IntElement> FloatTensorOps<Self> for MemorySaving<Overcommit<F, I>> {
    // Views, and ops whose gradients read the inputs.
    strategic! { reads, FloatTensorOps;
        [lhs, rhs] (lhs: Float<F, I>, rhs: Float<F, I>) -> Float<F, I>:
            float_mul float_div float_remainder float_atan2 float_powf;
        [x] (x: Float<F, I>) -> Float<F, I>:
            float_recip float_log float_log1p float_abs float_cos float_sin float_cosh float_sinh
            float_tan float_asin float_acos float_atan float_asinh float_acosh float_atanh float_erf;
        [x] (x: Float<F, I>, exponent: Scalar) -> Float<F, I>: float_powf_scalar_impl;
        [x] (x: Float<F, I>, first: usize, second: usize) -> Float<F, I>: float_swap_dims;
        [x] (x: Float<F, I>, axes: &[usize]) -> Float<F, I>: float_permute;
        [x] (x: Float<F, I>, shape: Shape) -> Float<F, I>: float_reshape;
        [x] (x: Float<F, I>, slices: &[Slice]) -> Float<F, I>: float_slice;
    }

    // Ops whose gradients read nothing.
    strategic! { reads_nothing, FloatTensorOps;
        [lhs, rhs] (lhs: Float<F, I>, rhs: Float<F, I>) -> Float<F, I>: float_add float_sub;
        [x] (x: Float<F, I>, value: Scalar) -> Float<F, I>:
            float_add_scalar float_sub_scalar float_mul_scalar float_div_scalar float_remainder_scalar;
        [x] (x: Float<F, I>) -> Float<F, I>: float_neg;
        [x] (x: Float<F, I>, shape: Shape) -> Float<F, I>: float_expand;
    }

    strategic! { costs_products, FloatTensorOps;
        [lhs, rhs] (lhs: Float<F, I>, rhs: Float<F, I>) -> Float<F, I>: float_matmul;
    }

    // Ops whose outputs are kept.
    forward! { FloatTensorOps, Unremade<F, I>;
        (data: TensorData, device: &Device) -> Float<F, I>: float_from_data;
        (shape: Shape, distribution: Distribution, device: &Device, dtype: FloatDType) -> Float<F, I>:
            float_random;
        (shape: Shape, device: &Device, dtype: FloatDType) -> Float<F, I>: float_zeros float_ones float_empty;
        (tensor: Float<F, I>, device: &Device) -> Float<F, I>: float_to_device;
        (lhs: Float<F, I>, rhs: Float<F, I>, dim: usize) -> Float<F, I>: float_cross;
        (tensor: &Float<F, I>) -> Device: float_device;
        (tensor: Float<F, I>) -> Float<F, I>:
            float_detach float_mean float_sum float_round float_floor float_ceil
            float_trunc float_sign;
        (tensor: Float<F, I>, axes: &[usize]) -> Float<F, I>: float_flip;
        (dim: usize, tensor: Float<F, I>, indices: Tensor) -> Float<F, I>: float_gather;
        (dim: usize, tensor: Float<F, I>, indices: Tensor, value: Float<F, I>) -> Float<F, I>: float_scatter_add;
        (data: Float<F, I>, indices: Tensor, values: Float<F, I>, reduction: IndexingUpdateOp) -> Float<F, I>:
            float_scatter_nd;
        (data: Float<F, I>, indices: Tensor) -> Float<F, I>: float_gather_nd;
        (tensor: Float<F, I>, dim: usize, indices: Tensor) -> Float<F, I>: float_select;
        (tensor: Float<F, I>, dim: usize, indices: Tensor, value: Float<F, I>) -> Float<F, I>: float_select_add;
        (tensor: Float<F, I>, slices: &[Slice], value: Float<F, I>) -> Float<F, I>: float_slice_assign;
        (tensor: Float<F, I>, mask: Tensor, source: Float<F, I>) -> Float<F, I>: float_mask_where;
        (tensor: Float<F, I>, mask: Tensor, value: Scalar) -> Float<F, I>: float_mask_fill;
        (lhs: Float<F, I>, rhs: Float<F, I>, out_dtype: BoolDType) -> Tensor:
            float_equal float_greater float_greater_equal float_lower float_lower_equal;
        (lhs: Float<F, I>, rhs: Scalar, out_dtype: BoolDType) -> Tensor:
            float_equal_elem float_greater_elem float_greater_equal_elem float_lower_elem
            float_lower_equal_elem;
        (tensor: Float<F, I>, require_grad: bool) -> Float<F, I>: float_set_require_grad;
        (tensor: &Float<F, I>) -> bool: float_is_require_grad;
        (tensor: Float<F, I>, dim: usize) -> Float<F, I>:
            float_mean_dim float_sum_dim float_cumsum float_cumprod float_cummin float_cummax
            float_max_dim float_min_dim;
        (tensor: Float<F, I>, dim: usize, out_dtype: IntDType) -> Tensor: float_argmax float_argmin;
        (tensor: Float<F, I>, dim: usize, k: usize, out_dtype: IntDType) -> Tensor: float_argtopk;
        (tensor: Float<F, I>, dim: usize, k: usize) -> Float<F, I>: float_topk float_repeat_dim;
        (tensors: Vec<Float<F, I>>, dim: usize) -> Float<F, I>: float_cat;
        (tensor: Float<F, I>, dim: usize, indices_dtype: IntDType) -> (Float<F, I>, Tensor):
            float_max_dim_with_indices float_min_dim_with_indices;
        (tensor: Float<F, I>, out_dtype: IntDType) -> Tensor: float_into_int;
        (tensor: Float<F, I>, dim: usize, descending: bool) -> Float<F, I>: float_sort;
        (tensor: Float<F, I>, dim: usize, descending: bool, indices_dtype: IntDType) -> (Float<F, I>, Tensor):
            float_sort_with_indices;
        (tensor: Float<F, I>, dim: usize, descending: bool, out_dtype: IntDType) -> Tensor: float_argsort;
        (tensor: Float<F, I>, dtype: FloatDType) -> Float<F, I>: float_cast;
        (tensor: Float<F, I>, dim: usize, size: usize, step: usize) -> Float<F, I>: float_unfold;
    }

    async fn float_into_data(tensor: Float<F, I>) -> Result<TensorData, ExecutionError> {
        Overcommit::<F, I>::float_into_data(tensor.primitive).await
    }

    fn float_full(shape: Shape, value: Scalar, device: &Device, dtype: FloatDType) -> Float<F, I> {
        super::untracked::<F, I>(Overcommit::<F, I>::float_full(shape, value, device, dtype))
    }

    fn float_exp(tensor: Float<F, I>) -> Float<F, I> {
        activation::<F, I>(Unary::Exp, tensor, Balanced::<F, I>::float_exp)
    }

    fn float_sqrt(tensor: Float<F, I>) -> Float<F, I> {
        activation::<F, I>(Unary::Sqrt, tensor, Balanced::<F, I>::float_sqrt)
    }

    fn float_tanh(tensor: Float<F, I>) -> Float<F, I> {
        activation::<F, I>(Unary::Tanh, tensor, Balanced::<F, I>::float_tanh)
    }
}
