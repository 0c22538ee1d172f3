//! What rounding costs: a small residual network on handwritten digits, trained with what waits for the backward pass in full
//! precision and in fewer bits.

#[path = "../../examples/deeper_than_memory/data.rs"]
#[allow(unused_imports, reason = "its tests run with the example")]
mod data;

use std::error::Error;
use std::path::Path;

use burn::backend::Autodiff;
use burn::module::{AutodiffModule, Module};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig, PaddingConfig2d};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{GradientsParams, Optimizer, SgdConfig};
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn_overcommit::{
    Config, FloatFormat, Overcommit, OvercommitDevice, Planning, Policy, configure, stats,
};
use data::{Batch, CLASSES, Digits, shuffled};
use plotters::prelude::*;

type Training = Autodiff<Overcommit>;

const WIDTH: usize = 16;
const BLOCKS: usize = 3;
const BATCH: usize = 64;
const EPOCHS: usize = 10;
const RATE: f64 = 0.02;

/// A rectified sum of what comes in and two convolutions of it (He et al., CVPR 2016).
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

/// Of one way to keep values, over all seeds.
struct Course {
    name: String,
    /// The mean loss of each epoch.
    losses: Vec<f64>,
    /// The part of images that were not trained with which are told right.
    accuracy: f64,
    /// What encoded values take of what they did.
    kept: f64,
}

/// Trains in full precision, or with values rounded.
fn train(format: Option<FloatFormat>, seeds: u64, digits: &Digits) -> Course {
    let (mut losses, mut accuracy, mut kept) = (vec![0.0; EPOCHS], 0.0, 1.0);
    for seed in 0..seeds {
        let device = &OvercommitDevice::Host(10 + seed as u16);
        let policy = format.map_or(Policy::Auto, |_| Policy::Gist);
        let config = Config::new().policy(policy).planning(Planning::AtOnce);
        configure(device, format.into_iter().fold(config, Config::gist_format)).expect("an idle device");
        Training::seed(device, seed);
        let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.0);
        let mut optimizer = SgdConfig::new().with_momentum(Some(momentum)).init();
        let mut network = Network::<Training>::new(device);
        let criterion = CrossEntropyLossConfig::new().init(device);
        for (epoch, sum) in losses.iter_mut().enumerate() {
            let order = shuffled(&digits.train, seed, epoch);
            let batches = order.chunks_exact(BATCH);
            let count = batches.len() as f64;
            for batch in batches {
                let Batch { images, labels } = Batch::<Training>::new(batch, device);
                let loss = criterion.forward(network.scores(images), labels);
                let gradients = GradientsParams::from_grads(loss.backward(), &network);
                network = optimizer.step(RATE, network, gradients);
                *sum += f64::from(loss.into_scalar()) / count / seeds as f64;
            }
        }
        let counters = stats(device).expect("a device in use").counters;
        if counters.encoded_bytes > 0 {
            kept = counters.encoded_into_bytes as f64 / counters.encoded_bytes as f64;
        }
        let Batch { images, labels } = Batch::<Overcommit>::new(&digits.held_out, device);
        let told = network.valid().scores(images).argmax(1).flatten::<1>(0, 1);
        let right: i64 = told.equal(labels).int().sum().into_scalar().into();
        accuracy += right as f64 / digits.held_out.len() as f64 / seeds as f64;
    }
    let name = format.map_or("full precision", FloatFormat::name).to_string();
    Course { name, losses, accuracy, kept }
}

/// Prints accuracies and draws the losses of all epochs side by side: means over `seeds` of weights and batches.
pub fn print(image: &Path, seeds: u64) -> Result<(), Box<dyn Error>> {
    let digits = Digits::load()?;
    let formats = [None].into_iter().chain(FloatFormat::ALL.iter().copied().map(Some));
    println!("| kept in | accuracy | last loss | encoded bytes |");
    println!("|---|---:|---:|---:|");
    let mut courses = Vec::new();
    for format in formats {
        let course = train(format, seeds, &digits);
        let last = course.losses.last().copied().unwrap_or_default();
        println!("| {} | {:.2} % | {last:.4} | {:.2}x |", course.name, 100.0 * course.accuracy, course.kept);
        courses.push(course);
    }
    draw(&courses, image)?;
    let worst = courses.iter().map(|course| courses[0].accuracy - course.accuracy).fold(0.0, f64::max);
    println!("accuracy: full={:.4} worst-loss={:.4}", courses[0].accuracy, worst);
    Ok(())
}

fn draw(courses: &[Course], image: &Path) -> Result<(), Box<dyn Error>> {
    let paper = SVGBackend::new(image, (800, 480)).into_drawing_area();
    paper.fill(&WHITE)?;
    let all = || courses.iter().flat_map(|course| &course.losses).copied();
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let mut chart = ChartBuilder::on(&paper)
        .caption("Loss of an epoch, small residual network on digits", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(56)
        .build_cartesian_2d(1.0..EPOCHS as f64, (0.8 * least..1.2 * most).log_scale())?;
    chart.configure_mesh().x_desc("epoch").draw()?;
    for (index, course) in courses.iter().enumerate() {
        let colour = Palette99::pick(index).mix(1.0);
        let points = course.losses.iter().enumerate().map(|(epoch, &loss)| ((epoch + 1) as f64, loss));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(course.name.as_str())
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    paper.present()?;
    Ok(())
}
