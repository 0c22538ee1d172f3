use std::collections::HashSet;

use burn_backend::distributed::{
    DistributedConfig, DistributedOps, DistributedParams, ReduceOperation, TensorRef,
};
use burn_backend::ops::attention::{attention_backward_default, attention_with_logsumexp_default};
use burn_backend::ops::{
    ActivationOps, AttentionBackward, AttentionModuleOptions, BoolTensorOps, CollectiveOps, ConvOptions,
    ConvTransposeOptions, DeformConv2dBackward, DeformConvOptions, EmulatedCollectives, FloatTensorOps,
    GridSampleOptions, IntTensorOps, InterpolateOptions, MaxPool2dBackward, MaxPool2dWithIndices,
    MaxPool3dBackward, MaxPool3dWithIndices, ModuleOps, TransactionOps, UnfoldOptions,
};
use burn_backend::tensor::{BoolTensor, FloatTensor, IndexingUpdateOp, IntTensor, QuantizedTensor};
use burn_backend::{
    Backend, BackendTypes, BoolStore, DType, DTypeUsage, DTypeUsageSet, Distribution, ExecutionError,
    FloatDType, GraphUnsupported, IntDType, Scalar, Shape, Slice, TensorData, TensorMetadata,
};
use burn_ir::{BackendIr, HandleKind, TensorHandle};
use burn_overcommit::face::{self, forward, prelude::*};
use burn_overcommit::functions::volume::{self, Pool3d};
use burn_overcommit::functions::{inside, ok};
use burn_overcommit::op::Pool2d;
use burn_overcommit::runtime;

use crate::Overcommit;
use crate::convert::{FromCore, IntoCore, execution_error, into_data};
use crate::convert::{Member, Tensor};
use crate::quantized::Quantized;

type Device = Member;
/// Sizes of images, and of volumes.
type Pair = [usize; 2];
type Triple = [usize; 3];

face::newer_backend!();

// Burn collects all else by copies.
impl CollectiveOps<Self> for Overcommit {
    #[track_caller]
    fn float_all_reduce(tensors: Vec<Tensor>, op: ReduceOperation) -> Vec<Tensor> {
        let devices: HashSet<_> = tensors.iter().map(|tensor| tensor.device().0).collect();
        if devices.len() < tensors.len() {
            return EmulatedCollectives::<Self>::float_all_reduce(tensors, op);
        }
        let tensors = tensors.into_iter().map(IntoCore::into_core).collect();
        let reduced = ok(runtime::reduce_together(tensors, reduction(op)));
        reduced.into_iter().map(FromCore::from_core).collect()
    }
}

impl FloatTensorOps<Self> for Overcommit {
    face::float_ops!();
    face::newer_ops!(float_scatter, float_select_assign);

    forward! {
        float_fmod(a: Tensor, b: Tensor) -> Tensor = fmod(a, b);
        float_fmod_scalar(a: Tensor, b: Scalar) -> Tensor = fmod_scalar(a, b);
    }
}

impl IntTensorOps<Self> for Overcommit {
    face::int_ops!();
    face::newer_ops!(int_scatter, int_select_assign);
}

impl BoolTensorOps<Self> for Overcommit {
    face::bool_ops!();
    face::newer_ops!(bool_scatter, bool_select_assign);

    forward! {
        bool_gather_nd(x: Tensor, indices: Tensor) -> Tensor = index::gather_nd(x, indices);
        bool_scatter_nd(x: Tensor, indices: Tensor, values: Tensor, update: IndexingUpdateOp) -> Tensor =
            index::scatter_nd(x, indices, values, update);
    }
}

impl ModuleOps<Self> for Overcommit {
    face::module_ops!();
    face::newer_ops!(modules);

    fn has_attention_backward() -> bool {
        true
    }

    #[track_caller]
    fn attention_with_logsumexp(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        options: AttentionModuleOptions,
    ) -> (Tensor, Tensor) {
        let inputs = [&query, &key, &value].map(|x| x.clone().made());
        match attention::with_logsumexp(inputs, options.into_core()) {
            Some((out, sums)) => (out.into(), sums.into()),
            None => attention_with_logsumexp_default::<Self>(query, key, value, options),
        }
    }

    #[track_caller]
    fn attention_backward(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        out: Tensor,
        logsumexp: Tensor,
        grad: Tensor,
        options: AttentionModuleOptions,
    ) -> AttentionBackward<Self> {
        let [of_inputs, of_out] =
            [[&query, &key, &value], [&out, &logsumexp, &grad]].map(|all| all.map(|x| x.clone().made()));
        let [made, sums, gradient] = of_out;
        match attention::backward(of_inputs, made, sums, gradient, options.into_core()) {
            Some(gradients) => {
                let [of_query, of_key, of_value] = gradients.map(Tensor::from);
                AttentionBackward::new(of_query, of_key, of_value)
            }
            None => attention_backward_default::<Self>(query, key, value, out, logsumexp, grad, options),
        }
    }

    forward! {
        avg_pool2d(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, include: bool, ceil: bool) -> Tensor =
            inside::avg_pool2d(x, Pool2d { kernel, stride, padding, dilation, ceil_mode: ceil, count_include_pad: include });
        avg_pool2d_backward(x: Tensor, grad: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, include: bool, ceil: bool) -> Tensor =
            inside::avg_pool2d_backward(x, grad, Pool2d { kernel, stride, padding, dilation, ceil_mode: ceil, count_include_pad: include });
    }

    forward! {
        avg_pool3d(x: Tensor, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple, include: bool, ceil: bool) -> Tensor =
            volume::avg_pool3d(x, Pool3d { kernel, stride, padding, dilation, ceil_mode: ceil, count_include_pad: include });
        avg_pool3d_backward(x: Tensor, grad: Tensor, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple, include: bool, ceil: bool) -> Tensor =
            volume::avg_pool3d_backward(x, grad, Pool3d { kernel, stride, padding, dilation, ceil_mode: ceil, count_include_pad: include });
        max_pool3d(x: Tensor, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple, ceil: bool) -> Tensor =
            volume::max_pool3d(x, Pool3d { kernel, stride, padding, dilation, ceil_mode: ceil, count_include_pad: false });
        max_pool3d_with_indices(x: Tensor, kernel: Triple, stride: Triple, padding: Triple, dilation: Triple, ceil: bool, dtype: IntDType) -> MaxPool3dWithIndices<Self> =
            volume::max_pool3d_with_indices(x, Pool3d { kernel, stride, padding, dilation, ceil_mode: ceil, count_include_pad: false }, dtype);
        max_pool3d_with_indices_backward(x: Tensor, _kernel: Triple, _stride: Triple, _padding: Triple, _dilation: Triple, _ceil: bool, grad: Tensor, indices: Tensor) -> MaxPool3dBackward<Self> =
            volume::max_pool3d_backward(x, grad, indices);
    }
}
