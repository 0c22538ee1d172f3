/// The methods of `ModuleOps` that are the same in every version of Burn that has a face.
#[doc(hidden)]
#[macro_export]
macro_rules! face_module_ops {
    () => {
        $crate::face_forward! {
            linear(x: Tensor, weight: Tensor, bias: Option<Tensor>) -> Tensor = linear::linear(x, weight, bias);
            linear_x_backward(weight: Tensor, grad: Tensor) -> Tensor = linear::linear_x_backward(weight, grad);
            linear_weight_backward(x: Tensor, grad: Tensor) -> Tensor = linear::linear_weight_backward(x, grad);
            linear_bias_backward(grad: Tensor) -> Tensor = linear::linear_bias_backward(grad);
            attention(query: Tensor, key: Tensor, value: Tensor, mask: Option<Tensor>, bias: Option<Tensor>, options: AttentionModuleOptions) -> Tensor =
                attention::attention(query, key, value, mask, bias, options);
            layer_norm(x: Tensor, gamma: Tensor, beta: Option<Tensor>, epsilon: f64) -> Tensor = norm::layer_norm(x, gamma, beta, epsilon);
        }

        $crate::face_forward! {
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

        $crate::face_forward! {
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

        $crate::face_forward! {
            adaptive_avg_pool2d(x: Tensor, size: [usize; 2]) -> Tensor = adaptive_avg_pool2d(x, size);
            adaptive_avg_pool2d_backward(x: Tensor, grad: Tensor) -> Tensor = adaptive_avg_pool2d_backward(x, grad);
        }

        $crate::face_forward! {
            deform_conv2d(x: Tensor, offset: Tensor, weight: Tensor, mask: Option<Tensor>, bias: Option<Tensor>, options: DeformConvOptions<2>) -> Tensor =
                vision::deform_conv2d(Deformed { x, offset, weight, mask }, bias, options);
            deform_conv2d_backward(x: Tensor, offset: Tensor, weight: Tensor, mask: Option<Tensor>, bias: Option<Tensor>, grad: Tensor, options: DeformConvOptions<2>) -> DeformConv2dBackward<Self> =
                vision::deform_conv2d_backward(Deformed { x, offset, weight, mask }, bias.is_some(), grad, options);
            interpolate(x: Tensor, size: [usize; 2], options: InterpolateOptions) -> Tensor = vision::interpolate(x, size, options);
            interpolate_backward(x: Tensor, grad: Tensor, _size: [usize; 2], options: InterpolateOptions) -> Tensor =
                vision::interpolate_backward(x, grad, options);
            unfold4d(x: Tensor, kernel: [usize; 2], options: UnfoldOptions) -> Tensor = vision::unfold4d(x, kernel, options);
        }

        fn has_ctc_loss_backward() -> bool {
            true
        }

        $crate::face_forward! {
            ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: usize) -> Tensor =
                ctc::loss(Sequences { log_probs, targets, input_lengths, target_lengths }, blank);
            ctc_loss_backward(log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, grad: Tensor, blank: usize) -> Tensor =
                ctc::loss_backward(Sequences { log_probs, targets, input_lengths, target_lengths }, grad, blank);
        }
    };
}
