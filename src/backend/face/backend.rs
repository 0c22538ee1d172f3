use super::{Device, Tensor};
use crate::backend::{FloatElement, IntElement, Overcommit, Quantized, create, ok};
use crate::runtime;
use burn_backend::{Backend, BackendTypes, DType, DTypeUsage, DTypeUsageSet, ExecutionError};

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
    forward! {
        name(device: &Device) -> String = format!("overcommit<{device}>");
        seed(device: &Device, seed: u64) -> () = ok(runtime::seed(device, seed));
        sync(device: &Device) -> Result<(), ExecutionError> = runtime::sync(device).map_err(create::execution_error);
        memory_cleanup(device: &Device) -> () = ok(runtime::cleanup(device));
        device_count(type_id: u16) -> usize = Device::count(type_id);
    }

    // Asked before `main` by Burn's test-suite, so it looks at no device.
    fn dtype_usage(_device: &Device, dtype: DType) -> DTypeUsageSet {
        match dtype {
            DType::QFloat(_) => DTypeUsageSet::only(DTypeUsage::Storage),
            _ => DTypeUsage::general(),
        }
    }
}
