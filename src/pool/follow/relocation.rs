//! Moves storages within device memory to the placements that a plan has for the beginning of an iteration.

use crate::error::Error;
use crate::pool::Pool;
use crate::pool::remat::ids::StorageId;
use crate::schedule::{BlockPlacement, Layout};

impl Pool {
    /// Moves the residents at the beginning of an iteration to their planned placements. What cannot move now is tried
    /// again at the next iteration.
    ///
    /// When the pool begins to follow a plan, blocks are anywhere. Blocks that do not outlive the iteration are soon
    /// gone, and the others must be moved once. A storage whose predecessor still exists when it is made, such as a
    /// weight that is not updated in place, must be moved in every iteration. The offload lane makes the moves, so that
    /// ops that do not need these storages run meanwhile.
    pub(in crate::pool) fn relocate_residents(&mut self, layout: &Layout) -> Result<(), Error> {
        self.clear_away(layout)?;
        // Storages whose placements are free go first, until there are no more.
        while self.relocate_all(layout, false)? > 0 {}
        self.relocate_all(layout, true).map(|_| ())
    }

    /// Evicts residents that the plan does not list. Those that cannot be evicted move to the highest addresses, which
    /// the plan does not use.
    fn clear_away(&mut self, layout: &Layout) -> Result<(), Error> {
        let plan = self.follower.active_plans.current();
        let is_planned = |&id: &StorageId| {
            let storage = &self.graph.storages[id];
            let interval = plan.and_then(|plan| plan.interval(storage));
            interval.is_some_and(|interval| {
                layout.residents.binary_search_by_key(&interval, |&(interval, _)| interval).is_ok()
                    && plan.and_then(|plan| plan.storage_in(interval, &self.graph.storages)) == Some(id)
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
                let placement = BlockPlacement::At(end);
                if !self.memory.device.is_at(copy.block, &placement)
                    && self.clear_placement(&placement, copy.block.bytes)?
                {
                    self.relocate(id, copy.block.bytes, &placement)?;
                }
            }
        }
        Ok(())
    }

    /// Moves residents to their placements and returns how many were moved. With `may_clear`, it first moves away what lies
    /// there.
    fn relocate_all(&mut self, layout: &Layout, may_clear: bool) -> Result<usize, Error> {
        let mut count = 0;
        for (interval, placement) in &layout.residents {
            let plan = self.follower.active_plans.current();
            let id = plan.and_then(|plan| plan.storage_in(*interval, &self.graph.storages));
            if let Some(id) = id
                && let Some(copy) = self.graph.storages[id].copies.device
                && !self.memory.device.is_at(copy.block, placement)
                && (!may_clear || self.clear_placement(placement, copy.block.bytes)?)
            {
                count += usize::from(self.relocate(id, copy.block.bytes, placement)?);
            }
        }
        Ok(count)
    }
}
