//! Quantized tensors.

use burn_backend::ops::QTensorOps;
use burn_backend::quantization::QuantizationParametersPrimitive;
use burn_backend::{
    Backend, BackendTypes, DType, ExecutionError, FloatDType, Shape, Slice, TensorData, TensorMetadata,
};
use burn_overcommit::face::{self, prelude::*};
use burn_std::quantization::{QuantScheme, QuantStore, QuantValue, QuantizedBytes};

use crate::Overcommit;
use crate::convert::{FromCore, IntoCore, Member, Tensor, into_data};

type Device = Member;

face::newer_quantized!();
