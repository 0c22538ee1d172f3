//! Moves within device memory: what an iteration begins with is brought to the addresses that a plan has for it.

use crate::error::Error;
use crate::pool::Pool;
use crate::pool::remat::ids::StorageId;
use crate::schedule::{BlockPlacement, Layout};

impl Pool {
    /// Moves what is resident when an iteration begins to where the plan has it. Where something cannot be now, it is tried
    /// again an iteration later.
    ///
    /// When a plan begins to be followed, blocks are anywhere. What does not outlive the iteration is soon gone; what stays has to
    /// be moved, once. What is made anew while its like of the iteration before is still there, such as a weight that is not
    /// updated in place, is moved in every iteration: by the offload lane, beside the ops that need none of it.
    pub(in crate::pool) fn relocate_residents(&mut self, layout: &Layout) -> Result<(), Error> {
        self.clear_away(layout)?;
        // First those whose place is free, as long as there are any.
        while self.relocate_all(layout, false)? > 0 {}
        self.relocate_all(layout, true).map(|_| ())
    }

    /// Evicts what is resident and not planned to be. What cannot be evicted goes to the highest addresses, where the plan has
    /// nothing.
    fn clear_away(&mut self, layout: &Layout) -> Result<(), Error> {
        let following = self.follower.plans.present();
        let is_planned = |&id: &StorageId| {
            let storage = &self.graph.storages[id];
            let interval = following.and_then(|following| following.interval(storage));
            interval.is_some_and(|interval| {
                layout.residents.binary_search_by_key(&interval, |&(interval, _)| interval).is_ok()
                    && following.and_then(|following| following.storage_in(interval, &self.graph.storages))
                        == Some(id)
            })
        };
        let mut others: Vec<StorageId> =
            self.graph.storages.residents().filter(|id| !is_planned(id)).collect();
        others.sort_unstable_by_key(|&id| self.graph.storages[id].number);
        let mut end = self.memory.device.limit_bytes();
        for id in others {
            if self.follower.can_leave(&self.graph, &self.graph.storages[id]) {
                self.evict(id, true)?;
            }
            if let Some(copy) = self.graph.storages[id].copies.device {
                end = end.saturating_sub(copy.block.bytes);
                let spot = BlockPlacement::At(end);
                if !self.memory.device.is_at(copy.block, &spot) && self.clear(&spot, copy.block.bytes)? {
                    self.relocate(id, copy.block.bytes, &spot)?;
                }
            }
        }
        Ok(())
    }

    /// `clear`: what is in the way is moved too. How many were moved.
    fn relocate_all(&mut self, layout: &Layout, clear: bool) -> Result<usize, Error> {
        let mut count = 0;
        for (interval, spot) in &layout.residents {
            let following = self.follower.plans.present();
            let id = following.and_then(|following| following.storage_in(*interval, &self.graph.storages));
            if let Some(id) = id
                && let Some(copy) = self.graph.storages[id].copies.device
                && !self.memory.device.is_at(copy.block, spot)
                && (!clear || self.clear(spot, copy.block.bytes)?)
            {
                count += usize::from(self.relocate(id, copy.block.bytes, spot)?);
            }
        }
        Ok(count)
    }
}
