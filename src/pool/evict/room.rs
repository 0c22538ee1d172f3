//! Making room for a block: evicting, defragmenting, or emptying device memory.

use crate::engine::aligned;
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::PendingWork;

/// Ops that are run again for one op before nothing is made twice any more to have room.
const MAX_REMATERIALIZED: u32 = 4096;

impl Pool {
    /// A block of device memory, evicting until there is one. `None`: nothing more can be evicted, and what is free is
    /// in pieces too small.
    pub(in crate::pool) fn place(
        &mut self,
        op: &'static str,
        bytes: usize,
    ) -> Result<Option<(Block, PendingWork)>, Error> {
        loop {
            let mut placed = self.memory.allocate(bytes)?;
            // What a plan has leave makes room where the plan has the block.
            if placed.is_none() && self.evict_scheduled()? {
                continue;
            }
            if placed.is_none() && self.may_defragment(bytes) && self.defragment(bytes)? {
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

    /// Brings a storage from the host tier into device memory. `false`: what is free there is in pieces too small.
    pub(in crate::pool) fn fetch(&mut self, op: &'static str, id: StorageId) -> Result<bool, Error> {
        self.expect_copy(id);
        let Some((block, busy)) = self.place(op, self.graph.storages[id].size_bytes)? else {
            return Ok(false);
        };
        self.fetch_into(id, block, busy)?;
        Ok(true)
    }

    /// Where enough is free. A plan that copies is followed best with all at its address: what was moved would be in the way of what comes.
    fn may_defragment(&self, bytes: usize) -> bool {
        self.memory.device.free_bytes() >= aligned(bytes)
            && !(self.settings.ways.offload && self.memory.device.has_layout())
    }

    /// Takes the device copy of one storage that is not pinned, towards room for `need_bytes`. `false`: there is none.
    fn evict_one(&mut self, op: &'static str, need_bytes: usize) -> Result<bool, Error> {
        let Some(id) = self.pick(need_bytes, |_, _| true) else {
            return Ok(self.drop_wanted(need_bytes));
        };
        if self.evict(id, true)? {
            return Ok(true);
        }
        // The host tier is full. Better than to give up clean copies there is to make use of them, or of recipes.
        let without_host_room =
            |pool: &Pool, id| pool.graph.storages[id].copies.host.is_some() || pool.how(id, false).is_some();
        if let Some(id) = self.pick(need_bytes, without_host_room) {
            return self.evict(id, false);
        }
        if self.offload(id, true)? || self.drop_wanted(need_bytes) {
            return Ok(true);
        }
        Err(self.nowhere_to_go(op, id, need_bytes))
    }

    /// The same of one that the schedule evicts by now.
    fn evict_scheduled(&mut self) -> Result<bool, Error> {
        while let Some((id, how)) = self.follower.scheduled_victim(&self.graph) {
            if self.evict_as_scheduled(id, how)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops what a recomputation under way has made for later, where nothing else can leave: it is made once more. `false`:
    /// there is none, or that has been done too often.
    fn drop_wanted(&mut self, need_bytes: usize) -> bool {
        if !self.graph.rematerialization.under_way
            || self.settings.ways.offloads_all()
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

    /// Offloads everything that is resident, pinned or not, so that free memory is in one piece, towards room for `need_bytes`.
    pub(in crate::pool) fn empty_device(&mut self, op: &'static str, need_bytes: usize) -> Result<(), Error> {
        self.observer.counters.compactions += 1;
        // Planned addresses would split what is joined.
        self.memory.device.depart();
        let used_bytes = self.memory.device.used_bytes();
        self.settings.log(
            log::Level::Debug,
            format_args!("{op}: emptying the arena of {used_bytes} bytes to join its gaps"),
        );
        let residents: Vec<StorageId> = self.graph.storages.residents().collect();
        for id in residents {
            if !self.move_out(id, true)? {
                return Err(self.nowhere_to_go(op, id, need_bytes));
            }
        }
        Ok(())
    }
}
