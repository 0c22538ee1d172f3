//! Following a plan: its evictions and fetches when an op comes, and the intervals of what the op has touched.

use std::sync::Arc;

use super::active_plans::Position;
use crate::engine::Instruction;
use crate::error::Error;
use crate::liveness::NextUse;
use crate::pool::Pool;
use crate::pool::follow::intervals::of_op;
use crate::pool::remat::ids::StorageId;
use crate::schedule::{BeginningId, Eviction, IntervalId, PlanId, Schedule, ScheduleOutcome, StreamId};

impl Pool {
    /// Adds a plan, which the pool follows when it recognizes the ops of the stream. With `before_first`, the next op
    /// is the plan's first.
    pub fn follow(&mut self, plan: PlanId, schedule: Arc<Schedule>, stream: StreamId, before_first: bool) {
        let iteration_ops = schedule.ops.len();
        if self.follower.active_plans.insert(plan, schedule, stream, before_first) {
            self.observer.counters.plans += 1;
            self.observer.telemetry.planned(iteration_ops, false);
        }
    }

    /// Adds a plan that an earlier run kept, unless this run has one for the same iteration. The pool follows it when it recognizes
    /// its ops. If the search for it did not come to its end, it goes on once the program follows the plan.
    pub fn follow_kept(&mut self, schedule: Arc<Schedule>, is_final: bool) {
        let iteration_ops = schedule.ops.len();
        if self.follower.active_plans.insert_kept(schedule, is_final) {
            self.observer.counters.kept_plans += 1;
            self.observer.telemetry.planned(iteration_ops, true);
        }
    }

    /// The beginning of the current stream, once, as soon as it is complete.
    pub fn take_beginning(&mut self) -> Option<BeginningId> {
        let stream = self.follower.streams.current();
        self.follower.streams[stream].beginning.take()
    }

    /// Puts a storage that no op has touched yet into an interval of the plan. Its next use is `next_ops` ops from now.
    pub fn put_in_interval(&mut self, id: StorageId, interval: IntervalId, next_ops: u32) {
        let Some(plan) = self.follower.active_plans.current_mut() else { return };
        plan.storages[interval.0 as usize] = Some(id);
        let storage = &mut self.graph.storages[id];
        storage.access.interval = Some(plan.scheduled(interval));
        storage.access.next_use =
            NextUse::At(self.follower.streams[storage.access.stream].ops + u64::from(next_ops));
    }

    /// Takes the record of what happened since the last call. Recording begins with the first call.
    pub fn take_outcome(&mut self) -> ScheduleOutcome {
        let plan = self.follower.active_plans.current_mut();
        plan.and_then(|plan| plan.outcome.replace(ScheduleOutcome::default())).unwrap_or_default()
    }

    /// Moves the plan's cursor to an op. Its evictions become due, and its fetches are made. An op of another thread
    /// changes nothing.
    pub(in crate::pool) fn advance(&mut self, op: &Instruction) -> Result<(), Error> {
        let is_roomy = self.memory.is_roomy();
        let stream = self.follower.streams.current();
        self.follower.streams[stream].beginning.push(op.signature);
        let was_followed = self.follower.active_plans.followed().is_some();
        let position = self.follower.active_plans.advance(stream, op.signature);
        if self.follower.active_plans.followed_whole_iteration() {
            self.follower.stop_logging(&mut self.memory);
        } else if self.follower.active_plans.are_outdated() {
            self.follower.resume_logging(&mut self.memory);
        }
        let plan = match position {
            Position::At(_) => self.follower.active_plans.current_mut(),
            Position::Unknown | Position::OtherThread => None,
        };
        let (Some(plan), Position::At(at)) = (plan, position) else {
            if was_followed && position == Position::Unknown {
                self.observer.telemetry.departed(self.observer.clock, &self.observer.counters);
            }
            self.memory.device.begin_op(None, 0);
            return Ok(());
        };
        if at == 0 && is_roomy {
            self.observer.telemetry.iteration_begins(plan.schedule.ops.len(), &self.observer.counters);
        }
        if is_roomy && !plan.is_followed {
            plan.since_op = self.observer.clock;
        }
        plan.is_followed = is_roomy;
        let schedule = plan.schedule.clone();
        self.memory.device.begin_op(schedule.layout.as_ref().filter(|_| is_roomy), at);
        if !is_roomy {
            plan.due.clear();
            return Ok(());
        }
        self.follower.check_drift(&self.graph, &mut self.memory, &self.submitter, at, op);
        self.follower.make_due(&self.graph, &schedule, at);
        let mut fetches = of_op(&schedule.fetches, at, |&(op, _)| op).iter();
        fetches.try_for_each(|&(_, interval)| self.fetch_scheduled(interval))?;
        if at == 0
            && let Some(layout) = &schedule.layout
        {
            self.relocate_residents(layout)?;
        }
        Ok(())
    }

    /// Fetches the storage in an interval before its use. If there is no room, the op that needs it will fetch it.
    fn fetch_scheduled(&mut self, interval: IntervalId) -> Result<(), Error> {
        let Some(plan) = self.follower.active_plans.current() else { return Ok(()) };
        let Some(id) = plan.storage_in(interval, &self.graph.storages) else { return Ok(()) };
        let storage = &self.graph.storages[id];
        if storage.copies.device.is_some() || storage.copies.away.is_none() || !storage.uses.held {
            return Ok(());
        }
        match self.fetch("prefetch", id) {
            Ok(true) => {
                let storage = &mut self.graph.storages[id];
                storage.access.prefetched = true;
                self.observer.counters.prefetched_bytes += storage.size_bytes as u64;
                Ok(())
            }
            Err(error) if !error.is_out_of_memory() => Err(error),
            _ => Ok(()),
        }
    }

    /// Begins the plan's intervals of an op's operands, inputs before outputs. Then makes the copies and evictions that
    /// the plan has after the op.
    pub(in crate::pool) fn begin_intervals(
        &mut self,
        operands: impl Iterator<Item = StorageId> + Clone,
    ) -> Result<(), Error> {
        let Some(plan) = self.follower.active_plans.of_stream(self.follower.streams.current()) else {
            return Ok(());
        };
        let Some(at) = plan.cursor.at() else { return Ok(()) };
        let schedule = plan.schedule.clone();
        for (operand, id) in operands.clone().enumerate() {
            let Some(interval) = schedule.interval(at, operand) else { break };
            if self.graph.storages.contains(id) {
                self.follower.begin_interval(&mut self.graph, id, interval);
            }
        }
        for id in operands {
            self.offload_early(&schedule, id)?;
        }
        of_op(&schedule.releases, at, |&(op, ..)| op)
            .iter()
            .try_for_each(|&(_, interval, method)| self.release_scheduled(interval, method))
    }

    /// Evicts a storage because the plan says so, even if no memory is needed. If it cannot leave now, it stays.
    fn release_scheduled(&mut self, interval: IntervalId, method: Eviction) -> Result<(), Error> {
        let Some(id) = self
            .follower
            .active_plans
            .followed()
            .and_then(|plan| plan.storage_in(interval, &self.graph.storages))
        else {
            return Ok(());
        };
        let storage = &self.graph.storages[id];
        // Encoding works even where neither offloading nor dropping is allowed.
        let may_leave =
            matches!(method, Eviction::Encode(_)) || self.follower.can_leave(&self.graph, storage);
        if storage.copies.device.is_some() && storage.uses.held && may_leave {
            self.evict_as_scheduled(id, method)?;
        }
        Ok(())
    }

    /// Copies a storage to the host at the beginning of its interval if the plan offloads it, so that its later eviction is
    /// clean.
    fn offload_early(&mut self, schedule: &Schedule, id: StorageId) -> Result<(), Error> {
        if !self.graph.storages.contains(id) || !self.follower.is_following() {
            return Ok(());
        }
        let storage = &self.graph.storages[id];
        let plan = self.follower.active_plans.current();
        let is_copied = plan.and_then(|plan| plan.interval(storage)).is_some_and(|interval| {
            let interval = &schedule.intervals[interval.0 as usize];
            interval.copied || interval.method == Some(Eviction::Offload)
        });
        let may_leave = storage.uses.held && self.follower.may_move(storage);
        if is_copied && may_leave && storage.copies.device.is_some() && storage.copies.away.is_none() {
            self.write_back(id, false)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OvercommitDevice;
    use crate::config::Config;
    use crate::engine::sim::{SimEngine, profiles};
    use crate::schedule::{EvictionOrder, IntervalPlan};

    #[test]
    fn intervals_of_a_schedule_end_with_it() {
        let engine = Arc::new(SimEngine::new(&profiles()[0]));
        let settings =
            Config::new().budget_bytes(1 << 20).resolve(crate::engine::Engine::props(&*engine)).unwrap();
        let mut pool = Pool::new(OvercommitDevice::Host(0), engine, settings);
        let offloaded = IntervalPlan {
            next_ops: Some(1),
            method: Some(Eviction::Offload),
            copied: false,
            order: EvictionOrder::Any,
            may_move: true,
            persists: false,
        };
        let schedule =
            |count| Arc::new(Schedule { intervals: vec![offloaded; count], ..Schedule::default() });
        pool.follow(PlanId(0), schedule(3), StreamId::default(), true);
        let (id, _) = pool.begin_write(256).unwrap();
        pool.put_in_interval(id, IntervalId(2), 1);
        assert!(pool.follower.fetch_is_scheduled(&pool.graph.storages[id]));
        pool.follow(PlanId(0), schedule(1), StreamId::default(), true);
        assert!(!pool.follower.fetch_is_scheduled(&pool.graph.storages[id]));
    }
}
