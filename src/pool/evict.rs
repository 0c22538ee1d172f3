//! Making room: candidates for the policy, and what it decided.

use super::Pool;
use super::arena::Block;
use super::lease::Pending;
use super::recipe::RecipeId;
use super::storage::{Storage, StorageId};
use crate::engine::aligned;
use crate::error::Error;
use crate::policy::{Candidate, Eviction};

impl Pool {
    /// A block of device memory, evicting until there is one. `None`: nothing more can be evicted, and what is free is
    /// in pieces too small.
    pub(super) fn place(
        &mut self,
        op: &'static str,
        bytes: usize,
    ) -> Result<Option<(Block, Pending)>, Error> {
        loop {
            let placed = self.device.allocate(&*self.submitter.engine, bytes);
            if let Some(placed) = placed.map_err(|error| self.engine_error(error))? {
                return Ok(Some(placed));
            }
            if !self.evict_one(op)? {
                return Ok(None);
            }
        }
    }

    /// Takes the device copy of one storage that is not pinned. `false`: there is none.
    fn evict_one(&mut self, op: &'static str) -> Result<bool, Error> {
        let Some((id, eviction)) = self.choose(true) else {
            return Ok(false);
        };
        if self.evict(id, eviction)? {
            return Ok(true);
        }
        // The host tier is full. Better than to give up clean copies there is to make use of them, or of recipes.
        if let Some((id, eviction)) = self.choose(false) {
            return self.evict(id, eviction);
        }
        if self.offload(id, true)? {
            return Ok(true);
        }
        Err(self.host_tier_full(op, self.graph.storages[id].size_bytes))
    }

    fn evict(&mut self, id: StorageId, eviction: Eviction) -> Result<bool, Error> {
        match eviction {
            Eviction::Offload => self.offload(id, false),
            Eviction::Drop => {
                self.drop_bytes(id);
                Ok(true)
            }
        }
    }

    /// What the policy evicts next. `host_room`: storages that are not clean can be offloaded.
    fn choose(&self, host_room: bool) -> Option<(StorageId, Eviction)> {
        let storages = &self.graph.storages;
        let mut offered = Vec::new();
        let mut candidates = storages.residents().filter_map(|id| {
            let storage = &storages[id];
            if storage.pins > 0 {
                return None;
            }
            let candidate = self.candidate(id, storage, host_room);
            (candidate.movable || candidate.remake_ns.is_some()).then(|| {
                offered.push(id);
                candidate
            })
        });
        let (index, eviction) = self.policy.choose(&mut candidates)?;
        drop(candidates);
        Some((offered[index], eviction))
    }

    fn candidate(&self, id: StorageId, storage: &Storage, host_room: bool) -> Candidate {
        let clean = storage.host.is_some();
        let copy_ns = self.engine().props().copy_ns(storage.size_bytes);
        let ask = self.policy.weighs_recompute() && !clean;
        Candidate {
            size_bytes: aligned(storage.size_bytes),
            idle_ops: self.clock - storage.used_at,
            clean,
            movable: clean || host_room,
            move_ns: if clean { copy_ns } else { 2 * copy_ns },
            remake_ns: if ask { self.remake_ns(id, storage) } else { None },
        }
    }

    /// Predicted time to make a resident storage again if its bytes were dropped now; `None` if they may not be: no
    /// recipe, another evicted storage relies on them, or an op on the way does not fit the budget.
    fn remake_ns(&self, id: StorageId, storage: &Storage) -> Option<u64> {
        if storage.recipe.is_none() || storage.claims > 0 || self.remaking {
            return None;
        }
        let order = self.graph.remake_order(id, true)?;
        order.iter().map(|&recipe| self.replay_ns(recipe)).sum()
    }

    fn replay_ns(&self, id: RecipeId) -> Option<u64> {
        let recipe = self.graph.recipe(id);
        let ids = recipe.inputs.iter().map(|&(input, _)| input);
        let plan = self.ingredients(
            recipe.op,
            recipe.algorithm,
            recipe.inputs.iter().map(|&(_, view)| view),
        );
        let fits = self.working_set_bytes(ids, &plan) <= self.device.limit_bytes();
        fits.then(|| {
            self.engine()
                .props()
                .launch_ns(&recipe.op.work(&plan.views, &plan.outputs))
        })
    }

    fn drop_bytes(&mut self, id: StorageId) {
        self.free_device(id);
        self.graph.dropped(id);
        self.counters.evictions += 1;
        self.counters.drops += 1;
    }

    /// Offloads everything that is resident, pinned or not, so that free memory is in one piece.
    pub(super) fn compact(&mut self, op: &'static str) -> Result<(), Error> {
        self.counters.compactions += 1;
        let used_bytes = self.device.used_bytes();
        self.settings.log(
            log::Level::Debug,
            format_args!("{op}: emptying the arena of {used_bytes} bytes to join its gaps"),
        );
        let residents: Vec<StorageId> = self.graph.storages.residents().collect();
        for id in residents {
            if !self.offload(id, true)? {
                return Err(self.host_tier_full(op, self.graph.storages[id].size_bytes));
            }
        }
        Ok(())
    }

    pub(super) fn host_tier_full(&self, op: &'static str, needed_bytes: usize) -> Error {
        let alive = self.graph.storages.iter().filter(|(_, storage)| storage.active());
        Error::HostTierFull {
            op,
            needed_bytes,
            used_bytes: self.host.used_bytes(),
            limit_bytes: self.host.limit_bytes(),
            live_bytes: alive.map(|(_, storage)| aligned(storage.size_bytes)).sum(),
        }
    }
}
