//! The program's access to bytes in the host tier.

use crate::engine::{Tier, aligned};
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::remat::away::TierCopy;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::storage::Storage;
use crate::pool::submit::{HostAccess, PendingWork};
use crate::trace::Event;

impl Pool {
    /// Notes that the program reads a storage.
    pub fn note_read(&mut self, id: StorageId) {
        self.observer.counters.reads += 1;
        self.observer.journal.note(|| Event::Read(self.graph.storages.number(id)));
        self.follower.log_read(&self.graph, id);
    }

    /// Makes a storage's bytes readable in the host tier, and pins them there until [`end_read`](Pool::end_read).
    pub fn begin_read(&mut self, id: StorageId) -> Result<HostAccess, Error> {
        self.rematerialize_all(&[id])?;
        let size_bytes = self.graph.storages[id].size_bytes;
        let copy = self.readable_copy(id, size_bytes)?;
        self.graph.storages[id].uses.host_pins += 1;
        Ok(self.host_access(copy, copy.written.into(), size_bytes))
    }

    /// The copy of a stored storage in host memory, which is made if there is none.
    fn readable_copy(&mut self, id: StorageId, size_bytes: usize) -> Result<TierCopy, Error> {
        loop {
            let copies = &self.graph.storages[id].copies;
            let is_written = copies.device.is_some() && copies.in_tier(Tier::Host).is_none();
            if (!is_written || self.write_to_host(id, true)?)
                && let Some(copy) = self.in_host_memory(id)?
            {
                return Ok(copy);
            }
            if !self.make_host_room(Some(id))? {
                return Err(self.host_tier_full("read", size_bytes));
            }
        }
    }

    /// Makes a new storage of `size_bytes` bytes for the program to write until [`end_write`](Pool::end_write). The
    /// storage begins in the host tier and is fetched for its first use.
    pub fn begin_write(&mut self, size_bytes: usize) -> Result<(StorageId, HostAccess), Error> {
        let (block, busy) = loop {
            if let Some(placed) = self.host_block(size_bytes, true)? {
                break placed;
            }
            if !self.make_host_room(None)? {
                return Err(self.host_tier_full("write", size_bytes));
            }
        };
        let stream = self.follower.streams.current();
        let id = self.graph.storages.insert(size_bytes, "upload", stream, 0);
        self.observer.journal.note(|| Event::Write(self.graph.storages.made_as(id)));
        self.follower.log_write(&self.graph, id);
        self.follower.streams[stream].held_bytes += aligned(size_bytes);
        let copy = TierCopy::unwritten(block, busy);
        self.graph.storages[id].access.used_ns = self.observer.computed_ns;
        self.graph.storages.set_away(id, Tier::Host, Some(copy));
        self.graph.storages[id].uses.host_pins += 1;
        Ok((id, self.host_access(copy, busy, size_bytes)))
    }

    /// Makes room in a full host tier that no other tier relieves: fetches a storage into free device memory, or drops one that can be
    /// recomputed, in the host tier first. Leaves the storage `but` as it is. Returns `false` if no storage is left for that.
    fn make_host_room(&mut self, but: Option<StorageId>) -> Result<bool, Error> {
        if self.fetch_into_unused_memory()? || self.drop_absent() {
            return Ok(true);
        }
        let recomputes = self.settings.methods.recompute;
        let can_go = |pool: &Pool, id| {
            let storage = &pool.graph.storages[id];
            recomputes
                && Some(id) != but
                && storage.copies.away.is_none()
                && pool.rematerialize_ns(id, storage).is_some()
        };
        let picked = self.pick(0, can_go);
        picked.into_iter().for_each(|id| self.drop_bytes(id));
        Ok(picked.is_some())
    }

    /// Fetches the largest storage that waits in the host tier and fits in device memory that nothing uses. Its place in the host
    /// tier can then be given up. Returns `false` if there is none.
    fn fetch_into_unused_memory(&mut self) -> Result<bool, Error> {
        let free_bytes = self.memory.device.free_bytes();
        let waits = |storage: &Storage| {
            storage.copies.in_tier(Tier::Host).is_some()
                && storage.copies.device.is_none()
                && storage.uses.host_pins == 0
                && aligned(storage.size_bytes) <= free_bytes
        };
        let waiting = self.graph.storages.iter().filter(|(_, storage)| waits(storage));
        let Some((id, _)) = waiting.max_by_key(|(_, storage)| storage.size_bytes) else {
            return Ok(false);
        };
        self.expect_copy(id);
        let Some((block, busy)) = self.memory.allocate(self.graph.storages[id].size_bytes)? else {
            return Ok(false);
        };
        self.fetch_into(id, block, busy)?;
        Ok(true)
    }

    fn host_access(&self, copy: TierCopy, pending: PendingWork, size_bytes: usize) -> HostAccess {
        HostAccess::new(self.submitter.engine.clone(), self.memory.host.span(copy.block, size_bytes), pending)
    }

    /// Ends a read. Returns an error if the bytes descend from a failed launch.
    pub fn end_read(&mut self, id: StorageId) -> Result<(), Error> {
        self.end_write(id);
        self.check(id)
    }

    /// Ends an access of the program to the bytes.
    pub fn end_write(&mut self, id: StorageId) {
        self.graph.storages[id].uses.host_pins -= 1;
        self.free_needless_host_copy(id);
    }

    /// Returns an error if the storage descends from a failed launch. The work that made the storage must be done.
    pub(in crate::pool) fn check(&mut self, id: StorageId) -> Result<(), Error> {
        self.observer.counters.failed_ops += self.observer.failures.poll(&mut self.graph, &self.submitter);
        let cause = self.observer.failures.reported_for(&self.graph.storages[id]);
        cause.map_or(Ok(()), |cause| Err(self.memory.error((*cause).clone())))
    }
}
