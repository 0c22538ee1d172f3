//! A residual network with few weights, trained by SGD with momentum (He et al., CVPR 2016).

use burn::module::{AutodiffModule, Module};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{GradientsParams, Optimizer, Sgd, SgdConfig};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn_overcommit::{Overcommit, OvercommitDevice};

use crate::Training;
use crate::accuracy::Learns;
use crate::data::{Batch, CLASSES};

const WIDTH: usize = 16;
const BLOCKS: usize = 3;

/// A rectified sum of what comes in and two convolutions of it.
#[derive(Module, Debug)]
struct Block<B: Backend> {
    convolutions: Vec<Conv2d<B>>,
    norms: Vec<BatchNorm<B>>,
}

#[derive(Module, Debug)]
struct Network<B: Backend> {
    stem: Conv2d<B>,
    blocks: Vec<Block<B>>,
    linear: Linear<B>,
}

fn convolution<B: Backend>(from: usize, device: &B::Device) -> Conv2d<B> {
    Conv2dConfig::new([from, WIDTH], [3, 3]).with_padding(PaddingConfig2d::Same).init(device)
}

impl<B: Backend> Network<B> {
    fn new(device: &B::Device) -> Self {
        let block = || Block {
            convolutions: (0..2).map(|_| convolution(WIDTH, device)).collect(),
            norms: (0..2).map(|_| BatchNormConfig::new(WIDTH).init(device)).collect(),
        };
        Network {
            stem: convolution(1, device),
            blocks: (0..BLOCKS).map(|_| block()).collect(),
            linear: LinearConfig::new(WIDTH, CLASSES).init(device),
        }
    }

    fn scores(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let mut x = relu(self.stem.forward(images));
        for Block { convolutions, norms } in &self.blocks {
            let inner = relu(norms[0].forward(convolutions[0].forward(x.clone())));
            x = relu(norms[1].forward(convolutions[1].forward(inner)) + x);
        }
        let [batch, ..] = x.dims();
        self.linear.forward(x.mean_dim(2).mean_dim(3).reshape([batch, WIDTH]))
    }
}

/// The network and the state of its optimizer.
pub struct Residual {
    network: Network<Training>,
    optimizer: OptimizerAdaptor<Sgd<Overcommit>, Network<Training>, Training>,
}

impl Learns for Residual {
    const NAME: &str = "residual network by SGD";
    const BATCH: usize = 64;
    const EPOCHS: usize = 10;
    const RATE: f64 = 0.05;

    fn begin(seed: u64, device: &OvercommitDevice) -> Self {
        Training::seed(device, seed);
        let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.0);
        let optimizer = SgdConfig::new().with_momentum(Some(momentum)).init();
        Residual { network: Network::new(device), optimizer }
    }

    fn learn(self, batch: Batch<Training>, rate: f64) -> (Self, f32) {
        let Residual { network, mut optimizer } = self;
        let scores = network.scores(batch.images);
        let loss = CrossEntropyLossConfig::new().init(&scores.device()).forward(scores, batch.labels);
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        let network = optimizer.step(rate, network, gradients);
        (Residual { network, optimizer }, loss.into_scalar())
    }

    fn scores(&self, images: Tensor<Overcommit, 4>) -> Tensor<Overcommit, 2> {
        self.network.valid().scores(images)
    }
}
