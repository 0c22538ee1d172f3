//! Burn's small types as ours, and back.

use super::fail;
use crate::op::{Dtype, Layout, MAX_RANK, Scalar, Shape};
use crate::runtime::Tensor;
use burn_backend::{BoolStore, DType, TensorMetadata};

impl TensorMetadata for Tensor {
    fn dtype(&self) -> DType {
        burn_dtype(self.dtype())
    }

    fn shape(&self) -> burn_backend::Shape {
        self.shape().dims().into()
    }

    fn rank(&self) -> usize {
        self.shape().rank()
    }
}

/// Our element type for one of Burn's, if there are kernels for it.
pub fn known_dtype(dtype: DType) -> Option<Dtype> {
    Some(match dtype {
        DType::F32 => Dtype::F32,
        DType::I32 => Dtype::I32,
        DType::I64 => Dtype::I64,
        DType::Bool(BoolStore::Native) => Dtype::Bool,
        _ => return None,
    })
}

/// [`known_dtype`] for a dtype that the caller asked for.
pub fn dtype(dtype: impl Into<DType>) -> Dtype {
    let wanted = dtype.into();
    known_dtype(wanted).unwrap_or_else(|| {
        fail(format!(
            "burn-overcommit: no kernels for {wanted:?}; there are for F32, I32, I64 and Bool(Native)"
        ))
    })
}

pub fn burn_dtype(dtype: Dtype) -> DType {
    match dtype {
        Dtype::F32 => DType::F32,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::Bool => DType::Bool(BoolStore::Native),
    }
}

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
pub fn scalar(value: burn_backend::Scalar, dtype: Dtype) -> Scalar {
    match dtype {
        Dtype::F32 => Scalar::from(value.elem::<f64>()),
        Dtype::I32 | Dtype::I64 | Dtype::Bool => Scalar::from(value.elem::<i64>()),
    }
}

/// Rows and columns of the last two dimensions.
pub fn plane(layout: &Layout) -> [usize; 2] {
    match layout.shape().dims() {
        [.., rows, columns] => [*rows, *columns],
        dims => fail(format!("burn-overcommit: at least two dimensions are needed, not {dims:?}")),
    }
}
