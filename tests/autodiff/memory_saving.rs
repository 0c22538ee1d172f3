//! The backend that saves less by its type alone.

use burn::backend::Autodiff;
use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, MaxPool2d, MaxPool2dConfig};
use burn::nn::{
    BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Gelu, LayerNorm, LayerNormConfig, Linear,
    LinearConfig, Relu,
};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData};
use burn_overcommit::autodiff::MemorySaving;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Policy, configure, stats};

use super::gradients::numbers;

type Burns = Autodiff<Overcommit>;
type Ours = MemorySaving<Overcommit>;

/// Something to train, on any backend.
trait Network<B: AutodiffBackend>: AutodiffModuleOf<B> {
    fn build(device: &B::Device) -> Self;
    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2>;
}

trait AutodiffModuleOf<B: AutodiffBackend>: burn::module::AutodiffModule<B> {}
impl<B: AutodiffBackend, M: burn::module::AutodiffModule<B>> AutodiffModuleOf<B> for M {}

const WIDTH: usize = 48;
const ROWS: usize = 64;

/// Convolutions with norms, activations and pools.
#[derive(Module, Debug)]
struct Images<B: Backend> {
    convs: Vec<Conv2d<B>>,
    norms: Vec<BatchNorm<B>>,
    relu: Relu,
    pool: MaxPool2d,
    mean: AdaptiveAvgPool2d,
    out: Linear<B>,
}

impl<B: AutodiffBackend> Network<B> for Images<B> {
    fn build(device: &B::Device) -> Self {
        let padding = burn::nn::PaddingConfig2d::Same;
        let conv = |from| Conv2dConfig::new([from, 16], [3, 3]).with_padding(padding.clone()).init(device);
        Images {
            convs: [3, 16, 16].map(conv).into(),
            norms: (0..3).map(|_| BatchNormConfig::new(16).init(device)).collect(),
            relu: Relu::new(),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([1, 1]).init(),
            mean: AdaptiveAvgPool2dConfig::new([2, 2]).init(),
            out: LinearConfig::new(64, 10).init(device),
        }
    }

    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let mut x = x.reshape([ROWS, 3, 4, 4]).repeat_dim(2, 2);
        for (conv, norm) in self.convs.iter().zip(&self.norms) {
            x = self.pool.forward(self.relu.forward(norm.forward(conv.forward(x))));
        }
        self.out.forward(self.mean.forward(x).flatten(1, 3))
    }
}

/// Layers of attention and of more width between.
#[derive(Module, Debug)]
struct Words<B: Backend> {
    norms: Vec<LayerNorm<B>>,
    attention: MultiHeadAttention<B>,
    wide: Linear<B>,
    narrow: Linear<B>,
    gelu: Gelu,
    dropout: Dropout,
}

impl<B: AutodiffBackend> Network<B> for Words<B> {
    fn build(device: &B::Device) -> Self {
        Words {
            norms: (0..2).map(|_| LayerNormConfig::new(WIDTH).init(device)).collect(),
            attention: MultiHeadAttentionConfig::new(WIDTH, 4).init(device),
            wide: LinearConfig::new(WIDTH, 4 * WIDTH).init(device),
            narrow: LinearConfig::new(4 * WIDTH, WIDTH).init(device),
            gelu: Gelu::new(),
            dropout: DropoutConfig::new(0.1).init(),
        }
    }

    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        let mut x = x.reshape([ROWS / 16, 16, WIDTH]);
        for _ in 0..2 {
            x = x.clone() + self.attention.forward(MhaInput::self_attn(self.norms[0].forward(x))).context;
            let wide = self.gelu.forward(self.wide.forward(self.norms[1].forward(x.clone())));
            x = x + self.dropout.forward(self.narrow.forward(wide));
        }
        x.reshape([ROWS, WIDTH])
    }
}

/// What the same operations make on both backends.
#[derive(Module, Debug)]
struct Plain<B: Backend> {
    layers: Vec<Linear<B>>,
}

impl<B: AutodiffBackend> Network<B> for Plain<B> {
    fn build(device: &B::Device) -> Self {
        Plain { layers: (0..5).map(|_| LinearConfig::new(WIDTH, WIDTH).init(device)).collect() }
    }

    fn forward(&self, x: Tensor<B, 2>) -> Tensor<B, 2> {
        use burn::tensor::activation::{gelu, relu, sigmoid, silu};
        let activations =
            [gelu, relu, sigmoid, silu, |x: Tensor<B, 2>| x.exp().log1p().sqrt().mul_scalar(0.5)];
        self.layers.iter().zip(&activations[..4]).fold(x, |x, (layer, f)| f(layer.forward(x)) - 0.1)
    }
}

/// Losses, and the most bytes beyond those at rest that a step held once its forward pass was over.
fn train<B, N>(device: &OvercommitDevice, steps: usize) -> (Vec<f32>, usize)
where
    B: AutodiffBackend<Device = OvercommitDevice>,
    N: Network<B>,
{
    B::seed(device, 11);
    let mut network = N::build(device);
    let mut optimizer = AdamConfig::new().init();
    let (mut losses, mut held) = (Vec::new(), 0);
    for step in 0..steps {
        let x = TensorData::new(numbers(ROWS * WIDTH, step + 1), [ROWS, WIDTH]);
        let x = Tensor::<B, 2>::from_data(x, device);
        let before = stats(device).unwrap().allocated_bytes;
        let loss = network.forward(x).square().mean();
        // In the first step weights are made, when they are asked for.
        if step > 0 {
            held = held.max(stats(device).unwrap().allocated_bytes - before);
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        losses.push(loss.into_data().to_vec::<f32>().unwrap()[0]);
        network = optimizer.step(1e-3, network, gradients);
    }
    (losses, held)
}

/// The same losses, but for rounding, in less memory: `share` of Burn's, or less.
fn compare<M, N>(name: &str, index: u16, share: f64) -> [Vec<f32>; 2]
where
    M: Network<Burns>,
    N: Network<Ours>,
{
    let (expected, most) = train::<Burns, M>(&OvercommitDevice::Host(index), 6);
    let (losses, held) = train::<Ours, N>(&OvercommitDevice::Host(index + 1), 6);
    println!(
        "{name}: {held} bytes held for the backward pass, Burn {most}: {:.2}",
        held as f64 / most as f64
    );
    for (a, b) in losses.iter().zip(&expected) {
        assert!((a - b).abs() <= 1e-4 * (1.0 + b.abs()), "{name}: {losses:?}, Burn {expected:?}");
    }
    assert!(losses.last() < losses.first(), "{name} learns nothing: {losses:?}");
    assert!(held as f64 <= share * most as f64, "{name} holds {held}, Burn {most}");
    [losses, expected]
}

#[test]
fn convolutions_train_in_less_memory() {
    compare::<Images<Burns>, Images<Ours>>("images", 450, 0.6);
}

#[test]
fn attention_trains_in_less_memory() {
    compare::<Words<Burns>, Words<Ours>>("words", 452, 0.6);
}

#[test]
fn the_same_operations_give_the_same_bits() {
    let [losses, expected] = compare::<Plain<Burns>, Plain<Ours>>("plain", 454, 0.9);
    assert_eq!(losses, expected);
}

#[test]
fn a_tight_budget_changes_no_bit() {
    for (n, policy) in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()).enumerate() {
        let device = OvercommitDevice::Host(1100 + 2 * n as u16);
        let (expected, _) = train::<Ours, Words<Ours>>(&device, 3);
        let needed = stats(&device).unwrap();
        let tight = OvercommitDevice::Host(1101 + 2 * n as u16);
        let budget = (needed.smallest_budget_bytes * 4 / 3).max(needed.peak_allocated_bytes / 6);
        configure(&tight, Config::new().budget_bytes(budget).policy(policy)).unwrap();
        assert_eq!(train::<Ours, Words<Ours>>(&tight, 3).0, expected, "{policy}");
        assert!(stats(&tight).unwrap().counters.evictions > 10, "{policy}: the budget does not bind");
    }
}

/// Burn walks every path to what is kept; a chain that doubles them at each step is cut.
#[test]
fn long_chains_are_not_walked_path_by_path() {
    let device = OvercommitDevice::Host(470);
    let x = Tensor::<Ours, 1>::from_floats([0.5, -1.0], &device).require_grad();
    let out = (0..200).fold(x.clone(), |x, _| x.clone().sin().mul(x.clone()).mul_scalar(0.5) + x);
    let gradients = out.log1p().sum().backward();
    let y = Tensor::<Burns, 1>::from_floats([0.5, -1.0], &device).require_grad();
    let out = (0..200).fold(y.clone(), |y, _| y.clone().sin().mul(y.clone()).mul_scalar(0.5) + y);
    let expected = out.log1p().sum().backward();
    assert_eq!(x.grad(&gradients).unwrap().into_data(), y.grad(&expected).unwrap().into_data());
}
