//! Prefetching: storages in the host tier are fetched in the order of their next uses, into memory that stays free
//! until then.

use crate::error::Error;
use crate::pool::Pool;
use crate::schedule::PrefetchDistance;

/// The maximum number of storages scanned after one op.
const MAX_SCANNED: usize = 16;

impl Pool {
    /// Fetches storages that the thread will use soon. Leaves room for what the program will additionally hold by then,
    /// and for what must be recomputed before.
    pub(in crate::pool) fn prefetch(&mut self) -> Result<(), Error> {
        if !self.follower.rule().prefetches() || !self.memory.is_roomy() || !self.settings.methods.offload {
            return Ok(());
        }
        let stream = self.follower.streams.current();
        let mut reserved_bytes = 0;
        let mut after = (0, None);
        for _ in 0..MAX_SCANNED {
            let next = match after.1 {
                None => self.follower.streams[stream].absent.by_next_use.iter().next(),
                Some(id) => self.follower.streams[stream].absent.by_next_use.range((after.0, id)..).nth(1),
            };
            let Some((&(at, id), &bytes)) = next else { break };
            after = (at, Some(id));
            if at <= self.follower.streams[stream].ops {
                // The prediction was wrong: the storage was not touched at this op.
                self.follower.streams[stream].absent.by_next_use.remove(&(at, id));
                after = (0, None);
                continue;
            }
            if self.graph.storages[id].copies.away.is_none() {
                reserved_bytes += bytes;
                continue;
            }
            if !self.is_worth_fetching(at, bytes, reserved_bytes) {
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

    /// Whether to fetch a storage of `bytes` bytes now that op `at` of the thread will use.
    fn is_worth_fetching(&self, at: u64, bytes: usize, reserved_bytes: usize) -> bool {
        let stream = &self.follower.streams[self.follower.streams.current()];
        let free_bytes = self.memory.device.free_bytes();
        let unplanned = PrefetchDistance { parts: self.follower.prefetch_distance.parts };
        let distance =
            self.follower.active_plans.followed().map_or(unplanned, |plan| plan.schedule.prefetch_distance);
        let copy_ns = |bytes| self.submitter.engine.props().fetch_ns(bytes);
        let soon_ns = distance.ahead_ns(bytes, self.memory.device.limit_bytes(), copy_ns);
        let op = at - stream.ops + stream.tracker.now();
        free_bytes >= bytes + reserved_bytes
            && stream.tracker.time_until_ns(op).is_some_and(|until_ns| until_ns <= soon_ns)
            && (stream.tracker.growth_bytes(op))
                .is_some_and(|growth_bytes| free_bytes >= bytes + reserved_bytes + growth_bytes)
    }
}
