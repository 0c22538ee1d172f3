//! What a network's training step takes on a simulated device once plans have settled, under all memory and under less.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use burn::backend::Autodiff;
use burn::optim::adaptor::OptimizerAdaptor;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{Sgd, SgdConfig};
use burn::tensor::backend::Backend;
use burn_overcommit::runtime::paper_figures::{LayerCounts, layer_counts};
use burn_overcommit::{
    Config, Exactness, Overcommit, OvercommitDevice, Planning, Policy, Profile, SimProfile, Stats, configure,
    reset_stats, stats,
};
use burn_overcommit_networks::{Network, Spec, by_name, training_step};

type Training = Autodiff<Overcommit>;

/// Memory that no network here fills.
const BOUNDLESS_BYTES: usize = 1 << 50;
/// Budgets that are told apart: from the smallest that works to the need in so many parts.
const PARTS: usize = 40;
/// Budgets that an average is looked for in.
const AVERAGED: usize = 12;
/// Steps until plans have settled; the last is measured. An iteration is known after two, its plan is tried, and memory is
/// brought in order.
const STEPS: usize = 6;
/// Steps where nothing is evicted, and so nothing planned; in the second, weights and momenta are there.
const UNPLANNED_STEPS: usize = 2;

/// A network, how many samples a step learns from, and the device.
#[derive(Clone)]
pub struct Workload {
    spec: Spec,
    pub batch: usize,
    profile: Profile,
    host_limit_bytes: usize,
    checkpoints_only: bool,
    exactness: Exactness,
}

/// A step that was run.
#[derive(Clone)]
pub struct Step {
    pub policy: Policy,
    pub budget_bytes: usize,
    pub time_ns: u64,
    /// The smallest budget that is not refused, in any of the steps.
    pub smallest_bytes: usize,
    /// Of the last step.
    pub stats: Stats,
}

impl Step {
    /// How many times as long as `unlimited`.
    pub fn slowdown(&self, unlimited: &Step) -> f64 {
        self.time_ns as f64 / unlimited.time_ns as f64
    }

    /// The part of the memory that `unlimited` needs, less which this one does with.
    pub fn saved(&self, unlimited: &Step) -> f64 {
        1.0 - self.budget_bytes as f64 / unlimited.need_bytes() as f64
    }

    /// The part of the memory that `unlimited` needs, less which this one uses on average.
    pub fn saved_on_average(&self, unlimited: &Step) -> f64 {
        1.0 - self.stats.average_allocated_bytes as f64 / unlimited.need_bytes() as f64
    }

    /// The most device memory in use.
    pub fn need_bytes(&self) -> usize {
        self.stats.peak_allocated_bytes
    }
}

impl Workload {
    /// A network and a device by name. Of the profile's host memory half is to be used, as is the default.
    pub fn new(network: &str, batch: usize, device: &str) -> Self {
        let spec = by_name(network).unwrap_or_else(|| panic!("there is no network {network}"));
        let profile = SimProfile::named(device).and_then(SimProfile::get);
        let profile = profile.unwrap_or_else(|| panic!("there is no device {device}"));
        let host_limit_bytes = profile.props.host_bytes / 2;
        let exactness = Exactness::Exact;
        Workload { spec, batch, profile, host_limit_bytes, checkpoints_only: false, exactness }
    }

    /// The same with so much host memory.
    pub fn with_host_limit(self, host_limit_bytes: usize) -> Self {
        Workload { host_limit_bytes, ..self }
    }

    /// The same with nothing that the forward pass makes kept on the host but checkpoints.
    pub fn with_checkpoints_only(&self) -> Self {
        Workload { checkpoints_only: true, ..self.clone() }
    }

    /// The same with algorithms chosen by what is free.
    pub fn fast(&self) -> Self {
        Workload { exactness: Exactness::Fast, ..self.clone() }
    }

    /// The network's name.
    pub fn network(&self) -> &str {
        &self.spec.name
    }

    /// The same with another batch.
    pub fn with_batch(&self, batch: usize) -> Self {
        Workload { batch, ..self.clone() }
    }

    /// What the device gives unless told otherwise: nine tenths of its memory, as `Config::budget` has it.
    pub fn device_budget_bytes(&self) -> usize {
        self.profile.props.device_bytes / 10 * 9
    }

    /// The step with all the memory it asks for.
    pub fn unlimited(&self) -> Step {
        let all = Workload { host_limit_bytes: BOUNDLESS_BYTES, ..self.clone() };
        let step = all.run(Policy::Auto, BOUNDLESS_BYTES, UNPLANNED_STEPS);
        step.unwrap_or_else(|error| panic!("{self} without a limit: {error}"))
    }

    /// The step under a policy that encodes, with all the memory that it asks for.
    pub fn encoded(&self, policy: Policy) -> Step {
        let all = Workload { host_limit_bytes: BOUNDLESS_BYTES, ..self.clone() };
        // Plans are followed where the host has room for what the device can hold.
        let step = all.run(policy, BOUNDLESS_BYTES / 4, STEPS);
        step.unwrap_or_else(|error| panic!("{self} without a limit: {error}"))
    }

    /// The step within a budget.
    pub fn under(&self, policy: Policy, budget_bytes: usize) -> Result<Step, String> {
        self.run(policy, budget_bytes, STEPS)
    }

    /// The step within a budget by the default policy: what is ours unless a row names a policy.
    pub fn within(&self, budget_bytes: usize) -> Result<Step, String> {
        self.under(Policy::Auto, budget_bytes)
    }

    /// The step with the smallest budget that is at most so many times slower, taking it that less memory is not faster;
    /// `None` if not even the need is enough, since free memory is in pieces.
    pub fn smallest_within(&self, unlimited: &Step, slowdown: f64) -> Option<Step> {
        let try_part = |part: usize| {
            let step = self.within(between(unlimited, part, PARTS)).ok()?;
            (step.slowdown(unlimited) <= slowdown).then_some(step)
        };
        let mut found = try_part(PARTS)?;
        let (mut too_little, mut enough) = (-1, PARTS as isize);
        while enough - too_little > 1 {
            let middle = (too_little + enough) / 2;
            match try_part(middle as usize) {
                Some(step) => (found, enough) = (step, middle),
                None => too_little = middle,
            }
        }
        Some(found)
    }

    /// The step with the least memory on average that is at most so many times slower, and its budget.
    pub fn least_average_within(&self, policy: Policy, unlimited: &Step, slowdown: f64) -> Option<Step> {
        let budgets = (0..AVERAGED).map(|part| between(unlimited, part, AVERAGED));
        let steps = budgets.filter_map(|budget_bytes| self.under(policy, budget_bytes).ok());
        steps
            .filter(|step| step.slowdown(unlimited) <= slowdown)
            .min_by_key(|step| step.stats.average_allocated_bytes)
    }

    /// The largest batch that the device trains, to a sixteenth, from one that may be it.
    pub fn largest_batch(&self, around: usize) -> usize {
        let trains = |batch: usize| {
            let workload = self.with_batch(batch);
            workload.run(Policy::Auto, self.device_budget_bytes(), UNPLANNED_STEPS).is_ok()
        };
        let (mut trained, mut refused) = (0, around);
        while trains(refused) {
            (trained, refused) = (refused, 2 * refused);
        }
        while refused - trained > (refused / 16).max(1) {
            let middle = trained.midpoint(refused);
            if trains(middle) { trained = middle } else { refused = middle }
        }
        trained
    }

    /// What SuperNeurons makes of the network.
    pub fn layer_counts(&self) -> LayerCounts {
        let device = self.device(Config::new().planning(Planning::Off)).expect("a valid configuration");
        let counts = || layer_counts(&device).expect("a device in use");
        let mut steps = Steps::new(&self.spec, &device);
        let mut count = || {
            // The iteration is logged from the first question on.
            counts().or_else(|| {
                steps.run(self.batch);
                None
            })
        };
        (0..STEPS).find_map(|_| count()).expect("an iteration is known after a few")
    }

    /// A device of its own.
    fn device(&self, config: Config) -> Result<OvercommitDevice, String> {
        let mut profile = Profile { key: "papers".to_string(), ..self.profile.clone() };
        (profile.props.device_bytes, profile.props.host_bytes) = (BOUNDLESS_BYTES, BOUNDLESS_BYTES);
        let device = OvercommitDevice::Sim(SimProfile::add(profile));
        // The papers' networks run an op a layer.
        configure(&device, config.fusion(false)).map_err(|error| error.to_string())?;
        Ok(device)
    }

    /// Steps on a device of their own; the last is measured.
    fn run(&self, policy: Policy, budget_bytes: usize, steps: usize) -> Result<Step, String> {
        let config = Config::new()
            .policy(policy)
            .budget_bytes(budget_bytes)
            .host_limit_bytes(self.host_limit_bytes)
            .exactness(self.exactness);
        let config = if self.checkpoints_only { config.offload_checkpoints_only() } else { config };
        let device = self.device(config)?;
        let stats = refused(|| {
            let mut training = Steps::new(&self.spec, &device);
            (0..steps).map(|_| training.run(self.batch)).collect::<Vec<Stats>>()
        })?;
        let [.., before, last] = &stats[..] else { panic!("of one step nothing is measured") };
        let smallest_bytes = stats.iter().map(|stats| stats.smallest_budget_bytes).max();
        Ok(Step {
            policy,
            budget_bytes,
            time_ns: end_ns(last) - end_ns(before),
            smallest_bytes: smallest_bytes.expect("there are steps"),
            stats: last.clone(),
        })
    }
}

/// A network in training, by SGD with momentum, as in the papers.
struct Steps<'a> {
    spec: &'a Spec,
    device: &'a OvercommitDevice,
    network: Option<Network<Training>>,
    optimizer: OptimizerAdaptor<Sgd<Overcommit>, Network<Training>, Training>,
}

impl<'a> Steps<'a> {
    fn new(spec: &'a Spec, device: &'a OvercommitDevice) -> Self {
        let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.0);
        let optimizer = SgdConfig::new().with_momentum(Some(momentum)).init();
        Steps { spec, device, network: Some(spec.network::<Training>(device)), optimizer }
    }

    /// One step, and its figures.
    fn run(&mut self, batch: usize) -> Stats {
        reset_stats(self.device).expect("a device in use");
        let before = self.network.take().expect("every step leaves a network");
        let sample = self.spec.sample(batch, self.device);
        let (after, _) = training_step(before, &mut self.optimizer, 0.01, sample);
        self.network = Some(after);
        Training::sync(self.device).expect("a simulation");
        stats(self.device).expect("a device in use")
    }
}

/// A budget between the smallest that works, part zero, and the need, the last part.
fn between(unlimited: &Step, part: usize, parts: usize) -> usize {
    let (least_bytes, most_bytes) = (unlimited.smallest_bytes, unlimited.need_bytes());
    least_bytes + (most_bytes - least_bytes) / parts * part
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.spec.name, self.batch, self.profile.key)
    }
}

fn end_ns(stats: &Stats) -> u64 {
    stats.times.expect("a simulation has a clock").end_ns
}

/// What a program makes, or the first line of why it panicked, which is how Burn's ops refuse.
fn refused<T>(program: impl FnOnce() -> T) -> Result<T, String> {
    let hook = take_hook();
    set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(program));
    set_hook(hook);
    result.map_err(|panic| {
        let text = panic.downcast::<String>().map_or_else(|_| "a panic".to_string(), |text| *text);
        text.lines().next().unwrap_or_default().to_string()
    })
}
