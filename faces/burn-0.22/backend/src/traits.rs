use burn_backend::distributed::{
    CollectiveTensor, DistributedConfig, DistributedOps, DistributedParams, ReduceOperation, TensorRef,
};
use burn_backend::ops::{
    ActivationOps, AttentionModuleOptions, BoolTensorOps, ConvOptions, ConvTransposeOptions,
    DeformConv2dBackward, DeformConvOptions, FloatTensorOps, GridSampleOptions, IntTensorOps,
    InterpolateOptions, MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps, TransactionOps, UnfoldOptions,
};
use burn_backend::tensor::{BoolTensor, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor};
use burn_backend::{
    Backend, BackendTypes, BoolStore, DType, DTypeUsage, DTypeUsageSet, DeviceId, Distribution,
    ExecutionError, FloatDType, GraphUnsupported, IntDType, Scalar, Shape, Slice, TensorData,
};
use burn_ir::{BackendIr, HandleKind, TensorHandle};
use burn_overcommit::face::{self, forward, prelude::*};
use burn_overcommit::functions::{inside, ok, volume};
use burn_overcommit::runtime;

use crate::Overcommit;
use crate::convert::{FromCore, IntoCore, execution_error, into_data};
use crate::convert::{Member, Tensor};
use crate::quantized::Quantized;

type Device = Member;
/// Sizes of images.
type Pair = [usize; 2];

face::newer_backend! {
    #[track_caller]
    fn all_reduce(tensor: Tensor, op: ReduceOperation, ids: Vec<DeviceId>) -> CollectiveTensor<Self> {
        let devices: Vec<_> = ids.into_iter().map(|id| <Member as burn_std::device::Device>::from_id(id).0).collect();
        let reduced = runtime::reduce_of_program(tensor.into_core(), reduction(op), &devices);
        CollectiveTensor::new(Tensor::from_core(ok(reduced)))
    }

    #[track_caller]
    fn sync_collective(device: &Member) {
        ok(runtime::sync_collective(&device.0));
    }
}

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
