//! Activations and their backward ops.

use crate::case::{EACH, Fill::*, ROWS};

cases! {
    {float} relu(x: own(Any, EACH));
    {float} relu_backward(y: own(Any, EACH), grad: own(Any, EACH));
    {float} leaky_relu(x: own(Any, EACH)) => leaky_relu(x, 0.1.into());
    {float} prelu(x: own(Any, EACH), alpha: own(Any, EACH));
    {float} gelu(x: own(Any, EACH));
    {float} gelu_backward(x: own(Any, EACH), grad: own(Any, EACH));
    {float} sigmoid(x: own(Wide, EACH));
    {float} sigmoid_backward(y: own(Unit, EACH), grad: own(Any, EACH));
    {float} hard_sigmoid(x: own(Wide, EACH)) => hard_sigmoid(x, 0.2.into(), 0.5.into());
    {float} log_sigmoid(x: own(Wide, EACH));
    {float} log_sigmoid_backward(x: own(Wide, EACH), grad: own(Any, EACH));
    {float} softmax(x: own(Wide, ROWS); axis) => softmax(x, axis);
    {float} log_softmax(x: own(Wide, ROWS); axis) => log_softmax(x, axis);
    {float} softmin(x: own(Wide, ROWS); axis) => softmin(x, axis);
}
