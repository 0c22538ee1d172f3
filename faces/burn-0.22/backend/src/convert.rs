//! Conversions between small types of Burn and of burn-overcommit.

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
use burn_overcommit::face;
use burn_overcommit::functions::arguments::Scores;
use burn_overcommit::functions::fail;
use burn_overcommit::op::{Interpolation, Resize};
use burn_std::DeviceSettings;
use burn_std::quantization::{QuantConfig, QuantScheme, QuantStore};

face::conversions!();
face::newer_types!();

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
            InterpolateMode::NearestExact => fail("burn-overcommit: interpolate has no NearestExact"),
        };
        Resize { mode, align_corners: self.align_corners }
    }
}
