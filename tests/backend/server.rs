//! Burn's router, which its server is built on, runs the backend.

use burn::backend::{Autodiff, Flex};
use burn::nn::{Linear, LinearConfig, loss::CrossEntropyLossConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::{Distribution, Int, Tensor, activation};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, reset_stats, stats};
use burn_router::{Router, duo::MultiDevice};

type Routed = Router<(Overcommit, Flex)>;

/// The loss of each step, in a program with floats, integers and masks.
fn losses<B: AutodiffBackend>(device: &B::Device) -> Vec<u32> {
    B::seed(device, 1);
    let mut layers: Vec<Linear<B>> = (0..6).map(|_| LinearConfig::new(64, 64).init(device)).collect();
    let mut optimizer = AdamConfig::new().init();
    let steps = (0..6).map(|_| {
        let x = Tensor::<B, 2>::random([96, 64], Distribution::Default, device);
        let labels = Tensor::<B, 1, Int>::arange(0..96, device) % 64;
        let kept = x.clone().greater_elem(0.1);
        let x = x.clone().mask_where(kept.bool_not(), x * 2);
        let y = layers.iter().fold(x, |x, layer| activation::gelu(layer.forward(x)));
        let loss = CrossEntropyLossConfig::new().init(device).forward(y, labels);
        let gradients = GradientsParams::from_grads(loss.backward(), &layers);
        layers = optimizer.step(1e-2, std::mem::take(&mut layers), gradients);
        loss.into_data().to_vec::<f32>().expect("f32")[0].to_bits()
    });
    steps.collect()
}

/// The router takes some of Burn's calls apart that the backend has as one op, so values differ from a direct run by rounding.
#[test]
fn a_routed_program_has_the_same_bits_in_half_of_its_memory() {
    let device = OvercommitDevice::Host(600);
    let direct = losses::<Autodiff<Overcommit>>(&device);
    reset_stats(&device).unwrap();
    let routed = || losses::<Autodiff<Routed>>(&MultiDevice::B1(device));
    let unlimited = routed();
    for (direct, routed) in direct.iter().zip(&unlimited) {
        let [direct, routed] = [direct, routed].map(|bits| f32::from_bits(*bits));
        assert!((direct - routed).abs() < 1e-3 * direct.abs(), "{direct} and {routed}");
    }
    let budget_bytes = stats(&device).unwrap().peak_allocated_bytes / 2;
    configure(&device, Config::new().budget_bytes(budget_bytes)).unwrap();
    assert_eq!(routed(), unlimited);
    assert!(stats(&device).unwrap().peak_allocated_bytes <= budget_bytes);
}
