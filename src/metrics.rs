//! Metrics of memory for Burn's `Learner`, which its dashboard draws beside loss and accuracy.
//!
//! ```
//! use burn_train::metric::Metric;
//! use burn_overcommit::OvercommitDevice;
//! use burn_overcommit::metrics::{MemoryFigure, MemoryMetric};
//!
//! let device = OvercommitDevice::Host(0);
//! let metric = MemoryMetric::new(&device, MemoryFigure::Offloaded)?;
//! assert_eq!(*metric.name(), "Offloaded (host:0)");
//! // let training = SupervisedTraining::new(..).metric_train_numeric(metric) ..
//! # Ok::<(), burn_overcommit::Error>(())
//! ```

use std::sync::Arc;

use burn_train::metric::{
    Metric, MetricAttributes, MetricMetadata, MetricName, Numeric, NumericAttributes, NumericEntry,
    SerializedEntry,
};
use bytesize::ByteSize;

use crate::engine::Tier;
use crate::runtime::stats_and_peak;
use crate::{Error, OvercommitDevice};

const MIB: f64 = (1 << 20) as f64;

/// What a [`MemoryMetric`] shows. See the [module](self) for an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemoryFigure {
    /// The most device memory in use during the step.
    Device,
    /// The most memory of the host tier in use during the step.
    Host,
    /// Bytes copied to the host during the step.
    Offloaded,
    /// Bytes recomputed during the step.
    Recomputed,
    /// The device's budget.
    Budget,
}

impl MemoryFigure {
    /// All of them.
    pub const ALL: [MemoryFigure; 5] = [
        MemoryFigure::Device,
        MemoryFigure::Host,
        MemoryFigure::Offloaded,
        MemoryFigure::Recomputed,
        MemoryFigure::Budget,
    ];

    fn name(self) -> &'static str {
        match self {
            MemoryFigure::Device => "Device memory",
            MemoryFigure::Host => "Host tier",
            MemoryFigure::Offloaded => "Offloaded",
            MemoryFigure::Recomputed => "Recomputed",
            MemoryFigure::Budget => "Budget",
        }
    }
}

/// A metric of one device's memory, per step, in MiB. Works with any output of a model. See the [module](self) for an example.
///
/// Burn updates metrics on a thread of its own, some moments after the step. So "the step" is what happened since the metric
/// was last updated.
#[derive(Debug, Clone)]
pub struct MemoryMetric {
    device: OvercommitDevice,
    figure: MemoryFigure,
    name: MetricName,
    /// What the counter that the metric follows was at the last update.
    counted_bytes: u64,
    bytes: u64,
    /// Sum and number of updates of this epoch.
    epoch: (u64, u64),
}

impl MemoryMetric {
    /// A metric that shows this figure of `device`, from now on.
    ///
    /// # Errors
    /// A device that this build cannot run.
    pub fn new(device: &OvercommitDevice, figure: MemoryFigure) -> Result<Self, Error> {
        let name = Arc::new(format!("{} ({device})", figure.name()));
        let mut metric =
            MemoryMetric { device: *device, figure, name, counted_bytes: 0, bytes: 0, epoch: (0, 0) };
        metric.measure()?;
        Ok(metric)
    }

    fn measure(&mut self) -> Result<(), Error> {
        let peak_of = match self.figure {
            MemoryFigure::Device => Some(Tier::Device),
            MemoryFigure::Host => Some(Tier::Host),
            _ => None,
        };
        let (stats, peak_bytes) = stats_and_peak(&self.device, peak_of)?;
        let mut since_last = |total_bytes: u64| {
            let before_bytes = std::mem::replace(&mut self.counted_bytes, total_bytes);
            // The program may have reset the statistics.
            total_bytes.checked_sub(before_bytes).unwrap_or(total_bytes)
        };
        self.bytes = match self.figure {
            MemoryFigure::Device | MemoryFigure::Host => peak_bytes as u64,
            MemoryFigure::Offloaded => since_last(stats.counters.offloaded_bytes),
            MemoryFigure::Recomputed => since_last(stats.counters.recomputed_bytes),
            MemoryFigure::Budget => stats.budget_bytes as u64,
        };
        Ok(())
    }
}

impl Metric for MemoryMetric {
    type Input = ();

    fn name(&self) -> MetricName {
        self.name.clone()
    }

    fn description(&self) -> Option<String> {
        let what = match self.figure {
            MemoryFigure::Device => "The most device memory in use during a step",
            MemoryFigure::Host => "The most memory of the host tier in use during a step",
            MemoryFigure::Offloaded => "Copied from device to host during a step",
            MemoryFigure::Recomputed => "Recomputed during a step",
            MemoryFigure::Budget => "The device memory that may be in use",
        };
        Some(what.into())
    }

    fn attributes(&self) -> MetricAttributes {
        NumericAttributes { unit: Some("MiB".into()), higher_is_better: false }.into()
    }

    fn update(&mut self, (): &(), _: &MetricMetadata) -> SerializedEntry {
        // If the device fails, the program learns it from its own calls, and the metric stays where it is.
        let _ = self.measure();
        self.epoch = (self.epoch.0 + self.bytes, self.epoch.1 + 1);
        SerializedEntry::new(ByteSize(self.bytes).to_string(), self.value().serialize())
    }

    fn clear(&mut self) {
        self.epoch = (0, 0);
    }
}

impl Numeric for MemoryMetric {
    fn value(&self) -> NumericEntry {
        NumericEntry::Value(self.bytes as f64 / MIB)
    }

    fn running_value(&self) -> NumericEntry {
        let (sum_bytes, updates) = self.epoch;
        let aggregated_value = sum_bytes as f64 / MIB / updates.max(1) as f64;
        NumericEntry::Aggregated { aggregated_value, count: updates as usize }
    }
}
