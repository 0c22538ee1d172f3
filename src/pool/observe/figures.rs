//! What users, tests and the planner can ask of the pool.

use std::sync::Arc;

#[cfg(feature = "train")]
use crate::engine::Tier;
use crate::engine::{Engine, Lane};
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::allocation_trace::AllocationTrace;
use crate::pool::memory::arena::Arena;
use crate::pool::observe::observer::Residents;
use crate::schedule::{IntervalId, RequestLog};
use crate::stats::Counters;
use crate::trace::{Event, Header, Journal, Recording};

impl Pool {
    /// The engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.submitter.engine
    }

    /// The current ends of all lanes.
    pub fn ends(&self) -> [crate::engine::Mark; Lane::ALL.len()] {
        Lane::ALL.map(|lane| self.engine().mark(lane))
    }

    /// The statistics that users see.
    pub fn stats(&self) -> crate::Stats {
        let needed = |tier: &Arena| (tier.used_bytes(), tier.peak_bytes(), tier.limit_bytes());
        let (allocated_bytes, peak_allocated_bytes, budget_bytes) = needed(&self.memory.device);
        let (host_bytes, peak_host_bytes, host_limit_bytes) = needed(&self.memory.host);
        let (peer_bytes, peak_peer_bytes, peer_limit_bytes) =
            self.memory.peer.as_ref().map_or((0, 0, 0), needed);
        let (disk_bytes, peak_disk_bytes, disk_limit_bytes) =
            self.memory.disk.as_ref().map_or((0, 0, 0), needed);
        crate::Stats {
            device: self.name,
            allocated_bytes,
            peak_allocated_bytes,
            average_allocated_bytes: (self.observer.usage.use_over_time.0
                / self.observer.usage.use_over_time.1.max(1)) as usize,
            footprint_bytes: self.memory.device.footprint_bytes(),
            reserved_bytes: self.memory.device.reserved_bytes(),
            peak_reserved_bytes: self.memory.device.peak_reserved_bytes(),
            budget_bytes,
            smallest_budget_bytes: self.settings.budget_for(self.observer.usage.largest_op_bytes),
            host_bytes,
            peak_host_bytes,
            host_limit_bytes,
            peak_with_host_bytes: self.memory.peak_with_host_bytes,
            peer_bytes,
            peak_peer_bytes,
            peer_limit_bytes,
            disk_bytes,
            peak_disk_bytes,
            failed_writes: self.engine().failed_writes(),
            disk_limit_bytes,
            storages: self.graph.storages.len(),
            recipes: self.graph.recipe_count(),
            counters: Counters {
                mapped_pages: self.memory.device.mapped_pages() - self.observer.usage.mapped_before,
                ..self.observer.counters
            },
            times: self.engine().times(),
            planning: self.planning_state(),
            fallbacks: self.engine().fallbacks(),
        }
    }

    /// The most bytes of a tier that were in use since the last call.
    #[cfg(feature = "train")]
    pub fn take_interval_peak(&mut self, tier: Tier) -> usize {
        self.memory.arena_mut(tier).map_or(0, Arena::take_interval_peak)
    }

    /// The events since they were last taken, with the times that the engine recorded. All submitted work must be done.
    pub fn take_recording(&mut self) -> Recording {
        self.journal().take(self.header(), &self.engine().recorded())
    }

    /// Where events are recorded.
    pub fn journal(&self) -> &Journal {
        &self.observer.journal
    }

    /// The first line of a trace.
    pub fn header(&self) -> Header {
        Header {
            trace: 1,
            device: format!(
                "{} ({}; {})",
                self.name,
                self.engine().props().name,
                self.engine().props().pricing()
            ),
            budget_bytes: self.memory.device.limit_bytes(),
            host_limit_bytes: self.memory.host.limit_bytes(),
            peer_limit_bytes: self.memory.peer.as_ref().map_or(0, Arena::limit_bytes),
            disk_limit_bytes: self.memory.disk.as_ref().map_or(0, Arena::limit_bytes),
            policy: self.settings.policy.to_string(),
            simulated: self.engine().times().is_some(),
        }
    }

    /// The number of the op at which the most device memory was in use.
    pub fn peak_op(&self) -> u64 {
        self.observer.usage.peak.1
    }

    /// The peak snapshot: the sizes of the residents after the op that the settings name, and the ops that made them,
    /// the largest first.
    pub fn peak_snapshot(&self) -> &Residents {
        &self.observer.snapshot
    }

    /// The number of candidates for eviction that were scanned so far.
    pub fn candidates_scanned(&self) -> u64 {
        self.observer.candidates_scanned.get()
    }

    /// Resets peaks and totals.
    pub fn reset_stats(&mut self) {
        self.memory.reset_peaks();
        self.observer.counters = Counters::default();
        self.observer.usage.mapped_before = self.memory.device.mapped_pages();
        self.observer.usage.largest_op_bytes = 0;
        self.observer.usage.use_over_time = (0, 0);
        self.observer.usage.peak = (self.memory.device.peak_bytes(), self.observer.clock);
    }

    /// Notes the op of the peak, and takes the peak snapshot at the op that the settings name.
    pub(in crate::pool) fn note_peak(&mut self) {
        if self.memory.device.peak_bytes() > self.observer.usage.peak.0 {
            self.observer.usage.peak = (self.memory.device.peak_bytes(), self.observer.clock);
        }
        if self.settings.snapshot_at == Some(self.observer.clock) {
            self.observer.snapshot = self.graph.residents();
        }
    }

    /// From now on the pool tells subscribers of the crate `tracing` what happens. The pools of trials do not.
    pub fn tell_subscribers(&mut self) {
        self.observer.telemetry.begin(self.name);
    }

    /// Records a remark of the program.
    pub fn note(&self, text: &str) {
        self.observer.journal.note(|| Event::Note(text.into()));
    }

    /// Records that the program waits for all work.
    pub fn note_sync(&mut self) {
        self.observer.journal.note(|| Event::Sync);
        self.follower.log_sync();
    }

    /// Returns the first failure of completed work that was not reported yet as an error.
    pub fn failure(&mut self) -> Result<(), Error> {
        self.observer.counters.failed_ops += self.observer.failures.poll(&mut self.graph, &self.submitter);
        let cause = self.observer.failures.first_unreported();
        cause.map_or(Ok(()), |cause| Err(self.memory.error((*cause).clone())))
    }

    /// Returns unused memory to the system, unless work is under way.
    pub fn give_back(&mut self) {
        let engine = self.engine().clone();
        if !self.ends().into_iter().all(|end| engine.reached(end)) {
            return;
        }
        self.memory.release();
    }

    /// Starts a log now, whatever the policy, even if nothing was evicted.
    pub fn start_log(&mut self) {
        self.follower.start_log(&self.graph, &mut self.memory);
    }

    /// The log, and the number of ops at its end that are an iteration, once it contains two iterations. Waits for the
    /// tallies.
    ///
    /// # Errors
    /// A failure of work that was submitted before.
    pub fn take_iteration(&mut self) -> Result<Option<(RequestLog, usize)>, Error> {
        let Some((mut log, period)) = self.follower.take_iteration(&self.graph, &mut self.memory) else {
            return Ok(None);
        };
        self.observer.counters.plannings += 1;
        self.observer.telemetry.planning(period);
        log.counts = self.tallied()?;
        Ok(Some((log, period)))
    }

    /// The allocation trace, if addresses are unbounded.
    pub fn allocation_trace(&self) -> Option<&AllocationTrace> {
        self.memory.device.allocation_trace()
    }

    /// The residents that are in intervals of the plan: each interval with the place of the storage's block in the
    /// allocation trace.
    pub fn residents_in_intervals(&self) -> Vec<(IntervalId, usize)> {
        let storages = &self.graph.storages;
        let resident = |id| {
            let offset = storages[id].copies.device?.block.offset;
            Some((
                self.follower.active_plans.current()?.interval(&storages[id])?,
                self.memory.device.allocation_trace()?.at(offset)?,
            ))
        };
        storages.residents().filter_map(resident).collect()
    }

    /// Whether the planner is at work.
    #[cfg(test)]
    pub fn is_planning(&self) -> bool {
        self.follower.is_planning()
    }

    /// The number of active storages.
    pub fn live_storages(&self) -> usize {
        self.graph.live_storages()
    }
}
