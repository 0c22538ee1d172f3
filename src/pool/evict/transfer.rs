//! Copies between tiers, and between the host tier and the program.

use crate::engine::{Lane, aligned};
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::storage::TierCopy;
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::{HostAccess, Pending};
use crate::schedule::Eviction;
use crate::trace::{Event, How};

impl Pool {
    /// Frees a storage's device copy, keeping its bytes in the host tier. `false`: there is no room for them.
    /// `displace`: clean copies of other storages may be given up for it.
    pub(in crate::pool) fn offload(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        let storage = &self.graph.storages[id];
        let allowed = storage.host.is_some() || self.may_move(storage);
        Ok(allowed && self.move_out(id, displace)?)
    }

    /// The same of a storage that is to be kept, to come back at another address.
    pub(in crate::pool) fn move_out(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        let clean = self.graph.storages[id].host.is_some();
        if clean {
            self.observer.counters.clean_evictions += 1;
        } else if !self.settings.ways.offload || !self.write_back(id, displace)? {
            return Ok(false);
        }
        let copy_ns = self.engine().props().copy_ns(self.graph.storages[id].size_bytes);
        match clean {
            true => self.note_eviction(id, How::Clean, || copy_ns),
            false => self.note_eviction(id, How::Offload, || 2 * copy_ns),
        }
        self.decided(id, Eviction::Offload);
        self.graph.free_device(id, &mut self.memory);
        if std::mem::take(&mut self.graph.storages[id].prefetched) {
            self.follower.prefetch_distance.wasted();
        }
        self.is_absent(id);
        self.observer.counters.evictions += 1;
        Ok(true)
    }

    /// Gives a resident storage a clean copy in the host tier. `false`: there is no room.
    pub(in crate::pool) fn write_back(&mut self, id: StorageId, displace: bool) -> Result<bool, Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let Some((block, busy)) = self.host_block(size_bytes, displace)? else {
            return Ok(false);
        };
        let device = self.graph.storages[id].device.expect("only a resident storage is written back");
        let from = self.memory.device.span(device.block, size_bytes);
        let to = self.memory.host.span(block, size_bytes);
        let copy_ns = self.engine().props().copy_ns(size_bytes);
        let mark = match self.submitter.copy(Lane::Offload, from, to, device.written.and(busy)) {
            Ok(mark) => mark,
            Err(error) => {
                self.memory.host.free(block, busy);
                return Err(self.memory.error(error));
            }
        };
        let storage = &mut self.graph.storages[id];
        storage.host = Some(Box::new(TierCopy::new(block, Pending::default().with(mark))));
        storage.device = Some(TierCopy { touched: device.touched.with(mark), ..device });
        self.submitter.offloading_until_ns =
            self.submitter.offloading_until_ns.max(self.observer.computed_ns) + copy_ns;
        storage.clean_at_ns = self.submitter.offloading_until_ns;
        self.observer.counters.offloaded_bytes += size_bytes as u64;
        self.copied(id, mark);
        self.note_copy(Lane::Offload, id);
        Ok(true)
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

    /// The next block is for a copy of a storage.
    pub(in crate::pool) fn expect_copy(&mut self, id: StorageId) {
        let storage = &self.graph.storages[id];
        self.memory
            .device
            .expect(self.follower.plans.present().and_then(|following| following.interval(storage)));
    }

    /// Brings a storage from the host tier into a block that is its own from now on.
    pub(in crate::pool) fn fetch_into(
        &mut self,
        id: StorageId,
        block: Block,
        busy: Pending,
    ) -> Result<(), Error> {
        let size_bytes = self.graph.storages[id].size_bytes;
        let host = self.graph.storages[id].host.as_deref().copied();
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
        storages[id].host = Some(Box::new(TierCopy { touched: host.touched.with(mark), ..host }));
        storages.set_device(id, TierCopy::new(block, Pending::default().with(mark)), self.observer.computed_ns);
        self.is_present(id);
        self.observer.counters.fetched_bytes += size_bytes as u64;
        self.copied(id, mark);
        self.note_copy(Lane::Fetch, id);
        // Where nothing may be offloaded, a copy on the host is no way to evict.
        if !self.settings.ways.offload && self.graph.storages[id].host_pins == 0 {
            self.graph.free_host(id, &mut self.memory);
        }
        Ok(())
    }

    /// A block of the host tier; with `displace` if need be in place of clean copies, least recently used first.
    pub(in crate::pool) fn host_block(
        &mut self,
        bytes: usize,
        displace: bool,
    ) -> Result<Option<(Block, Pending)>, Error> {
        loop {
            if let Some(placed) = self.memory.allocate_host(bytes)? {
                return Ok(Some(placed));
            }
            let clean = |id: &StorageId| {
                let storage = &self.graph.storages[*id];
                displace && storage.host.is_some() && storage.host_pins == 0
            };
            let Some(id) = self.graph.storages.residents().find(clean) else {
                return Ok(None);
            };
            self.graph.free_host(id, &mut self.memory);
        }
    }

    /// Makes a storage's bytes readable in the host tier and pins them there, until [`end_read`](Pool::end_read).
    pub fn begin_read(&mut self, id: StorageId) -> Result<HostAccess, Error> {
        let begun = self.make_readable(id);
        self.counted(begun)
    }

    fn make_readable(&mut self, id: StorageId) -> Result<HostAccess, Error> {
        self.observer.counters.reads += 1;
        self.observer.journal.note(|| Event::Read(self.number(id)));
        self.log_read(id);
        self.remake_all(&[id])?;
        let size_bytes = self.graph.storages[id].size_bytes;
        if self.graph.storages[id].host.is_none() && !self.write_back(id, true)? {
            return Err(self.host_tier_full("read", size_bytes));
        }
        let storage = &mut self.graph.storages[id];
        storage.host_pins += 1;
        let copy = storage.host.as_deref().copied().expect("just made");
        Ok(self.host_access(copy, copy.written, size_bytes))
    }

    /// A new storage of `size_bytes` that the program writes, until [`end_write`](Pool::end_write). It
    /// begins life in the host tier and is fetched when first used.
    pub fn begin_write(&mut self, size_bytes: usize) -> Result<(StorageId, HostAccess), Error> {
        let begun = self.make_writable(size_bytes);
        self.counted(begun)
    }

    fn make_writable(&mut self, size_bytes: usize) -> Result<(StorageId, HostAccess), Error> {
        let Some((block, busy)) = self.host_block(size_bytes, true)? else {
            return Err(self.host_tier_full("write", size_bytes));
        };
        let stream = self.follower.streams.current();
        let id = self.graph.storages.insert(size_bytes, "upload", stream, 0);
        self.observer.journal.note(|| Event::Write(self.made(id)));
        self.log_write(id);
        self.follower.streams[stream].held_bytes += aligned(size_bytes);
        let storage = &mut self.graph.storages[id];
        let copy = TierCopy { block, written: Pending::default(), touched: busy };
        storage.host = Some(Box::new(copy));
        storage.host_pins += 1;
        Ok((id, self.host_access(copy, busy, size_bytes)))
    }

    fn host_access(&self, copy: TierCopy, pending: Pending, size_bytes: usize) -> HostAccess {
        HostAccess::new(self.engine().clone(), self.memory.host.span(copy.block, size_bytes), pending)
    }

    /// The program has read the bytes. An error is that of a launch that they descend from.
    pub fn end_read(&mut self, id: StorageId) -> Result<(), Error> {
        self.end_write(id);
        self.check(id)
    }

    /// The program is done with the bytes.
    pub fn end_write(&mut self, id: StorageId) {
        self.graph.storages[id].host_pins -= 1;
        if !self.settings.ways.offload && self.graph.storages[id].device.is_some() {
            self.graph.free_host(id, &mut self.memory);
        }
    }
}
