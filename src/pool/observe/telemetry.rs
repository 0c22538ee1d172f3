//! Spans and events for subscribers of the crate `tracing`, under the target `burn_overcommit`. Without the feature nothing is
//! sent.

use crate::OvercommitDevice;
use crate::error::Error;
use crate::stats::Counters;
use crate::trace::How;

/// What sends spans and events. The span `iteration` is open while the program follows a plan through an iteration, and is the
/// parent of the events of that time. It is not entered, since the pool may be called by several threads.
#[derive(Debug, Default)]
pub struct Telemetry {
    /// The device, unless nothing is sent, as in a trial of the planner.
    #[cfg(feature = "tracing")]
    device: Option<OvercommitDevice>,
    #[cfg(feature = "tracing")]
    iteration: Option<(tracing::Span, Counters)>,
}

#[cfg(not(feature = "tracing"))]
#[allow(unused_variables)]
impl Telemetry {
    pub fn begin(&mut self, device: OvercommitDevice) {}

    pub fn iteration_begins(&mut self, ops: usize, counters: &Counters) {}

    pub fn departed(&mut self, op: u64, counters: &Counters) {}

    pub fn planning(&self, iteration_ops: usize) {}

    pub fn planned(&self, iteration_ops: usize, is_kept: bool) {}

    pub fn evicted(&self, made_by: &'static str, bytes: usize, how: How) {}

    pub fn out_of_memory(&self, error: &Error) {}
}

#[cfg(feature = "tracing")]
impl Telemetry {
    /// From now on spans and events are sent, with the name of this device.
    pub fn begin(&mut self, device: OvercommitDevice) {
        self.device = Some(device);
    }

    fn span(&self) -> Option<tracing::Id> {
        self.iteration.as_ref().and_then(|(span, _)| span.id())
    }

    /// The program begins an iteration under a plan, after the one before.
    pub fn iteration_begins(&mut self, ops: usize, counters: &Counters) {
        let Some(device) = self.device else { return };
        self.iteration_ends(counters);
        let span = tracing::debug_span!(
            target: "burn_overcommit",
            parent: None,
            "iteration",
            device = %device,
            ops,
            offloaded_bytes = tracing::field::Empty,
            fetched_bytes = tracing::field::Empty,
            recomputed_bytes = tracing::field::Empty,
            evictions = tracing::field::Empty,
        );
        if !span.is_disabled() {
            self.iteration = Some((span, *counters));
        }
    }

    /// The iteration is over, if there was one.
    fn iteration_ends(&mut self, counters: &Counters) {
        let Some((span, before)) = self.iteration.take() else { return };
        // The program may have reset the statistics meanwhile.
        span.record("offloaded_bytes", counters.offloaded_bytes.saturating_sub(before.offloaded_bytes));
        span.record("fetched_bytes", counters.fetched_bytes.saturating_sub(before.fetched_bytes));
        span.record("recomputed_bytes", counters.recomputed_bytes.saturating_sub(before.recomputed_bytes));
        span.record("evictions", counters.evictions.saturating_sub(before.evictions));
    }

    /// The program did another op than its plan says.
    pub fn departed(&mut self, op: u64, counters: &Counters) {
        let Some(device) = self.device else { return };
        tracing::debug!(target: "burn_overcommit", parent: self.span(), device = %device, op, "departed from the plan");
        self.iteration_ends(counters);
    }

    /// The search for plans of an iteration begins.
    pub fn planning(&self, iteration_ops: usize) {
        let Some(device) = self.device else { return };
        tracing::info!(target: "burn_overcommit", device = %device, iteration_ops, "planning");
    }

    /// There is a plan that is better than those before.
    pub fn planned(&self, iteration_ops: usize, is_kept: bool) {
        let Some(device) = self.device else { return };
        tracing::info!(target: "burn_overcommit", device = %device, iteration_ops, is_kept, "planned");
    }

    /// A storage left device memory.
    pub fn evicted(&self, made_by: &'static str, bytes: usize, how: How) {
        let Some(device) = self.device else { return };
        tracing::trace!(
            target: "burn_overcommit", parent: self.span(), device = %device, made_by, bytes, how = ?how, "evicted"
        );
    }

    /// An op, a write or a read was refused for want of memory.
    pub fn out_of_memory(&self, error: &Error) {
        let Some(device) = self.device else { return };
        tracing::warn!(target: "burn_overcommit", parent: self.span(), device = %device, %error, "out of memory");
    }
}
