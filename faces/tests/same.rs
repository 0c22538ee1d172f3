//! What functions give on this crate's devices and on Burn's own.

use burn::tensor::{Device, Tensor, TensorData, Tolerance};

use crate::face::{Config, OvercommitDevice, device_on};

/// Numbers that look random, each another.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at as f32 * 0.754_877_7 + 0.31).fract() * 4.0 - 2.0).collect()
}

pub fn made<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(numbers(shape.iter().product()), shape), device)
}

/// What a function gives on both devices, and the gradient of its input for a loss that weighs every output otherwise.
pub fn same<const D: usize, const E: usize>(shape: [usize; D], function: impl Fn(Tensor<D>) -> Tensor<E>) {
    let ours = device_on(OvercommitDevice::Host(40), Config::new().budget_bytes(64 << 20)).unwrap();
    let [ours, burns] = [ours, Device::flex()].map(|device| {
        let x = made(shape, &device.autodiff()).require_grad();
        let made_of_x = function(x.clone());
        let weights = made(made_of_x.dims(), &made_of_x.device());
        let gradients = (made_of_x.clone() * weights).sum().backward();
        [made_of_x.into_data(), x.grad(&gradients).unwrap().into_data()]
    });
    for (ours, burns) in ours.iter().zip(&burns) {
        assert_eq!(ours.shape(), burns.shape());
        ours.assert_approx_eq::<f32>(burns, Tolerance::absolute(1e-4));
    }
}
