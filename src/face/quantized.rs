/// The methods of `QTensorOps` that are the same in every version of Burn that has a face.
#[doc(hidden)]
#[macro_export]
macro_rules! face_quantized_ops {
    () => {
        $crate::face_forward! {
            dequantize(x: Quantized, dtype: FloatDType) -> Tensor = x.dequantized(dtype);
            q_to_device(x: Quantized, device: &Device) -> Quantized = x.on_device(device);
            // Blocks consist of elements in row-major order, which does not change.
            q_reshape(x: Quantized, shape: Shape) -> Quantized = x.with_values(|x| view::reshape(x, shape));
            q_expand(x: Quantized, shape: Shape) -> Quantized = moved::<Self>(x, |x| view::expand(x, shape));
            q_swap_dims(x: Quantized, first: usize, second: usize) -> Quantized =
                moved::<Self>(x, |x| view::swap_dims(x, first, second));
            q_permute(x: Quantized, axes: &[usize]) -> Quantized = moved::<Self>(x, |x| view::permute(x, axes));
            q_flip(x: Quantized, axes: &[usize]) -> Quantized = moved::<Self>(x, |x| view::flip(x, axes));
            q_select(x: Quantized, axis: usize, indices: Tensor) -> Quantized =
                moved::<Self>(x, |x| index::select(x, axis, indices));
            q_gather(axis: usize, x: Quantized, indices: Tensor) -> Quantized =
                moved::<Self>(x, |x| index::gather(axis, x, indices));
            q_slice(x: Quantized, slices: &[Slice]) -> Quantized = moved::<Self>(x, |x| view::slice(x, &slices));
        }
    };
}
