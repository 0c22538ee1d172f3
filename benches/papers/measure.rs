//! What a network's second training step takes on a simulated device, under all memory and under less.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use burn::backend::Autodiff;
use burn::optim::SgdConfig;
use burn::optim::momentum::MomentumConfig;
use burn::tensor::backend::Backend;
use burn_overcommit::{
    Config, Overcommit, OvercommitDevice, Policy, Profile, SimProfile, Stats, configure, reset_stats, stats,
};
use burn_overcommit_networks::{Spec, by_name, training_step};

type Training = Autodiff<Overcommit>;

/// Memory that no network here fills.
const BOUNDLESS_BYTES: usize = 1 << 50;
/// Budgets that are tried: multiples of this part of the need, from the least on.
const PARTS: usize = 40;

/// A network, how many samples a step learns from, and the device.
#[derive(Clone)]
pub struct Workload {
    spec: Spec,
    pub batch: usize,
    profile: Profile,
}

/// A step that was run.
#[derive(Clone)]
pub struct Step {
    pub policy: Policy,
    pub budget_bytes: usize,
    pub time_ns: u64,
    /// The smallest budget that is not refused, in the first step or the second.
    pub smallest_bytes: usize,
    /// Of the second step.
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
    /// A network and a device by name.
    pub fn new(network: &str, batch: usize, device: &str) -> Self {
        let spec = by_name(network).unwrap_or_else(|| panic!("there is no network {network}"));
        let profile = SimProfile::named(device).and_then(SimProfile::get);
        Workload { spec, batch, profile: profile.unwrap_or_else(|| panic!("there is no device {device}")) }
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
        let step = self.run(Policy::Auto, BOUNDLESS_BYTES, BOUNDLESS_BYTES);
        step.unwrap_or_else(|error| panic!("{self} without a limit: {error}"))
    }

    /// The step within a budget; the host's memory is the profile's, half of it to be used, as is the default.
    pub fn under(&self, policy: Policy, budget_bytes: usize) -> Result<Step, String> {
        self.run(policy, budget_bytes, self.profile.props.host_bytes / 2)
    }

    /// The fastest step within a budget. Of all policies, so that it improves as policies land, but the one that keeps
    /// nothing.
    pub fn fastest(&self, budget_bytes: usize) -> Result<Step, String> {
        let policies = Policy::ALL.into_iter().filter(|policy| *policy != Policy::EvictAll);
        let steps = policies.map(|policy| self.under(policy, budget_bytes));
        let faster = |one: Result<Step, String>, other: Result<Step, String>| match (&one, &other) {
            (Ok(a), Ok(b)) if a.time_ns <= b.time_ns => one,
            (Ok(_), Err(_)) => one,
            _ => other,
        };
        steps.reduce(faster).expect("there are policies")
    }

    /// The step with the smallest budget that is at most so many times slower; `None` if not even the need is enough,
    /// since free memory is in pieces.
    pub fn smallest_within(&self, unlimited: &Step, slowdown: f64) -> Option<Step> {
        let need_bytes = unlimited.need_bytes();
        let parts = (1..=PARTS).map(|part| need_bytes / PARTS * part);
        let budgets = parts.filter(|&budget_bytes| budget_bytes > unlimited.smallest_bytes);
        std::iter::once(unlimited.smallest_bytes)
            .chain(budgets)
            .filter_map(|budget_bytes| self.fastest(budget_bytes).ok())
            .find(|step| step.slowdown(unlimited) <= slowdown)
    }

    /// The step with the least memory on average that is at most so many times slower, and its budget.
    pub fn least_average_within(&self, unlimited: &Step, slowdown: f64) -> Option<Step> {
        let need_bytes = unlimited.need_bytes();
        let budgets =
            (1..=PARTS / 2).map(|part| (need_bytes / PARTS * 2 * part).max(unlimited.smallest_bytes));
        let steps = budgets.flat_map(|budget_bytes| Policy::ALL.map(|policy| (policy, budget_bytes)));
        steps
            .filter_map(|(policy, budget_bytes)| self.under(policy, budget_bytes).ok())
            .filter(|step| step.slowdown(unlimited) <= slowdown)
            .min_by_key(|step| step.stats.average_allocated_bytes)
    }

    /// The largest batch that the device trains, to a sixteenth, from one that may be it.
    pub fn largest_batch(&self, around: usize) -> usize {
        let trains =
            |batch: usize| self.with_batch(batch).under(Policy::Auto, self.device_budget_bytes()).is_ok();
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

    /// Two steps on a device of their own; the second is measured, where weights and momenta are resident.
    fn run(&self, policy: Policy, budget_bytes: usize, host_limit_bytes: usize) -> Result<Step, String> {
        let mut profile = Profile { key: "papers".to_string(), ..self.profile.clone() };
        (profile.props.device_bytes, profile.props.host_bytes) = (BOUNDLESS_BYTES, BOUNDLESS_BYTES);
        let device = OvercommitDevice::Sim(SimProfile::add(profile));
        let config =
            Config::new().policy(policy).budget_bytes(budget_bytes).host_limit_bytes(host_limit_bytes);
        configure(&device, config).map_err(|error| error.to_string())?;
        let [first, second] = refused(|| self.two_steps(&device))?;
        Ok(Step {
            policy,
            budget_bytes,
            time_ns: end_ns(&second) - end_ns(&first),
            smallest_bytes: first.smallest_budget_bytes.max(second.smallest_budget_bytes),
            stats: second,
        })
    }

    /// SGD with momentum, as in the papers.
    fn two_steps(&self, device: &OvercommitDevice) -> [Stats; 2] {
        let momentum = MomentumConfig::new().with_momentum(0.9).with_dampening(0.0);
        let mut optimizer = SgdConfig::new().with_momentum(Some(momentum)).init();
        let mut network = Some(self.spec.network::<Training>(device));
        [(); 2].map(|()| {
            reset_stats(device).expect("a device in use");
            let before = network.take().expect("every step leaves a network");
            let sample = self.spec.sample(self.batch, device);
            let (after, _) = training_step(before, &mut optimizer, 0.01, sample);
            network = Some(after);
            Training::sync(device).expect("a simulation");
            stats(device).expect("a device in use")
        })
    }
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
