use burn_backend::ops::{
    ActivationOps, AttentionModuleOptions, BoolTensorOps, ConvOptions, ConvTransposeOptions,
    DeformConv2dBackward, DeformConvOptions, FloatTensorOps, GridSampleOptions, IntTensorOps,
    InterpolateOptions, MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps, TransactionOps, UnfoldOptions,
};
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{
    Backend, BackendTypes, BoolStore, DType, DTypeUsage, DTypeUsageSet, Distribution, ExecutionError,
    FloatDType, IntDType, Scalar, Shape, Slice, TensorData, get_device_settings,
};

use super::convert::{FromCore, IntoCore, execution_error, into_data};
use super::{Device, FloatElement, IntElement, Overcommit, Quantized, Tensor};
use crate::face::{self, forward, prelude::*};
use crate::functions::ok;
use crate::runtime;

impl<F: FloatElement, I: IntElement> BackendTypes for Overcommit<F, I> {
    type Device = Device;
    type FloatTensorPrimitive = Tensor;
    type FloatElem = F;
    type IntTensorPrimitive = Tensor;
    type IntElem = I;
    type BoolTensorPrimitive = Tensor;
    type BoolElem = bool;
    type QuantizedTensorPrimitive = Quantized;
}

impl<F: FloatElement, I: IntElement> Backend for Overcommit<F, I> {
    fn name(device: &Device) -> String {
        format!("overcommit<{device}>")
    }

    #[track_caller]
    fn seed(device: &Device, seed: u64) {
        ok(runtime::seed(device, seed));
    }

    fn sync(device: &Device) -> Result<(), ExecutionError> {
        runtime::sync(device).map_err(execution_error)
    }

    #[track_caller]
    fn memory_cleanup(device: &Device) {
        ok(runtime::cleanup(device));
    }

    fn device_count(type_id: u16) -> usize {
        Device::count(type_id)
    }

    // Asked before `main` by Burn's test-suite, so it looks at no device.
    fn dtype_usage(_device: &Device, dtype: DType) -> DTypeUsageSet {
        match dtype {
            DType::QFloat(_) => DTypeUsageSet::only(DTypeUsage::Storage),
            _ => DTypeUsage::general(),
        }
    }
}

// Burn reads the tensors one after another.
impl<F: FloatElement, I: IntElement> TransactionOps<Self> for Overcommit<F, I> {}

impl<F: FloatElement, I: IntElement> ActivationOps<Self> for Overcommit<F, I> {
    face::activation_ops!();
}

impl<F: FloatElement, I: IntElement> FloatTensorOps<Self> for Overcommit<F, I> {
    face::float_ops!();

    forward! {
        float_device(x: &Tensor) -> Device = x.device();
        float_scatter_add(axis: usize, x: Tensor, indices: Tensor, value: Tensor) -> Tensor =
            index::scatter(axis, x, indices, value, Update::Add);
        float_select_add(x: Tensor, axis: usize, indices: Tensor, value: Tensor) -> Tensor =
            index::select_update(x, axis, indices, value, Update::Add);
    }
}

impl<F: FloatElement, I: IntElement> IntTensorOps<Self> for Overcommit<F, I> {
    face::int_ops!();

    forward! {
        int_device(x: &Tensor) -> Device = x.device();
        int_scatter_add(axis: usize, x: Tensor, indices: Tensor, value: Tensor) -> Tensor =
            index::scatter(axis, x, indices, value, Update::Add);
        int_select_add(x: Tensor, axis: usize, indices: Tensor, value: Tensor) -> Tensor =
            index::select_update(x, axis, indices, value, Update::Add);
    }
}

impl<F: FloatElement, I: IntElement> BoolTensorOps<Self> for Overcommit<F, I> {
    face::bool_ops!();

    forward! {
        bool_device(x: &Tensor) -> Device = x.device();
        bool_scatter_or(axis: usize, x: Tensor, indices: Tensor, value: Tensor) -> Tensor =
            index::scatter(axis, x, indices, value, Update::Add);
        bool_select_or(x: Tensor, axis: usize, indices: Tensor, value: Tensor) -> Tensor =
            index::select_update(x, axis, indices, value, Update::Add);
    }
}

impl<F: FloatElement, I: IntElement> ModuleOps<Self> for Overcommit<F, I> {
    face::module_ops!();

    forward! {
        avg_pool2d(x: Tensor, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], include: bool, ceil: bool) -> Tensor =
            avg_pool2d(x, avg_window(kernel, stride, padding, include, ceil));
        avg_pool2d_backward(x: Tensor, grad: Tensor, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], include: bool, ceil: bool) -> Tensor =
            avg_pool2d_backward(x, grad, avg_window(kernel, stride, padding, include, ceil));
        max_pool2d(x: Tensor, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2], ceil: bool) -> Tensor =
            max_pool2d(x, max_window(kernel, stride, padding, dilation, ceil));
        max_pool2d_with_indices_backward(x: Tensor, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2], ceil: bool, grad: Tensor, indices: Tensor) -> MaxPool2dBackward<Self> =
            max_pool2d_backward(x, grad, indices, max_window(kernel, stride, padding, dilation, ceil));
        max_pool2d_with_indices(x: Tensor, kernel: [usize; 2], stride: [usize; 2], padding: [usize; 2], dilation: [usize; 2], ceil: bool) -> MaxPool2dWithIndices<Self> = {
            let dtype = get_device_settings::<Self>(&x.device()).int_dtype.into_core();
            max_pool2d_with_indices(x, max_window(kernel, stride, padding, dilation, ceil), dtype)
        };
        rfft(signal: Tensor, axis: usize, length: Option<usize>) -> (Tensor, Tensor) = fourier::real(signal, axis, length);
        irfft(real: Tensor, imaginary: Tensor, axis: usize, length: Option<usize>) -> Tensor =
            fourier::inverse_real(real, imaginary, axis, length);
    }
}
