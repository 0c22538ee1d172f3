//! Storages that the program will use and that are not in device memory.

use std::collections::BTreeMap;

use crate::engine::aligned;
use crate::liveness::NextUse;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::storage::Storage;

/// The storages of a stream that the program holds and that are not in device memory, with their sizes, by the op that
/// will use them next. A storage whose next use is unknown is not listed.
#[derive(Debug, Default)]
pub struct AbsentStorages {
    pub by_next_use: BTreeMap<(u64, StorageId), usize>,
}

impl AbsentStorages {
    /// Notes that a storage has lost its device memory.
    pub fn insert(&mut self, id: StorageId, storage: &Storage) {
        if let NextUse::At(op) = storage.access.next_use
            && storage.uses.held
        {
            self.by_next_use.insert((op, id), aligned(storage.size_bytes));
        }
    }

    /// Notes that a storage has device memory again, or that its last handle is gone.
    pub fn remove(&mut self, id: StorageId, storage: &Storage) {
        if let NextUse::At(op) = storage.access.next_use {
            self.by_next_use.remove(&(op, id));
        }
    }
}
