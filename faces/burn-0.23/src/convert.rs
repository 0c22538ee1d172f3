//! Conversions between small types of Burn and of burn-overcommit.

use burn_backend::ops::{
    AttentionModuleOptions, CausalAlignment, ConvOptions, ConvTransposeOptions, CoordinateTransformMode,
    CubicOptions, DeformConv2dBackward, DeformConvOptions, GridSampleOptions, GridSamplePaddingMode,
    InterpolateMode, InterpolateOptions, MaxPool2dBackward, MaxPool2dWithIndices, MaxPool3dBackward,
    MaxPool3dWithIndices, NearestRoundingMode, UnfoldOptions,
};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    Backend, BackendTypes, BoolStore, Bytes, DType, DeviceId, DeviceOps, Distribution, ExecutionError,
    FloatDType, IntDType, Scalar, Shape, Slice, TensorData, TensorMetadata,
};
use burn_overcommit::functions::arguments::Scores;
use burn_overcommit::functions::fail;
use burn_overcommit::op::{Interpolation, Resize};
use burn_overcommit::{face, runtime};
use burn_std::DeviceSettings;
use burn_std::quantization::{QuantConfig, QuantScheme, QuantStore};

face::conversions!();
face::newer_types!();

impl<B> FromCore<[runtime::Tensor; 2]> for MaxPool3dWithIndices<B>
where
    B: Backend + BackendTypes<FloatTensorPrimitive = Tensor, IntTensorPrimitive = Tensor>,
{
    fn from_core([output, indices]: [runtime::Tensor; 2]) -> Self {
        MaxPool3dWithIndices::new(output.into(), indices.into())
    }
}

impl<B> FromCore<runtime::Tensor> for MaxPool3dBackward<B>
where
    B: Backend + BackendTypes<FloatTensorPrimitive = Tensor>,
{
    fn from_core(of_x: runtime::Tensor) -> Self {
        MaxPool3dBackward::new(of_x.into())
    }
}

impl IntoCore for AttentionModuleOptions {
    type Core = Scores;

    fn into_core(self) -> Self::Core {
        let AttentionModuleOptions { scale, softcap, is_causal, causal_alignment } = self;
        Scores { scale, softcap, is_causal, from_first: causal_alignment == CausalAlignment::TopLeft }
    }
}

impl IntoCore for InterpolateOptions {
    type Core = Resize;

    fn into_core(self) -> Self::Core {
        use CoordinateTransformMode::{AlignCorners, Asymmetric, HalfPixel};
        let mode = match self.mode {
            InterpolateMode::Nearest => Interpolation::Nearest,
            InterpolateMode::Bilinear => Interpolation::Bilinear,
            InterpolateMode::Bicubic => Interpolation::Bicubic,
            InterpolateMode::Lanczos3 => Interpolation::Lanczos,
            InterpolateMode::NearestExact => fail("burn-overcommit: interpolate has no NearestExact"),
        };
        let align_corners = match (mode, self.coordinate_transform) {
            (Interpolation::Nearest, Asymmetric) if self.nearest_mode == NearestRoundingMode::Floor => false,
            (Interpolation::Nearest, _) => fail(format_args!(
                "burn-overcommit: interpolate by the nearest pixel has Asymmetric with Floor, not {:?} with {:?}",
                self.coordinate_transform, self.nearest_mode
            )),
            (_, AlignCorners) => true,
            (_, HalfPixel) => false,
            (_, other) => fail(format_args!(
                "burn-overcommit: interpolate has AlignCorners and HalfPixel, not {other:?}"
            )),
        };
        if mode == Interpolation::Bicubic && self.cubic_options != CubicOptions::default() {
            fail(format_args!("burn-overcommit: interpolate has no {:?}", self.cubic_options));
        }
        Resize { mode, align_corners }
    }
}
