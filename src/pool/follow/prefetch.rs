//! What is fetched before it is needed: storages that the host tier keeps, in the order in which the program will ask for
//! them, as far as memory stays free by it.

use crate::error::Error;
use crate::pool::Pool;
use crate::schedule::PrefetchDistance;

/// Storages looked at for one op, at the most.
const MOST_LOOKED_AT: usize = 16;

impl Pool {
    /// Fetches what the thread will need soon into memory that stays free until then: what the program will hold more by that
    /// time, and what is to be recomputed before, is left room.
    pub(in crate::pool) fn prefetch(&mut self) -> Result<(), Error> {
        if !self.follower.rule().prefetches() || !self.memory.is_roomy() || !self.settings.ways.offload {
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
            if self.graph.storages[id].copies.host.is_none() {
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
            self.graph.storages[id].access.prefetched = true;
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
        let unplanned = PrefetchDistance { parts: self.follower.prefetch_distance.0, hurries_small: true };
        let reach = self.follower.plans.active().map_or(unplanned, |following| following.schedule.reach);
        let copy_ns = |bytes| self.submitter.engine.props().copy_ns(bytes);
        let soon_ns = reach.ahead_ns(bytes, self.memory.device.limit_bytes(), copy_ns);
        let op = at - stream.ops + stream.tracker.now();
        free_bytes >= bytes + reserved_bytes
            && stream.tracker.time_until_ns(op).is_some_and(|until_ns| until_ns <= soon_ns)
            && (stream.tracker.growth_bytes(op))
                .is_some_and(|growth_bytes| free_bytes >= bytes + reserved_bytes + growth_bytes)
    }
}
