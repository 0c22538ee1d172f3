use super::Tensor;
use crate::backend::ctc::{self, Sequences};
use crate::backend::vision::{self, Deformed};
use crate::backend::{FloatElement, IntElement, Overcommit, attention, fourier, linear, module::*, norm};
use crate::op::Pool2d;
use burn_backend::get_device_settings;
use burn_backend::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConv2dBackward, DeformConvOptions,
    InterpolateOptions, MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps, UnfoldOptions,
};

/// Two numbers, vertical and horizontal.
type Pair = [usize; 2];

fn max_window(kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil_mode: bool) -> Pool2d {
    Pool2d { kernel, stride, padding, dilation, ceil_mode, count_include_pad: false }
}

fn avg_window(kernel: Pair, stride: Pair, padding: Pair, count_include_pad: bool, ceil_mode: bool) -> Pool2d {
    Pool2d { kernel, stride, padding, dilation: [1, 1], ceil_mode, count_include_pad }
}

impl<F: FloatElement, I: IntElement> ModuleOps<Self> for Overcommit<F, I> {
    forward! {
        linear(x: Tensor, weight: Tensor, bias: Option<Tensor>) -> Tensor = linear::linear(x, weight, bias);
        linear_x_backward(weight: Tensor, grad: Tensor) -> Tensor = linear::linear_x_backward(weight, grad);
        linear_weight_backward(x: Tensor, grad: Tensor) -> Tensor = linear::linear_weight_backward(x, grad);
        linear_bias_backward(grad: Tensor) -> Tensor = linear::linear_bias_backward(grad);
        attention(query: Tensor, key: Tensor, value: Tensor, mask: Option<Tensor>, bias: Option<Tensor>, options: AttentionModuleOptions) -> Tensor =
            attention::attention(query, key, value, mask, bias, options);
        layer_norm(x: Tensor, gamma: Tensor, beta: Option<Tensor>, epsilon: f64) -> Tensor = norm::layer_norm(x, gamma, beta, epsilon);
    }

    forward! {
        conv1d(x: Tensor, weight: Tensor, bias: Option<Tensor>, options: ConvOptions<1>) -> Tensor =
            conv(x, weight, bias, options);
        conv1d_x_backward(x: Tensor, weight: Tensor, grad: Tensor, options: ConvOptions<1>) -> Tensor =
            conv_x_backward(x, weight, grad, options);
        conv1d_weight_backward(x: Tensor, weight: Tensor, grad: Tensor, options: ConvOptions<1>) -> Tensor =
            conv_weight_backward(x, weight, grad, options);
        conv1d_bias_backward(_x: Tensor, _bias: Tensor, grad: Tensor) -> Tensor = conv_bias_backward(grad);
        conv2d(x: Tensor, weight: Tensor, bias: Option<Tensor>, options: ConvOptions<2>) -> Tensor =
            conv(x, weight, bias, options);
        conv2d_x_backward(x: Tensor, weight: Tensor, grad: Tensor, options: ConvOptions<2>) -> Tensor =
            conv_x_backward(x, weight, grad, options);
        conv2d_weight_backward(x: Tensor, weight: Tensor, grad: Tensor, options: ConvOptions<2>) -> Tensor =
            conv_weight_backward(x, weight, grad, options);
        conv2d_bias_backward(_x: Tensor, _bias: Tensor, grad: Tensor) -> Tensor = conv_bias_backward(grad);
        conv3d(x: Tensor, weight: Tensor, bias: Option<Tensor>, options: ConvOptions<3>) -> Tensor =
            conv(x, weight, bias, options);
        conv3d_x_backward(x: Tensor, weight: Tensor, grad: Tensor, options: ConvOptions<3>) -> Tensor =
            conv_x_backward(x, weight, grad, options);
        conv3d_weight_backward(x: Tensor, weight: Tensor, grad: Tensor, options: ConvOptions<3>) -> Tensor =
            conv_weight_backward(x, weight, grad, options);
        conv3d_bias_backward(_x: Tensor, _bias: Tensor, grad: Tensor) -> Tensor = conv_bias_backward(grad);
    }

    forward! {
        conv_transpose1d(x: Tensor, weight: Tensor, bias: Option<Tensor>, options: ConvTransposeOptions<1>) -> Tensor =
            conv_transpose(x, weight, bias, options);
        conv_transpose1d_x_backward(weight: Tensor, grad: Tensor, options: ConvTransposeOptions<1>) -> Tensor =
            conv_transpose_x_backward(weight, grad, options);
        conv_transpose1d_weight_backward(x: Tensor, weight: Tensor, grad: Tensor, options: ConvTransposeOptions<1>) -> Tensor =
            conv_transpose_weight_backward(x, weight, grad, options);
        conv_transpose1d_bias_backward(_x: Tensor, _bias: Tensor, grad: Tensor) -> Tensor = conv_bias_backward(grad);
        conv_transpose2d(x: Tensor, weight: Tensor, bias: Option<Tensor>, options: ConvTransposeOptions<2>) -> Tensor =
            conv_transpose(x, weight, bias, options);
        conv_transpose2d_x_backward(weight: Tensor, grad: Tensor, options: ConvTransposeOptions<2>) -> Tensor =
            conv_transpose_x_backward(weight, grad, options);
        conv_transpose2d_weight_backward(x: Tensor, weight: Tensor, grad: Tensor, options: ConvTransposeOptions<2>) -> Tensor =
            conv_transpose_weight_backward(x, weight, grad, options);
        conv_transpose2d_bias_backward(_x: Tensor, _bias: Tensor, grad: Tensor) -> Tensor = conv_bias_backward(grad);
        conv_transpose3d(x: Tensor, weight: Tensor, bias: Option<Tensor>, options: ConvTransposeOptions<3>) -> Tensor =
            conv_transpose(x, weight, bias, options);
        conv_transpose3d_x_backward(weight: Tensor, grad: Tensor, options: ConvTransposeOptions<3>) -> Tensor =
            conv_transpose_x_backward(weight, grad, options);
        conv_transpose3d_weight_backward(x: Tensor, weight: Tensor, grad: Tensor, options: ConvTransposeOptions<3>) -> Tensor =
            conv_transpose_weight_backward(x, weight, grad, options);
        conv_transpose3d_bias_backward(_x: Tensor, _bias: Tensor, grad: Tensor) -> Tensor = conv_bias_backward(grad);
    }

    forward! {
        avg_pool2d(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, include: bool, ceil: bool) -> Tensor =
            avg_pool2d(x, avg_window(kernel, stride, padding, include, ceil));
        avg_pool2d_backward(x: Tensor, grad: Tensor, kernel: Pair, stride: Pair, padding: Pair, include: bool, ceil: bool) -> Tensor =
            avg_pool2d_backward(x, grad, avg_window(kernel, stride, padding, include, ceil));
        adaptive_avg_pool2d(x: Tensor, size: Pair) -> Tensor = adaptive_avg_pool2d(x, size);
        adaptive_avg_pool2d_backward(x: Tensor, grad: Tensor) -> Tensor = adaptive_avg_pool2d_backward(x, grad);
        max_pool2d(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil: bool) -> Tensor =
            max_pool2d(x, max_window(kernel, stride, padding, dilation, ceil));
        max_pool2d_with_indices(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil: bool) -> MaxPool2dWithIndices<Self> = {
            let dtype = get_device_settings::<Self>(&x.device()).int_dtype;
            let pool = max_window(kernel, stride, padding, dilation, ceil);
            let [output, indices] = max_pool2d_with_indices(x, pool, dtype);
            MaxPool2dWithIndices::new(output, indices)
        };
        max_pool2d_with_indices_backward(x: Tensor, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair, ceil: bool, grad: Tensor, indices: Tensor) -> MaxPool2dBackward<Self> =
            MaxPool2dBackward::new(max_pool2d_backward(x, grad, indices, max_window(kernel, stride, padding, dilation, ceil)));
    }

    forward! {
        deform_conv2d(x: Tensor, offset: Tensor, weight: Tensor, mask: Option<Tensor>, bias: Option<Tensor>, options: DeformConvOptions<2>) -> Tensor =
            vision::deform_conv2d(Deformed { x, offset, weight, mask }, bias, options);
        deform_conv2d_backward(x: Tensor, offset: Tensor, weight: Tensor, mask: Option<Tensor>, bias: Option<Tensor>, grad: Tensor, options: DeformConvOptions<2>) -> DeformConv2dBackward<Self> = {
            let bias = bias.map(|_| conv_bias_backward(grad.clone()));
            let of = vision::deform_conv2d_backward(Deformed { x, offset, weight, mask }, grad, options);
            DeformConv2dBackward::new(of.x, of.offset, of.weight, of.mask, bias)
        };
        interpolate(x: Tensor, size: Pair, options: InterpolateOptions) -> Tensor = vision::interpolate(x, size, options.into());
        interpolate_backward(x: Tensor, grad: Tensor, _size: Pair, options: InterpolateOptions) -> Tensor =
            vision::interpolate_backward(x, grad, options.into());
        unfold4d(x: Tensor, kernel: Pair, options: UnfoldOptions) -> Tensor = vision::unfold4d(x, kernel, options);
    }

    fn has_ctc_loss_backward() -> bool {
        true
    }

    forward! {
        ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: usize) -> Tensor =
            ctc::loss(Sequences { log_probs, targets, input_lengths, target_lengths }, blank);
        ctc_loss_backward(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, grad: Tensor, blank: usize) -> Tensor =
            ctc::loss_backward(Sequences { log_probs, targets, input_lengths, target_lengths }, grad, blank);
        rfft(signal: Tensor, axis: usize, length: Option<usize>) -> (Tensor, Tensor) = fourier::real(signal, axis, length);
        irfft(real: Tensor, imaginary: Tensor, axis: usize, length: Option<usize>) -> Tensor =
            fourier::inverse_real(real, imaginary, axis, length);
    }
}
