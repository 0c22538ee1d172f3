/// The methods of `BackendIr`, which are the same in every version of Burn that has a face: tensors of all kinds as handles of one
/// type. A program that asks for a tensor of another kind than the handle's is refused.
#[doc(hidden)]
#[macro_export]
macro_rules! face_ir_ops {
    () => {
        type Handle = HandleKind<Self>;

        $crate::face_ir_ops! {
            Float: float_tensor, float_tensor_handle, FloatTensor;
            Int: int_tensor, int_tensor_handle, IntTensor;
            Bool: bool_tensor, bool_tensor_handle, BoolTensor;
            Quantized: quantized_tensor, quantized_tensor_handle, QuantizedTensor;
        }
    };
    ($($kind:ident: $tensor:ident, $handle:ident, $type:ident;)*) => {
        $(#[track_caller]
        fn $tensor(handle: TensorHandle<Self::Handle>) -> $type<Self> {
            match handle.handle {
                HandleKind::$kind(tensor) => tensor,
                other => $crate::functions::fail(format_args!(
                    "a tensor of kind {} was sent as one of kind {}",
                    other.name(),
                    stringify!($kind)
                )),
            }
        }

        fn $handle(tensor: $type<Self>) -> Self::Handle {
            HandleKind::$kind(tensor)
        })*
    };
}
