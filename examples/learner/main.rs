//! Burn's `Learner` within a budget: metrics, those of memory among them, checkpoints, early stopping, and its dashboard where the
//! output is a terminal. A first run has all memory, and ends when it learns no more. Another is paused midway, and resumed from its
//! checkpoint in half of the memory, up to the epoch where the first ended. Their weights have the same bits.
//!
//! A checkpoint of Burn holds weights, the optimizer's state and the schedule's. It holds no state of random numbers, so each epoch
//! here reads the digits in the same order, and nothing is dropped out. Nor does it hold what early stopping has seen: that is for
//! the first run alone. Burn reads the losses for it while they are still being written, so that the epoch can differ from one start
//! of this program to the next.
//!
//! `cargo run --release --example learner`

mod network;

use std::path::Path;

use burn::backend::Autodiff;
use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataset::InMemDataset;
use burn::lr_scheduler::cosine::CosineAnnealingLrSchedulerConfig;
use burn::optim::AdamConfig;
use burn::record::{BinFileRecorder, FullPrecisionSettings};
use burn::tensor::backend::AutodiffBackend;
use burn::train::metric::store::{Aggregate, Direction, Split};
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::renderer::CliMetricsRenderer;
use burn::train::{Learner, MetricEarlyStoppingStrategy, StoppingCondition, SupervisedTraining};
use burn_overcommit::metrics::{MemoryFigure, MemoryMetric};
use burn_overcommit::{Error, Overcommit, OvercommitDevice};
use burn_overcommit_examples::digits::{Digits, shuffled};
use burn_overcommit_examples::{print_table, weights_bits, within};

use crate::network::{Network, Upload};

/// Epochs at most: the first run ends when the loss on held-out digits has not fallen for two.
const EPOCHS: usize = 30;
/// The epoch after which the other run is paused.
const PAUSE: usize = 2;
const BATCH: usize = 64;

/// Which epochs a run trains, and where it keeps its checkpoints.
struct Part<'a> {
    directory: &'a Path,
    /// The epoch whose checkpoint it resumes.
    after: Option<usize>,
    last: usize,
    stops_early: bool,
}

/// Trains, and returns the bits of the weights.
fn train<B: AutodiffBackend>(part: Part, digits: &Digits, device: &B::Device) -> Vec<u32> {
    B::seed(device, 1);
    let ordered = InMemDataset::new(shuffled(&digits.train, 1, 0));
    let held_out = InMemDataset::new(digits.held_out.clone());
    let mut training = SupervisedTraining::new(
        part.directory,
        DataLoaderBuilder::new(Upload).batch_size(BATCH).build(ordered),
        DataLoaderBuilder::new(Upload).batch_size(BATCH).build(held_out),
    )
    .metrics((AccuracyMetric::new(), LossMetric::new()))
    // In full precision: `CompactRecorder` would round the weights.
    .with_file_checkpointer(BinFileRecorder::<FullPrecisionSettings>::new())
    .with_application_logger(None)
    .num_epochs(part.last);
    for figure in [MemoryFigure::Device, MemoryFigure::Offloaded, MemoryFigure::Recomputed] {
        let metric = MemoryMetric::new(&OvercommitDevice::default(), figure).expect("the device is in use");
        training = training.metric_train_numeric(metric);
    }
    if let Some(epoch) = part.after {
        training = training.checkpoint(epoch);
    }
    if part.stops_early {
        training = training.early_stopping(MetricEarlyStoppingStrategy::new(
            &LossMetric::<B>::new(),
            Aggregate::Mean,
            Direction::Lowest,
            Split::Valid,
            StoppingCondition::NoImprovementSince { n_epochs: 2 },
        ));
    }
    if cfg!(test) {
        training = training.renderer(CliMetricsRenderer::new());
    }
    let steps = EPOCHS * digits.train.len().div_ceil(BATCH);
    let schedule = CosineAnnealingLrSchedulerConfig::new(5e-3, steps).init().expect("a valid schedule");
    let learner = Learner::new(Network::<B>::new(device), AdamConfig::new().init(), schedule);
    weights_bits(&training.launch(learner).model)
}

fn main() -> Result<(), Error> {
    burn_overcommit_examples::begin();
    let device = OvercommitDevice::default();
    let digits = Digits::load().expect("the shipped file is well formed");
    let folders = [0, 1].map(|_| tempfile::tempdir().expect("a folder for checkpoints"));
    let [whole, paused] = folders.each_ref().map(|folder| folder.path());
    let train = |part| train::<Autodiff<Overcommit>>(part, &digits, &device);
    let first = Part { directory: whole, after: None, last: EPOCHS, stops_early: true };
    let (expected, unlimited) = within("all memory", &device, None, || train(first))?;
    let last = whole.join("valid").read_dir().expect("metrics of each epoch").count();

    let begun = Part { directory: paused, after: None, last: PAUSE, stops_early: false };
    let (_, before) = within("until the pause", &device, None, || train(begun))?;
    let resumed = Part { directory: paused, after: Some(PAUSE), last, stops_early: false };
    let budget_bytes = Some(unlimited.peak_bytes() / 2);
    let (in_half, after) = within("after it, in half", &device, budget_bytes, || train(resumed))?;
    assert!(in_half == expected, "the same bits");
    print_table(&[unlimited, before, after]);
    println!("The same bits after {last} of {EPOCHS} epochs.");
    Ok(())
}
