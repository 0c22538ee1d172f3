//! Making room for a block: by eviction, by defragmentation, or by emptying device memory.

use crate::engine::aligned;
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::PendingWork;

/// The maximum number of ops rematerialized for one op before intermediate results are no longer dropped to make room.
pub(super) const MAX_REMATERIALIZED: u32 = 4096;

impl Pool {
    /// Places a block of device memory, and evicts until there is room. Returns `None` if nothing more can be evicted
    /// and free memory is in pieces too small.
    pub(in crate::pool) fn place(
        &mut self,
        op: &'static str,
        bytes: usize,
    ) -> Result<Option<(Block, PendingWork)>, Error> {
        loop {
            // Where moving storages together takes less time than a mapping, they move.
            let mapping_ns = self.mapping_ns(bytes);
            if mapping_ns > 0 && self.may_defragment(bytes) {
                let movable_bytes = self.engine().props().movable_bytes(mapping_ns);
                self.defragment(bytes, movable_bytes)?;
            }
            let mut placed = self.memory.allocate(bytes)?;
            // Evictions of the plan come first, because they make room where the plan places the block.
            if placed.is_none() && self.evict_scheduled()? {
                continue;
            }
            if placed.is_none() && self.may_defragment(bytes) && self.defragment(bytes, usize::MAX)? {
                placed = self.memory.allocate(bytes)?;
            }
            if placed.is_some() {
                return Ok(placed);
            }
            if !self.evict_one(op, aligned(bytes))? {
                let placed = self.memory.allocate_beyond_plan(bytes);
                return placed;
            }
        }
    }

    /// Brings a storage from the host tier into device memory. Returns `false` if free memory there is in pieces too
    /// small.
    pub(in crate::pool) fn fetch(&mut self, op: &'static str, id: StorageId) -> Result<bool, Error> {
        self.expect_copy(id);
        let Some((block, busy)) = self.place(op, self.graph.storages[id].size_bytes)? else {
            return Ok(false);
        };
        self.fetch_into(id, block, busy)?;
        Ok(true)
    }

    /// The time to map scattered pages for a block; 0 if it needs no mapping.
    fn mapping_ns(&self, bytes: usize) -> u64 {
        let host = &self.engine().props().host;
        if host.map_page_ns == 0 {
            return 0;
        }
        let pages = self.memory.device.joined_pages(bytes);
        if pages == 0 { 0 } else { host.map_ns(pages) }
    }

    /// Whether enough memory is free to defragment for a block. A plan that offloads works best if blocks stay at their
    /// planned addresses: moved storages would be in the way of others.
    fn may_defragment(&self, bytes: usize) -> bool {
        self.memory.device.free_bytes() >= aligned(bytes)
            && !(self.settings.methods.offload && self.memory.device.has_layout())
    }

    /// Evicts one storage that is not pinned, to make room for `need_bytes`. Returns `false` if there is none.
    fn evict_one(&mut self, op: &'static str, need_bytes: usize) -> Result<bool, Error> {
        let Some(id) = self.pick(need_bytes, |_, _| true) else {
            return Ok(self.drop_wanted(need_bytes));
        };
        if self.evict(id, true)? {
            return Ok(true);
        }
        // The host tier is full. Storages with a host copy or a recipe leave first. Only then are host copies of
        // residents given up.
        let without_host_room = |pool: &Pool, id| {
            pool.graph.storages[id].copies.away.is_some() || pool.eviction_method(id, false).is_some()
        };
        if let Some(id) = self.pick(need_bytes, without_host_room) {
            return self.evict(id, false);
        }
        if self.offload(id, true)? || self.drop_wanted(need_bytes) {
            return Ok(true);
        }
        if self.drop_absent() {
            return self.evict_one(op, need_bytes);
        }
        Err(self.nowhere_to_go(op, id, need_bytes))
    }

    /// Evicts one storage whose eviction by the plan is due. Returns `false` if there is none.
    fn evict_scheduled(&mut self) -> Result<bool, Error> {
        while let Some((id, method)) = self.follower.scheduled_victim(&self.graph) {
            if self.evict_as_scheduled(id, method)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops a storage that the rematerialization under way will still read, if nothing else can leave. It is then
    /// rematerialized once more. Returns `false` if there is none, or if that has happened too often.
    fn drop_wanted(&mut self, need_bytes: usize) -> bool {
        if !self.graph.rematerialization.under_way
            || self.settings.methods.offloads_all()
            || self.graph.rematerialization.ops > MAX_REMATERIALIZED
        {
            return false;
        }
        self.graph.rematerialization.drops_wanted = true;
        let can_be_rematerialized =
            |pool: &Pool, id| pool.rematerialize_ns(id, &pool.graph.storages[id]).is_some();
        let picked = self.pick(need_bytes, can_be_rematerialized);
        if let Some(id) = picked {
            self.drop_bytes(id);
        }
        self.graph.rematerialization.drops_wanted = false;
        picked.is_some()
    }

    /// Offloads all residents, pinned or not, so that free memory is in one piece.
    pub(in crate::pool) fn empty_device(&mut self, op: &'static str, need_bytes: usize) -> Result<(), Error> {
        self.observer.counters.compactions += 1;
        // Planned placements would split that piece again.
        self.memory.device.depart();
        let used_bytes = self.memory.device.used_bytes();
        self.settings.log(
            log::Level::Debug,
            format_args!("{op}: emptying the arena of {used_bytes} bytes to defragment it"),
        );
        let residents: Vec<StorageId> = self.graph.storages.residents().collect();
        for id in residents {
            while !self.move_out(id, true)? {
                if !self.drop_absent() {
                    return Err(self.nowhere_to_go(op, id, need_bytes));
                }
            }
        }
        Ok(())
    }
}
