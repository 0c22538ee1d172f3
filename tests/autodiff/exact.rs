//! The same bits whatever is forgotten: by Burn's strategies, or by the pool.

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, NoCheckpointing};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData, activation};
use burn_overcommit::autodiff::{self, SavesLess};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Policy, configure, stats};

use super::cases::cases;
use super::gradients::numbers;

fn tensor<B: Backend, const D: usize>(sizes: [usize; D], salt: usize, device: &B::Device) -> Tensor<B, D> {
    Tensor::from_data(TensorData::new(numbers(sizes.iter().product(), salt), sizes), device)
}

/// Every operation after another that saves, so that inputs have to be kept or remade.
fn bits<B: SavesLess + AutodiffBackend<Device = OvercommitDevice>>(
    device: &OvercommitDevice,
) -> Vec<Vec<u32>> {
    B::seed(device, 3);
    let leaves: Vec<Tensor<B, 1>> =
        (0..5).map(|salt| tensor::<B, 1>([64], salt, device).require_grad()).collect();
    let [gamma, beta, weight, scale, shift] = <[_; 5]>::try_from(leaves.clone()).unwrap();
    let mut x = tensor::<B, 2>([32, 64], 9, device) * weight.unsqueeze();
    for _ in 0..3 {
        x = autodiff::layer_norm(activation::gelu(x), gamma.clone(), Some(beta.clone()), 1e-5);
        x = autodiff::dropout(autodiff::rms_norm(x.clone().exp(), gamma.clone(), 1e-5) + x, 0.2);
        x = autodiff::batch_norm(activation::sigmoid(x), scale.clone(), shift.clone(), 1e-5).0;
    }
    let heads: Tensor<B, 4> = autodiff::softmax(x, 1).reshape([2, 16, 4, 16]).swap_dims(1, 2);
    let (key, value) = (heads.clone().tanh(), heads.clone().exp());
    let dropout = Some(autodiff::AttentionDropout::Scores(0.1));
    let found = autodiff::attention(heads, key, value, None, None, Default::default(), dropout);
    let out = autodiff::log_softmax(found.reshape([128, 16]) * 3.0, 1);
    let gradients = out.clone().square().mean().backward();
    let values = |data: TensorData| data.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect();
    let of_leaves = leaves.iter().map(|leaf| values(leaf.grad(&gradients).unwrap().into_data()));
    [values(out.into_data())].into_iter().chain(of_leaves).collect()
}

type None = Autodiff<Overcommit, NoCheckpointing>;
type Balanced = Autodiff<Overcommit, BalancedCheckpointing>;

#[test]
fn under_both_strategies_and_every_budget() {
    let expected = bits::<None>(&OvercommitDevice::Host(420));
    assert!(expected.iter().flatten().all(|&bits| f32::from_bits(bits).is_finite()));
    assert_eq!(bits::<Balanced>(&OvercommitDevice::Host(421)), expected);
    let needed = stats(&OvercommitDevice::Host(420)).unwrap();
    for (n, policy) in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()).enumerate() {
        for (m, balanced) in [false, true].into_iter().enumerate() {
            let device = OvercommitDevice::Host((1000 + 2 * n + m) as u16);
            let budget = (needed.smallest_budget_bytes * 5).div_ceil(4);
            configure(&device, Config::new().budget_bytes(budget).policy(policy)).unwrap();
            let found = if balanced { bits::<Balanced>(&device) } else { bits::<None>(&device) };
            assert!(found == expected, "{policy}, balanced: {balanced}");
            assert!(stats(&device).unwrap().counters.evictions > 0, "{policy}: the budget does not bind");
        }
    }
}

/// Each operation alone: what a memory-bound output is remade from is what it was made from.
#[test]
fn outputs_are_remade_bit_for_bit() {
    let device = OvercommitDevice::Host(422);
    let functions = cases::<Balanced>(2).into_iter().zip(cases::<None>(2));
    for (balanced, none) in functions {
        let balanced = remade::<Balanced>(balanced.ours, &none.inputs, &device);
        assert_eq!(balanced, remade::<None>(none.ours, &none.inputs, &device), "{}", none.name);
    }
}

/// The gradients where a following operation reads the output.
fn remade<B: AutodiffBackend<Device = OvercommitDevice>>(
    function: fn(Vec<Tensor<B, 1>>) -> Tensor<B, 1>,
    lengths: &[usize],
    device: &OvercommitDevice,
) -> Vec<Vec<f32>> {
    B::seed(device, 5);
    let leaves: Vec<_> = lengths
        .iter()
        .enumerate()
        .map(|(n, &length)| tensor::<B, 1>([length], n + 1, device).require_grad())
        .collect();
    let out = function(leaves.iter().map(|leaf| leaf.clone().tanh()).collect());
    let gradients = (out.clone().exp() * out).sum().backward();
    leaves.iter().map(|leaf| leaf.grad(&gradients).unwrap().into_data().to_vec::<f32>().unwrap()).collect()
}
