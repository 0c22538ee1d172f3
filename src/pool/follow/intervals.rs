//! What a plan states for a storage depends on the interval that the storage is in.

use super::active_plans::ActivePlan;
use super::follower::Follower;
use crate::engine::{Instruction, Mark};
use crate::liveness::NextUse;
use crate::op::Encoding;
use crate::pool::memory::tiers::Memory;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::recipe::Graph;
use crate::pool::remat::storage::Storage;
use crate::pool::submit::Submitter;
use crate::schedule::{Eviction, IntervalId, IntervalPlan, Schedule, ScheduleOutcome};

/// The maximum number of due evictions that no op has needed yet. Beyond that, the oldest are forgotten.
const MAX_DUE: usize = 256;

impl Follower {
    /// What the followed plan states for the interval that a storage is in.
    fn interval(&self, storage: &Storage) -> Option<&IntervalPlan> {
        self.active_plans.followed()?.scheduled_as(storage)
    }

    /// Whether the plan drops a storage's bytes.
    pub fn is_dropped(&self, storage: &Storage) -> bool {
        self.interval(storage).is_some_and(|interval| interval.method == Some(Eviction::Drop))
    }

    /// Whether the plan lets the host tier keep a storage's bytes.
    pub fn is_scheduled_to_move(&self, storage: &Storage) -> bool {
        self.interval(storage).is_none_or(|interval| interval.may_move)
    }

    /// Whether the host tier may keep a storage's bytes.
    pub fn may_move(&self, storage: &Storage) -> bool {
        let allowed = self.eviction_methods;
        allowed.offload && (!allowed.checkpoints_only || self.is_scheduled_to_move(storage))
    }

    /// Whether a resident storage can be evicted by any method.
    pub fn can_leave(&self, graph: &Graph, storage: &Storage) -> bool {
        let allowed = self.eviction_methods;
        storage.uses.pins == 0
            && (storage.copies.away.is_some()
                || self.may_move(storage)
                || (allowed.recompute && storage.lineage.recipe.is_some() && !graph.is_wanted(storage)))
    }

    /// Whether the plan fetches a storage in time for its next use.
    pub fn fetch_is_scheduled(&self, storage: &Storage) -> bool {
        let plan = self.active_plans.current();
        !storage.access.prefetched && plan.is_some_and(|plan| self.is_offloaded(storage, &plan.schedule))
    }

    /// Whether the schedule offloads a storage in its current interval.
    fn is_offloaded(&self, storage: &Storage, schedule: &Schedule) -> bool {
        let interval = self.active_plans.current().and_then(|plan| plan.interval(storage));
        interval
            .is_some_and(|interval| schedule.intervals[interval.0 as usize].method == Some(Eviction::Offload))
    }

    /// Begins an interval, because an op of the current stream touches a storage.
    pub fn begin_interval(&mut self, graph: &mut Graph, id: StorageId, interval: IntervalId) {
        let stream = self.streams.current();
        let Some(plan) = self.active_plans.of_stream(stream) else { return };
        plan.storages[interval.0 as usize] = Some(id);
        let IntervalPlan { next_ops, persists, .. } = plan.schedule.intervals[interval.0 as usize];
        let storage = &mut graph.storages[id];
        storage.access.interval = Some(plan.scheduled(interval));
        storage.access.next_use =
            next_ops.map_or(NextUse::Never, |ops| NextUse::At(self.streams[stream].ops + u64::from(ops)));
        if persists {
            graph.make_source(id);
        }
    }

    /// Makes the evictions of an op due: from now on they may happen.
    pub fn make_due(&mut self, graph: &Graph, schedule: &Schedule, at: u32) {
        let Some(plan) = self.active_plans.current_mut() else { return };
        let storages = &graph.storages;
        // An eviction that was not needed during its interval must not carry over to the next iteration.
        let mut due = std::mem::take(&mut plan.due);
        let is_resident = |plan: &ActivePlan, id: StorageId, interval| {
            plan.is_in(id, interval, storages) && storages[id].copies.device.is_some()
        };
        due.retain(|&(id, interval, _)| is_resident(plan, id, interval));
        for &(_, interval, method) in of_op(&schedule.evictions, at, |&(op, ..)| op) {
            let id = plan.storages[interval.0 as usize];
            let id = id.filter(|&id| is_resident(plan, id, interval));
            due.extend(id.map(|id| (id, interval, method)));
        }
        let stale = due.len().saturating_sub(MAX_DUE);
        due.drain(..stale);
        plan.due = due;
    }

    /// Takes an eviction that is due and possible: the storage and the eviction method.
    pub fn scheduled_victim(&mut self, graph: &Graph) -> Option<(StorageId, Eviction)> {
        let plan = self.active_plans.current()?;
        let storages = &graph.storages;
        let can_leave = |&(id, interval, _): &(StorageId, IntervalId, Eviction)| {
            plan.is_in(id, interval, storages)
                && storages[id].copies.device.is_some()
                && self.can_leave(graph, &storages[id])
        };
        let index = plan.due.iter().position(can_leave)?;
        let (id, _, method) = self.active_plans.current_mut()?.due.remove(index)?;
        Some((id, method))
    }

    /// The inputs that leave encoded after the coming op, by their places, among its first `operands` operands. Each
    /// comes with the interval that it is in after the op.
    pub fn encoded_after(&mut self, operands: usize) -> Vec<(usize, IntervalId, Encoding)> {
        let plan = self.active_plans.of_stream(self.streams.current()).filter(|plan| plan.is_followed);
        let Some((schedule, at)) = plan.and_then(|it| Some((&it.schedule, it.cursor.at()?))) else {
            return Vec::new();
        };
        let releases = of_op(&schedule.releases, at, |&(op, ..)| op).iter();
        let encoded = releases.filter_map(|&(_, interval, method)| match method {
            Eviction::Encode(encoding) => {
                let place = (0..operands).find(|&place| schedule.interval(at, place) == Some(interval));
                place.map(|place| (place, interval, encoding))
            }
            _ => None,
        });
        encoded.collect()
    }

    /// Compares an op's time with the plan's. If times have drifted by the beginning of an iteration, the pool logs
    /// requests for a new schedule of the same plan.
    pub fn check_drift(
        &mut self,
        graph: &Graph,
        memory: &mut Memory,
        submitter: &Submitter,
        at: u32,
        op: &Instruction,
    ) {
        let Some(plan) = self.active_plans.current_mut().filter(|_| self.requests.uses_measured_times) else {
            return;
        };
        let planned_ns = plan.schedule.ops[at as usize].launch_ns;
        plan.drift.note(planned_ns, op.measured.ns().unwrap_or(planned_ns));
        if at > 0 {
            return;
        }
        let planned_link = plan.schedule.link_bytes_per_second;
        let link = submitter.engine.measured_link().map_or(1.0, |link| link / planned_link);
        let is_drifting = plan.drift.is_replanning_due(link);
        if is_drifting || plan.is_unfinished && !self.requests.wants_log {
            plan.is_unfinished = false;
            let plan = plan.id;
            self.log_for_renewal(graph, memory, plan);
        }
    }

    /// Notes an eviction in the outcome of the current plan. The first eviction starts the request log.
    pub fn note_decision(&mut self, graph: &Graph, memory: &mut Memory, id: StorageId, method: Eviction) {
        self.start_log_if_wanted(graph, memory);
        if let Some((outcome, at, interval)) = self.outcome_entry(graph, id) {
            outcome.evicted.push((at, interval, method));
        }
    }

    /// Notes a copy in the outcome of the current plan.
    pub fn note_copy(&mut self, graph: &Graph, id: StorageId, mark: Mark) {
        if let Some((outcome, _, interval)) = self.outcome_entry(graph, id) {
            outcome.copied.push((mark, interval));
        }
    }

    /// Notes the predicted time of a storage's rematerialization in the outcome of the current plan.
    pub fn rematerialized_in(&mut self, graph: &Graph, id: StorageId, ns: u64) {
        if let Some((outcome, _, interval)) = self.outcome_entry(graph, id) {
            outcome.rematerialized.push((interval, ns));
        }
    }

    /// The outcome of the current plan, if it is recorded, with the op of the schedule and the interval that the
    /// storage is in.
    pub fn outcome_entry(
        &mut self,
        graph: &Graph,
        id: StorageId,
    ) -> Option<(&mut ScheduleOutcome, u32, IntervalId)> {
        let plan = self.active_plans.current_mut()?;
        let (at, interval) = (plan.cursor.at()?, plan.interval(&graph.storages[id])?);
        Some((plan.outcome.as_mut()?, at, interval))
    }
}

/// The entries of one op, from a list that is sorted by op.
pub fn of_op<T>(list: &[T], op: u32, op_of: impl Fn(&T) -> u32) -> &[T] {
    let begin = list.partition_point(|entry| op_of(entry) < op);
    let end = begin + list[begin..].partition_point(|entry| op_of(entry) == op);
    &list[begin..end]
}
