//! What is fetched before it is needed: storages that the host tier keeps, in the order in which the program will ask for
//! them, as far as memory stays free by it.


use crate::engine::{Instruction, aligned};
use crate::error::Error;
use crate::liveness::{NextUse, Observed, Operand, Signature, Touch};
use crate::op::Inputs;
use crate::pool::Pool;
use crate::pool::remat::ids::StorageId;
use crate::pool::input::Input;
use crate::schedule::Reach;

/// Storages looked at for one op, at the most.
const MOST_LOOKED_AT: usize = 16;

impl Pool {
    /// The storage lost its device memory.
    pub(in crate::pool) fn is_absent(&mut self, id: StorageId) {
        let storage = &self.graph.storages[id];
        self.follower.streams[storage.stream].absent.insert(id, storage);
    }

    /// It has device memory again.
    pub(in crate::pool) fn is_present(&mut self, id: StorageId) {
        let storage = &self.graph.storages[id];
        self.follower.streams[storage.stream].absent.remove(id, storage);
    }

    /// The storage belongs to the stream whose op touched it. What another knew of it is no use here.
    fn take_over(&mut self, id: StorageId) {
        let (current, storage) = (self.follower.streams.current(), &mut self.graph.storages[id]);
        let owner = std::mem::replace(&mut storage.stream, current);
        if owner == current {
            return;
        }
        self.follower.streams[owner].absent.remove(id, storage);
        let bytes = if storage.held { aligned(storage.size_bytes) } else { 0 };
        self.follower.streams[owner].held_bytes -= bytes;
        self.follower.streams[current].held_bytes += bytes;
        (storage.touch, storage.next_use) = (Touch::default(), NextUse::Unknown);
    }

    /// Tells the tracker of the thread of an op, and its operands what the tracker knows.
    pub(in crate::pool) fn track(&mut self, inputs: &[Input], plan: &Instruction, outputs: &[StorageId]) {
        inputs.iter().for_each(|input| self.take_over(input.id));
        if !self.follower.policy.prefetches() && !self.plans_iterations() {
            return;
        }
        let current = self.follower.streams.current();
        let stream = &mut self.follower.streams[current];
        let ids = || inputs.iter().map(|input| input.id).chain(outputs.iter().copied());
        let operand = |id| Operand { touch: self.graph.storages[id].touch, next: NextUse::Unknown };
        let mut operands: Inputs<Operand> = ids().map(operand).collect();
        let observed = Observed {
            signature: Signature(plan.signature),
            live_bytes: stream.held_bytes,
            scratch_bytes: plan.scratch_bytes,
            launch_ns: plan.launch_ns,
        };
        let context = stream.tracker.op(observed, &mut operands);
        stream.recent.push(context);
        self.follower.plans.find(current, &stream.recent);
        for (id, operand) in ids().zip(operands) {
            let storage = &mut self.graph.storages[id];
            storage.touch = operand.touch;
            storage.next_use = match operand.next {
                NextUse::At(op) => NextUse::At(stream.ops + op - stream.tracker.now()),
                other => other,
            };
            if std::mem::take(&mut storage.prefetched) {
                self.follower.prefetch_distance.used();
            }
        }
    }

    /// Fetches what the thread will need soon into memory that stays free until then: what the program will hold more by that
    /// time, and what is to be recomputed before, is left room.
    pub(in crate::pool) fn prefetch(&mut self) -> Result<(), Error> {
        if !self.follower.rule().prefetches() || !self.is_roomy() || !self.settings.ways.offload {
            return Ok(());
        }
        let stream = self.follower.streams.current();
        let mut reserved_bytes = 0;
        let mut after = (0, None);
        for _ in 0..MOST_LOOKED_AT {
            let next = match after.1 {
                None => self.follower.streams[stream].absent.0.iter().next(),
                Some(id) => self.follower.streams[stream].absent.0.range((after.0, id)..).nth(1),
            };
            let Some((&(at, id), &bytes)) = next else { break };
            after = (at, Some(id));
            if at <= self.follower.streams[stream].ops {
                // It was not touched when it should have been.
                self.follower.streams[stream].absent.0.remove(&(at, id));
                after = (0, None);
                continue;
            }
            if self.graph.storages[id].host.is_none() {
                reserved_bytes += bytes;
                continue;
            }
            if !self.worth_fetching(at, bytes, reserved_bytes) {
                break;
            }
            self.expect_copy(id);
            let placed = self.memory.allocate(bytes);
            let Some((block, busy)) = placed? else { break };
            self.fetch_into(id, block, busy)?;
            self.graph.storages[id].prefetched = true;
            self.observer.counters.prefetched_bytes += self.graph.storages[id].size_bytes as u64;
            after = (0, None);
            reserved_bytes = 0;
        }
        Ok(())
    }

    /// Whether a storage of so many bytes, needed by op `at` of the thread, is to be fetched now.
    fn worth_fetching(&self, at: u64, bytes: usize, reserved_bytes: usize) -> bool {
        let stream = &self.follower.streams[self.follower.streams.current()];
        let free_bytes = self.memory.device.free_bytes();
        let unplanned = Reach { parts: self.follower.prefetch_distance.0, hurries_small: true };
        let reach = self.follower.plans.active().map_or(unplanned, |following| following.schedule.reach);
        let copy_ns = |bytes| self.engine().props().copy_ns(bytes);
        let soon_ns = reach.ahead_ns(bytes, self.memory.device.limit_bytes(), copy_ns);
        let op = at - stream.ops + stream.tracker.now();
        free_bytes >= bytes + reserved_bytes
            && stream.tracker.time_until_ns(op).is_some_and(|until_ns| until_ns <= soon_ns)
            && (stream.tracker.growth_bytes(op))
                .is_some_and(|growth_bytes| free_bytes >= bytes + reserved_bytes + growth_bytes)
    }
}
