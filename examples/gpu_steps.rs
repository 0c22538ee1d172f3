//! Training steps of a network on a device, with all the memory they need and under parts of it: for `scripts/gpu-check bench`.
//!
//! `cargo run --release --example gpu_steps -- --model resnet-50 --batch 32` with `OVERCOMMIT_DEVICE=cuda:0`.

use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use burn::backend::Autodiff;
use burn::optim::AdamConfig;
use burn_overcommit::engine::Fallback;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, runtime, stats};
use burn_overcommit_networks::{Spec, training_step};
use clap::Parser;

type Training = Autodiff<Overcommit>;

/// Training steps of a network with Adam, with all the memory they need and under parts of it.
#[derive(Debug, Parser)]
struct Options {
    /// A network of the papers, such as resnet-50, resnet-152, unet or gpt2-medium.
    #[arg(long, default_value = "resnet-50")]
    model: String,
    /// Images or sequences a step learns from.
    #[arg(long, default_value_t = 32)]
    batch: usize,
    /// Side of the images, if not the paper's.
    #[arg(long)]
    side: Option<usize>,
    /// Length of the sequences, if not the paper's.
    #[arg(long)]
    length: Option<usize>,
    /// Parts of the need, in percent.
    #[arg(long, value_delimiter = ',', default_values_t = [50, 30])]
    percent: Vec<usize>,
    /// Steps that are timed, after as many that are not: plans are made meanwhile.
    #[arg(long, default_value_t = 8)]
    steps: usize,
    /// Whether f32 may be multiplied with fewer bits.
    #[arg(long)]
    tf32: bool,
}

/// What steps under a budget were like.
struct Found {
    /// The median, in seconds.
    step_s: f64,
    peak_bytes: usize,
    evictions: u64,
    /// Of the last step, as bits.
    loss: f32,
    /// Ops that no library did, and why.
    fallbacks: Vec<Fallback>,
}

impl Options {
    fn run(&self, device: &OvercommitDevice, budget_bytes: Option<usize>) -> Result<Found> {
        let config = Config::new().tf32(self.tf32);
        configure(device, budget_bytes.map_or(config.clone(), |bytes| config.budget_bytes(bytes)))?;
        runtime::seed(device, 7)?;
        let spec = Spec::named(&self.model, self.side, self.length).map_err(|error| anyhow!(error))?;
        let mut network = spec.network::<Training>(device);
        let mut optimizer = AdamConfig::new().init();
        let (mut times, mut loss) = (Vec::new(), 0.0);
        for step in 0..2 * self.steps {
            let begin = Instant::now();
            let sample = spec.sample(self.batch, device);
            let (next, value) = training_step(network, &mut optimizer, 1e-4, sample);
            network = next;
            loss = value.into_scalar();
            if step >= self.steps {
                times.push(begin.elapsed().as_secs_f64());
            }
        }
        times.sort_by(f64::total_cmp);
        let stats = stats(device)?;
        Ok(Found {
            step_s: times[times.len() / 2],
            peak_bytes: stats.peak_allocated_bytes,
            evictions: stats.counters.evictions,
            loss,
            fallbacks: stats.fallbacks,
        })
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    let device = OvercommitDevice::default();
    let whole = options.run(&device, None)?;
    let say = |share: &str, found: &Found| {
        println!(
            "{} batch {} on {device}, {share}: {:.2} ms a step, {:.3} x, peak {} MiB, {} evictions, loss {}",
            options.model,
            options.batch,
            found.step_s * 1e3,
            found.step_s / whole.step_s,
            found.peak_bytes >> 20,
            found.evictions,
            found.loss
        );
    };
    say("all it needs", &whole);
    ensure!(whole.fallbacks.is_empty(), "NVIDIA's libraries did not do all: {:?}", whole.fallbacks);
    for percent in &options.percent {
        let budget_bytes = whole.peak_bytes * percent / 100;
        let found = options.run(&device, Some(budget_bytes))?;
        say(&format!("{percent} %"), &found);
        ensure!(found.peak_bytes <= budget_bytes, "{} bytes are above the budget", found.peak_bytes);
        ensure!(found.loss.to_bits() == whole.loss.to_bits(), "the bits of the loss differ");
    }
    Ok(())
}
