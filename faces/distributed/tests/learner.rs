//! Burn's `Learner` on several devices: what they learn together is what one learns from the same batches.

use std::env::current_exe;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Write, stderr};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use burn::backend::Autodiff;
use burn::data::dataloader::DataLoaderBuilder;
use burn::data::dataloader::batcher::Batcher;
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::{Linear, LinearConfig};
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamConfig, Optimizer, SgdConfig};
use burn::tensor::backend::distributed::{DistributedConfig, ReduceOperation};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::{Tensor, TensorData, activation};
use burn::train::logger::InMemoryMetricLogger;
use burn::train::metric::LossMetric;
use burn::train::renderer::CliMetricsRenderer;
use burn::train::{
    ExecutionStrategy, InferenceStep, Learner, MultiDeviceOptim, RegressionOutput, SupervisedTraining,
    TrainOutput, TrainStep,
};
use burn_overcommit::engine::around::{Around, Call};
use burn_overcommit::engine::{Engine, EngineError};
use burn_overcommit::runtime::configure_with_engine;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Planning, configure, stats};
use serial_test::serial;

type B = Autodiff<Overcommit>;

const WIDTH: usize = 64;
const LAYERS: usize = 6;
/// Samples that a device takes at a step.
const BATCH: usize = 16;
/// Steps of an epoch.
const STEPS: usize = 12;
const EPOCHS: usize = 3;

/// Ends the tests if one waits for ever.
struct Watchdog {
    _goes: Sender<()>,
}

impl Watchdog {
    fn new(name: &'static str, seconds: u64) -> Self {
        let (goes, gone) = mpsc::channel();
        thread::spawn(move || {
            if gone.recv_timeout(Duration::from_secs(seconds)) == Err(RecvTimeoutError::Timeout) {
                // The test harness keeps what `eprintln` prints for itself.
                let _ = writeln!(
                    stderr(),
                    "{name}: not done after {seconds} s: devices wait for each other for ever"
                );
                std::process::abort();
            }
        });
        Watchdog { _goes: goes }
    }
}

/// A number that depends on some others, below one.
fn drawn(from: impl Hash) -> f32 {
    let mut hasher = DefaultHasher::new();
    from.hash(&mut hasher);
    (hasher.finish() >> 40) as f32 / (1 << 24) as f32
}

#[derive(Clone, Debug)]
struct Sample {
    index: usize,
    inputs: Vec<f32>,
    targets: Vec<f32>,
}

fn samples(count: usize) -> Vec<Sample> {
    let row = |index, salt| (0..WIDTH).map(|column| drawn((index, column, salt))).collect();
    (0..count).map(|index| Sample { index, inputs: row(index, 0), targets: row(index, 1) }).collect()
}

#[derive(Clone, Debug)]
struct Batch<B: Backend> {
    inputs: Tensor<B, 2>,
    targets: Tensor<B, 2>,
    pauses: [Duration; 3],
}

/// Puts samples onto a device, and says how long it dawdles over them.
#[derive(Clone, Copy, Default)]
struct Upload {
    /// From which the pauses are drawn.
    seed: Option<usize>,
}

impl<B: Backend> Batcher<B, Sample, Batch<B>> for Upload {
    fn batch(&self, samples: Vec<Sample>, device: &B::Device) -> Batch<B> {
        let rows = |of: fn(&Sample) -> &[f32]| {
            let values: Vec<f32> = samples.iter().flat_map(of).copied().collect();
            Tensor::from_data(TensorData::new(values, [samples.len(), WIDTH]), device)
        };
        let pauses = [0, 1, 2].map(|place| match self.seed {
            // Most are short, some long.
            Some(seed) => {
                let long = drawn((seed, format!("{device:?}"), samples[0].index, place)).powi(4);
                Duration::from_secs_f32(0.02 * long)
            }
            None => Duration::ZERO,
        });
        Batch { inputs: rows(|sample| &sample.inputs), targets: rows(|sample| &sample.targets), pauses }
    }
}

#[derive(Module, Debug)]
struct Network<B: Backend> {
    layers: Vec<Linear<B>>,
}

impl<B: Backend> Network<B> {
    fn new(device: &B::Device) -> Self {
        B::seed(device, 3);
        let layers = (0..LAYERS).map(|_| LinearConfig::new(WIDTH, WIDTH).init(device)).collect();
        Network { layers }
    }

    fn forward(&self, batch: Batch<B>) -> RegressionOutput<B> {
        let layer = |x, layer: &Linear<B>| activation::tanh(layer.forward(x));
        let outputs = self.layers.iter().fold(batch.inputs, layer);
        let loss = (outputs.clone() - batch.targets.clone()).square().mean();
        RegressionOutput::new(loss, outputs, batch.targets)
    }

    fn weights(&self) -> Vec<f32> {
        let values = |layer: &Linear<B>| layer.weight.val().into_data().to_vec::<f32>().expect("floats");
        self.layers.iter().flat_map(values).collect()
    }
}

impl<B: AutodiffBackend> TrainStep for Network<B> {
    type Input = Batch<B>;
    type Output = RegressionOutput<B>;

    fn step(&self, batch: Batch<B>) -> TrainOutput<RegressionOutput<B>> {
        let [first, then, last] = batch.pauses;
        thread::sleep(first);
        let output = self.forward(batch);
        thread::sleep(then);
        let gradients = output.loss.backward();
        thread::sleep(last);
        TrainOutput::new(self, gradients, output)
    }
}

impl<B: Backend> InferenceStep for Network<B> {
    type Input = Batch<B>;
    type Output = RegressionOutput<B>;

    fn step(&self, batch: Batch<B>) -> RegressionOutput<B> {
        self.forward(batch)
    }
}

/// What is learned.
#[derive(Clone)]
struct Task {
    samples: Vec<Sample>,
    /// Samples that a device takes at a step.
    batch: usize,
    epochs: usize,
    /// The learning rate.
    rate: f64,
    /// Of how many batches one step takes the gradients, if not of one.
    accumulated: Option<usize>,
    upload: Upload,
}

impl Task {
    /// A task for some devices.
    fn new(devices: usize, rate: f64) -> Self {
        let samples = samples(devices * STEPS * BATCH);
        Task { samples, batch: BATCH, epochs: EPOCHS, rate, accumulated: None, upload: Upload::default() }
    }

    /// The same for one device: at each step it adds up the gradients of the batches that they take. Burn gives each of them a part of
    /// the samples, one after the other, and makes batches of it.
    fn for_one(&self, devices: usize) -> Self {
        let share = self.samples.len() / devices;
        let batches =
            (0..share).step_by(BATCH).flat_map(|at| (0..devices).map(move |part| part * share + at));
        let samples = batches.flat_map(|at| self.samples[at..at + BATCH].to_vec()).collect();
        Task { samples, accumulated: Some(devices), ..self.clone() }
    }

    /// Trains by Burn's `Learner`, and returns the weights.
    fn learned<O>(self, strategy: ExecutionStrategy<B>, optimizer: O) -> Vec<f32>
    where
        O: Optimizer<Network<B>, B> + 'static,
    {
        let network = Network::new(strategy.main_device());
        let held_out = InMemDataset::new(self.samples[..self.batch].to_vec());
        let ordered = InMemDataset::new(self.samples);
        let mut training = SupervisedTraining::new(
            std::env::temp_dir(),
            DataLoaderBuilder::new(self.upload).batch_size(self.batch).build(ordered),
            DataLoaderBuilder::new(Upload::default()).batch_size(self.batch).build(held_out),
        );
        let learner = Learner::new(network, optimizer, self.rate);
        training = training
            .metrics((LossMetric::new(),))
            .with_metric_logger(InMemoryMetricLogger::new())
            .with_application_logger(None)
            .renderer(CliMetricsRenderer::new())
            .num_epochs(self.epochs)
            .with_training_strategy(strategy.into());
        if let Some(count) = self.accumulated {
            training = training.grads_accumulation(count);
        }
        training.launch(learner).model.weights()
    }
}

/// Fresh devices, each with half of what training on one takes.
fn devices(first: u16, count: usize) -> Vec<OvercommitDevice> {
    let alone = OvercommitDevice::Host(first);
    configure(&alone, Config::new()).expect("a host device");
    let task = Task { epochs: 1, ..Task::new(1, 1e-2) };
    task.learned(ExecutionStrategy::single(alone), AdamConfig::new().init());
    let needed_bytes = stats(&alone).expect("a device that ran").peak_allocated_bytes;
    let small = Config::new().budget_bytes(needed_bytes / 2).host_limit_bytes(1 << 30);
    let devices: Vec<_> = (1..=count as u16).map(|index| OvercommitDevice::Host(first + index)).collect();
    devices.iter().for_each(|device| configure(device, small.clone()).expect("a host device"));
    devices
}

fn assert_evicted(devices: &[OvercommitDevice]) {
    for device in devices {
        let seen = stats(device).expect("a device that ran");
        assert!(seen.counters.evictions > 0 && seen.peak_allocated_bytes <= seen.budget_bytes, "{seen}");
        println!("{device}: {} evictions", seen.counters.evictions);
    }
}

fn furthest(some: &[f32], others: &[f32]) -> f32 {
    assert_eq!(some.len(), others.len());
    some.iter().zip(others).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

fn alone() -> ExecutionStrategy<B> {
    ExecutionStrategy::single(OvercommitDevice::Host(1))
}

fn data_parallel(devices: &[OvercommitDevice], all_reduce_op: ReduceOperation) -> ExecutionStrategy<B> {
    ExecutionStrategy::ddp(devices.to_vec(), DistributedConfig { all_reduce_op })
}

#[test]
#[serial]
fn data_parallel_devices_learn_bit_for_bit_what_one_learns_from_their_batches() {
    let _watchdog = Watchdog::new("data parallel", 120);
    for count in [2, 4] {
        let devices = devices(10 * count as u16, count);
        let task = Task::new(count, 1e-3);
        let expected = task.for_one(count).learned(alone(), AdamConfig::new().init());
        let begun = Instant::now();
        let learned = task.learned(data_parallel(&devices, ReduceOperation::Sum), AdamConfig::new().init());
        println!("{count} devices: {:?}", begun.elapsed());
        assert!(learned == expected, "{count} devices: {:e}", furthest(&learned, &expected));
        assert_evicted(&devices);
    }
}

#[test]
#[serial]
fn the_mean_of_gradients_learns_what_one_device_learns_from_the_whole_batch() {
    let _watchdog = Watchdog::new("the mean", 120);
    for count in [2, 4] {
        let devices = devices(100 + 10 * count as u16, count);
        let task = Task::new(count, 1e-3);
        let whole = Task { batch: count * BATCH, accumulated: None, ..task.for_one(count) };
        let expected = whole.learned(alone(), AdamConfig::new().init());
        let part = Task { samples: task.samples[..STEPS * BATCH].to_vec(), ..task.clone() };
        let other = part.learned(alone(), AdamConfig::new().init());
        let learned = task.learned(data_parallel(&devices, ReduceOperation::Mean), AdamConfig::new().init());
        println!(
            "{count} devices: {:e}, a part alone {:e}",
            furthest(&learned, &expected),
            furthest(&other, &expected)
        );
        assert!(furthest(&learned, &expected) < 1e-6 && furthest(&other, &expected) > 1e-3);
        assert_evicted(&devices);
    }
}

#[test]
#[serial]
fn one_step_of_several_devices_adds_up_their_gradients() {
    let _watchdog = Watchdog::new("several devices", 120);
    let momentum = || SgdConfig::new().with_momentum(Some(MomentumConfig::new().with_dampening(0.0))).init();
    for (first, optim) in [(200, MultiDeviceOptim::OptimMainDevice), (300, MultiDeviceOptim::OptimSharded)] {
        for count in [2, 4] {
            let devices = devices(first + 10 * count as u16, count);
            let task = Task::new(count, 0.1 / count as f64);
            let expected = task.for_one(count).learned(alone(), momentum());
            let whole = Task { batch: count * BATCH, accumulated: None, rate: 0.1, ..task.for_one(count) };
            let averaged = whole.learned(alone(), momentum());
            let begun = Instant::now();
            let learned = task.learned(ExecutionStrategy::multi(devices.clone(), optim), momentum());
            let [far, far_from_whole] = [&expected, &averaged].map(|weights| furthest(&learned, weights));
            println!("{optim:?}, {count} devices: {far:e}, {far_from_whole:e}, {:?}", begun.elapsed());
            // Two numbers have one sum, and more have one for each order in which the devices are done.
            assert!(far <= if count == 2 { 0.0 } else { 1e-6 } && far_from_whole < 1e-6);
            assert_evicted(&devices);
        }
    }
}

/// An engine with copies and waits that take longer.
#[derive(Debug)]
struct Slow {
    engine: Arc<dyn Engine>,
    seed: usize,
    calls: AtomicUsize,
}

impl Around for Slow {
    fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    fn before(&self, call: Call, _: &dyn Fn(String) -> EngineError) -> Result<(), EngineError> {
        let long = drawn((self.seed, self.calls.fetch_add(1, Ordering::Relaxed)));
        if matches!(call, Call::Copy | Call::Wait) && long > 0.95 {
            thread::sleep(Duration::from_secs_f32(0.05 * (long - 0.95)));
        }
        Ok(())
    }
}

#[test]
#[serial]
fn devices_that_dawdle_never_wait_for_ever_and_change_no_bits() {
    let _watchdog = Watchdog::new("a hundred short runs", 120);
    let small = |planning| Config::new().budget("300 KiB").host_limit_bytes(1 << 28).planning(planning);
    let begun = Instant::now();
    let mut expected = [const { None }; 5];
    for run in 0..100 {
        let (count, group) = (2 + run % 3, run % 4);
        let devices: Vec<_> =
            (0..count).map(|at| OvercommitDevice::Host((400 + 8 * group + at) as u16)).collect();
        // Some devices plan meanwhile, some are slow.
        let config = small(if group == 0 { Planning::Background } else { Planning::Off });
        for device in &devices {
            let slow =
                |engine| Arc::new(Slow { engine, seed: run, calls: AtomicUsize::new(0) }) as Arc<dyn Engine>;
            let wrap = |engine| if group == 1 { slow(engine) } else { engine };
            configure_with_engine(device, config.clone(), wrap).expect("a host device");
        }
        let samples = samples(count * 3 * BATCH);
        let task = Task { epochs: 2, samples, upload: Upload { seed: Some(run) }, ..Task::new(count, 1e-3) };
        let learned = task.learned(data_parallel(&devices, ReduceOperation::Mean), AdamConfig::new().init());
        let expected = expected[count].get_or_insert_with(|| learned.clone());
        assert!(expected == &learned, "run {run}, {count} devices");
    }
    println!("{:?}", begun.elapsed());
}

/// Not a test but the training of the next one: its first device has no memory for its first product.
#[test]
#[ignore = "the program of another test"]
fn training_whose_first_device_fails() {
    let devices = [500, 501].map(OvercommitDevice::Host);
    for (device, budget) in devices.iter().zip(["20 KiB", "1 MiB"]) {
        configure(device, Config::new().budget(budget).host_limit("1 MiB")).expect("a host device");
    }
    Task::new(2, 1e-3).learned(data_parallel(&devices, ReduceOperation::Sum), AdamConfig::new().init());
}

#[test]
fn a_device_that_fails_before_it_brings_a_gradient_ends_the_training() {
    let _watchdog = Watchdog::new("a device that fails", 60);
    let training = Command::new(current_exe().expect("this program"))
        .args(["training_whose_first_device_fails", "--exact", "--ignored", "--nocapture"])
        .env("OVERCOMMIT_COLLECTIVE_TIMEOUT", "1")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&training.stderr);
    assert!(!training.status.success() && said.contains("out of device memory: "), "{said}");
    assert!(said.contains("host:500 no longer takes part in what other devices reduce with it"), "{said}");
}
