//! Conversions between small types of Burn and of this crate.

use std::sync::Arc;

use burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConv2dBackward, DeformConvOptions,
    GridSampleOptions, GridSamplePaddingMode, InterpolateMode, InterpolateOptions, MaxPool2dBackward,
    MaxPool2dWithIndices, UnfoldOptions,
};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    Backend, BackendTypes, BoolStore, Bytes, DType, DeviceId, DeviceOps, Distribution, ExecutionError,
    FloatDType, IntDType, Scalar, Shape, Slice, TensorData, TensorMetadata,
};

use super::{Device, Tensor};
use crate::face;
use crate::functions::arguments::{Convolution, Scores, spatial};
use crate::functions::create::{Data, Refused};
use crate::functions::fail;
use crate::op::{Conv, Interpolation, Resize};

face::conversions!();

impl burn_backend::Device for Device {
    fn from_id(id: DeviceId) -> Self {
        Device::from_parts(id.type_id, id.index_id).unwrap_or_default()
    }

    fn to_id(&self) -> DeviceId {
        let (kind, index) = self.parts();
        DeviceId::new(kind, index)
    }
}

impl DeviceOps for Device {}

impl TensorMetadata for Tensor {
    fn dtype(&self) -> DType {
        DType::from_core(self.dtype())
    }

    fn shape(&self) -> Shape {
        self.shape().dims().into()
    }

    fn rank(&self) -> usize {
        self.shape().rank()
    }
}

impl IntoCore for Tensor {
    type Core = Tensor;

    fn into_core(self) -> Self::Core {
        self
    }
}

impl<'a> IntoCore for &'a Tensor {
    type Core = &'a Tensor;

    fn into_core(self) -> Self::Core {
        self
    }
}

impl<'a> IntoCore for &'a Device {
    type Core = &'a Device;

    fn into_core(self) -> Self::Core {
        self
    }
}

impl FromCore<Result<Tensor, Arc<Refused>>> for Tensor {
    #[track_caller]
    fn from_core(uploaded: Result<Tensor, Arc<Refused>>) -> Self {
        uploaded.unwrap_or_else(|refused| fail(&refused.error))
    }
}

impl FromCore<Device> for Device {
    fn from_core(device: Device) -> Self {
        device
    }
}

impl IntoCore for TensorData {
    type Core = Data<Bytes>;

    fn into_core(self) -> Self::Core {
        let (dtype, shape) = (self.dtype.into_core(), self.shape.into_core());
        Data { bytes: self.bytes, dtype, shape }
    }
}

impl<const N: usize> IntoCore for ConvOptions<N> {
    type Core = Convolution;

    fn into_core(self) -> Self::Core {
        let conv = Conv {
            stride: spatial(self.stride, 1),
            padding: spatial(self.padding, 0),
            dilation: spatial(self.dilation, 1),
            groups: self.groups,
        };
        conv.into()
    }
}

impl IntoCore for AttentionModuleOptions {
    type Core = Scores;

    fn into_core(self) -> Self::Core {
        let AttentionModuleOptions { scale, softcap, is_causal } = self;
        Scores { scale, softcap, is_causal, from_first: false }
    }
}

impl IntoCore for InterpolateOptions {
    type Core = Resize;

    fn into_core(self) -> Self::Core {
        let mode = match self.mode {
            InterpolateMode::Nearest => Interpolation::Nearest,
            InterpolateMode::Bilinear => Interpolation::Bilinear,
            InterpolateMode::Bicubic => Interpolation::Bicubic,
            InterpolateMode::Lanczos3 => Interpolation::Lanczos,
        };
        Resize { mode, align_corners: self.align_corners }
    }
}
