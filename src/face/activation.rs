/// The methods of `ActivationOps` that are the same in every version of Burn that has a face.
#[doc(hidden)]
#[macro_export]
macro_rules! face_activation_ops {
    () => {
        $crate::face_forward! {
            relu(x: Tensor) -> Tensor = unary(Unary::Relu, x);
            relu_backward(output: Tensor, grad: Tensor) -> Tensor = binary(Binary::ReluBackward, output, grad);
            gelu(x: Tensor) -> Tensor = unary(Unary::Gelu, x);
            gelu_backward(x: Tensor, grad: Tensor) -> Tensor = binary(Binary::GeluBackward, x, grad);
            sigmoid(x: Tensor) -> Tensor = unary(Unary::Sigmoid, x);
            sigmoid_backward(output: Tensor, grad: Tensor) -> Tensor = binary(Binary::SigmoidBackward, output, grad);
            log_sigmoid(x: Tensor) -> Tensor = unary(Unary::LogSigmoid, x);
            log_sigmoid_backward(x: Tensor, grad: Tensor) -> Tensor = binary(Binary::LogSigmoidBackward, x, grad);
            leaky_relu(x: Tensor, slope: Scalar) -> Tensor = scalar(Binary::LeakyRelu, x, slope);
            prelu(x: Tensor, slopes: Tensor) -> Tensor = binary(Binary::LeakyRelu, x, slopes);
            softmax(x: Tensor, axis: usize) -> Tensor = norm::softmax(Softmax::Plain, x, axis);
            log_softmax(x: Tensor, axis: usize) -> Tensor = norm::softmax(Softmax::Log, x, axis);
        }
    };
}
