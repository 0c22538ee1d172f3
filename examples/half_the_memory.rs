//! The swap, a budget and `stats`: gradients in half of the memory that they need.
//!
//! `cargo run --release --example half_the_memory`

use burn::backend::Autodiff;
use burn::nn::{Linear, LinearConfig};
use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Tensor, activation};
use burn_overcommit::{Config, Error, Overcommit, OvercommitDevice, configure, stats};

type B = Autodiff<Overcommit>;

/// The gradient of the first of 24 layers.
fn first_gradient(device: &OvercommitDevice) -> Vec<f32> {
    B::seed(device, 1);
    let layers: Vec<Linear<B>> = (0..24).map(|_| LinearConfig::new(256, 256).init(device)).collect();
    let x = Tensor::<B, 2>::random([1024, 256], Distribution::Default, device);
    let y = layers.iter().fold(x, |x, layer| activation::gelu(layer.forward(x)));
    let gradients = y.sum().backward();
    layers[0].weight.grad(&gradients).expect("it is a parameter").into_data().to_vec().expect("f32")
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    let device = OvercommitDevice::default();
    let unlimited = first_gradient(&device);
    let need_bytes = stats(&device)?.peak_allocated_bytes;

    configure(&device, Config::new().budget_bytes(need_bytes / 2))?;
    assert_eq!(first_gradient(&device), unlimited, "the same bits");
    println!("{}", stats(&device)?);
    Ok(())
}
