//! Training steps of a network, with all the memory they need or a cap, and under parts of what they need.

use anyhow::{Result, bail, ensure};
use burn::backend::Autodiff;
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::bf16;
use burn_overcommit::autodiff::MemorySaving;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Stats, configure, stats};
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
}

/// What steps under a budget were like.
struct Found {
    step_ms: f64,
    loss: f32,
    stats: Stats,
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
            let budget_bytes = whole.stats.peak_allocated_bytes * percent / 100;
            let found = self.train::<B>(Some(budget_bytes))?;
            self.say(percent, &found, Some(&whole));
            let peak_bytes = found.stats.peak_allocated_bytes;
            ensure!(peak_bytes <= budget_bytes, "{peak_bytes} bytes are above the budget of {budget_bytes}");
            ensure!(found.loss.to_bits() == whole.loss.to_bits(), "the bits of the loss differ");
        }
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
        let (step_ms, loss) = peer.train::<B>(device, || {})?;
        Ok(Found { step_ms, loss, stats: stats(device)? })
    }

    /// A line for a run; bytes and ops are of a step, as the mean of all of them.
    fn say(&self, percent: usize, found: &Found, whole: Option<&Found>) {
        let (peer, counters) = (&self.peer, &found.stats.counters);
        let per_step = |total: u64| total / (2 * peer.steps.max(1)) as u64;
        let fallbacks = found.stats.fallbacks.iter();
        let fallbacks: Vec<String> = fallbacks
            .map(|fallback| format!("{} x{}: {}", fallback.op, fallback.count, fallback.reason))
            .collect();
        let found = json!({
            "fusion": self.fusion,
            "percent": percent, "step_ms": found.step_ms, "peak_bytes": found.stats.peak_allocated_bytes,
            "loss": found.loss, "same_bits": whole.map(|whole| whole.loss.to_bits() == found.loss.to_bits()),
            "slowdown": whole.map(|whole| found.step_ms / whole.step_ms),
            "offloaded_bytes": per_step(counters.offloaded_bytes), "fetched_bytes": per_step(counters.fetched_bytes),
            "recomputed_ops": per_step(counters.recomputed_ops), "mapped_pages": per_step(counters.mapped_pages),
            "plans": counters.plans, "fallbacks": fallbacks,
        });
        peer.say(SYSTEM, found);
    }
}
