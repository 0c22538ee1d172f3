//! Copies between the two tiers.

use crate::engine::Lane;
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::storage::TierCopy;
use crate::pool::submit::PendingWork;
use crate::schedule::Eviction;
use crate::trace::How;

impl Pool {
    /// Offloads a storage: frees its device copy and keeps its bytes in the host tier. Returns `false` if there is no
    /// room for them. With `displace`, clean copies of other storages may be given up to make room.
    pub(in crate::pool) fn offload(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        let storage = &self.graph.storages[id];
        let allowed = storage.copies.host.is_some() || self.follower.may_move(storage);
        Ok(allowed && self.move_out(id, displace)?)
    }

    /// Offloads a storage even if the policy or the plan would not, as when device memory is emptied.
    pub(in crate::pool) fn move_out(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        let clean = self.graph.storages[id].copies.host.is_some();
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

    /// Copies a resident storage to the host tier. Returns `false` if there is no room.
    pub(in crate::pool) fn write_back(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let Some((block, busy)) = self.host_block(size_bytes, displace)? else {
            return Ok(false);
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
        let storage = &mut self.graph.storages[id];
        storage.copies.host = Some(Box::new(TierCopy::new(block, PendingWork::default().with(mark))));
        storage.copies.device = Some(TierCopy { touched: device.touched.with(mark), ..device });
        self.submitter.offloading_until_ns =
            self.submitter.offloading_until_ns.max(self.observer.computed_ns) + copy_ns;
        storage.access.clean_at_ns = self.submitter.offloading_until_ns;
        self.observer.counters.offloaded_bytes += size_bytes as u64;
        self.follower.note_copy(&self.graph, id, mark);
        self.observer.note_copy(&self.graph, &self.submitter, Lane::Offload, id);
        Ok(true)
    }

    /// Brings a storage from the host tier into a block, which then belongs to it.
    pub(in crate::pool) fn fetch_into(
        &mut self,
        id: StorageId,
        block: Block,
        busy: PendingWork,
    ) -> Result<(), Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let host = self.graph.storages[id].copies.host.as_deref().copied();
        let host = host.expect("only a storage in the host tier is fetched");
        let from = self.memory.host.span(host.block, size_bytes);
        let to = self.memory.device.span(block, size_bytes);
        let mark = match self.submitter.copy(Lane::Fetch, from, to, host.written.and(busy)) {
            Ok(mark) => mark,
            Err(error) => {
                self.memory.device.free(block, busy);
                return Err(self.memory.error(error));
            }
        };
        let storages = &mut self.graph.storages;
        storages[id].copies.host = Some(Box::new(TierCopy { touched: host.touched.with(mark), ..host }));
        storages.set_device(
            id,
            TierCopy::new(block, PendingWork::default().with(mark)),
            self.observer.computed_ns,
        );
        self.follower.note_present(&self.graph, id);
        self.observer.counters.fetched_bytes += size_bytes as u64;
        self.follower.note_copy(&self.graph, id, mark);
        self.observer.note_copy(&self.graph, &self.submitter, Lane::Fetch, id);
        // If nothing may be offloaded, a host copy does not help to evict the storage.
        if !self.settings.methods.offload && self.graph.storages[id].uses.host_pins == 0 {
            self.graph.free_host(id, &mut self.memory);
        }
        Ok(())
    }

    /// Announces to the arena that the next block is for the copy of a storage.
    pub(in crate::pool) fn expect_copy(&mut self, id: StorageId) {
        let storage = &self.graph.storages[id];
        self.memory
            .device
            .expect(self.follower.active_plans.current().and_then(|plan| plan.interval(storage)));
    }

    /// Allocates a block of the host tier. With `displace`, the clean copies of the least recently used storages are
    /// given up if necessary.
    pub(in crate::pool) fn host_block(
        &mut self,
        bytes: usize,
        displace: bool,
    ) -> Result<Option<(Block, PendingWork)>, Error> {
        loop {
            if let Some(placed) = self.memory.allocate_host(bytes)? {
                return Ok(Some(placed));
            }
            let clean = |id: &StorageId| {
                let storage = &self.graph.storages[*id];
                displace && storage.copies.host.is_some() && storage.uses.host_pins == 0
            };
            let Some(id) = self.graph.storages.residents().find(clean) else {
                return Ok(None);
            };
            self.graph.free_host(id, &mut self.memory);
        }
    }
}
