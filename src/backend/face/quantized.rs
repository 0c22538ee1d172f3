//! No quantized tensors yet: their primitive cannot be made, so that what takes one needs no code.

use super::{Device, Tensor};
use crate::backend::{FloatElement, IntElement, Overcommit};
use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{QuantScheme, QuantizationParametersPrimitive};
use burn_backend::{
    DType, ExecutionError, FloatDType, QTensorPrimitive, Shape, Slice, TensorData, TensorMetadata,
};

/// A quantized tensor: there are none.
#[derive(Clone, Copy, Debug)]
pub enum NoQuantized {}

type Q = NoQuantized;

impl TensorMetadata for NoQuantized {
    fn dtype(&self) -> DType {
        match *self {}
    }

    fn shape(&self) -> Shape {
        match *self {}
    }
}

impl QTensorPrimitive for NoQuantized {
    fn scheme(&self) -> &QuantScheme {
        match *self {}
    }
}

impl<F: FloatElement, I: IntElement> QTensorOps<Self> for Overcommit<F, I> {
    forward! {
        q_from_data(_data: TensorData, _device: &Device) -> Q = missing!("q_from_data");
        quantize(_x: Tensor, _scheme: &QuantScheme, _parameters: QuantizationParametersPrimitive<Self>) -> Q =
            missing!("quantize");
        dequantize(x: Q, _dtype: FloatDType) -> Tensor = match x {};
        q_device(x: &Q) -> Device = match *x {};
        q_to_device(x: Q, _device: &Device) -> Q = match x {};
        q_reshape(x: Q, _shape: Shape) -> Q = match x {};
        q_expand(x: Q, _shape: Shape) -> Q = match x {};
        q_swap_dims(x: Q, _first: usize, _second: usize) -> Q = match x {};
        q_permute(x: Q, _axes: &[usize]) -> Q = match x {};
        q_flip(x: Q, _axes: &[usize]) -> Q = match x {};
        q_select(x: Q, _axis: usize, _indices: Tensor) -> Q = match x {};
        q_slice(x: Q, _slices: &[Slice]) -> Q = match x {};
    }

    async fn q_into_data(x: Q) -> Result<TensorData, ExecutionError> {
        match x {}
    }
}
