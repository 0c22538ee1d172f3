//! Training of the papers' networks.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};

use anyhow::{Result, anyhow};
use burn::backend::Autodiff;
use burn::optim::{AdamConfig, Optimizer, SgdConfig};
use burn_overcommit::{Overcommit, OvercommitDevice, name_modules, note};
use burn_overcommit_networks::{Network, Spec, training_step};
use clap::{Args, ValueEnum};

type Training = Autodiff<Overcommit>;

/// How a network is trained.
#[derive(Debug, Args)]
pub struct TrainingOptions {
    /// Images or sequences a step learns from.
    #[arg(long, default_value_t = 8)]
    pub batch: usize,
    /// Side of the images, if not the paper's.
    #[arg(long)]
    side: Option<usize>,
    /// Length of the sequences, if not the paper's.
    #[arg(long)]
    length: Option<usize>,
    /// What the steps are taken by.
    #[arg(long, value_enum, default_value_t = Rule::Adam)]
    optimizer: Rule,
}

/// How weights follow gradients.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rule {
    Adam,
    Sgd,
}

/// The message of a panic.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_string()
}

impl TrainingOptions {
    /// The network of a name.
    pub fn spec(&self, name: &str) -> Result<Spec> {
        Spec::named(name, self.side, self.length).map_err(anyhow::Error::msg)
    }

    /// Trains a network for so many steps, and notes where each begins. The error is the message of the panic that ended it.
    pub fn train(
        &self,
        spec: &Spec,
        device: &OvercommitDevice,
        steps: usize,
        after_each: impl FnMut(),
    ) -> Result<()> {
        let train = || match self.optimizer {
            Rule::Adam => self.steps(spec, device, steps, AdamConfig::new().init(), after_each),
            Rule::Sgd => self.steps(spec, device, steps, SgdConfig::new().init(), after_each),
        };
        // The message is told as an error: Burn's lines, where it comes from, say nothing to a user.
        let hook = panic::take_hook();
        panic::set_hook(Box::new(|_| {}));
        let trained = panic::catch_unwind(AssertUnwindSafe(train));
        panic::set_hook(hook);
        trained.map_err(|panic| anyhow!(message(&*panic)))
    }

    fn steps(
        &self,
        spec: &Spec,
        device: &OvercommitDevice,
        steps: usize,
        mut optimizer: impl Optimizer<Network<Training>, Training>,
        mut after_each: impl FnMut(),
    ) {
        let mut network = spec.network::<Training>(device);
        for step in 0..steps {
            note(device, &format!("step {}", step + 1)).expect("the device is configured");
            name_modules(&network);
            let sample = spec.sample(self.batch, device);
            (network, _) = training_step(network, &mut optimizer, 1e-3, sample);
            after_each();
        }
    }
}
