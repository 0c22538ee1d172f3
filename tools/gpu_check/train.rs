//! Training steps of a network, with all the memory they need or a cap, and under parts of what they need.

use std::time::Instant;

use anyhow::{Result, bail, ensure};
use burn::backend::Autodiff;
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::bf16;
use burn_overcommit::autodiff::MemorySaving;
use burn_overcommit::{Config, Counters, Overcommit, OvercommitDevice, Stats, configure, stats};
use clap::Args;
use serde_json::json;

use crate::peers::{Floats, Options as Peer};

const SYSTEM: &str = "burn-overcommit";

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    peer: Peer,
    /// The device.
    #[arg(long, default_value = "cuda:0", value_parser = str::parse::<OvercommitDevice>)]
    device: OvercommitDevice,
    /// Whether elementwise ops are launched together; by default what the device has.
    #[arg(long)]
    fusion: Option<bool>,
    /// Parts of the need, in percent, that it is trained in as well; the bits of the loss have to be the same.
    #[arg(long, value_delimiter = ',')]
    percent: Vec<usize>,
    /// What the parts are of, if not of the need: such as what another system needs at its peak.
    #[arg(long)]
    of_bytes: Option<usize>,
    /// Fails unless the last ten steps in less than all memory follow a plan or take no longer, and those in at most 30 percent
    /// follow one and offload.
    #[arg(long)]
    planned: bool,
    /// The bytes that a plan offloads in a step, from which the steps' must not differ by more than a tenth.
    #[arg(long)]
    offloads_bytes: Option<u64>,
}

/// Of the ops of these last steps, the least percentage that a plan has to guide.
const LAST_STEPS: usize = 10;
const GUIDED_PERCENT: u64 = 95;
/// Of the time with all memory, where the rule alone costs nothing.
const AS_FAST: f64 = 1.05;
/// From this part of memory on, in percent, a plan has to offload.
const OFFLOADING_PERCENT: usize = 30;

/// What steps under a budget were like.
struct Found {
    loss: f32,
    stats: Stats,
    steps: Vec<Step>,
}

/// A step.
struct Step {
    /// By the simulated clock, where there is one.
    ms: f64,
    /// At its end.
    counters: Counters,
}

impl Found {
    /// The median time of the later half of the steps.
    fn step_ms(&self) -> f64 {
        let mut times: Vec<f64> = self.steps[self.steps.len() / 2..].iter().map(|step| step.ms).collect();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    /// How much was counted in each of the later half of the steps.
    fn per_step(&self, counter: impl Fn(&Counters) -> u64) -> u64 {
        let later = self.steps.len().div_ceil(2);
        self.counted(later, counter) / later as u64
    }

    /// How much was counted in the last steps.
    fn counted(&self, last: usize, counter: impl Fn(&Counters) -> u64) -> u64 {
        let (before, later) = self.steps.split_at(self.steps.len().saturating_sub(last));
        let at = |steps: &[Step]| steps.last().map_or(0, |step| counter(&step.counters));
        at(later) - at(before)
    }

    /// Of the ops of the last steps, the percentage that a plan guided.
    fn guided_percent(&self) -> u64 {
        let ops = self.counted(LAST_STEPS, |counters| counters.ops);
        100 * self.counted(LAST_STEPS, |counters| counters.guided_ops) / ops.max(1)
    }
}

pub fn run(options: &Options) -> Result<()> {
    let peer = &options.peer;
    peer.say_when_out_of_memory(SYSTEM);
    match (peer.dtype, &*peer.mode) {
        (Floats::F32, "autodiff") => options.compare::<Autodiff<Overcommit>>(),
        (Floats::F32, "memory-saving") => options.compare::<MemorySaving<Overcommit>>(),
        (Floats::Bf16, "autodiff") => options.compare::<Autodiff<Overcommit<bf16>>>(),
        (Floats::Bf16, "memory-saving") => options.compare::<MemorySaving<Overcommit<bf16>>>(),
        (_, mode) => bail!("there is no mode {mode}: autodiff or memory-saving"),
    }
}

impl Options {
    fn compare<B: AutodiffBackend<Device = OvercommitDevice>>(&self) -> Result<()> {
        let whole = self.train::<B>(self.peer.cap_bytes)?;
        self.say(100, &whole, None);
        ensure!(
            whole.stats.fallbacks.is_empty(),
            "libraries did not compute all: {:?}",
            whole.stats.fallbacks
        );
        for &percent in &self.percent {
            let ruler_bytes = self.of_bytes.unwrap_or(whole.stats.peak_allocated_bytes);
            let budget_bytes = ruler_bytes * percent / 100;
            let found = self.train::<B>(Some(budget_bytes))?;
            self.say(percent, &found, Some(&whole));
            let peak_bytes = found.stats.peak_allocated_bytes;
            ensure!(peak_bytes <= budget_bytes, "{peak_bytes} bytes are above the budget of {budget_bytes}");
            ensure!(found.loss.to_bits() == whole.loss.to_bits(), "the bits of the loss differ");
            if self.planned && budget_bytes < whole.stats.peak_allocated_bytes {
                self.check_planned(percent, &found, &whole)?;
            }
        }
        Ok(())
    }

    /// Whether steps offloaded what they were to, and followed a plan in the end or took no longer than with all memory.
    fn check_planned(&self, percent: usize, found: &Found, whole: &Found) -> Result<()> {
        let is_tight = percent <= OFFLOADING_PERCENT;
        let offloaded_bytes = found.per_step(|counters| counters.offloaded_bytes);
        ensure!(!is_tight || offloaded_bytes > 0, "in {percent} % nothing is offloaded");
        if let Some(planned_bytes) = self.offloads_bytes {
            let ratio = offloaded_bytes as f64 / planned_bytes.max(1) as f64;
            ensure!(
                (0.9..=1.1).contains(&ratio),
                "in {percent} % {offloaded_bytes} bytes are offloaded in a step, {planned_bytes} by the plan"
            );
        }
        if !is_tight && found.step_ms() <= AS_FAST * whole.step_ms() {
            return Ok(());
        }
        let Counters { plans, kept_plans, .. } = found.stats.counters;
        ensure!(plans + kept_plans > 0, "in {percent} % there is no plan");
        let guided = found.guided_percent();
        ensure!(
            guided >= GUIDED_PERCENT,
            "in {percent} % a plan guides {guided} % of the ops of the last steps"
        );
        Ok(())
    }

    fn train<B: AutodiffBackend<Device = OvercommitDevice>>(
        &self,
        cap_bytes: Option<usize>,
    ) -> Result<Found> {
        let Options { peer, device, .. } = self;
        let mut config = Config::new().tf32(peer.tf32);
        config = self.fusion.map_or(config.clone(), |on| config.fusion(on));
        config = cap_bytes.map_or(config.clone(), |bytes| config.budget_bytes(bytes));
        configure(device, config)?;
        let mut steps = Vec::new();
        let mut before = Instant::now();
        let mut end_ns = 0;
        let look = || {
            let found = stats(device).expect("the device is there");
            let now = Instant::now();
            let ms = match found.times {
                Some(times) => (times.end_ns - std::mem::replace(&mut end_ns, times.end_ns)) as f64 / 1e6,
                None => now.duration_since(std::mem::replace(&mut before, now)).as_secs_f64() * 1e3,
            };
            steps.push(Step { ms, counters: found.counters });
        };
        let (_, loss) = peer.train::<B>(device, look)?;
        Ok(Found { loss, stats: stats(device)?, steps })
    }

    /// A line for a run; bytes and ops are of a step, as the mean of the later half.
    fn say(&self, percent: usize, found: &Found, whole: Option<&Found>) {
        let (peer, counters, step_ms) = (&self.peer, &found.stats.counters, found.step_ms());
        let steps_ms: Vec<f64> = found.steps.iter().map(|step| (1e3 * step.ms).round() / 1e3).collect();
        let fallbacks = found.stats.fallbacks.iter();
        let fallbacks: Vec<String> = fallbacks
            .map(|fallback| format!("{} x{}: {}", fallback.op, fallback.count, fallback.reason))
            .collect();
        let found = json!({
            "fusion": self.fusion,
            "percent": percent, "step_ms": step_ms, "steps_ms": steps_ms, "peak_bytes": found.stats.peak_allocated_bytes,
            "loss": found.loss, "same_bits": whole.map(|whole| whole.loss.to_bits() == found.loss.to_bits()),
            "slowdown": whole.map(|whole| step_ms / whole.step_ms()),
            "offloaded_bytes": found.per_step(|counters| counters.offloaded_bytes), "fetched_bytes": found.per_step(|counters| counters.fetched_bytes),
            "recomputed_ops": found.per_step(|counters| counters.recomputed_ops), "mapped_pages": found.per_step(|counters| counters.mapped_pages),
            "guided_percent": found.guided_percent(),
            "of_bytes": self.of_bytes,
            "plans": counters.plans + counters.kept_plans, "fallbacks": fallbacks,
        });
        peer.say(SYSTEM, found);
    }
}
