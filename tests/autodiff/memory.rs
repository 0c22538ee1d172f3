//! What is held for the backward pass.

use burn::backend::Autodiff;
use burn::tensor::Tensor;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, stats};

use super::cases::cases;

type B = Autodiff<Overcommit>;

/// Bytes allocated beside leaves and output once a forward pass is over, in multiples of the first input, which nobody
/// else holds.
fn held(
    function: fn(Vec<Tensor<B, 1>>) -> Tensor<B, 1>,
    lengths: &[usize],
    device: &OvercommitDevice,
) -> f64 {
    let leaf = |&length: &usize| Tensor::<B, 1>::ones([length], device).require_grad();
    let leaves: Vec<_> = lengths.iter().map(leaf).collect();
    let before = stats(device).unwrap().allocated_bytes;
    // Adding saves nothing, so that the inputs are no leaves and whoever saves them counts.
    let out = function(leaves.iter().map(|leaf| leaf.clone().add_scalar(1.0)).collect());
    let after = stats(device).unwrap().allocated_bytes;
    let gradients = out.clone().sum().backward();
    assert!(leaves.iter().all(|leaf| leaf.grad(&gradients).is_some()));
    let output = out.dims()[0] * size_of::<f32>();
    (after - before - output) as f64 / (lengths[0] * size_of::<f32>()) as f64
}

#[test]
fn less_than_burn_holds() {
    let device = OvercommitDevice::Host(410);
    // So that all that is kept is stored.
    configure(&device, Config::new().fusion(false)).unwrap();
    for case in cases::<B>(2000) {
        let [ours, burns] = [case.ours, case.burns].map(|function| held(function, &case.inputs, &device));
        println!("{}: {ours:.2}, Burn {burns:.2}", case.name);
        assert!(ours <= case.held[0] + 0.05, "{}: {ours} inputs are held", case.name);
        assert!(burns >= case.held[1], "{}: Burn holds {burns} inputs, less than thought", case.name);
        assert!(ours < burns, "{}: {ours}, and Burn {burns}", case.name);
    }
}
