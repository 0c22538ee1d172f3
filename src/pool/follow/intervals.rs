//! What a plan says of a storage, by the interval that it is in.

use super::follower::Follower;
use super::plans::Following;
use crate::engine::{Instruction, Mark};
use crate::liveness::NextUse;
use crate::op::Encoding;
use crate::pool::memory::tiers::Memory;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::recipe::Graph;
use crate::pool::remat::storage::Storage;
use crate::pool::submit::Submitter;
use crate::schedule::{Eviction, Interval, IntervalId, Schedule, ScheduleOutcome};

/// Scheduled evictions that no op needed yet; more are forgotten, the oldest first.
const MOST_DUE: usize = 256;

impl Follower {
    /// What the schedule that is followed says of the interval that a storage is in.
    fn interval(&self, storage: &Storage) -> Option<&Interval> {
        self.plans.active()?.scheduled_as(storage)
    }

    /// Whether the schedule has a storage's bytes dropped.
    pub fn is_dropped(&self, storage: &Storage) -> bool {
        self.interval(storage).is_some_and(|interval| interval.how == Some(Eviction::Drop))
    }

    /// Whether the schedule lets a storage's bytes be kept on the host.
    pub fn is_scheduled_to_move(&self, storage: &Storage) -> bool {
        self.interval(storage).is_none_or(|interval| interval.may_move)
    }

    /// Whether a storage's bytes may be kept on the host.
    pub fn may_move(&self, storage: &Storage) -> bool {
        let allowed = self.ways;
        allowed.offload && (!allowed.checkpoints_only || self.is_scheduled_to_move(storage))
    }

    /// Whether there is any way to evict a resident storage.
    pub fn can_leave(&self, graph: &Graph, storage: &Storage) -> bool {
        let allowed = self.ways;
        storage.uses.pins == 0
            && (storage.copies.host.is_some()
                || self.may_move(storage)
                || (allowed.recompute && storage.lineage.recipe.is_some() && !graph.is_wanted(storage)))
    }

    /// Whether the schedule fetches a storage in time for its next use.
    pub fn fetch_is_scheduled(&self, storage: &Storage) -> bool {
        let following = self.plans.present();
        !storage.access.prefetched
            && following.is_some_and(|following| self.is_offloaded(storage, &following.schedule))
    }

    fn is_offloaded(&self, storage: &Storage, schedule: &Schedule) -> bool {
        let interval = self.plans.present().and_then(|following| following.interval(storage));
        interval
            .is_some_and(|interval| schedule.intervals[interval.0 as usize].how == Some(Eviction::Offload))
    }

    /// An op of the stream touches a storage, with which this begins.
    pub fn begin_interval(&mut self, graph: &mut Graph, id: StorageId, interval: IntervalId) {
        let stream = self.streams.current();
        let Some(following) = self.plans.of_stream(stream) else { return };
        following.current[interval.0 as usize] = Some(id);
        let Interval { next_ops, persists, .. } = following.schedule.intervals[interval.0 as usize];
        let storage = &mut graph.storages[id];
        storage.access.interval = Some(following.scheduled(interval));
        storage.access.next_use =
            next_ops.map_or(NextUse::Never, |ops| NextUse::At(self.streams[stream].ops + u64::from(ops)));
        if persists {
            graph.make_source(id);
        }
    }

    /// The evictions of an op may be made from now on.
    pub fn make_due(&mut self, graph: &Graph, schedule: &Schedule, at: u32) {
        let Some(following) = self.plans.present_mut() else { return };
        let storages = &graph.storages;
        // What was not needed while the interval lasted is not due in the next iteration's.
        let mut due = std::mem::take(&mut following.due);
        let is_resident = |following: &Following, id: StorageId, interval| {
            following.is_in(id, interval, storages) && storages[id].copies.device.is_some()
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

    /// A storage that the schedule evicts by now, and how.
    pub fn scheduled_victim(&mut self, graph: &Graph) -> Option<(StorageId, Eviction)> {
        let following = self.plans.present()?;
        let storages = &graph.storages;
        let can_leave = |&(id, interval, _): &(StorageId, IntervalId, Eviction)| {
            following.is_in(id, interval, storages)
                && storages[id].copies.device.is_some()
                && self.can_leave(graph, &storages[id])
        };
        let index = following.due.iter().position(can_leave)?;
        let (id, _, how) = self.plans.present_mut()?.due.remove(index)?;
        Some((id, how))
    }

    /// Of the first operands of the op that comes those that leave encoded once it has run, and the intervals that they are in
    /// from then on.
    pub fn encoded_after(&mut self, operands: usize) -> Vec<(usize, IntervalId, Encoding)> {
        let following = self.plans.of_stream(self.streams.current()).filter(|following| following.active);
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

    /// The op comes that is this one of the plan. When an iteration begins, and times are others than those that the plan was
    /// made with, it is made anew.
    pub fn look_for_drift(
        &mut self,
        graph: &Graph,
        memory: &mut Memory,
        submitter: &Submitter,
        at: u32,
        op: &Instruction,
    ) {
        let Some(following) = self.plans.present_mut().filter(|_| self.requests.measures) else {
            return;
        };
        let planned_ns = following.schedule.ops[at as usize].launch_ns;
        following.drift.note(planned_ns, op.measured.ns().unwrap_or(planned_ns));
        if at > 0 {
            return;
        }
        let planned_link = following.schedule.link_bytes_per_second;
        let link = submitter.engine.measured_link().map_or(1.0, |link| link / planned_link);
        if following.drift.is_time(link) {
            let plan = following.plan;
            self.renew(graph, memory, plan);
        }
    }

    /// Notes an eviction.
    pub fn decided(&mut self, graph: &Graph, memory: &mut Memory, id: StorageId, how: Eviction) {
        self.log_from_now_on(graph, memory);
        if let Some((done, at, interval)) = self.noted(graph, id) {
            done.evicted.push((at, interval, how));
        }
    }

    /// Notes a copy.
    pub fn copied(&mut self, graph: &Graph, id: StorageId, mark: Mark) {
        if let Some((done, _, interval)) = self.noted(graph, id) {
            done.copied.push((mark, interval));
        }
    }

    /// Notes what it took to make a storage again.
    pub fn rematerialized_in(&mut self, graph: &Graph, id: StorageId, ns: u64) {
        if let Some((done, _, interval)) = self.noted(graph, id) {
            done.rematerialized.push((interval, ns));
        }
    }

    /// Where what is done with a storage is noted, the op of the schedule, and the interval that the storage is in.
    pub fn noted(&mut self, graph: &Graph, id: StorageId) -> Option<(&mut ScheduleOutcome, u32, IntervalId)> {
        let following = self.plans.present_mut()?;
        let (at, interval) = (following.place.at()?, following.interval(&graph.storages[id])?);
        Some((following.done.as_mut()?, at, interval))
    }
}

/// Those of an op, of a list by op.
pub fn of_op<T>(list: &[T], op: u32, op_of: impl Fn(&T) -> u32) -> &[T] {
    let begin = list.partition_point(|entry| op_of(entry) < op);
    let end = begin + list[begin..].partition_point(|entry| op_of(entry) == op);
    &list[begin..end]
}
