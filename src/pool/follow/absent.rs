//! Storages that will be asked for and are not in device memory.

use std::collections::BTreeMap;

use crate::engine::aligned;
use crate::liveness::NextUse;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::storage::Storage;

/// A stream's storages that the program holds and that are not in device memory, by the op that will touch them next; those
/// of which that is not known are not here.
#[derive(Debug, Default)]
pub struct Absent(pub BTreeMap<(u64, StorageId), usize>);

impl Absent {
    /// The storage lost its device memory.
    pub fn insert(&mut self, id: StorageId, storage: &Storage) {
        if let NextUse::At(op) = storage.access.next_use
            && storage.uses.held
        {
            self.0.insert((op, id), aligned(storage.size_bytes));
        }
    }

    /// It has device memory again, or no handle.
    pub fn remove(&mut self, id: StorageId, storage: &Storage) {
        if let NextUse::At(op) = storage.access.next_use {
            self.0.remove(&(op, id));
        }
    }
}
