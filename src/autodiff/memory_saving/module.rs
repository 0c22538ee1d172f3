use burn_backend::get_device_settings;
use burn_backend::ops::{
    ActivationOps, AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConv2dBackward,
    DeformConvOptions, InterpolateOptions, MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps,
};

use super::cost::activation;
use super::{Balanced, MemorySaving, Plain, Unremade};
use crate::autodiff::formulas::{MaxPool, Resized};
use crate::autodiff::step::{Tracked as Float, apply, apply_made};
use crate::autodiff::{AttentionInput, SavesLess};
use crate::backend::{FloatElement, IntElement, IntoCore, Overcommit};
use crate::functions::{arguments, module};
use crate::op::{Norm, Pool2d, Softmax, Unary};
use crate::runtime::Tensor;

/// Two numbers, vertical and horizontal.
type Pair = [usize; 2];

impl<F: FloatElement, I: IntElement> ActivationOps<Self> for MemorySaving<Overcommit<F, I>> {
    strategic! { reads, ActivationOps;
        [x] (x: Float<F, I>) -> Float<F, I>: gelu log_sigmoid;
    }

    fn relu(tensor: Float<F, I>) -> Float<F, I> {
        activation::<F, I>(Unary::Relu, tensor, Balanced::<F, I>::relu)
    }

    fn sigmoid(tensor: Float<F, I>) -> Float<F, I> {
        activation::<F, I>(Unary::Sigmoid, tensor, Balanced::<F, I>::sigmoid)
    }

    fn softmax(tensor: Float<F, I>, axis: usize) -> Float<F, I> {
        Self::normalised(Softmax::Plain, tensor, axis)
    }

    fn log_softmax(tensor: Float<F, I>, axis: usize) -> Float<F, I> {
        Self::normalised(Softmax::Log, tensor, axis)
    }
}

impl<F: FloatElement, I: IntElement> ModuleOps<Self> for MemorySaving<Overcommit<F, I>> {
    strategic! { costs_products, ModuleOps;
        [x, weight] (x: Float<F, I>, weight: Float<F, I>, bias: Option<Float<F, I>>) -> Float<F, I>: linear;
        [x, weight] (x: Float<F, I>, weight: Float<F, I>, bias: Option<Float<F, I>>, options: ConvOptions<1>) -> Float<F, I>: conv1d;
        [x, weight] (x: Float<F, I>, weight: Float<F, I>, bias: Option<Float<F, I>>, options: ConvOptions<2>) -> Float<F, I>: conv2d;
        [x, weight] (x: Float<F, I>, weight: Float<F, I>, bias: Option<Float<F, I>>, options: ConvOptions<3>) -> Float<F, I>: conv3d;
        [x, weight] (x: Float<F, I>, weight: Float<F, I>, bias: Option<Float<F, I>>, options: ConvTransposeOptions<1>) -> Float<F, I>:
            conv_transpose1d;
        [x, weight] (x: Float<F, I>, weight: Float<F, I>, bias: Option<Float<F, I>>, options: ConvTransposeOptions<2>) -> Float<F, I>:
            conv_transpose2d;
        [x, weight] (x: Float<F, I>, weight: Float<F, I>, bias: Option<Float<F, I>>, options: ConvTransposeOptions<3>) -> Float<F, I>:
            conv_transpose3d;
    }

    forward! { ModuleOps, Unremade<F, I>;
        (weights: Float<F, I>, indices: Tensor) -> Float<F, I>: embedding;
        (weights: Float<F, I>, output_grad: Float<F, I>, indices: Tensor) -> Float<F, I>: embedding_backward;
        (x: Float<F, I>, offset: Float<F, I>, weight: Float<F, I>, mask: Option<Float<F, I>>, bias: Option<Float<F, I>>, options: DeformConvOptions<2>) -> Float<F, I>:
            deform_conv2d;
        (x: Float<F, I>, grad: Float<F, I>, kernel_size: Pair, stride: Pair, padding: Pair, count_include_pad: bool, ceil_mode: bool) -> Float<F, I>:
            avg_pool2d_backward;
        (x: Float<F, I>, grad: Float<F, I>) -> Float<F, I>: adaptive_avg_pool2d_backward;
        (x: Float<F, I>, grad: Float<F, I>, output_size: Pair, options: InterpolateOptions) -> Float<F, I>:
            interpolate_backward;
        (log_probs: Float<F, I>, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: usize) -> Float<F, I>:
            ctc_loss;
        (signal: Float<F, I>, dim: usize, n: Option<usize>) -> (Float<F, I>, Float<F, I>): rfft;
        (spectrum_re: Float<F, I>, spectrum_im: Float<F, I>, dim: usize, n: Option<usize>) -> Float<F, I>: irfft;
    }

    fn attention(
        query: Float<F, I>,
        key: Float<F, I>,
        value: Float<F, I>,
        mask: Option<Tensor>,
        bias: Option<Float<F, I>>,
        options: AttentionModuleOptions,
    ) -> Float<F, I> {
        Self::attended(AttentionInput { query, key, value, mask, bias, options, dropout: None })
    }

    fn layer_norm(
        tensor: Float<F, I>,
        gamma: Float<F, I>,
        beta: Option<Float<F, I>>,
        epsilon: f64,
    ) -> Float<F, I> {
        Self::row_norm(Norm::Layer, tensor, gamma, beta, epsilon)
    }

    fn avg_pool2d(
        x: Float<F, I>,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> Float<F, I> {
        let pool = Pool2d { kernel, stride, padding, dilation: [1, 1], ceil_mode, count_include_pad };
        resized::<F, I>(x, |size| Resized::Average { pool, size })
    }

    fn adaptive_avg_pool2d(x: Float<F, I>, to: Pair) -> Float<F, I> {
        resized::<F, I>(x, |size| Resized::Adaptive { to, size })
    }

    fn interpolate(x: Float<F, I>, to: Pair, options: InterpolateOptions) -> Float<F, I> {
        resized::<F, I>(x, |size| Resized::Interpolated { to, size, resize: options.into_core() })
    }

    fn max_pool2d(
        x: Float<F, I>,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        ceil_mode: bool,
    ) -> Float<F, I> {
        Self::max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil_mode).output
    }

    fn max_pool2d_with_indices(
        x: Float<F, I>,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        ceil_mode: bool,
    ) -> MaxPool2dWithIndices<Self> {
        let pool = Pool2d { kernel, stride, padding, dilation, ceil_mode, count_include_pad: false };
        let dtype = get_device_settings::<Overcommit<F, I>>(&x.primitive.device()).int_dtype;
        let size = arguments::plane(x.primitive.layout());
        let [made, indices] = module::max_pool2d_with_indices(x.primitive.clone(), pool, dtype.into_core());
        let formula = MaxPool { pool, size, indices: indices.clone() };
        MaxPool2dWithIndices::new(apply_made::<F, I, Plain, _, 1>(formula, [x], made), indices)
    }

    fn max_pool2d_with_indices_backward(
        x: Float<F, I>,
        kernel: Pair,
        stride: Pair,
        padding: Pair,
        dilation: Pair,
        ceil_mode: bool,
        gradient: Float<F, I>,
        indices: Tensor,
    ) -> MaxPool2dBackward<Self> {
        let of_x = Unremade::<F, I>::max_pool2d_with_indices_backward(
            x, kernel, stride, padding, dilation, ceil_mode, gradient, indices,
        );
        MaxPool2dBackward::new(of_x.x_grad)
    }

    fn deform_conv2d_backward(
        x: Float<F, I>,
        offset: Float<F, I>,
        weight: Float<F, I>,
        mask: Option<Float<F, I>>,
        bias: Option<Float<F, I>>,
        gradient: Float<F, I>,
        options: DeformConvOptions<2>,
    ) -> DeformConv2dBackward<Self> {
        let of = Unremade::<F, I>::deform_conv2d_backward(x, offset, weight, mask, bias, gradient, options);
        DeformConv2dBackward::new(of.x_grad, of.offset_grad, of.weight_grad, of.mask_grad, of.bias_grad)
    }
}

/// An image of another size, by a formula that depends on the size it had.
fn resized<F: FloatElement, I: IntElement>(x: Float<F, I>, how: impl FnOnce(Pair) -> Resized) -> Float<F, I> {
    let size = arguments::plane(x.primitive.layout());
    apply::<F, I, Plain, _, 1>(how(size), [x])
}
