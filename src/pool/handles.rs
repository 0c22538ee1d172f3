//! Handles of storages: what the program keeps, and what it lets go of.

use crate::config::PlantedFault;
use crate::pool::Pool;
use crate::pool::remat::ids::StorageId;
use crate::trace::Event;

impl Pool {
    /// A storage is a result of a scope, which is in `scopes` others: what it was made in does not count.
    pub fn keep_result(&mut self, id: StorageId, scopes: u32) {
        if self.settings.planted_fault == Some(PlantedFault::MarkedResults) {
            return;
        }
        self.follower.log_keep(&self.graph, id, scopes);
        self.graph.storages.limit_scopes(id, scopes);
    }

    /// The last handle of a storage is gone.
    pub fn release(&mut self, id: StorageId) {
        self.observer.journal.note(|| Event::Free(self.graph.storages.number(id)));
        self.follower.log_free(&self.graph, id);
        self.let_go(id);
    }

    /// The storage has no handle any more.
    pub(in crate::pool) fn let_go(&mut self, id: StorageId) {
        self.follower.no_handle(&mut self.graph, id);
        self.graph.need_ended(id, &mut self.memory);
        self.graph.settle_claims(&mut self.memory);
        if self.graph.storages.len() == 0 {
            self.begin_again();
        }
    }

    /// Nothing is there any more. Where the host tier may fill, what comes is decided as in a new pool: what was learned before is
    /// not to decide whether it fits.
    fn begin_again(&mut self) {
        self.follower.forget_tallies(&mut self.memory);
        if self.memory.has_filled || !self.memory.is_roomy() {
            self.follower.forget();
            self.follower.learn(&mut self.memory);
            self.submitter.offloading_until_ns = 0;
        }
    }
}
