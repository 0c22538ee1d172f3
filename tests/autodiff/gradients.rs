//! Gradients against Burn's, and against differences.

use burn::backend::Autodiff;
use burn::tensor::backend::Backend;
use burn::tensor::{Tensor, TensorData};
use burn_overcommit::{Overcommit, OvercommitDevice};

use super::cases::{Case, cases};

type Single = Autodiff<Overcommit<f32>>;
type Double = Autodiff<Overcommit<f64>>;

/// Numbers that look random and are the same everywhere.
pub fn numbers(length: usize, salt: usize) -> Vec<f64> {
    (0..length).map(|i| ((i * 7919 + salt * 104_729) % 1009) as f64 / 504.5 - 1.0).collect()
}

/// Output and gradients of the inputs, of a weighted sum of the output.
fn run<B: burn::tensor::backend::AutodiffBackend>(
    function: fn(Vec<Tensor<B, 1>>) -> Tensor<B, 1>,
    inputs: &[Vec<f64>],
    device: &B::Device,
) -> Vec<Vec<f64>> {
    B::seed(device, 7);
    let tensor = |values: &Vec<f64>| Tensor::<B, 1>::from_data(TensorData::from(values.as_slice()), device);
    let leaves: Vec<_> = inputs.iter().map(|values| tensor(values).require_grad()).collect();
    let out = function(leaves.clone());
    let values = out.clone().into_data().iter::<f64>().collect();
    let weights = tensor(&numbers(out.dims()[0], 17));
    let gradients = (out * weights).sum().backward();
    let gradient = |leaf: &Tensor<B, 1>| leaf.grad(&gradients).expect("a path to every input").into_data();
    [values].into_iter().chain(leaves.iter().map(|leaf| gradient(leaf).iter::<f64>().collect())).collect()
}

fn inputs<B: burn_overcommit::autodiff::SavesLess>(case: &Case<B>) -> Vec<Vec<f64>> {
    case.inputs.iter().enumerate().map(|(n, &length)| numbers(length, n + 1)).collect()
}

#[track_caller]
fn assert_near(name: &str, found: &[Vec<f64>], expected: &[Vec<f64>], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{name}: {n}");
        for (i, (a, b)) in found.iter().zip(expected).enumerate() {
            assert!(
                (a - b).abs() <= tolerance * (1.0 + b.abs()),
                "{name}: tensor {n} at {i} is {a}, not {b}"
            );
        }
    }
}

#[test]
fn are_those_of_burn() {
    let device = OvercommitDevice::Host(400);
    for case in cases::<Single>(3) {
        let inputs = inputs(&case);
        let [ours, burns] = [case.ours, case.burns].map(|function| run::<Single>(function, &inputs, &device));
        assert_near(case.name, &ours, &burns, 2e-5);
    }
}

/// In f64, every element of every input moved up and down.
#[test]
fn are_those_of_differences() {
    const STEP: f64 = 1e-5;
    let device = OvercommitDevice::Host(401);
    for case in cases::<Double>(1) {
        let inputs = inputs(&case);
        let gradients = run::<Double>(case.ours, &inputs, &device).split_off(1);
        let weights = numbers(case.inputs[0], 17);
        let loss = |inputs: &[Vec<f64>]| {
            Double::seed(&device, 7);
            let tensors =
                inputs.iter().map(|values| Tensor::from_data(TensorData::from(values.as_slice()), &device));
            let out = (case.ours)(tensors.collect()).into_data();
            out.iter::<f64>().zip(&weights).map(|(x, weight)| x * weight).sum::<f64>()
        };
        for (n, gradient) in gradients.iter().enumerate() {
            for (i, &found) in gradient.iter().enumerate() {
                let [above, below] = [STEP, -STEP].map(|by| {
                    let mut moved = inputs.clone();
                    moved[n][i] += by;
                    loss(&moved)
                });
                let expected = (above - below) / (2.0 * STEP);
                let near = (found - expected).abs() <= 1e-6 * expected.abs().max(1.0);
                assert!(near, "{}: input {n} at {i} is {found}, by differences {expected}", case.name);
            }
        }
    }
}

/// A weight that is not learnt has no gradient, and the others have the same.
#[test]
fn frozen_weights() {
    let device = OvercommitDevice::Host(402);
    let x = || Tensor::<Single, 2>::from_data(TensorData::new(numbers(40, 1), [4, 10]), &device);
    let gamma = || Tensor::<Single, 1>::from_data(TensorData::new(numbers(10, 2), [10]), &device);
    let bits = |learnt: bool| {
        let (x, gamma) = (x().require_grad(), gamma().set_require_grad(learnt));
        let out = burn_overcommit::autodiff::rms_norm(x.clone(), gamma.clone(), 1e-5);
        let gradients = out.square().sum().backward();
        assert_eq!(gamma.grad(&gradients).is_some(), learnt);
        x.grad(&gradients).unwrap().into_data().to_vec::<f32>().unwrap()
    };
    assert_eq!(bits(true), bits(false));
}
