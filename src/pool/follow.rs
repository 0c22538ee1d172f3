//! Following a schedule: what it says of the op that comes, and of what that op touches.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Pool;
use super::storage::{Storage, StorageId, Storages};
use crate::error::Error;
use crate::liveness::NextUse;
use crate::policy::{Eviction, IntervalId, Place, Reactive, Schedule};

/// Scheduled evictions that no op needed yet; more are forgotten, the oldest first.
const MOST_DUE: usize = 256;

/// An eviction: during which op of the schedule, of the storage in which interval, and how.
pub type Decision = (u32, IntervalId, Eviction);

/// A scheduled eviction of this very storage, if the interval had begun when it became due: not of the one that is in the
/// interval an iteration later.
#[derive(Debug)]
struct Due {
    interval: IntervalId,
    number: Option<u64>,
    how: Eviction,
}

/// A schedule and how far it is.
#[derive(Debug)]
pub struct Following {
    schedule: Arc<Schedule>,
    place: Place,
    /// By interval, the storage that was in it last.
    current: Vec<Option<StorageId>>,
    due: VecDeque<Due>,
    /// What was evicted since this was last asked, if it ever is.
    decisions: Option<Vec<Decision>>,
    /// Ops since the program was last where the schedule knows it.
    lost_ops: usize,
    /// What it says is done now.
    active: bool,
}

impl Following {
    /// The schedule's rule.
    pub fn rule(&self) -> &dyn Reactive {
        &self.schedule.rule
    }

    pub(super) fn storage_in(&self, interval: IntervalId, storages: &Storages) -> Option<StorageId> {
        let id = self.current[interval.0 as usize]?;
        (storages.contains(id) && storages[id].interval == Some(interval)).then_some(id)
    }
}

impl Pool {
    /// Does as a schedule says from now on; `before_first`: the next op is its first.
    pub fn follow(&mut self, schedule: Arc<Schedule>, before_first: bool) {
        // Intervals of an earlier schedule mean nothing in this one.
        let known: Vec<StorageId> = self.graph.storages.iter().map(|(id, _)| id).collect();
        known.into_iter().for_each(|id| self.graph.storages[id].interval = None);
        self.following = Some(Box::new(Following {
            place: Place::new(&schedule, before_first),
            current: vec![None; schedule.intervals.len()],
            due: VecDeque::new(),
            decisions: None,
            lost_ops: 0,
            active: false,
            schedule,
        }));
    }

    /// Says in which interval of the schedule a storage is that no op has touched.
    pub fn put_in_interval(&mut self, id: StorageId, interval: IntervalId, next_ops: u32) {
        let Some(following) = &mut self.following else { return };
        following.current[interval.0 as usize] = Some(id);
        let storage = &mut self.graph.storages[id];
        storage.interval = Some(interval);
        storage.next_use = NextUse::At(self.clock + u64::from(next_ops));
    }

    /// What was evicted since this was last asked; noted from the first time on.
    pub fn decisions(&mut self) -> Vec<Decision> {
        let decisions = self.following.as_mut().and_then(|following| following.decisions.replace(Vec::new()));
        decisions.unwrap_or_default()
    }

    /// An op comes: its evictions are due, and its fetches are made.
    pub(super) fn advance(&mut self, signature: u64) -> Result<(), Error> {
        let roomy = self.is_roomy();
        let Some(following) = &mut self.following else { return Ok(()) };
        let schedule = following.schedule.clone();
        let at = following.place.advance(&schedule, signature);
        following.active = at.is_some() && roomy;
        self.device.begin_op(schedule.layout.as_ref().filter(|_| following.active), at.unwrap_or_default());
        let Some(at) = at else {
            following.due.clear();
            following.lost_ops += 1;
            if following.lost_ops > 2 * schedule.ops.len() {
                self.following = None;
                self.learn();
            }
            return Ok(());
        };
        following.lost_ops = 0;
        if !roomy {
            following.due.clear();
            return Ok(());
        }
        for &(_, interval, how) in of_op(&schedule.evictions, at, |&(op, ..)| op) {
            let number = following.storage_in(interval, &self.graph.storages);
            // By best fit, nothing is as it was when that was decided, and what was left over is better evicted too.
            let number = number.filter(|_| schedule.layout.is_some());
            let number = number.map(|id| self.graph.storages[id].number);
            following.due.push_back(Due { interval, number, how });
        }
        let stale = following.due.len().saturating_sub(MOST_DUE);
        following.due.drain(..stale);
        for &(_, interval) in of_op(&schedule.fetches, at, |&(op, _)| op) {
            self.fetch_scheduled(interval);
        }
        if at == 0
            && let Some(layout) = &schedule.layout
        {
            self.relocate_residents(layout)?;
        }
        Ok(())
    }

    /// Whether the host tier has room for all that device memory can hold. Then nothing that is done before it must be makes a
    /// program fail: what it displaces has somewhere to go.
    pub(super) fn is_roomy(&self) -> bool {
        let host_room_bytes = self.host.limit_bytes() - self.host.used_bytes();
        host_room_bytes >= self.device.limit_bytes() || !self.settings.ways.offload
    }

    /// Whether what a schedule says is done now.
    pub(super) fn is_following(&self) -> bool {
        self.following.as_ref().is_some_and(|following| following.active)
    }

    /// Fetches ahead of use; where there is no room, the op itself will.
    fn fetch_scheduled(&mut self, interval: IntervalId) {
        let Some(following) = &self.following else { return };
        let Some(id) = following.storage_in(interval, &self.graph.storages) else { return };
        let storage = &self.graph.storages[id];
        if storage.device.is_some() || storage.host.is_none() || !storage.held {
            return;
        }
        if let Ok(true) = self.fetch("prefetch", id) {
            let storage = &mut self.graph.storages[id];
            storage.prefetched = true;
            self.counters.prefetched_bytes += storage.size_bytes as u64;
        }
    }

    /// The op touched these, inputs before outputs: intervals begin.
    pub(super) fn touched(&mut self, operands: &[StorageId]) -> Result<(), Error> {
        let Some(following) = &mut self.following else { return Ok(()) };
        let Some(at) = following.place.at() else { return Ok(()) };
        let schedule = following.schedule.clone();
        for (operand, &id) in operands.iter().enumerate() {
            let Some(interval) = schedule.interval(at, operand) else { break };
            if !self.graph.storages.contains(id) {
                continue;
            }
            following.current[interval.0 as usize] = Some(id);
            let storage = &mut self.graph.storages[id];
            storage.interval = Some(interval);
            let next = schedule.intervals[interval.0 as usize].next_ops;
            storage.next_use = next.map_or(NextUse::Never, |ops| NextUse::At(self.clock + u64::from(ops)));
        }
        for &id in operands {
            self.offload_early(&schedule, id)?;
        }
        Ok(())
    }

    fn offload_early(&mut self, schedule: &Schedule, id: StorageId) -> Result<(), Error> {
        if !self.graph.storages.contains(id) || !self.settings.ways.offload || !self.is_following() {
            return Ok(());
        }
        let storage = &self.graph.storages[id];
        if is_offloaded(storage, schedule)
            && storage.held
            && storage.device.is_some()
            && storage.host.is_none()
        {
            self.write_back(id, false)?;
        }
        Ok(())
    }

    /// Whether the schedule fetches a storage in time for its next use.
    pub(super) fn fetch_is_scheduled(&self, storage: &Storage) -> bool {
        let following = self.following.as_ref();
        !storage.prefetched && following.is_some_and(|following| is_offloaded(storage, &following.schedule))
    }

    /// A storage that the schedule evicts by now, and how.
    pub(super) fn scheduled_victim(&mut self) -> Option<(StorageId, Eviction)> {
        let following = self.following.as_ref()?;
        let victim = |due: &Due| {
            let id = following.storage_in(due.interval, &self.graph.storages)?;
            let storage = &self.graph.storages[id];
            let meant = due.number.is_none_or(|number| number == storage.number);
            (meant && storage.device.is_some() && self.can_leave(storage)).then_some(id)
        };
        let (index, id) =
            following.due.iter().enumerate().find_map(|(index, due)| Some((index, victim(due)?)))?;
        let due = self.following.as_mut()?.due.remove(index)?;
        Some((id, due.how))
    }

    /// Notes an eviction.
    pub(super) fn decided(&mut self, id: StorageId, how: Eviction) {
        self.log_from_now_on();
        let interval = self.graph.storages[id].interval;
        if let Some(following) = &mut self.following
            && let (Some(decisions), Some(at), Some(interval)) =
                (&mut following.decisions, following.place.at(), interval)
        {
            decisions.push((at, interval, how));
        }
    }
}

fn is_offloaded(storage: &Storage, schedule: &Schedule) -> bool {
    storage.interval.is_some_and(|interval| schedule.intervals[interval.0 as usize].offload)
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
    use crate::policy::Interval;

    #[test]
    fn intervals_of_a_schedule_end_with_it() {
        let engine = Arc::new(SimEngine::new(&profiles()[0]));
        let settings =
            Config::new().budget_bytes(1 << 20).resolve(crate::engine::Engine::props(&*engine)).unwrap();
        let mut pool = Pool::new(OvercommitDevice::default(), engine, settings);
        let offloaded = Interval { next_ops: Some(1), offload: true };
        let schedule =
            |count| Arc::new(Schedule { intervals: vec![offloaded; count], ..Schedule::default() });
        pool.follow(schedule(3), true);
        let (id, _) = pool.begin_write(256).unwrap();
        pool.put_in_interval(id, IntervalId(2), 1);
        assert!(pool.fetch_is_scheduled(&pool.graph.storages[id]));
        pool.follow(schedule(1), true);
        assert!(!pool.fetch_is_scheduled(&pool.graph.storages[id]));
    }
}
