//! Tells what training a network will need on a GPU, without the GPU.
//!
//! `cargo run --release -p burn-overcommit-examples --bin will_it_fit -- --model gpt2-medium --batch 8 --device rtx4090`; `-- --help` lists the
//! options.

use std::process::ExitCode;
use std::time::Duration;

use burn::backend::Autodiff;
use burn::optim::AdamConfig;
use burn_overcommit::{Config, DryRun, Overcommit, OvercommitDevice, Policy, SimProfile, Steps, dry_run};
use burn_overcommit_networks::{Spec, training_step};
use clap::Parser;
use indicatif::ProgressBar;

type Training = Autodiff<Overcommit>;

/// Tells what a step of training a network with Adam will need on a GPU, once the optimizer has its state, and how long it
/// will take there, with all the memory it asks for and with less.
#[derive(Debug, Parser)]
struct Options {
    /// A network of the papers, such as resnet-50, vgg-416, densenet-121, unet, lstm-medium, gpt2-xl or gpt-48x2048.
    #[arg(long, default_value = "gpt2-medium")]
    model: String,
    /// Images or sequences a step learns from.
    #[arg(long, default_value_t = 8)]
    batch: usize,
    /// Side of the images, if not the paper's.
    #[arg(long)]
    side: Option<usize>,
    /// Length of the sequences, if not the paper's.
    #[arg(long)]
    length: Option<usize>,
    /// A GPU that `overcommit devices` lists, such as rtx4090 or h100.
    #[arg(long, default_value = "rtx4090")]
    device: String,
    /// How memory is regained: auto, tensor-cache, recompute or evict-all.
    #[arg(long, default_value_t)]
    policy: Policy,
}

impl Options {
    fn dry_run(&self) -> Result<DryRun, String> {
        let spec = Spec::named(&self.model, self.side, self.length)?;
        let device: OvercommitDevice = format!("sim:{}", self.device).parse()?;
        let OvercommitDevice::Sim(profile) = device else { return Err(format!("{device} is no simulation")) };
        let profile = SimProfile::get(profile).ok_or("the profile is gone")?;
        let train = |device: &OvercommitDevice, steps: &mut Steps| {
            let mut network = spec.network::<Training>(device);
            let mut optimizer = AdamConfig::new().init();
            for _ in steps {
                let sample = spec.sample(self.batch, device);
                (network, _) = training_step(network, &mut optimizer, 1e-4, sample);
            }
        };
        dry_run(&profile, Config::new().policy(self.policy), train).map_err(|error| error.to_string())
    }
}

fn main() -> ExitCode {
    burn_overcommit_examples::begin();
    let options = Options::parse();
    let progress = ProgressBar::new_spinner().with_message(format!("running {}", options.model));
    progress.enable_steady_tick(Duration::from_millis(100));
    let outcome = options.dry_run();
    progress.finish_and_clear();
    match outcome {
        Ok(outcome) => {
            println!("Training {} with Adam, batch {}, on", options.model, options.batch);
            print!("{outcome}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("will_it_fit: {error}");
            ExitCode::FAILURE
        }
    }
}
