use super::Tensor;
use crate::backend::{FloatElement, IntElement, Overcommit, pointwise::*};
use crate::op::{Binary, Unary};
use burn_backend::ops::ActivationOps;

impl<F: FloatElement, I: IntElement> ActivationOps<Self> for Overcommit<F, I> {
    forward! {
        relu(x: Tensor) -> Tensor = unary(Unary::Relu, x);
        relu_backward(output: Tensor, grad: Tensor) -> Tensor = binary(Binary::ReluBackward, output, grad);
        gelu_backward(x: Tensor, grad: Tensor) -> Tensor = gelu_backward(x, grad);
        sigmoid(x: Tensor) -> Tensor = unary(Unary::Sigmoid, x);
        sigmoid_backward(output: Tensor, grad: Tensor) -> Tensor = sigmoid_backward(output, grad);
    }
}
