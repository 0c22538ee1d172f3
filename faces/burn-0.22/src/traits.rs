use burn_backend::distributed::DistributedOps;
use burn_backend::ops::{
    ActivationOps, AttentionModuleOptions, BoolTensorOps, ConvOptions, ConvTransposeOptions,
    DeformConv2dBackward, DeformConvOptions, FloatTensorOps, GridSampleOptions, IntTensorOps,
    InterpolateOptions, MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps, TransactionOps, UnfoldOptions,
};
use burn_backend::tensor::{BoolTensor, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor};
use burn_backend::{
    Backend, BackendTypes, BoolStore, DType, DTypeUsage, DTypeUsageSet, Distribution, ExecutionError,
    FloatDType, GraphUnsupported, IntDType, Scalar, Shape, Slice, TensorData,
};
use burn_ir::{BackendIr, HandleKind, TensorHandle};
use burn_overcommit::face::{self, forward, prelude::*};
use burn_overcommit::functions::{inside, volume};

use crate::Overcommit;
use crate::convert::{FromCore, IntoCore, execution_error, into_data};
use crate::convert::{Member, Tensor};
use crate::quantized::Quantized;

type Device = Member;
/// Sizes of images.
type Pair = [usize; 2];

face::newer_backend!();

impl FloatTensorOps<Self> for Overcommit {
    face::float_ops!();

    forward! {
        float_scatter(axis: usize, x: Tensor, indices: Tensor, value: Tensor, update: IndexingUpdateOp) -> Tensor =
            index::scatter(axis, x, indices, value, update);
        float_select_assign(x: Tensor, axis: usize, indices: Tensor, value: Tensor, update: IndexingUpdateOp) -> Tensor =
            index::select_update(x, axis, indices, value, update);
    }
}

impl IntTensorOps<Self> for Overcommit {
    face::int_ops!();

    forward! {
        int_scatter(axis: usize, x: Tensor, indices: Tensor, value: Tensor, update: IndexingUpdateOp) -> Tensor =
            index::scatter(axis, x, indices, value, update);
        int_select_assign(x: Tensor, axis: usize, indices: Tensor, value: Tensor, update: IndexingUpdateOp) -> Tensor =
            index::select_update(x, axis, indices, value, update);
    }
}

impl BoolTensorOps<Self> for Overcommit {
    face::bool_ops!();

    forward! {
        bool_scatter_or(axis: usize, x: Tensor, indices: Tensor, value: Tensor) -> Tensor =
            index::scatter(axis, x, indices, value, Update::Add);
        bool_select_or(x: Tensor, axis: usize, indices: Tensor, value: Tensor) -> Tensor =
            index::select_update(x, axis, indices, value, Update::Add);
    }
}

impl ModuleOps<Self> for Overcommit {
    face::module_ops!();

    forward! {
        avg_pool2d(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, include: bool, ceil: bool) -> Tensor =
            inside::avg_pool2d(x, avg_window(kernel, stride, padding, include, ceil));
        avg_pool2d_backward(x: Tensor, grad: Tensor, kernel: Pair, stride: Pair, padding: Pair, include: bool, ceil: bool) -> Tensor =
            inside::avg_pool2d_backward(x, grad, avg_window(kernel, stride, padding, include, ceil));
        max_pool2d(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil: bool) -> Tensor =
            inside::max_pool2d(x, max_window(kernel, stride, padding, dilation, ceil));
        max_pool2d_with_indices(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil: bool, dtype: IntDType) -> MaxPool2dWithIndices<Self> =
            inside::max_pool2d_with_indices(x, max_window(kernel, stride, padding, dilation, ceil), dtype);
        max_pool2d_with_indices_backward(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil: bool, grad: Tensor, indices: Tensor) -> MaxPool2dBackward<Self> =
            inside::max_pool2d_backward(x, grad, indices, max_window(kernel, stride, padding, dilation, ceil));
        adaptive_avg_pool3d(x: Tensor, size: [usize; 3]) -> Tensor = volume::adaptive_avg_pool3d(x, size);
        adaptive_avg_pool3d_backward(x: Tensor, grad: Tensor) -> Tensor = volume::adaptive_avg_pool3d_backward(x, grad);
    }
}
