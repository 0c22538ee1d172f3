//! Handles of storages: which the program keeps, and which it drops.

use crate::config::PlantedFault;
use crate::pool::Pool;
use crate::pool::remat::ids::StorageId;
use crate::trace::Event;

impl Pool {
    /// Makes a storage a result of a scope that lies within `scopes` others. Only those outer scopes count for it from
    /// now on.
    pub fn keep_result(&mut self, id: StorageId, scopes: u32) {
        if self.settings.planted_fault == Some(PlantedFault::MarkedResults) {
            return;
        }
        self.follower.log_keep(&self.graph, id, scopes);
        self.graph.storages.limit_scopes(id, scopes);
    }

    /// Notes that the last handle of a storage is gone.
    pub fn release(&mut self, id: StorageId) {
        self.observer.journal.note(|| Event::Free(self.graph.storages.number(id)));
        self.follower.log_free(&self.graph, id);
        self.drop_handle(id);
    }

    /// Takes the handle of a storage away, and frees what nothing needs any more.
    pub(in crate::pool) fn drop_handle(&mut self, id: StorageId) {
        self.follower.note_last_handle_gone(&mut self.graph, id);
        self.graph.need_ended(id, &mut self.memory);
        self.graph.settle_claims(&mut self.memory);
        if self.graph.storages.len() == 0 {
            self.reset_if_filled();
        }
    }

    /// Resets the pool when it is empty. If the host tier may fill up, decisions must be those of a new pool: whether a
    /// program fits must not depend on earlier programs.
    fn reset_if_filled(&mut self) {
        self.follower.free_tallies(&mut self.memory);
        self.memory.forget_disk();
        if self.memory.has_filled || !self.memory.is_roomy() {
            self.follower.forget();
            self.follower.await_eviction(&mut self.memory);
            self.submitter.offloading_until_ns = 0;
        }
    }
}
