//! A program that trains in half of the memory it needs, and takes the same decisions each time.

use burn::backend::Autodiff;
use burn::tensor::Tensor;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Planning, configure};

pub type B = Autodiff<Overcommit>;

pub const WIDTH: usize = 128;
pub const LAYERS: usize = 12;
pub const MATRIX_BYTES: usize = WIDTH * WIDTH * 4;

/// A device with memory for half of what [`train`] needs, where decisions depend on no times.
pub fn device(index: u16) -> OvercommitDevice {
    let device = OvercommitDevice::Host(index);
    let config = Config::new().budget_bytes(LAYERS * MATRIX_BYTES).planning(Planning::AtOnce);
    configure(&device, config).unwrap();
    device
}

pub fn train(device: &OvercommitDevice, iterations: usize, mut after: impl FnMut(usize)) {
    let weights: Vec<_> =
        (0..LAYERS).map(|_| Tensor::<B, 2>::ones([WIDTH, WIDTH], device).require_grad()).collect();
    for iteration in 0..iterations {
        let x = Tensor::<B, 2>::ones([WIDTH, WIDTH], device);
        let y = weights.iter().fold(x, |x, weight| x.matmul(weight.clone()).tanh());
        let gradients = y.sum().backward();
        for weight in &weights {
            drop(weight.grad(&gradients).expect("it is tracked").sum());
        }
        after(iteration);
    }
}
