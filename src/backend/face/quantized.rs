use super::{Device, Tensor};
use crate::backend::quantized::{self, Quantized};
use crate::backend::{FloatElement, IntElement, Overcommit, index, view};
use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{QuantScheme, QuantizationParametersPrimitive};
use burn_backend::{ExecutionError, FloatDType, Shape, Slice, TensorData};

/// Moves elements, as integers if all have one scale, else as floats that are quantized again.
fn moved<F: FloatElement, I: IntElement>(x: Quantized, change: impl FnOnce(Tensor) -> Tensor) -> Quantized {
    if x.has_one_scale() {
        return x.with_values(change);
    }
    let scheme = *burn_backend::QTensorPrimitive::scheme(&x);
    let floats = quantized::dequantize(x, FloatDType::F32);
    Overcommit::<F, I>::quantize_dynamic(change(floats), &scheme)
}

impl<F: FloatElement, I: IntElement> QTensorOps<Self> for Overcommit<F, I> {
    forward! {
        q_from_data(data: TensorData, device: &Device) -> Quantized = quantized::from_data(data, device);
        quantize(x: Tensor, scheme: &QuantScheme, parameters: QuantizationParametersPrimitive<Self>) -> Quantized =
            quantized::quantize(x, scheme, parameters.scales);
        dequantize(x: Quantized, dtype: FloatDType) -> Tensor = quantized::dequantize(x, dtype);
        q_device(x: &Quantized) -> Device = x.device();
        q_to_device(x: Quantized, device: &Device) -> Quantized = quantized::to_device(x, device);
        // Blocks consist of elements in row-major order, which does not change.
        q_reshape(x: Quantized, shape: Shape) -> Quantized = x.with_values(|x| view::reshape_to(x, &shape));
        q_expand(x: Quantized, shape: Shape) -> Quantized = moved::<F, I>(x, |x| view::expand(x, &shape));
        q_swap_dims(x: Quantized, first: usize, second: usize) -> Quantized =
            moved::<F, I>(x, |x| view::swap_dims(x, first, second));
        q_permute(x: Quantized, axes: &[usize]) -> Quantized = moved::<F, I>(x, |x| view::permute(x, axes));
        q_flip(x: Quantized, axes: &[usize]) -> Quantized = moved::<F, I>(x, |x| view::flip(x, axes));
        q_select(x: Quantized, axis: usize, indices: Tensor) -> Quantized =
            moved::<F, I>(x, |x| index::select(x, axis, indices));
        q_gather(axis: usize, x: Quantized, indices: Tensor) -> Quantized =
            moved::<F, I>(x, |x| index::gather(axis, x, indices));
        q_slice(x: Quantized, slices: &[Slice]) -> Quantized = moved::<F, I>(x, |x| view::slice(x, slices));
    }

    async fn q_into_data(x: Quantized) -> Result<TensorData, ExecutionError> {
        quantized::into_data(x)
    }
}
