//! Two networks on one device in one budget: a wide teacher learns the digits, then a narrow student learns from what it says.
//! Neither knows of the other's memory, nor of the budget.
//!
//! `cargo run --release --example several_models`

use burn::backend::Autodiff;
use burn::module::{AutodiffModule, Module};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, activation};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::digits::{Batch, CLASSES, Digits, SIDE, shuffled};
use burn_overcommit_examples::{accuracy, train_in_less, weights_bits};
use indicatif::ProgressBar;

const EPOCHS: usize = 8;
const BATCH: usize = 128;
const TEACHER_WIDTH: usize = 512;
const STUDENT_WIDTH: usize = 48;

/// A perceptron with three hidden layers.
#[derive(Module, Debug)]
struct Perceptron<B: Backend> {
    hidden: Vec<Linear<B>>,
    head: Linear<B>,
}

impl<B: Backend> Perceptron<B> {
    fn new(width: usize, device: &B::Device) -> Self {
        let hidden = [SIDE * SIDE, width, width].map(|inputs| LinearConfig::new(inputs, width).init(device));
        Perceptron { hidden: hidden.into(), head: LinearConfig::new(width, CLASSES).init(device) }
    }

    fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let hidden = |x, layer: &Linear<B>| activation::gelu(layer.forward(x));
        self.head.forward(self.hidden.iter().fold(images.flatten(1, 3), hidden))
    }
}

/// Trains a network by a loss of each batch.
fn train<B: AutodiffBackend>(
    mut network: Perceptron<B>,
    digits: &Digits,
    device: &B::Device,
    loss: impl Fn(&Perceptron<B>, Batch<B>) -> Tensor<B, 1>,
) -> Perceptron<B> {
    let mut optimizer = AdamConfig::new().init();
    let progress = ProgressBar::new((EPOCHS * (digits.train.len() / BATCH)) as u64);
    for epoch in 0..EPOCHS {
        for chunk in shuffled(&digits.train, 1, epoch).chunks_exact(BATCH) {
            let gradients = loss(&network, Batch::new(chunk, device)).backward();
            let gradients = GradientsParams::from_grads(gradients, &network);
            network = optimizer.step(2e-3, network, gradients);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    network
}

/// The student's weights, and what both come to.
fn distil<B: AutodiffBackend>(digits: &Digits, device: &B::Device) -> (Vec<u32>, [f64; 2]) {
    B::seed(device, 1);
    let cross_entropy = CrossEntropyLossConfig::new().init(device);
    let teacher = train(Perceptron::<B>::new(TEACHER_WIDTH, device), digits, device, |network, batch| {
        cross_entropy.forward(network.forward(batch.images), batch.labels)
    });
    let teacher = teacher.valid();
    let student = train(Perceptron::<B>::new(STUDENT_WIDTH, device), digits, device, |network, batch| {
        let said = activation::softmax(teacher.forward(batch.images.clone().inner()), 1);
        let learned = activation::log_softmax(network.forward(batch.images), 1);
        -(Tensor::from_inner(said) * learned).sum_dim(1).mean()
    });
    let accuracies = [&teacher, &student.valid()].map(|network| {
        let Batch { images, labels } = Batch::new(&digits.held_out, device);
        accuracy([(network.forward(images), labels)])
    });
    (weights_bits(&student), accuracies)
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    let device = OvercommitDevice::default();
    let digits = Digits::load().expect("the shipped file is well formed");
    let [teacher, student] =
        train_in_less(&device, 0.5, 1, |_| distil::<Autodiff<Overcommit>>(&digits, &device))?;
    println!("accuracy: the teacher's {teacher:.3}, the student's {student:.3}");
    Ok(())
}
