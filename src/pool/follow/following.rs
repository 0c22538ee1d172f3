//! Following a schedule: what it says of the op that comes, and of what that op touches.

use std::sync::Arc;

use super::plans::{Following, Where};
use crate::engine::{Instruction, Mark};
use crate::error::Error;
use crate::liveness::NextUse;
use crate::op::Encoding;
use crate::pool::Pool;
use crate::pool::remat::storage::Storage;
use crate::pool::remat::ids::StorageId;
use crate::schedule::{Done, Eviction, Interval, IntervalId, PlanId, Schedule, StreamId};

/// Scheduled evictions that no op needed yet; more are forgotten, the oldest first.
const MOST_DUE: usize = 256;

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
        storage.interval = Some(following.scheduled(interval));
        storage.next_use = NextUse::At(self.follower.streams[storage.stream].ops + u64::from(next_ops));
    }

    /// What was done since this was last asked; noted from the first time on.
    pub fn done(&mut self) -> Done {
        let following = self.follower.plans.present_mut();
        following.and_then(|following| following.done.replace(Done::default())).unwrap_or_default()
    }

    /// An op comes: its evictions are due, and its fetches are made. One of another thread changes nothing.
    pub(in crate::pool) fn advance(&mut self, op: &Instruction) -> Result<(), Error> {
        let roomy = self.is_roomy();
        let stream = self.follower.streams.current();
        let place = self.follower.plans.advance(stream, op.signature);
        if self.follower.plans.is_whole() {
            self.stop_learning();
        } else if self.follower.plans.are_outdated() {
            self.learn_again();
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
        self.look_for_drift(at, op);
        self.make_due(&schedule, at);
        let mut fetches = of_op(&schedule.fetches, at, |&(op, _)| op).iter();
        fetches.try_for_each(|&(_, interval)| self.fetch_scheduled(interval))?;
        if at == 0
            && let Some(layout) = &schedule.layout
        {
            self.relocate_residents(layout)?;
        }
        Ok(())
    }

    /// The evictions of an op may be made from now on.
    fn make_due(&mut self, schedule: &Schedule, at: u32) {
        let Some(following) = self.follower.plans.present_mut() else { return };
        let storages = &self.graph.storages;
        // What was not needed while the interval lasted is not due in the next iteration's.
        let mut due = std::mem::take(&mut following.due);
        let is_resident = |following: &Following, id: StorageId, interval| {
            following.is_in(id, interval, storages) && storages[id].device.is_some()
        };
        due.retain(|&(id, interval, _)| is_resident(following, id, interval));
        for &(_, interval, how) in of_op(&schedule.evictions, at, |&(op, ..)| op) {
            let id = following.current[interval.0 as usize];
            let id = id.filter(|&id| is_resident(following, id, interval));
            due.extend(id.map(|id| (id, interval, how)));
        }
        let stale = due.len().saturating_sub(MOST_DUE);
        due.drain(..stale);
        following.due = due;
    }

    /// Whether the host tier has room for all that device memory can hold. Then nothing that is done before it must be makes a
    /// program fail: what it displaces has somewhere to go.
    pub(in crate::pool) fn is_roomy(&self) -> bool {
        let host_room_bytes = self.memory.host.limit_bytes() - self.memory.host.used_bytes();
        host_room_bytes >= self.memory.device.limit_bytes() || !self.settings.ways.offload
    }

    /// Fetches ahead of use; where there is no room, the op itself will.
    fn fetch_scheduled(&mut self, interval: IntervalId) -> Result<(), Error> {
        let Some(following) = self.follower.plans.present() else { return Ok(()) };
        let Some(id) = following.storage_in(interval, &self.graph.storages) else { return Ok(()) };
        let storage = &self.graph.storages[id];
        if storage.device.is_some() || storage.host.is_none() || !storage.held {
            return Ok(());
        }
        match self.fetch("prefetch", id) {
            Ok(true) => {
                let storage = &mut self.graph.storages[id];
                storage.prefetched = true;
                self.observer.counters.prefetched_bytes += storage.size_bytes as u64;
                Ok(())
            }
            Err(error) if !error.is_out_of_memory() => Err(error),
            _ => Ok(()),
        }
    }

    /// Of the first operands of the op that comes those that leave encoded once it has run, and the intervals that they are in
    /// from then on.
    pub(in crate::pool) fn encoded_after(&mut self, operands: usize) -> Vec<(usize, IntervalId, Encoding)> {
        let following = self
            .follower
            .plans
            .of_stream(self.follower.streams.current())
            .filter(|following| following.active);
        let Some((schedule, at)) = following.and_then(|it| Some((&it.schedule, it.place.at()?))) else {
            return Vec::new();
        };
        let releases = of_op(&schedule.releases, at, |&(op, ..)| op).iter();
        let encoded = releases.filter_map(|&(_, interval, how)| match how {
            Eviction::Encode(encoding) => {
                let place = (0..operands).find(|&place| schedule.interval(at, place) == Some(interval));
                place.map(|place| (place, interval, encoding))
            }
            _ => None,
        });
        encoded.collect()
    }

    /// An op of the stream touches a storage, with which this begins.
    pub(in crate::pool) fn begin_interval(&mut self, id: StorageId, interval: IntervalId) {
        let stream = self.follower.streams.current();
        let Some(following) = self.follower.plans.of_stream(stream) else { return };
        following.current[interval.0 as usize] = Some(id);
        let Interval { next_ops, persists, .. } = following.schedule.intervals[interval.0 as usize];
        let storage = &mut self.graph.storages[id];
        storage.interval = Some(following.scheduled(interval));
        storage.next_use = next_ops
            .map_or(NextUse::Never, |ops| NextUse::At(self.follower.streams[stream].ops + u64::from(ops)));
        if persists {
            self.graph.make_source(id);
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
                self.begin_interval(id, interval);
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
        let may_leave = matches!(how, Eviction::Encode(_)) || self.can_leave(storage);
        if storage.device.is_some() && storage.held && may_leave {
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
        let may_leave = storage.held && self.may_move(storage);
        if is_copied && may_leave && storage.device.is_some() && storage.host.is_none() {
            self.write_back(id, false)?;
        }
        Ok(())
    }

    /// Whether the schedule fetches a storage in time for its next use.
    pub(in crate::pool) fn fetch_is_scheduled(&self, storage: &Storage) -> bool {
        let following = self.follower.plans.present();
        !storage.prefetched
            && following.is_some_and(|following| self.is_offloaded(storage, &following.schedule))
    }

    fn is_offloaded(&self, storage: &Storage, schedule: &Schedule) -> bool {
        let interval = self.follower.plans.present().and_then(|following| following.interval(storage));
        interval
            .is_some_and(|interval| schedule.intervals[interval.0 as usize].how == Some(Eviction::Offload))
    }

    /// A storage that the schedule evicts by now, and how.
    pub(in crate::pool) fn scheduled_victim(&mut self) -> Option<(StorageId, Eviction)> {
        let following = self.follower.plans.present()?;
        let storages = &self.graph.storages;
        let can_leave = |&(id, interval, _): &(StorageId, IntervalId, Eviction)| {
            following.is_in(id, interval, storages)
                && storages[id].device.is_some()
                && self.can_leave(&storages[id])
        };
        let index = following.due.iter().position(can_leave)?;
        let (id, _, how) = self.follower.plans.present_mut()?.due.remove(index)?;
        Some((id, how))
    }

    /// Where what is done with a storage is noted, the op of the schedule, and the interval that the storage is in.
    fn noted(&mut self, id: StorageId) -> Option<(&mut Done, u32, IntervalId)> {
        let following = self.follower.plans.present_mut()?;
        let (at, interval) = (following.place.at()?, following.interval(&self.graph.storages[id])?);
        Some((following.done.as_mut()?, at, interval))
    }

    /// Notes a copy.
    pub(in crate::pool) fn copied(&mut self, id: StorageId, mark: Mark) {
        if let Some((done, _, interval)) = self.noted(id) {
            done.copied.push((mark, interval));
        }
    }

    /// Notes what it took to make a storage again.
    pub(in crate::pool) fn took_remaking(&mut self, id: StorageId, ns: u64) {
        if let Some((done, _, interval)) = self.noted(id) {
            done.remade.push((interval, ns));
        }
    }

    /// Whether the schedule has a storage's bytes dropped.
    pub(in crate::pool) fn is_dropped(&self, storage: &Storage) -> bool {
        self.interval(storage).is_some_and(|interval| interval.how == Some(Eviction::Drop))
    }

    /// Whether the schedule lets a storage's bytes be kept on the host.
    pub(in crate::pool) fn is_scheduled_to_move(&self, storage: &Storage) -> bool {
        self.interval(storage).is_none_or(|interval| interval.may_move)
    }

    /// What the schedule that is followed says of the interval that a storage is in.
    fn interval(&self, storage: &Storage) -> Option<&Interval> {
        self.follower.plans.active()?.scheduled_as(storage)
    }

    /// Notes an eviction.
    pub(in crate::pool) fn decided(&mut self, id: StorageId, how: Eviction) {
        self.log_from_now_on();
        if let Some((done, at, interval)) = self.noted(id) {
            done.evicted.push((at, interval, how));
        }
    }
}

/// Those of an op, of a list by op.
fn of_op<T>(list: &[T], op: u32, op_of: impl Fn(&T) -> u32) -> &[T] {
    let begin = list.partition_point(|entry| op_of(entry) < op);
    let end = begin + list[begin..].partition_point(|entry| op_of(entry) == op);
    &list[begin..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OvercommitDevice;
    use crate::config::Config;
    use crate::engine::sim::{SimEngine, profiles};
    use crate::schedule::Turn;

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
            turn: Turn::Any,
            may_move: true,
            persists: false,
        };
        let schedule =
            |count| Arc::new(Schedule { intervals: vec![offloaded; count], ..Schedule::default() });
        pool.follow(PlanId(0), schedule(3), StreamId::default(), true);
        let (id, _) = pool.begin_write(256).unwrap();
        pool.put_in_interval(id, IntervalId(2), 1);
        assert!(pool.fetch_is_scheduled(&pool.graph.storages[id]));
        pool.follow(PlanId(0), schedule(1), StreamId::default(), true);
        assert!(!pool.fetch_is_scheduled(&pool.graph.storages[id]));
    }
}
