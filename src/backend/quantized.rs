//! Quantized tensors: Burn's scheme, and integers and scales that the crate computes with.

use burn_backend::ops::QTensorOps;
use burn_backend::quantization::{
    QuantLevel, QuantScheme, QuantStore, QuantValue, QuantizationParametersPrimitive, QuantizedBytes,
};
use burn_backend::{
    Backend, BackendTypes, DType, ExecutionError, FloatDType, QTensorPrimitive, Shape, Slice, TensorData,
    TensorMetadata,
};

use super::convert::{FromCore, IntoCore, into_data};
use super::{Device, FloatElement, IntElement, Overcommit, Tensor};
use crate::OvercommitDevice;
use crate::face::{self, forward, prelude::*};
use crate::functions::fail;
use crate::functions::quantized::{self, Blocks};
use crate::op::Dtype;

/// A tensor of integers that mean multiples of a scale.
///
/// ```
/// use burn::tensor::Tensor;
/// use burn::tensor::quantization::{QuantScheme, QuantStore};
/// use burn_overcommit::{Overcommit, OvercommitDevice};
///
/// let x = Tensor::<Overcommit, 2>::ones([4, 8], &OvercommitDevice::Host(0));
/// let quantized = x.quantize_dynamic(&QuantScheme::default().with_store(QuantStore::Native));
/// let quantized: burn_overcommit::backend::Quantized = match quantized.into_primitive() {
///     burn::tensor::TensorPrimitive::QFloat(quantized) => quantized,
///     burn::tensor::TensorPrimitive::Float(_) => unreachable!("it was quantized"),
/// };
/// assert!(quantized.has_one_scale());
/// ```
#[derive(Clone, Debug)]
pub struct Quantized {
    values: Tensor,
    /// One per block, in the order of the blocks.
    scales: Tensor,
    scheme: QuantScheme,
}

impl TensorMetadata for Quantized {
    fn dtype(&self) -> DType {
        DType::QFloat(self.scheme)
    }

    fn shape(&self) -> Shape {
        TensorMetadata::shape(&self.values)
    }

    fn rank(&self) -> usize {
        TensorMetadata::rank(&self.values)
    }
}

impl QTensorPrimitive for Quantized {
    fn scheme(&self) -> &QuantScheme {
        &self.scheme
    }

    /// One integer per byte: nothing here packs several.
    fn default_scheme() -> QuantScheme {
        QuantScheme::default().with_store(QuantStore::Native)
    }
}

impl IntoCore for Quantized {
    type Core = Quantized;

    fn into_core(self) -> Self::Core {
        self
    }
}

impl IntoCore for &Quantized {
    type Core = OvercommitDevice;

    fn into_core(self) -> Self::Core {
        self.device()
    }
}

impl FromCore<Quantized> for Quantized {
    fn from_core(quantized: Quantized) -> Self {
        quantized
    }
}

impl Quantized {
    fn new(values: Tensor, scales: Tensor, scheme: &QuantScheme) -> Self {
        Quantized { values, scales, scheme: scheme.with_store(QuantStore::Native) }
    }

    /// The device of the tensor.
    pub fn device(&self) -> OvercommitDevice {
        self.values.device()
    }

    /// Where every element has the same scale, its integers may be moved as they are.
    pub fn has_one_scale(&self) -> bool {
        matches!(self.scheme.level, QuantLevel::Tensor)
    }

    /// The same integers elsewhere, in another order, or some of them.
    #[track_caller]
    pub fn with_values(self, change: impl FnOnce(Tensor) -> Tensor) -> Self {
        Quantized { values: change(self.values), ..self }
    }

    #[track_caller]
    fn on_device(self, device: &OvercommitDevice) -> Self {
        let [values, scales] = [self.values, self.scales].map(|tensor| create::to_device(tensor, device));
        Quantized { values, scales, ..self }
    }

    #[track_caller]
    fn dequantized(self, dtype: Dtype) -> Tensor {
        quantized::dequantize(self.values, blocks(&self.scheme), &self.scales, dtype)
    }
}

#[track_caller]
fn blocks(scheme: &QuantScheme) -> Blocks {
    if matches!(scheme.value, QuantValue::E5M2 | QuantValue::E4M3 | QuantValue::E2M1) {
        fail(format!(
            "burn-overcommit: quantized values of {:?} are not supported; integers of 8, 4 and 2 bits are",
            scheme.value
        ));
    }
    let size = match scheme.level {
        QuantLevel::Tensor => None,
        QuantLevel::Block(size) => Some(size.num_elements()),
    };
    Blocks { size, range: scheme.value.range().into() }
}

/// Moves elements, as integers if all have one scale, else as floats that are quantized again.
fn moved<B>(x: Quantized, change: impl FnOnce(Tensor) -> Tensor) -> Quantized
where
    B: Backend + BackendTypes<FloatTensorPrimitive = Tensor, QuantizedTensorPrimitive = Quantized>,
{
    if x.has_one_scale() {
        return x.with_values(change);
    }
    let scheme = x.scheme;
    B::quantize_dynamic(change(x.dequantized(Dtype::F32)), &scheme)
}

impl<F: FloatElement, I: IntElement> QTensorOps<Self> for Overcommit<F, I> {
    face::quantized_ops!();

    forward! {
        q_device(x: &Quantized) -> Device = x;
    }

    #[track_caller]
    fn q_from_data(data: TensorData, device: &Device) -> Quantized {
        let DType::QFloat(scheme) = data.dtype else {
            fail(format!("burn-overcommit: a quantized tensor was asked for from {:?} data", data.dtype))
        };
        blocks(&scheme);
        let (shape, num_elements) = (data.shape.clone(), data.num_elements());
        let bytes = QuantizedBytes { bytes: data.into_bytes(), scheme, num_elements };
        let (values, parameters) = bytes.into_vec_i8();
        let count = parameters.scales.len();
        let values = create::int_from_data(TensorData::new(values, shape).into_core(), device);
        let scales = create::float_from_data(TensorData::new(parameters.scales, [count]).into_core(), device);
        let [values, scales] = [values, scales].map(Tensor::from_core);
        Quantized::new(values, scales, &scheme)
    }

    #[track_caller]
    fn quantize(
        x: Tensor,
        scheme: &QuantScheme,
        parameters: QuantizationParametersPrimitive<Self>,
    ) -> Quantized {
        let [values, scales] = quantized::quantize(x, blocks(scheme), parameters.scales);
        Quantized::new(values, scales, scheme)
    }

    async fn q_into_data(x: Quantized) -> Result<TensorData, ExecutionError> {
        let (sizes, scheme) = (x.values.shape().dims().to_vec(), x.scheme);
        let [values, scales] = [into_data(x.values)?, into_data(x.scales)?].map(TensorData::into_bytes);
        let values: Vec<i8> = bytemuck::pod_collect_to_vec(&values);
        let scales: Vec<f32> = bytemuck::pod_collect_to_vec(&scales);
        Ok(TensorData::quantized(values, sizes, scheme, &scales))
    }
}
