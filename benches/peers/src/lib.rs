//! What the programs that are compared have in common: options, training steps of a network, and a line of JSON.

use std::panic;
use std::time::Instant;

use anyhow::{Result, anyhow};
use burn::optim::AdamConfig;
use burn::tensor::ElementConversion;
use burn::tensor::backend::AutodiffBackend;
use burn_overcommit_networks::{Spec, training_step};
use clap::{Parser, ValueEnum};
use serde_json::json;

/// Types of floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Floats {
    /// 32 bits.
    F32,
    /// 16 bits, with the exponent of 32.
    Bf16,
}

impl Floats {
    /// As it is written everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Floats::F32 => "f32",
            Floats::Bf16 => "bf16",
        }
    }
}

/// Training steps of a network with Adam; a line of JSON tells how long they take.
#[derive(Clone, Debug, Parser)]
pub struct Options {
    /// A network such as resnet-50, resnet-152, unet or gpt2-medium.
    #[arg(long, default_value = "resnet-50")]
    pub model: String,
    /// Type of parameters and activations.
    #[arg(long, value_enum, default_value = "f32")]
    pub dtype: Floats,
    /// Images or sequences a step learns from.
    #[arg(long, default_value_t = 32)]
    pub batch: usize,
    /// How gradients are found; what there is depends on the program.
    #[arg(long, default_value = "autodiff")]
    pub mode: String,
    /// Device memory that may be used.
    #[arg(long)]
    pub cap_bytes: Option<usize>,
    /// Steps that are timed, after as many that are not.
    #[arg(long, default_value_t = 8)]
    pub steps: usize,
    /// Side of the images, if not the paper's.
    #[arg(long)]
    pub side: Option<usize>,
    /// Length of the sequences, if not the paper's.
    #[arg(long)]
    pub length: Option<usize>,
    /// Whether f32 may be multiplied with fewer bits.
    #[arg(long)]
    pub tf32: bool,
}

impl Options {
    /// The median time of a step, in milliseconds, and the last loss. `look` is called after each step.
    pub fn train<B: AutodiffBackend>(
        &self,
        device: &B::Device,
        mut look: impl FnMut(),
    ) -> Result<(f64, f32)> {
        B::seed(device, 7);
        let spec = Spec::named(&self.model, self.side, self.length).map_err(|error| anyhow!(error))?;
        let mut network = spec.network::<B>(device);
        let mut optimizer = AdamConfig::new().init();
        let (mut times, mut last) = (Vec::new(), 0.0);
        for step in 0..2 * self.steps.max(1) {
            let begin = Instant::now();
            let (next, loss) = training_step(network, &mut optimizer, 1e-4, spec.sample(self.batch, device));
            network = next;
            last = loss.into_scalar().elem::<f32>();
            anyhow::ensure!(last.is_finite(), "the loss is {last}");
            look();
            if step >= self.steps.max(1) {
                times.push(1e3 * begin.elapsed().as_secs_f64());
            }
        }
        times.sort_by(f64::total_cmp);
        Ok((times[times.len() / 2], last))
    }

    /// Prints a line of JSON: what was trained, and what was found.
    pub fn say(&self, system: &str, found: serde_json::Value) {
        let mut said = json!({
            "kind": "train",
            "model": self.model,
            "dtype": self.dtype.name(),
            "batch": self.batch,
            "system": system,
            "mode": self.mode,
            "cap_bytes": self.cap_bytes,
        });
        if let (Some(said), serde_json::Value::Object(found)) = (said.as_object_mut(), found) {
            said.extend(found);
        }
        println!("{said}");
    }

    /// From now on, a panic of any thread that says that memory ran out is printed as a result, and ends the program.
    pub fn say_when_out_of_memory(&self, system: &'static str) {
        let (options, before) = (self.clone(), panic::take_hook());
        panic::set_hook(Box::new(move |info| {
            let text = info.to_string().to_lowercase();
            if ["out of memory", "out of device memory", "out_of_memory"]
                .iter()
                .any(|part| text.contains(part))
            {
                options.say(system, json!({ "out_of_memory": true }));
                std::process::exit(0);
            }
            before(info);
        }));
    }
}
