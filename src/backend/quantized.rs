//! Quantized tensors: integers of eight bits, and the scales that give their values, one for all elements or one for
//! each block of elements that follow each other.

use super::{cast, convert, create, fail, pointwise, run, view};
use crate::OvercommitDevice;
use crate::op::{Binary, Dtype, Op, Scalar, Shape, Unary};
use crate::runtime::{self, Tensor};
use burn_backend::quantization::{QuantLevel, QuantScheme, QuantStore, QuantValue, QuantizedBytes};
use burn_backend::{DType, ExecutionError, QTensorPrimitive, TensorData, TensorMetadata};

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

    fn shape(&self) -> burn_backend::Shape {
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
}

/// Uploads Burn's data, whatever its store.
#[track_caller]
pub fn from_data(data: TensorData, device: &OvercommitDevice) -> Quantized {
    let DType::QFloat(scheme) = data.dtype else {
        fail(format!("burn-overcommit: a quantized tensor was asked for from {:?} data", data.dtype))
    };
    check(&scheme);
    let (shape, num_elements) = (data.shape.clone(), data.num_elements());
    let bytes = QuantizedBytes { bytes: data.into_bytes(), scheme, num_elements };
    let (values, parameters) = bytes.into_vec_i8();
    let count = parameters.scales.len();
    let values = create::int_from_data(TensorData::new(values, shape), device);
    let scales = create::float_from_data(TensorData::new(parameters.scales, [count]), device);
    Quantized::new(values, scales, &scheme)
}

/// Downloads integers and scales.
#[track_caller]
pub fn into_data(x: Quantized) -> Result<TensorData, ExecutionError> {
    let sizes = x.values.shape().dims().to_vec();
    let bytes = |tensor| runtime::read(tensor).map_err(create::execution_error);
    let values: Vec<i8> = bytes(x.values)?.into_iter().map(|byte| byte as i8).collect();
    let scales: Vec<f32> = bytemuck::pod_collect_to_vec(&bytes(x.scales)?);
    Ok(TensorData::quantized(values, sizes, x.scheme, &scales))
}

/// The tensor on `device`.
#[track_caller]
pub fn to_device(x: Quantized, device: &OvercommitDevice) -> Quantized {
    let [values, scales] = [x.values, x.scales].map(|tensor| create::to_device(tensor, device));
    Quantized { values, scales, ..x }
}

/// The nearest integers, clamped to the values of the scheme.
#[track_caller]
pub fn quantize(x: Tensor, scheme: &QuantScheme, scales: Tensor) -> Quantized {
    check(scheme);
    let shape = *x.shape();
    // No number is a multiple of zero.
    let scales = cast(view::reshape(scales.clone(), Shape::new(&[scales.shape().count()])), Dtype::F32);
    let scales = pointwise::scalar(Binary::Max, scales, f32::MIN_POSITIVE);
    let blocks = in_blocks(cast(x, Dtype::F32), scheme);
    let multiples = pointwise::binary(Binary::Div, blocks, per_block(&scales));
    let (least, greatest) = scheme.value.range();
    let limits = [least, greatest].map(|limit| Scalar::from(f64::from(limit)));
    let rounded = run(Op::Clamp(limits[0], limits[1]), [pointwise::unary(Unary::Round, multiples)]);
    Quantized::new(view::reshape(cast(rounded, Dtype::I8), shape), scales, scheme)
}

/// The values as floats.
#[track_caller]
pub fn dequantize(x: Quantized, dtype: impl Into<DType>) -> Tensor {
    let shape = *x.values.shape();
    let blocks = in_blocks(cast(x.values, Dtype::F32), &x.scheme);
    let values = pointwise::binary(Binary::Mul, blocks, per_block(&x.scales));
    cast(view::reshape(values, shape), convert::dtype(dtype))
}

/// `[blocks, elements of a block]`; with one scale, all elements are one block.
#[track_caller]
fn in_blocks(x: Tensor, scheme: &QuantScheme) -> Tensor {
    let count = x.shape().count();
    let block = match scheme.level {
        QuantLevel::Tensor => count.max(1),
        QuantLevel::Block(size) => size.num_elements(),
    };
    if !count.is_multiple_of(block) {
        let shape = x.shape();
        fail(format!(
            "burn-overcommit: {shape:?} is not a number of blocks of {block} elements; choose a block that divides it"
        ));
    }
    view::reshape_to(x, &[count / block, block])
}

/// The scales beside their blocks.
#[track_caller]
fn per_block(scales: &Tensor) -> Tensor {
    view::reshape_to(scales.clone(), &[scales.shape().count(), 1])
}

#[track_caller]
fn check(scheme: &QuantScheme) {
    if matches!(scheme.value, QuantValue::E5M2 | QuantValue::E4M3 | QuantValue::E2M1) {
        fail(format!(
            "burn-overcommit: quantized values of {:?} are not supported; integers of 8, 4 and 2 bits are",
            scheme.value
        ));
    }
}
