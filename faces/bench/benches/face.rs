//! What an operation and a training step take through Burn 0.23 and its device group, against Burn 0.21 on the same engine, in one
//! process: rounds of both in turn, and the least of each. `cargo bench --bench face`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure};

const ROUNDS: usize = 15;

/// The same program for both versions, which have the same methods on other types.
macro_rules! programs {
    ($tensor:ident: $one:ty, $two:ty, $device:ty) => {
        /// A chain of additions of eight elements.
        pub fn additions(device: &$device, count: usize) -> f32 {
            let x = <$one>::ones([8], device);
            let sum = (0..count).fold(x.clone(), |sum, _| sum + x.clone());
            sum.into_data().to_vec::<f32>().unwrap()[0]
        }

        /// A chain of products of two matrices, which is not fused.
        pub fn products(device: &$device, count: usize) -> f32 {
            let x = <$two>::ones([4, 4], device);
            let product = (0..count).fold(x.clone(), |product, _| product.matmul(x.clone()));
            black_box(product.into_data().to_vec::<f32>().unwrap()[0])
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
            pub fn step(&mut self) {
                let layers = self.weights.iter();
                let y = layers
                    .fold(self.x.clone(), |x, weight| $tensor::activation::gelu(x.matmul(weight.clone())));
                let gradients = (y - 1.0).powi_scalar(2).mean().backward();
                for weight in &mut self.weights {
                    let gradient = weight.grad(&gradients).unwrap();
                    let moved = weight.clone().inner() - gradient * 0.01;
                    *weight = <$two>::from_inner(moved).require_grad();
                }
            }

            pub fn finish(&self) -> f32 {
                self.weights[0].clone().inner().slice([0..1, 0..1]).into_data().to_vec::<f32>().unwrap()[0]
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
        programs!(tensor: tensor::Tensor<Outer, 1>, tensor::Tensor<Outer, 2>, OvercommitDevice);
    }
    pub mod inner {
        use super::*;
        pub fn additions(device: &OvercommitDevice, count: usize) -> f32 {
            let x = tensor::Tensor::<Inner, 1>::ones([8], device);
            let sum = (0..count).fold(x.clone(), |sum, _| sum + x.clone());
            sum.into_data().to_vec::<f32>().unwrap()[0]
        }

        pub fn products(device: &OvercommitDevice, count: usize) -> f32 {
            let x = tensor::Tensor::<Inner, 2>::ones([4, 4], device);
            let product = (0..count).fold(x.clone(), |product, _| product.matmul(x.clone()));
            black_box(product.into_data().to_vec::<f32>().unwrap()[0])
        }
    }
}

mod new {
    use super::*;
    use burn_023::tensor;

    programs!(tensor: tensor::Tensor<1>, tensor::Tensor<2>, tensor::Device);
}

/// The least times of both programs.
fn compare(name: &str, unit: usize, mut old: impl FnMut(), mut new: impl FnMut()) {
    let time = |program: &mut dyn FnMut()| {
        let start = Instant::now();
        program();
        start.elapsed()
    };
    let mut least = [Duration::MAX; 2];
    for round in 0..=ROUNDS {
        let times = [time(&mut old), time(&mut new)];
        if round > 0 {
            least = std::array::from_fn(|at| least[at].min(times[at]));
        }
    }
    let [old, new] = least.map(|time| time.as_secs_f64() * 1e6 / unit as f64);
    println!("| {name} | {old:.2} | {new:.2} | {:.2} | {:.3} |", new - old, new / old);
}

fn main() {
    let old_device = OvercommitDevice::Host(0);
    configure(&old_device, Config::new().budget_bytes(1 << 30)).unwrap();
    let plain =
        burn_overcommit_023::device_on(OvercommitDevice::Host(1), Config::new().budget_bytes(1 << 30))
            .unwrap();
    let device = plain.clone().autodiff();
    println!("| | Burn 0.21, us | Burn 0.23, us | more, us | ratio |\n|---|---:|---:|---:|---:|");
    let count = 2000;
    compare(
        "addition of 8 elements",
        count,
        || _ = black_box(old::inner::additions(&old_device, count)),
        || _ = black_box(new::additions(&plain, count)),
    );
    compare(
        "same, differentiable",
        count,
        || _ = black_box(old::plain::additions(&old_device, count)),
        || _ = black_box(new::additions(&device, count)),
    );
    compare(
        "product of 4 x 4",
        count,
        || _ = black_box(old::inner::products(&old_device, count)),
        || _ = black_box(new::products(&plain, count)),
    );
    for (batch, width, steps) in [(8, 8, 50), (64, 128, 20), (256, 512, 4)] {
        let mut before = old::plain::Perceptron::new(&old_device, batch, width);
        let mut after = new::Perceptron::new(&device, batch, width);
        let name = format!("step of a perceptron, {batch} x {width}");
        compare(
            &name,
            steps,
            || {
                (0..steps).for_each(|_| before.step());
                black_box(before.finish());
            },
            || {
                (0..steps).for_each(|_| after.step());
                black_box(after.finish());
            },
        );
        assert_eq!(before.finish().to_bits(), after.finish().to_bits());
    }
}
