//! Copies between device memory and the host tier or other devices.

use crate::engine::{Lane, Mark, Span, Tier};
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::away::TierCopy;
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
        let [out_ns, back_ns] = self.copies_ns(&self.graph.storages[id]);
        match clean {
            true => self.observer.note_eviction(&self.graph, id, How::Clean, || back_ns),
            false => self.observer.note_eviction(&self.graph, id, How::Offload, || out_ns + back_ns),
        }
        self.follower.note_decision(&self.graph, &mut self.memory, id, Eviction::Offload);
        self.graph.free_device(id, &mut self.memory);
        if std::mem::take(&mut self.graph.storages[id].access.prefetched) {
            self.follower.prefetch_distance.note_wasted();
        }
        self.follower.note_absent(&self.graph, id);
        self.submitter.spend(|host| host.eviction_ns);
        self.observer.counters.evictions += 1;
        Ok(true)
    }

    /// Copies a resident storage away from device memory: to another device if that is faster than the host and has room, else to
    /// the host tier, else to another device, else part by part to the disk. Returns `false` if there is no room.
    pub(in crate::pool) fn write_back(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        if self.prefers_peers() && self.write_to_peer(id, false)? {
            return Ok(true);
        }
        Ok(self.write_to_host(id, displace)?
            || self.write_to_peer(id, displace)?
            || self.write_through(id)?)
    }

    /// Copies a resident storage to the host tier. Returns `false` if there is no room.
    pub(in crate::pool) fn write_to_host(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let Some(placed) = self.host_block(size_bytes, displace)? else { return Ok(false) };
        self.copy_out(id, Tier::Host, placed)?;
        let offload_ns = self.submitter.engine.props().offload_ns(size_bytes);
        self.submitter.offloading_until_ns =
            self.submitter.offloading_until_ns.max(self.observer.computed_ns) + offload_ns;
        self.graph.storages[id].access.clean_at_ns = self.submitter.offloading_until_ns;
        Ok(true)
    }

    /// Copies a resident storage to another device. Returns `false` if there is no room.
    fn write_to_peer(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        if self.memory.peer.is_none() {
            return Ok(false);
        }
        let size_bytes = self.graph.storages[id].size_bytes;
        let placed = loop {
            let placed = self.memory.allocate_peer(size_bytes)?;
            if placed.is_some() || !displace || !self.give_up_clean_copy(Tier::Peer) {
                break placed;
            }
        };
        let Some(placed) = placed else { return Ok(false) };
        self.copy_out(id, Tier::Peer, placed)?;
        let copy_ns = self.return_ns(&self.graph.storages[id]);
        self.graph.storages[id].access.clean_at_ns = self.observer.computed_ns + copy_ns;
        Ok(true)
    }

    /// Copies a resident storage into a block of another tier, which is freed after an error.
    fn copy_out(
        &mut self,
        id: StorageId,
        tier: Tier,
        (block, busy): (Block, PendingWork),
    ) -> Result<(), Error> {
        let [lane, _] = tier.lanes();
        let size_bytes = self.graph.storages[id].size_bytes;
        let device = self.graph.storages[id].copies.device.expect("only a resident storage is copied out");
        let from = self.memory.device.span(device.block, size_bytes);
        let mark = self.copy_into(lane, from, (tier, block), busy.with(device.written))?;
        let copy = TierCopy::new(block, mark);
        self.graph.storages.set_away(id, tier, Some(copy));
        self.graph.storages[id].copies.device =
            Some(TierCopy { touched: device.touched.with(mark), ..device });
        self.note_copy(lane, id);
        Ok(())
    }

    /// Copies to the beginning of a block once `after` is done, and returns the mark of the copy's end. The block is freed after an
    /// error.
    pub(in crate::pool) fn copy_into(
        &mut self,
        lane: Lane,
        from: Span,
        (tier, block): (Tier, Block),
        after: PendingWork,
    ) -> Result<Mark, Error> {
        let to = self.memory.span(tier, block, from.bytes);
        self.submitter.copy(lane, from, to, after).map_err(|error| {
            self.memory.free(tier, block, after);
            self.memory.error(error)
        })
    }

    /// Counts and notes a copy that was submitted last on a lane.
    pub(in crate::pool) fn note_copy(&mut self, lane: Lane, id: StorageId) {
        self.observer.counters.copied(lane, self.graph.storages[id].size_bytes);
        self.follower.note_copy(&self.graph, id, self.submitter.engine.mark(lane));
        self.observer.note_copy(&self.graph, &self.submitter, lane, id);
    }

    /// Brings a storage into a block, which then belongs to it: from the host tier or another device, or from the disk through host
    /// memory.
    pub(in crate::pool) fn fetch_into(
        &mut self,
        id: StorageId,
        block: Block,
        busy: PendingWork,
    ) -> Result<(), Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let copies = &self.graph.storages[id].copies;
        let on_peer = copies.in_tier(Tier::Peer).filter(|_| copies.in_tier(Tier::Host).is_none());
        let source = match on_peer {
            Some(copy) => Ok(Some((Tier::Peer, copy))),
            None => self.in_host_memory(id).map(|copy| copy.map(|copy| (Tier::Host, copy))),
        };
        let written = match source {
            Ok(Some((tier, copy))) => self.fetch_from(id, (tier, copy), block, busy)?,
            Ok(None) => match self.read_through(id, block, busy)? {
                Some(written) => written,
                None if self.drop_absent() => return self.fetch_into(id, block, busy),
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
        self.note_copy(if on_peer.is_some() { Lane::FromPeer } else { Lane::Fetch }, id);
        self.free_needless_host_copy(id);
        Ok(())
    }

    /// Copies a storage from another tier into a block, which is freed after an error. Returns the end of the copy.
    fn fetch_from(
        &mut self,
        id: StorageId,
        (tier, source): (Tier, TierCopy),
        block: Block,
        busy: PendingWork,
    ) -> Result<Mark, Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let [_, lane] = tier.lanes();
        let from = self.memory.span(tier, source.block, size_bytes);
        let mark = self.copy_into(lane, from, (Tier::Device, block), busy.with(source.written))?;
        self.graph.storages.touch_away(id, tier, mark);
        Ok(mark)
    }

    /// Frees the host copy of a resident storage that the program does not read, if nothing may be offloaded: then it does not help to
    /// evict the storage.
    pub(in crate::pool) fn free_needless_host_copy(&mut self, id: StorageId) {
        let storage = &self.graph.storages[id];
        let is_needless = storage.copies.device.is_some() && storage.uses.host_pins == 0;
        if is_needless && !self.settings.methods.offload {
            self.graph.free_away(id, &mut self.memory);
        }
    }

    /// Announces to the arena that the next block is for the copy of a storage.
    pub(in crate::pool) fn expect_copy(&mut self, id: StorageId) {
        let storage = &self.graph.storages[id];
        self.memory
            .device
            .expect(self.follower.active_plans.current().and_then(|plan| plan.interval(storage)));
    }

    /// Allocates a block of the host tier. If necessary, counts are given up, storages that are also in another tier leave it; with `displace`, so do the
    /// clean copies of the least recently used storages; then storages go on to other devices or to the disk.
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
            let has_left = self.follower.requests.tallies.give_up(&mut self.memory)
                || self.leave_what_is_elsewhere()
                || (displace && self.give_up_clean_copy(Tier::Host));
            if !has_left && !self.move_last_needed(for_return)? {
                return Ok(None);
            }
        }
    }

    /// Gives up the clean copy in a tier of the least recently used storage that has one. Returns `false` if there is none.
    pub(in crate::pool) fn give_up_clean_copy(&mut self, tier: Tier) -> bool {
        let storages = &self.graph.storages;
        let clean = |id: &StorageId| {
            let storage = &storages[*id];
            storage.copies.in_tier(tier).is_some() && (tier != Tier::Host || storage.uses.host_pins == 0)
        };
        let found = storages.residents().find(clean);
        found.into_iter().for_each(|id| self.graph.free_copy(id, tier, &mut self.memory));
        found.is_some()
    }
}
