//! Following a schedule: what it says of the op that comes, and of what that op touches.

use std::sync::Arc;

use super::plans::Where;
use crate::engine::Instruction;
use crate::error::Error;
use crate::liveness::NextUse;
use crate::pool::Pool;
use crate::pool::follow::intervals::of_op;
use crate::pool::remat::ids::StorageId;
use crate::schedule::{Eviction, IntervalId, PlanId, Schedule, ScheduleOutcome, StreamId};

impl Pool {
    /// Does as a schedule says when a stream is where it says; `before_first`: the next op is its first.
    pub fn follow(&mut self, plan: PlanId, schedule: Arc<Schedule>, stream: StreamId, before_first: bool) {
        let is_wanted = self.follower.plans.insert(plan, schedule, stream, before_first);
        self.observer.counters.plans += u64::from(is_wanted);
    }

    /// Says in which interval of the schedule a storage is that no op has touched.
    pub fn put_in_interval(&mut self, id: StorageId, interval: IntervalId, next_ops: u32) {
        let Some(following) = self.follower.plans.present_mut() else { return };
        following.current[interval.0 as usize] = Some(id);
        let storage = &mut self.graph.storages[id];
        storage.access.interval = Some(following.scheduled(interval));
        storage.access.next_use =
            NextUse::At(self.follower.streams[storage.access.stream].ops + u64::from(next_ops));
    }

    /// What was done since this was last asked; noted from the first time on.
    pub fn done(&mut self) -> ScheduleOutcome {
        let following = self.follower.plans.present_mut();
        following.and_then(|following| following.done.replace(ScheduleOutcome::default())).unwrap_or_default()
    }

    /// An op comes: its evictions are due, and its fetches are made. One of another thread changes nothing.
    pub(in crate::pool) fn advance(&mut self, op: &Instruction) -> Result<(), Error> {
        let roomy = self.memory.is_roomy();
        let stream = self.follower.streams.current();
        let place = self.follower.plans.advance(stream, op.signature);
        if self.follower.plans.is_whole() {
            self.follower.stop_learning(&mut self.memory);
        } else if self.follower.plans.are_outdated() {
            self.follower.learn_again(&mut self.memory);
        }
        let following = match place {
            Where::At(_) => self.follower.plans.present_mut(),
            Where::Unknown | Where::Beside => None,
        };
        let (Some(following), Where::At(at)) = (following, place) else {
            self.memory.device.begin_op(None, 0);
            return Ok(());
        };
        if roomy && !following.active {
            following.since_op = self.observer.clock;
        }
        following.active = roomy;
        let schedule = following.schedule.clone();
        self.memory.device.begin_op(schedule.layout.as_ref().filter(|_| roomy), at);
        if !roomy {
            following.due.clear();
            return Ok(());
        }
        self.follower.look_for_drift(&self.graph, &mut self.memory, &self.submitter, at, op);
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

    /// Fetches ahead of use; where there is no room, the op itself will.
    fn fetch_scheduled(&mut self, interval: IntervalId) -> Result<(), Error> {
        let Some(following) = self.follower.plans.present() else { return Ok(()) };
        let Some(id) = following.storage_in(interval, &self.graph.storages) else { return Ok(()) };
        let storage = &self.graph.storages[id];
        if storage.copies.device.is_some() || storage.copies.host.is_none() || !storage.uses.held {
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

    /// The op touched these, inputs before outputs: intervals begin.
    pub(in crate::pool) fn touched(
        &mut self,
        operands: impl Iterator<Item = StorageId> + Clone,
    ) -> Result<(), Error> {
        let Some(following) = self.follower.plans.of_stream(self.follower.streams.current()) else {
            return Ok(());
        };
        let Some(at) = following.place.at() else { return Ok(()) };
        let schedule = following.schedule.clone();
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
            .try_for_each(|&(_, interval, how)| self.release_scheduled(interval, how))
    }

    /// Evicts without need; where that cannot be now, the storage stays.
    fn release_scheduled(&mut self, interval: IntervalId, how: Eviction) -> Result<(), Error> {
        let Some(id) = self
            .follower
            .plans
            .active()
            .and_then(|following| following.storage_in(interval, &self.graph.storages))
        else {
            return Ok(());
        };
        let storage = &self.graph.storages[id];
        // What is encoded needs no other way to leave.
        let may_leave = matches!(how, Eviction::Encode(_)) || self.follower.can_leave(&self.graph, storage);
        if storage.copies.device.is_some() && storage.uses.held && may_leave {
            self.evict_as_scheduled(id, how)?;
        }
        Ok(())
    }

    fn offload_early(&mut self, schedule: &Schedule, id: StorageId) -> Result<(), Error> {
        if !self.graph.storages.contains(id) || !self.follower.is_following() {
            return Ok(());
        }
        let storage = &self.graph.storages[id];
        let following = self.follower.plans.present();
        let is_copied = following.and_then(|following| following.interval(storage)).is_some_and(|interval| {
            let interval = &schedule.intervals[interval.0 as usize];
            interval.copied || interval.how == Some(Eviction::Offload)
        });
        let may_leave = storage.uses.held && self.follower.may_move(storage);
        if is_copied && may_leave && storage.copies.device.is_some() && storage.copies.host.is_none() {
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
    use crate::schedule::{EvictionOrder, Interval};

    #[test]
    fn intervals_of_a_schedule_end_with_it() {
        let engine = Arc::new(SimEngine::new(&profiles()[0]));
        let settings =
            Config::new().budget_bytes(1 << 20).resolve(crate::engine::Engine::props(&*engine)).unwrap();
        let mut pool = Pool::new(OvercommitDevice::Host(0), engine, settings);
        let offloaded = Interval {
            next_ops: Some(1),
            how: Some(Eviction::Offload),
            copied: false,
            turn: EvictionOrder::Any,
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
