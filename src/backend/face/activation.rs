use super::Tensor;
use crate::backend::{FloatElement, IntElement, Overcommit, norm, pointwise::*};
use crate::op::{Binary, Softmax, Unary};
use burn_backend::Scalar;
use burn_backend::ops::ActivationOps;

impl<F: FloatElement, I: IntElement> ActivationOps<Self> for Overcommit<F, I> {
    forward! {
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
}
