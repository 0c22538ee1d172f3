//! Small random Burn models, trained for a few steps under `Autodiff`.

use std::hash::{DefaultHasher, Hasher};

use burn::backend::Autodiff;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{AdamConfig, GradientsParams, Optimizer, SgdConfig};
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Tensor};
use burn_overcommit::{Overcommit, OvercommitDevice};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

type Training = Autodiff<Overcommit>;

/// A model and how it is trained.
#[derive(Debug, Clone, Copy)]
pub struct Network {
    seed: u64,
    convolutions: usize,
    linears: usize,
    width: usize,
    side: usize,
    batch: usize,
    steps: usize,
    adam: bool,
}

#[derive(Module, Debug)]
struct Model<B: Backend> {
    convolutions: Vec<Conv2d<B>>,
    norms: Vec<BatchNorm<B>>,
    pool: MaxPool2d,
    dropout: Dropout,
    linears: Vec<Linear<B>>,
}

impl<B: Backend> Model<B> {
    fn forward(&self, mut images: Tensor<B, 4>) -> Tensor<B, 2> {
        for (convolution, norm) in self.convolutions.iter().zip(&self.norms) {
            images = relu(norm.forward(convolution.forward(images)));
        }
        let mut features: Tensor<B, 2> = self.pool.forward(images).flatten(1, 3);
        for linear in &self.linears {
            features = self.dropout.forward(relu(linear.forward(features)));
        }
        features
    }
}

/// Folds every weight into a digest.
struct Digest(DefaultHasher);

impl<B: Backend> ModuleVisitor<B> for Digest {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.0.write(param.val().into_data().as_bytes());
    }
}

impl Network {
    /// The network of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut range = |low, high| random.random_range(low..high);
        Network {
            seed,
            convolutions: range(0, 4),
            linears: range(1, 4),
            width: range(2, 7),
            side: range(6, 13),
            batch: range(2, 6),
            steps: range(3, 5),
            adam: range(0, 2) == 1,
        }
    }

    /// Trains it; the digest is of all losses and the last weights. Panics where Burn's ops fail.
    pub fn run(&self, device: &OvercommitDevice) -> u64 {
        Training::seed(device, self.seed);
        if self.adam {
            self.train(device, AdamConfig::new().init())
        } else {
            self.train(device, SgdConfig::new().init())
        }
    }

    fn train(
        &self,
        device: &OvercommitDevice,
        mut optimizer: impl Optimizer<Model<Training>, Training>,
    ) -> u64 {
        let mut model = self.model(device);
        let mut digest = Digest(DefaultHasher::new());
        let shape = [self.batch, 3, self.side, self.side];
        for _ in 0..self.steps {
            let images = Tensor::<Training, 4>::random(shape, Distribution::Default, device);
            let loss = model.forward(images).powf_scalar(2.0).mean();
            digest.0.write(loss.to_data().as_bytes());
            let gradients = GradientsParams::from_grads(loss.backward(), &model);
            model = optimizer.step(0.01, model, gradients);
        }
        model.visit(&mut digest);
        digest.0.finish()
    }

    fn model(&self, device: &OvercommitDevice) -> Model<Training> {
        let channels = |layer: usize| if layer == 0 { 3 } else { self.width };
        let convolution = |layer: usize| {
            Conv2dConfig::new([channels(layer), self.width], [3, 3])
                .with_padding(PaddingConfig2d::Same)
                .init(device)
        };
        let pooled = self.side / 2;
        let features = channels(self.convolutions) * pooled * pooled;
        let inputs = |layer: usize| if layer == 0 { features } else { 4 * self.width };
        Model {
            convolutions: (0..self.convolutions).map(convolution).collect(),
            norms: (0..self.convolutions).map(|_| BatchNormConfig::new(self.width).init(device)).collect(),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            dropout: DropoutConfig::new(0.3).init(),
            linears: (0..self.linears)
                .map(|layer| LinearConfig::new(inputs(layer), 4 * self.width).init(device))
                .collect(),
        }
    }
}

/// Burn keeps an abandoned forward until the next backward: this is one, on a device of its own, since the other may be
/// full.
pub fn forget_abandoned() {
    let x = Tensor::<Training, 1>::ones([1], &OvercommitDevice::Host(99)).require_grad();
    drop((x.clone() * x).backward());
}
