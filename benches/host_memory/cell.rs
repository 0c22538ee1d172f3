//! One run: a network, a budget, a setting of the host tier.

use std::fmt;
use std::time::Instant;

use burn::backend::Autodiff;
use burn::optim::{AdamConfig, Optimizer, SgdConfig};
use burn::tensor::backend::Backend;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Planning, configure, stats};
use burn_overcommit_networks::{Network, Spec, by_name, training_step};
use clap::ValueEnum;

type B = Autodiff<Overcommit>;

/// What is trained.
#[derive(Clone, Copy)]
pub struct Trained {
    pub name: &'static str,
    /// The side of its images, or the length of its sequences.
    size: usize,
    classes: usize,
    batch: usize,
    adam: bool,
}

pub const NETWORKS: [Trained; 3] = [
    Trained { name: "gpt-6x256", size: 128, classes: 2000, batch: 8, adam: true },
    Trained { name: "resnet-18", size: 64, classes: 10, batch: 16, adam: false },
    Trained { name: "densenet-121", size: 64, classes: 10, batch: 8, adam: false },
];

/// How much host memory may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HostTier {
    /// What is asked for.
    Free,
    /// What the engine chooses.
    Default,
}

impl HostTier {
    pub fn words(self) -> &'static str {
        match self {
            HostTier::Free => "8 GiB",
            HostTier::Default => "default",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    AtOnce,
    Beside,
    Off,
}

/// One run.
pub struct Cell {
    pub network: Trained,
    /// As much as there is, if it is the most there can be.
    pub budget_bytes: usize,
    pub host: HostTier,
    pub planning: When,
    pub steps: usize,
}

/// What came of it.
#[derive(Debug)]
pub struct Measured {
    pub peak_device_bytes: usize,
    pub peak_host_bytes: usize,
    /// The most memory that the process ever had, as the system counts it.
    pub most_resident_bytes: usize,
    pub resident_bytes: usize,
    /// The same with each page counted once.
    pub proportional_bytes: usize,
    pub step_ms: f64,
    /// Of all losses.
    pub bits: u64,
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { peak_device_bytes, peak_host_bytes, most_resident_bytes, .. } = self;
        let Measured { resident_bytes, proportional_bytes, step_ms, bits, .. } = self;
        write!(f, "{peak_device_bytes} {peak_host_bytes} {most_resident_bytes} ")?;
        write!(f, "{resident_bytes} {proportional_bytes} {step_ms} {bits}")
    }
}

impl Measured {
    /// What was written so.
    pub fn read(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let mut bytes = || words.next()?.parse().ok();
        let [peak_device_bytes, peak_host_bytes] = [bytes()?, bytes()?];
        let [most_resident_bytes, resident_bytes, proportional_bytes] = [bytes()?, bytes()?, bytes()?];
        let (step_ms, bits) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Measured {
            peak_device_bytes,
            peak_host_bytes,
            most_resident_bytes,
            resident_bytes,
            proportional_bytes,
            step_ms,
            bits,
        })
    }
}

/// A row of a file of Linux, in bytes; 0 where there is none.
fn row_bytes(path: &str, name: &str) -> usize {
    let file = std::fs::read_to_string(path).unwrap_or_default();
    let row = file.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    row.and_then(|row| row.split_whitespace().next()?.parse::<usize>().ok()).unwrap_or(0) << 10
}

impl Trained {
    fn spec(&self) -> Spec {
        let spec = by_name(self.name).expect("a known network");
        let is_gpt = self.name.starts_with("gpt");
        let spec = if is_gpt { spec.with_length(self.size) } else { spec.with_side(self.size) };
        spec.with_classes(self.classes)
    }
}

impl Cell {
    fn config(&self) -> Config {
        let planning = match self.planning {
            When::AtOnce => Planning::AtOnce,
            When::Beside => Planning::Background,
            When::Off => Planning::Off,
        };
        let mut config = Config::new().planning(planning);
        if self.budget_bytes < usize::MAX {
            config = config.budget_bytes(self.budget_bytes);
        }
        match self.host {
            HostTier::Free => config.host_limit("8 GiB"),
            HostTier::Default => config,
        }
    }

    pub fn run(&self) -> Measured {
        let device = OvercommitDevice::Host(0);
        configure(&device, self.config()).expect("a device that nothing uses");
        B::seed(&device, 1);
        let network = self.network.spec().network::<B>(&device);
        let (network, losses, times_ms) = match self.network.adam {
            true => self.train(network, AdamConfig::new().init(), &device),
            false => self.train(network, SgdConfig::new().init(), &device),
        };
        let mut last: Vec<f64> = times_ms[times_ms.len() - times_ms.len().div_ceil(3)..].to_vec();
        last.sort_by(f64::total_cmp);
        let stats = stats(&device).expect("a device that ran");
        let measured = Measured {
            peak_device_bytes: stats.peak_allocated_bytes,
            peak_host_bytes: stats.peak_host_bytes,
            most_resident_bytes: row_bytes("/proc/self/status", "VmHWM"),
            resident_bytes: row_bytes("/proc/self/status", "VmRSS"),
            proportional_bytes: row_bytes("/proc/self/smaps_rollup", "Pss"),
            step_ms: last[last.len() / 2],
            bits: losses.iter().fold(0, |all: u64, loss| all.rotate_left(7) ^ u64::from(loss.to_bits())),
        };
        drop(network);
        measured
    }

    /// The network after so many steps, the loss of each, and its time.
    fn train(
        &self,
        mut network: Network<B>,
        mut optimizer: impl Optimizer<Network<B>, B>,
        device: &OvercommitDevice,
    ) -> (Network<B>, Vec<f32>, Vec<f64>) {
        let (spec, mut losses, mut times_ms) = (self.network.spec(), Vec::new(), Vec::new());
        for _ in 0..self.steps {
            let start = Instant::now();
            let sample = spec.sample(self.network.batch, device);
            let (trained, loss) = training_step(network, &mut optimizer, 1e-3, sample);
            network = trained;
            losses.push(loss.into_scalar());
            times_ms.push(start.elapsed().as_secs_f64() * 1e3);
        }
        (network, losses, times_ms)
    }
}
