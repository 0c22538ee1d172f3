//! Attention by tiles, beside attention by scores, which a bias of zeros asks for.

use burn::backend::Autodiff;
use burn::tensor::backend::Backend;
use burn::tensor::{Bool, Int, Tensor, TensorData};
use burn_overcommit::autodiff::{self, AttentionDropout, AttentionModuleOptions};
use burn_overcommit::{Overcommit, OvercommitDevice, stats};

use super::gradients::numbers;

type B = Autodiff<Overcommit>;

/// Batch, heads, queries, keys, width, width of values.
type Sizes = [usize; 6];

#[derive(Clone, Copy, Debug)]
struct Case {
    sizes: Sizes,
    causal: bool,
    masked: bool,
    dropout: Option<AttentionDropout>,
}

fn tensor(sizes: [usize; 4], salt: usize, device: &OvercommitDevice) -> Tensor<B, 4> {
    let data = TensorData::new(numbers(sizes.iter().product(), salt), sizes);
    Tensor::from_data(data.convert::<f32>(), device)
}

/// True for some keys of each query, and for all of one.
fn mask([batch, heads, queries, keys, ..]: Sizes, device: &OvercommitDevice) -> Tensor<B, 4, Bool> {
    let is_hidden = |i: usize| i / keys % queries == 3 || i % 7 == 3;
    let places = (0..batch * queries * keys).map(|i| i32::from(is_hidden(i))).collect();
    let places = Tensor::<B, 4, Int>::from_data(TensorData::new(places, [batch, 1, queries, keys]), device);
    places.equal_elem(1).expand([batch, heads, queries, keys])
}

/// The output and the gradients of query, key and value.
fn run(case: Case, by_scores: bool, device: &OvercommitDevice) -> Vec<Vec<f32>> {
    let [batch, heads, queries, keys, width, value_width] = case.sizes;
    B::seed(device, 11);
    let sizes = [[queries, width], [keys, width], [keys, value_width]];
    let leaf = |(salt, [rows, width]): (usize, [usize; 2])| {
        tensor([batch, heads, rows, width], salt, device).mul_scalar(2.0).detach().require_grad()
    };
    let leaves: Vec<_> = (1..).zip(sizes).map(leaf).collect();
    let [query, key, value] = <[_; 3]>::try_from(leaves.clone()).unwrap();
    let mask = case.masked.then(|| mask(case.sizes, device));
    let bias = by_scores.then(|| Tensor::zeros([1, 1, queries, keys], device));
    let options = AttentionModuleOptions { is_causal: case.causal, ..Default::default() };
    let out = autodiff::attention(query, key, value, mask, bias, options, case.dropout);
    let weights = tensor([batch, heads, queries, value_width], 17, device);
    let gradients = (out.clone() * weights).sum().backward();
    let made = leaves.iter().map(|leaf| leaf.grad(&gradients).unwrap().into_data());
    [out.into_data()].into_iter().chain(made).map(|data| data.to_vec().unwrap()).collect()
}

#[test]
fn tiles_give_what_scores_give() {
    let device = OvercommitDevice::Host(440);
    let dropouts = [None, Some(AttentionDropout::Scores(0.2)), Some(AttentionDropout::Weights(0.3))];
    for sizes in [[2, 2, 70, 70, 16, 16], [1, 3, 40, 131, 64, 33], [1, 2, 131, 40, 80, 100]] {
        for dropout in dropouts {
            for (causal, masked) in [(false, false), (true, false), (false, true), (true, true)] {
                let case = Case { sizes, causal, masked, dropout };
                let [tiles, scores] = [false, true].map(|by_scores| run(case, by_scores, &device));
                for (n, (tiles, scores)) in tiles.iter().zip(&scores).enumerate() {
                    assert_eq!(tiles.len(), scores.len());
                    for (i, (a, b)) in tiles.iter().zip(scores).enumerate() {
                        let near = (a - b).abs() <= 3e-5 * (1.0 + b.abs());
                        assert!(near, "{case:?}: tensor {n} at {i} is {a}, not {b}");
                    }
                }
            }
        }
    }
}

#[test]
fn nothing_of_the_size_of_scores_is_held_or_made() {
    const LENGTH: usize = 512;
    let device = OvercommitDevice::Host(441);
    let sizes = [1, 2, LENGTH, LENGTH, 16, 16];
    let case = Case { sizes, causal: true, masked: false, dropout: Some(AttentionDropout::Weights(0.1)) };
    run(case, false, &device);
    let peak = stats(&device).unwrap().peak_allocated_bytes;
    // Five inputs and outputs, their gradients, and what loss and weights take.
    let tensor_bytes = sizes[..3].iter().product::<usize>() * 16 * size_of::<f32>();
    assert!(peak < 24 * tensor_bytes, "{peak} bytes at once, a tensor has {tensor_bytes}");
    let scores_bytes = 2 * LENGTH * LENGTH * size_of::<f32>();
    assert!(peak < scores_bytes, "{peak} bytes at once, the scores have {scores_bytes}");
}
