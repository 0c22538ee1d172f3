//! Conversions between small types of Burn and of this crate.

use super::fail;
use crate::op::{Dtype, Layout, MAX_RANK, Scalar, Shape};
use crate::runtime::Tensor;
use burn_backend::{BoolStore, DType, TensorMetadata};

impl TensorMetadata for Tensor {
    fn dtype(&self) -> DType {
        self.dtype().into()
    }

    fn shape(&self) -> burn_backend::Shape {
        self.shape().dims().into()
    }

    fn rank(&self) -> usize {
        self.shape().rank()
    }
}

/// This crate's element type for one of Burn's, if there is one: all but quantized values have one.
#[track_caller]
pub fn known_dtype(dtype: DType) -> Option<Dtype> {
    Some(match dtype {
        DType::F64 => Dtype::F64,
        // A float of at least 16 bits, computed in 32.
        DType::F32 | DType::Flex32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::I32 => Dtype::I32,
        DType::I16 => Dtype::I16,
        DType::I8 => Dtype::I8,
        DType::U64 => Dtype::U64,
        DType::U32 => Dtype::U32,
        DType::U16 => Dtype::U16,
        DType::U8 => Dtype::U8,
        DType::Bool(BoolStore::Native) => Dtype::Bool,
        DType::Bool(BoolStore::U8) => Dtype::Bool8,
        DType::Bool(BoolStore::U32) => Dtype::Bool32,
        DType::QFloat(_) => return None,
    })
}

/// [`known_dtype`] for a dtype that the caller asked for.
#[track_caller]
pub fn dtype(dtype: impl Into<DType>) -> Dtype {
    let wanted = dtype.into();
    let Some(known) = known_dtype(wanted) else {
        fail(format!("burn-overcommit: {wanted:?} is no element type of a plain tensor; quantize for it"))
    };
    known
}

impl From<Dtype> for DType {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F64 => DType::F64,
            Dtype::F32 => DType::F32,
            Dtype::F16 => DType::F16,
            Dtype::BF16 => DType::BF16,
            Dtype::I64 => DType::I64,
            Dtype::I32 => DType::I32,
            Dtype::I16 => DType::I16,
            Dtype::I8 => DType::I8,
            Dtype::U64 => DType::U64,
            Dtype::U32 => DType::U32,
            Dtype::U16 => DType::U16,
            Dtype::U8 => DType::U8,
            Dtype::Bool => DType::Bool(BoolStore::Native),
            Dtype::Bool8 => DType::Bool(BoolStore::U8),
            Dtype::Bool32 => DType::Bool(BoolStore::U32),
        }
    }
}

#[track_caller]
pub fn shape(sizes: &[usize]) -> Shape {
    if sizes.len() > MAX_RANK {
        fail(format!(
            "burn-overcommit: shape {sizes:?} has {} dimensions; the most is {MAX_RANK}",
            sizes.len()
        ));
    }
    Shape::new(sizes)
}

/// A number for tensors of `dtype`. Floats stay floats and the rest are integers, so that equal ops are equal values.
#[track_caller]
pub fn scalar(value: burn_backend::Scalar, dtype: Dtype) -> Scalar {
    use burn_backend::Scalar as Burn;
    match value {
        _ if dtype.is_float() => Scalar::from(value.elem::<f64>()),
        Burn::Float(float) if float >= 0.0 => Scalar::from(float as u64),
        Burn::Float(float) => Scalar::from(float as i64),
        Burn::Int(integer) => Scalar::from(integer),
        Burn::UInt(integer) => Scalar::from(integer),
        Burn::Bool(bit) => Scalar::from(i64::from(bit)),
    }
}

/// Rows and columns of the last two dimensions.
#[track_caller]
pub fn plane(layout: &Layout) -> [usize; 2] {
    match layout.shape().dims() {
        [.., rows, columns] => [*rows, *columns],
        dims => fail(format!("burn-overcommit: at least two dimensions are needed, not {dims:?}")),
    }
}
