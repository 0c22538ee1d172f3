//! What an operation and a training step take through newer versions of Burn, against Burn 0.21 on the same engine, in one process:
//! rounds of all in turn, and the least of each. `cargo bench --bench face`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure};

const ROUNDS: usize = 15;

/// The same program for both versions, which have the same methods on other types.
macro_rules! programs {
    ($burn:ident: $one:ty, $two:ty, $four:ty, $device:ty, $conv:ty, $norm:ty) => {
        use $burn::nn::conv::Conv2dConfig;
        use $burn::nn::{BatchNormConfig, PaddingConfig2d};
        use $burn::tensor::activation;

        /// A chain of additions of eight elements.
        pub fn additions(device: &$device, count: usize) -> f32 {
            let x = <$one>::ones([8], device);
            let sum = (0..count).fold(x.clone(), |sum, _| sum + x.clone());
            sum.into_data().iter::<f32>().next().unwrap()
        }

        /// A chain of products of two matrices, which is not fused.
        #[allow(dead_code)]
        pub fn products(device: &$device, count: usize) -> f32 {
            let x = <$two>::ones([4, 4], device);
            let product = (0..count).fold(x.clone(), |product, _| product.matmul(x.clone()));
            black_box(product.into_data().iter::<f32>().next().unwrap())
        }

        /// Weights of a perceptron with three layers.
        pub struct Perceptron {
            weights: Vec<$two>,
            x: $two,
        }

        impl Perceptron {
            pub fn new(device: &$device, batch: usize, width: usize) -> Self {
                let layer = |at: usize| {
                    let scale = 1.0 / (width as f32 * (at + 1) as f32);
                    (<$two>::ones([width, width], device) * scale).require_grad()
                };
                Perceptron { weights: (0..3).map(layer).collect(), x: <$two>::ones([batch, width], device) }
            }

            /// A step of gradient descent.
            fn step(&mut self) {
                let layers = self.weights.iter();
                let y = layers.fold(self.x.clone(), |x, weight| activation::gelu(x.matmul(weight.clone())));
                let gradients = (y - 1.0).powi_scalar(2).mean().backward();
                for weight in &mut self.weights {
                    let gradient = weight.grad(&gradients).unwrap();
                    let moved = weight.clone().inner() - gradient * 0.01;
                    *weight = <$two>::from_inner(moved).require_grad();
                }
            }

            /// Steps, and an element of what they come to.
            pub fn steps(&mut self, count: usize) -> f32 {
                (0..count).for_each(|_| self.step());
                self.weights[0].clone().inner().slice([0..1, 0..1]).into_data().iter::<f32>().next().unwrap()
            }
        }

        /// Convolutions, each with batch normalization, and images.
        pub struct Convolutions {
            layers: Vec<($conv, $norm)>,
            x: $four,
        }

        impl Convolutions {
            pub fn new(device: &$device) -> Self {
                let layer = |_| {
                    let conv = Conv2dConfig::new([16, 16], [3, 3]).with_padding(PaddingConfig2d::Same);
                    (conv.init(device), BatchNormConfig::new(16).init(device))
                };
                Convolutions {
                    layers: (0..6).map(layer).collect(),
                    x: <$four>::ones([32, 16, 16, 16], device),
                }
            }

            /// Forward and backward passes, and an element of a gradient.
            pub fn passes(&self, count: usize) -> f32 {
                let pass = |_| {
                    let layers = self.layers.iter();
                    let y = layers.fold(self.x.clone(), |x, (conv, norm)| {
                        activation::relu(norm.forward(conv.forward(x)))
                    });
                    let gradients = y.powi_scalar(2).mean().backward();
                    self.layers[0]
                        .0
                        .weight
                        .grad(&gradients)
                        .unwrap()
                        .into_data()
                        .iter::<f32>()
                        .next()
                        .unwrap()
                };
                (0..count).map(pass).last().unwrap_or(0.0)
            }
        }
    };
}

mod old {
    use super::*;
    use burn_021::backend::Autodiff;
    use burn_021::tensor;

    type Inner = Overcommit;
    type Outer = Autodiff<Overcommit>;

    pub mod plain {
        use super::*;
        use burn_021::nn;
        type Tensor<const D: usize> = tensor::Tensor<Outer, D>;
        programs!(burn_021: Tensor<1>, Tensor<2>, Tensor<4>, OvercommitDevice, nn::conv::Conv2d<Outer>, nn::BatchNorm<Outer>);
    }
    pub mod inner {
        use super::*;
        pub fn additions(device: &OvercommitDevice, count: usize) -> f32 {
            let x = tensor::Tensor::<Inner, 1>::ones([8], device);
            let sum = (0..count).fold(x.clone(), |sum, _| sum + x.clone());
            sum.into_data().iter::<f32>().next().unwrap()
        }

        pub fn products(device: &OvercommitDevice, count: usize) -> f32 {
            let x = tensor::Tensor::<Inner, 2>::ones([4, 4], device);
            let product = (0..count).fold(x.clone(), |product, _| product.matmul(x.clone()));
            black_box(product.into_data().iter::<f32>().next().unwrap())
        }
    }
}

mod direct {
    use super::*;
    use burn_022::nn;
    use burn_022::tensor::{Device, Tensor};

    programs!(burn_022: Tensor<1>, Tensor<2>, Tensor<4>, Device, nn::conv::Conv2d, nn::BatchNorm);
}

mod group {
    use super::*;
    use burn_023::nn;
    use burn_023::tensor::{Device, Tensor};

    programs!(burn_023: Tensor<1>, Tensor<2>, Tensor<4>, Device, nn::conv::Conv2d, nn::BatchNorm);
}

/// A program of each version, with what it works on.
type Program<'a> = Box<dyn FnMut() + 'a>;

/// The least times of all three programs, of which a unit is printed.
fn compare(name: &str, unit: usize, mut programs: [Program; 3]) {
    let mut least = [Duration::MAX; 3];
    for round in 0..=ROUNDS {
        for (program, least) in programs.iter_mut().zip(&mut least) {
            let start = Instant::now();
            program();
            if round > 0 {
                *least = start.elapsed().min(*least);
            }
        }
    }
    let [old, direct, group] = least.map(|time| time.as_secs_f64() * 1e6 / unit as f64);
    let against = |new: f64| format!("{new:.2} | {:+.2} | {:.3}", new - old, new / old);
    println!("| {name} | {old:.2} | {} | {} |", against(direct), against(group));
}

/// A program that is only run for its time.
macro_rules! timed {
    ($program:expr) => {
        Box::new(|| _ = black_box($program))
    };
}

fn main() {
    let config = || Config::new().budget_bytes(1 << 30);
    let old_device = OvercommitDevice::Host(0);
    configure(&old_device, config()).unwrap();
    let plain_022 = burn_overcommit_022::device_on(OvercommitDevice::Host(1), config()).unwrap();
    let plain_023 = burn_overcommit_023::device_on(OvercommitDevice::Host(2), config()).unwrap();
    let (device_022, device_023) = (plain_022.clone().autodiff(), plain_023.clone().autodiff());
    println!(
        "| us | Burn 0.21 | Burn 0.22 | more | ratio | Burn 0.23 | more | ratio |\n|---|---:|---:|---:|---:|---:|---:|---:|"
    );
    let count = 2000;
    compare(
        "addition of 8 elements",
        count,
        [
            timed!(old::inner::additions(&old_device, count)),
            timed!(direct::additions(&plain_022, count)),
            timed!(group::additions(&plain_023, count)),
        ],
    );
    compare(
        "same, differentiable",
        count,
        [
            timed!(old::plain::additions(&old_device, count)),
            timed!(direct::additions(&device_022, count)),
            timed!(group::additions(&device_023, count)),
        ],
    );
    compare(
        "product of 4 x 4",
        count,
        [
            timed!(old::inner::products(&old_device, count)),
            timed!(direct::products(&plain_022, count)),
            timed!(group::products(&plain_023, count)),
        ],
    );
    for (batch, width, steps) in [(8, 8, 50), (64, 128, 20), (256, 512, 4)] {
        let mut old = old::plain::Perceptron::new(&old_device, batch, width);
        let mut direct = direct::Perceptron::new(&device_022, batch, width);
        let mut group = group::Perceptron::new(&device_023, batch, width);
        compare(
            &format!("step of a perceptron, {batch} x {width}"),
            steps,
            [timed!(old.steps(steps)), timed!(direct.steps(steps)), timed!(group.steps(steps))],
        );
        assert_eq!([old.steps(0), direct.steps(0)].map(f32::to_bits), [group.steps(0).to_bits(); 2]);
    }
    let old = old::plain::Convolutions::new(&old_device);
    let direct = direct::Convolutions::new(&device_022);
    let group = group::Convolutions::new(&device_023);
    compare(
        "pass of six convolutions with batch norm",
        4,
        [timed!(old.passes(4)), timed!(direct.passes(4)), timed!(group.passes(4))],
    );
}
