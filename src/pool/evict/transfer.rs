//! Copies between device memory and the host tier.

use crate::engine::Lane;
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::away::{AwayCopy, TierCopy};
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::PendingWork;
use crate::schedule::Eviction;
use crate::trace::How;

impl Pool {
    /// Offloads a storage: frees its device copy and keeps its bytes in the host tier. Returns `false` if there is no
    /// room for them. With `displace`, clean copies of other storages may be given up to make room.
    pub(in crate::pool) fn offload(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        let storage = &self.graph.storages[id];
        let allowed = storage.copies.away.is_some() || self.follower.may_move(storage);
        Ok(allowed && self.move_out(id, displace)?)
    }

    /// Offloads a storage even if the policy or the plan would not, as when device memory is emptied.
    pub(in crate::pool) fn move_out(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        let clean = self.graph.storages[id].copies.away.is_some();
        if clean {
            self.observer.counters.clean_evictions += 1;
        } else if !self.settings.methods.offload || !self.write_back(id, displace)? {
            return Ok(false);
        }
        let copy_ns = self.submitter.engine.props().copy_ns(self.graph.storages[id].size_bytes);
        match clean {
            true => self.observer.note_eviction(&self.graph, id, How::Clean, || copy_ns),
            false => self.observer.note_eviction(&self.graph, id, How::Offload, || 2 * copy_ns),
        }
        self.follower.note_decision(&self.graph, &mut self.memory, id, Eviction::Offload);
        self.graph.free_device(id, &mut self.memory);
        if std::mem::take(&mut self.graph.storages[id].access.prefetched) {
            self.follower.prefetch_distance.note_wasted();
        }
        self.follower.note_absent(&self.graph, id);
        self.observer.counters.evictions += 1;
        Ok(true)
    }

    /// Copies a resident storage to the host tier, or through it to the disk if it is too large. Returns `false` if there is no
    /// room.
    pub(in crate::pool) fn write_back(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let Some((block, busy)) = self.host_block(size_bytes, displace)? else {
            return self.write_through(id);
        };
        let device = self.graph.storages[id].copies.device.expect("only a resident storage is written back");
        let from = self.memory.device.span(device.block, size_bytes);
        let to = self.memory.host.span(block, size_bytes);
        let copy_ns = self.submitter.engine.props().copy_ns(size_bytes);
        let mark = match self.submitter.copy(Lane::Offload, from, to, device.written.and(busy)) {
            Ok(mark) => mark,
            Err(error) => {
                self.memory.host.free(block, busy);
                return Err(self.memory.error(error));
            }
        };
        let disk = self.graph.storages[id].copies.away.as_ref().and_then(|away| away.disk);
        let copy = TierCopy::new(block, PendingWork::default().with(mark));
        self.graph.storages.set_away(id, AwayCopy::new(Some(copy), disk));
        let storage = &mut self.graph.storages[id];
        storage.copies.device = Some(TierCopy { touched: device.touched.with(mark), ..device });
        self.submitter.offloading_until_ns =
            self.submitter.offloading_until_ns.max(self.observer.computed_ns) + copy_ns;
        storage.access.clean_at_ns = self.submitter.offloading_until_ns;
        self.observer.counters.offloaded_bytes += size_bytes as u64;
        self.follower.note_copy(&self.graph, id, mark);
        self.observer.note_copy(&self.graph, &self.submitter, Lane::Offload, id);
        Ok(true)
    }

    /// Brings a storage from the host tier into a block, which then belongs to it; from the disk through host memory.
    pub(in crate::pool) fn fetch_into(
        &mut self,
        id: StorageId,
        block: Block,
        busy: PendingWork,
    ) -> Result<(), Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let written = match self.in_host_memory(id) {
            Ok(Some(host)) => self.fetch_from(id, host, block, busy)?,
            Ok(None) => match self.read_through(id, block, busy)? {
                Some(written) => written,
                None => {
                    self.memory.device.free(block, busy);
                    return Err(self.host_tier_full("fetch", size_bytes));
                }
            },
            Err(error) => {
                self.memory.device.free(block, busy);
                return Err(error);
            }
        };
        let storages = &mut self.graph.storages;
        storages.set_device(id, TierCopy::new(block, written), self.observer.computed_ns);
        self.follower.note_present(&self.graph, id);
        self.observer.counters.fetched_bytes += size_bytes as u64;
        self.follower.note_copy(&self.graph, id, self.submitter.engine.mark(Lane::Fetch));
        self.observer.note_copy(&self.graph, &self.submitter, Lane::Fetch, id);
        // If nothing may be offloaded, a host copy does not help to evict the storage.
        if !self.settings.methods.offload && self.graph.storages[id].uses.host_pins == 0 {
            self.graph.free_away(id, &mut self.memory);
        }
        Ok(())
    }

    /// Copies a storage from the host tier into a block, which is freed after an error. Returns the work that writes it.
    fn fetch_from(
        &mut self,
        id: StorageId,
        host: TierCopy,
        block: Block,
        busy: PendingWork,
    ) -> Result<PendingWork, Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let from = self.memory.host.span(host.block, size_bytes);
        let to = self.memory.device.span(block, size_bytes);
        let mark = match self.submitter.copy(Lane::Fetch, from, to, host.written.and(busy)) {
            Ok(mark) => mark,
            Err(error) => {
                self.memory.device.free(block, busy);
                return Err(self.memory.error(error));
            }
        };
        if let Some(AwayCopy { memory: Some(host), .. }) = self.graph.storages[id].copies.away.as_deref_mut()
        {
            host.touched = host.touched.with(mark);
        }
        Ok(PendingWork::default().with(mark))
    }

    /// Announces to the arena that the next block is for the copy of a storage.
    pub(in crate::pool) fn expect_copy(&mut self, id: StorageId) {
        let storage = &self.graph.storages[id];
        self.memory
            .device
            .expect(self.follower.active_plans.current().and_then(|plan| plan.interval(storage)));
    }

    /// Allocates a block of the host tier. If necessary, storages that are also on the disk leave it; with `displace`, so do the
    /// clean copies of the least recently used storages; then storages go on to the disk.
    pub(in crate::pool) fn host_block(
        &mut self,
        bytes: usize,
        displace: bool,
    ) -> Result<Option<(Block, PendingWork)>, Error> {
        self.host_block_for(bytes, displace, false)
    }

    /// Like [`host_block`](Pool::host_block). A block `for_return` is for what comes back from the disk, which then has more room.
    pub(in crate::pool) fn host_block_for(
        &mut self,
        bytes: usize,
        displace: bool,
        for_return: bool,
    ) -> Result<Option<(Block, PendingWork)>, Error> {
        loop {
            let placed = self.memory.allocate_host(bytes)?;
            if placed.is_some() || bytes > self.memory.host.limit_bytes() {
                return Ok(placed);
            }
            let has_left = self.leave_what_is_on_disk() || (displace && self.give_up_clean_copy());
            if !has_left && !self.spill_last_needed(for_return)? {
                return Ok(None);
            }
        }
    }

    /// Gives up the clean copy of the least recently used storage that has one. Returns `false` if there is none.
    pub(in crate::pool) fn give_up_clean_copy(&mut self) -> bool {
        let storages = &self.graph.storages;
        let clean = |id: &StorageId| {
            let storage = &storages[*id];
            storage.copies.away.as_ref().is_some_and(|away| away.memory.is_some())
                && storage.uses.host_pins == 0
        };
        let found = storages.residents().find(clean);
        found.into_iter().for_each(|id| self.graph.free_host(id, &mut self.memory));
        found.is_some()
    }
}
