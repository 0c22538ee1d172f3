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
    face::newer_ops!(float_scatter, float_select_assign);
}

impl IntTensorOps<Self> for Overcommit {
    face::int_ops!();
    face::newer_ops!(int_scatter, int_select_assign);
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
    face::newer_ops!(modules);

    forward! {
        avg_pool2d(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, include: bool, ceil: bool) -> Tensor =
            inside::avg_pool2d(x, avg_window(kernel, stride, padding, include, ceil));
        avg_pool2d_backward(x: Tensor, grad: Tensor, kernel: Pair, stride: Pair, padding: Pair, include: bool, ceil: bool) -> Tensor =
            inside::avg_pool2d_backward(x, grad, avg_window(kernel, stride, padding, include, ceil));
    }
}
