//! Reading ahead: storages that are only on the disk come back to host memory in the order of their next uses, before they are
//! fetched.

use crate::engine::Tier;
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::memory::address_space::Placed;
use crate::pool::remat::away::{Place, Soonness};
use crate::pool::remat::ids::StorageId;

/// The maximum number of storages that are looked at after an op to see whether the disk is late.
const MAX_SCANNED: usize = 32;

/// A storage is read if it is needed within so many times the time that it and those before it take to read.
const DISTANCE: u64 = 2;

impl Pool {
    /// Reads storages from the disk that the thread will use soon, as long as host memory has room for them.
    pub(in crate::pool) fn load_ahead(&mut self) -> Result<(), Error> {
        if !self.follower.rule().prefetches() || !self.settings.methods.offload {
            return Ok(());
        }
        while self.is_disk_late() {
            let Some((soonness, id)) = self.graph.storages.absent.in_place(Place::Disk).next() else { break };
            let Some(placed) = self.room_for_return(soonness, self.graph.storages[id].size_bytes)? else {
                break;
            };
            self.load(id, placed)?;
        }
        Ok(())
    }

    /// Whether one of the storages that are needed next would come late if reading began only later.
    fn is_disk_late(&self) -> bool {
        let Some(disk) = &self.settings.disk else { return false };
        let streams = &self.follower.streams;
        let stream = &streams[streams.current()];
        let mut reading_ns = 0;
        let on_disk = self.graph.storages.absent.in_place(Place::Disk).take(MAX_SCANNED);
        on_disk.into_iter().any(|(soonness, id)| {
            let (Soonness::At(at), storage) = (soonness, &self.graph.storages[id]) else { return false };
            if at <= stream.ops || storage.access.stream != streams.current() {
                return false;
            }
            reading_ns += disk.copy_ns(storage.size_bytes);
            let until_ns = stream.tracker.time_until_ns(at - stream.ops + stream.tracker.now());
            until_ns.is_some_and(|until_ns| until_ns <= DISTANCE * reading_ns)
        })
    }

    /// Room in host memory that nothing has to be written for: unused, or of what is on the disk too and needed later.
    fn room_for_return(&mut self, soonness: Soonness, bytes: usize) -> Result<Placed, Error> {
        loop {
            let placed = self.memory.allocate_host(bytes)?;
            if placed.is_some() {
                return Ok(placed);
            }
            let storages = &self.graph.storages;
            let later =
                |&(other, id): &(Soonness, StorageId)| other > soonness && storages[id].uses.host_pins == 0;
            let Some((_, id)) = storages.absent.in_place(Place::Both).rev().find(later) else {
                return Ok(None);
            };
            self.graph.free_copy(id, Tier::Host, &mut self.memory);
        }
    }
}
