//! What rounding costs: networks trained on handwritten digits with what waits for the backward pass in full precision and in
//! fewer bits. A seed decides the weights, the batches, and which sixth of the images is held out; formats are compared with
//! full precision seed by seed, so that what seeds do is in neither's favour.

use std::error::Error;
use std::path::Path;

use burn::lr_scheduler::LrScheduler;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::tensor::Tensor;
use burn_overcommit::{
    Config, FloatFormat, Overcommit, OvercommitDevice, Planning, Policy, configure, stats,
};
use plotters::coord::Shift;
use plotters::prelude::*;
use serde_json::{Value, json};

use crate::Training;
use crate::data::{Batch, Digits, FOLDS, shuffled};
use crate::learner::Learner;
use crate::residual::Residual;

/// A network that learns to tell digits. Its rate falls along a cosine to nothing.
pub trait Learns: Sized {
    const NAME: &str;
    const BATCH: usize;
    const EPOCHS: usize;
    const RATE: f64;

    fn begin(seed: u64, device: &OvercommitDevice) -> Self;
    /// Learns from a batch; the loss before.
    fn learn(self, batch: Batch<Training>, rate: f64) -> (Self, f32);
    fn scores(&self, images: Tensor<Overcommit, 4>) -> Tensor<Overcommit, 2>;
}

/// The main example's, as it trains it.
impl Learns for Learner<Training> {
    const NAME: &str = "main example";
    const BATCH: usize = 32;
    const EPOCHS: usize = 4;
    const RATE: f64 = 2e-3;

    fn begin(seed: u64, device: &OvercommitDevice) -> Self {
        Learner::new(8, seed, device)
    }

    fn learn(self, batch: Batch<Training>, rate: f64) -> (Self, f32) {
        self.step(batch, rate)
    }

    fn scores(&self, images: Tensor<Overcommit, 4>) -> Tensor<Overcommit, 2> {
        self.valid().forward(images)
    }
}

/// One way to keep values.
struct Course {
    name: &'static str,
    /// The mean loss of each epoch, over all seeds.
    losses: Vec<f64>,
    /// By seed: the part of images that were not trained with which are told right.
    accuracies: Vec<f64>,
    /// What encoded values take of what they did.
    kept: f64,
}

/// Trains in full precision, or with values rounded.
fn train<L: Learns>(format: Option<FloatFormat>, seeds: u64) -> Result<Course, Box<dyn Error>> {
    let (mut losses, mut accuracies, mut kept) = (vec![0.0; L::EPOCHS], Vec::new(), 1.0);
    for seed in 0..seeds {
        let digits = Digits::without_fold(seed as usize % FOLDS)?;
        let device = &OvercommitDevice::Host(10 + seed as u16);
        let policy = format.map_or(Policy::Auto, |_| Policy::Gist);
        let config = Config::new().policy(policy).planning(Planning::AtOnce);
        configure(device, format.into_iter().fold(config, Config::gist_format))?;
        let steps = digits.train.len() / L::BATCH * L::EPOCHS;
        let mut rate = CosineAnnealingLrSchedulerConfig::new(L::RATE, steps).init()?;
        let mut learner = L::begin(seed, device);
        for (epoch, sum) in losses.iter_mut().enumerate() {
            let order = shuffled(&digits.train, seed, epoch);
            let batches = order.chunks_exact(L::BATCH);
            let count = batches.len() as f64 * seeds as f64;
            for batch in batches {
                let (learned, loss) = learner.learn(Batch::new(batch, device), rate.step());
                learner = learned;
                *sum += f64::from(loss) / count;
            }
        }
        let counters = stats(device)?.counters;
        if counters.encoded_bytes > 0 {
            kept = counters.encoded_into_bytes as f64 / counters.encoded_bytes as f64;
        }
        let Batch { images, labels } = Batch::<Overcommit>::new(&digits.held_out, device);
        let told = learner.scores(images).argmax(1).flatten::<1>(0, 1);
        let right: i64 = told.equal(labels).int().sum().into_scalar().into();
        accuracies.push(right as f64 / digits.held_out.len() as f64);
    }
    Ok(Course { name: format.map_or("full precision", FloatFormat::name), losses, accuracies, kept })
}

/// The mean, and its standard error.
fn mean(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

/// Prints a row for each format and keeps it for `--json`; returns the courses, and the most that one is below full precision with
/// two standard errors.
fn compare<L: Learns>(seeds: u64, cells: &mut Vec<Value>) -> Result<(Vec<Course>, f64), Box<dyn Error>> {
    println!("\n{}, {seeds} seeds:\n", L::NAME);
    println!("| kept in | accuracy | beside full precision | last loss | encoded bytes |");
    println!("|---|---:|---:|---:|---:|");
    let formats = [None].into_iter().chain(FloatFormat::ALL.iter().copied().map(Some));
    let (mut courses, mut worst) = (Vec::<Course>::new(), 0.0f64);
    for format in formats {
        let course = train::<L>(format, seeds)?;
        let full = courses.first().unwrap_or(&course);
        let beside = course.accuracies.iter().zip(&full.accuracies).map(|(accuracy, full)| accuracy - full);
        let ((accuracy, _), (more, error)) = (mean(course.accuracies.iter().copied()), mean(beside));
        let last = course.losses.last().copied().unwrap_or_default();
        println!(
            "| {} | {:.2} % | {:+.2} ± {:.2} | {last:.4} | {:.2}x |",
            course.name,
            100.0 * accuracy,
            100.0 * more,
            100.0 * error,
            course.kept
        );
        cells.push(json!({
            "table": "Accuracy",
            "network": L::NAME,
            "format": course.name,
            "accuracy_percent": 100.0 * accuracy,
            "difference_percentage_points": 100.0 * more,
            "standard_error_percentage_points": 100.0 * error,
            "last_loss": last,
            "encoded_bytes_ratio": course.kept,
        }));
        worst = worst.max(2.0 * error - more);
        courses.push(course);
    }
    Ok((courses, worst))
}

/// Prints accuracies and draws the losses of all epochs side by side: means over `seeds`. Returns the rows for `--json`.
pub fn print(image: &Path, seeds: u64) -> Result<Vec<Value>, Box<dyn Error>> {
    let mut cells = Vec::new();
    let (example, worst_of_example) = compare::<Learner<Training>>(seeds, &mut cells)?;
    let (residual, worst_of_residual) = compare::<Residual>(seeds, &mut cells)?;
    let paper = SVGBackend::new(image, (1200, 480)).into_drawing_area();
    paper.fill(&WHITE)?;
    let halves = paper.split_evenly((1, 2));
    draw(Learner::<Training>::NAME, &example, &halves[0])?;
    draw(Residual::NAME, &residual, &halves[1])?;
    paper.present()?;
    let worst = 100.0 * worst_of_example.max(worst_of_residual);
    println!(
        "\naccuracy: seeds={seeds} worst-loss={worst:.2} percentage points, two standard errors included"
    );
    Ok(cells)
}

fn draw(name: &str, courses: &[Course], area: &DrawingArea<SVGBackend, Shift>) -> Result<(), Box<dyn Error>> {
    let all = || courses.iter().flat_map(|course| &course.losses).copied();
    let (least, most) = (all().fold(f64::INFINITY, f64::min), all().fold(0.0, f64::max));
    let epochs = courses.iter().map(|course| course.losses.len()).max().unwrap_or(1);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Loss of an epoch: {name}"), ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(32)
        .y_label_area_size(56)
        .build_cartesian_2d(1.0..epochs as f64, (0.8 * least..1.2 * most).log_scale())?;
    chart.configure_mesh().x_desc("epoch").draw()?;
    for (index, course) in courses.iter().enumerate() {
        let colour = Palette99::pick(index).mix(1.0);
        let points = course.losses.iter().enumerate().map(|(epoch, &loss)| ((epoch + 1) as f64, loss));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(course.name)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 16, y)], colour.stroke_width(2)));
    }
    chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    Ok(())
}
