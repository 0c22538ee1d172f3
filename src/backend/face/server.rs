//! What Burn's server and router need of a backend: tensors of all kinds as handles of one type.

use crate::backend::{FloatElement, IntElement, Overcommit, fail};
use burn_backend::tensor::{BoolTensor, FloatTensor, IntTensor, QuantizedTensor};
use burn_ir::{BackendIr, HandleKind, TensorHandle};

/// The tensor in a handle of the named kind. A program that asks for another kind is refused.
macro_rules! tensor {
    ($handle:expr, $kind:ident) => {
        match $handle.handle {
            HandleKind::$kind(tensor) => tensor,
            other => fail(format_args!(
                "a tensor of kind {} was sent as one of kind {}",
                other.name(),
                stringify!($kind)
            )),
        }
    };
}

impl<F: FloatElement, I: IntElement> BackendIr for Overcommit<F, I> {
    type Handle = HandleKind<Self>;

    forward! {
        float_tensor(handle: TensorHandle<Self::Handle>) -> FloatTensor<Self> = tensor!(handle, Float);
        int_tensor(handle: TensorHandle<Self::Handle>) -> IntTensor<Self> = tensor!(handle, Int);
        bool_tensor(handle: TensorHandle<Self::Handle>) -> BoolTensor<Self> = tensor!(handle, Bool);
        quantized_tensor(handle: TensorHandle<Self::Handle>) -> QuantizedTensor<Self> = tensor!(handle, Quantized);
        float_tensor_handle(tensor: FloatTensor<Self>) -> Self::Handle = HandleKind::Float(tensor);
        int_tensor_handle(tensor: IntTensor<Self>) -> Self::Handle = HandleKind::Int(tensor);
        bool_tensor_handle(tensor: BoolTensor<Self>) -> Self::Handle = HandleKind::Bool(tensor);
        quantized_tensor_handle(tensor: QuantizedTensor<Self>) -> Self::Handle = HandleKind::Quantized(tensor);
    }
}
