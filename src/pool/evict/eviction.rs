//! Making room: candidates for the policy, and what it decided.

use crate::engine::aligned;
use crate::error::Error;
use crate::policy::{Knowledge, Ways};
use crate::pool::Pool;
use crate::pool::memory::block::Block;
use crate::pool::remat::ids::{RecipeId, StorageId};
use crate::pool::remat::storage::{Residents, Storage};
use crate::pool::submit::Pending;
use crate::schedule::Eviction;
use crate::trace::How;

/// Ops that are run again for one op before nothing is made twice any more to have room.
const MOST_REMADE: u32 = 4096;

impl Pool {
    /// A block of device memory, evicting until there is one. `None`: nothing more can be evicted, and what is free is
    /// in pieces too small.
    pub(in crate::pool) fn place(
        &mut self,
        op: &'static str,
        bytes: usize,
    ) -> Result<Option<(Block, Pending)>, Error> {
        loop {
            let mut placed = self.memory.allocate(bytes)?;
            // What a plan has leave makes room where the plan has the block.
            if placed.is_none() && self.evict_scheduled()? {
                continue;
            }
            if placed.is_none() && self.may_join(bytes) && self.join(bytes)? {
                placed = self.memory.allocate(bytes)?;
            }
            if placed.is_some() {
                return Ok(placed);
            }
            if !self.evict_one(op, aligned(bytes))? {
                let placed = self.memory.allocate_beyond(bytes);
                return placed;
            }
        }
    }

    /// Where enough is free. A plan that copies is followed best with all at its address: what was moved would be in the way of what comes.
    fn may_join(&self, bytes: usize) -> bool {
        self.memory.device.free_bytes() >= aligned(bytes)
            && !(self.settings.ways.offload && self.memory.device.has_layout())
    }

    /// Takes the device copy of one storage that is not pinned, towards room for `need_bytes`. `false`: there is none.
    fn evict_one(&mut self, op: &'static str, need_bytes: usize) -> Result<bool, Error> {
        let Some(id) = self.pick(need_bytes, |_, _| true) else {
            return Ok(self.drop_wanted(need_bytes));
        };
        if self.evict(id, true)? {
            return Ok(true);
        }
        // The host tier is full. Better than to give up clean copies there is to make use of them, or of recipes.
        let without_host_room =
            |pool: &Pool, id| pool.graph.storages[id].host.is_some() || pool.how(id, false).is_some();
        if let Some(id) = self.pick(need_bytes, without_host_room) {
            return self.evict(id, false);
        }
        if self.offload(id, true)? || self.drop_wanted(need_bytes) {
            return Ok(true);
        }
        Err(self.nowhere_to_go(op, id, need_bytes))
    }

    /// The same of one that the schedule evicts by now.
    fn evict_scheduled(&mut self) -> Result<bool, Error> {
        while let Some((id, how)) = self.scheduled_victim() {
            if self.evict_as_scheduled(id, how)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops what a recomputation under way has made for later, where nothing else can leave: it is made once more. `false`:
    /// there is none, or that has been done too often.
    fn drop_wanted(&mut self, need_bytes: usize) -> bool {
        if !self.graph.rematerialization.under_way
            || self.settings.ways.offloads_all()
            || self.graph.rematerialization.ops > MOST_REMADE
        {
            return false;
        }
        self.graph.rematerialization.drops_wanted = true;
        let can_be_remade = |pool: &Pool, id| pool.remake_ns(id, &pool.graph.storages[id]).is_some();
        let picked = self.pick(need_bytes, can_be_remade);
        if let Some(id) = picked {
            self.drop_bytes(id);
        }
        self.graph.rematerialization.drops_wanted = false;
        picked.is_some()
    }

    /// Whether a recomputation under way keeps a storage.
    fn is_wanted(&self, storage: &Storage) -> bool {
        storage.wanted > 0 && !self.graph.rematerialization.drops_wanted
    }

    /// Evicts a storage as the policy says. `false`: it wants the bytes kept, and the host tier has no room.
    pub(in crate::pool) fn evict(&mut self, id: StorageId, host_room: bool) -> Result<bool, Error> {
        let clean = self.graph.storages[id].host.is_some();
        match if clean { Some(Eviction::Offload) } else { self.how(id, host_room) } {
            Some(Eviction::Offload) => self.offload(id, false),
            Some(Eviction::Drop) => {
                self.drop_bytes(id);
                Ok(true)
            }
            Some(Eviction::Encode(encoding)) => self.encode(id, encoding),
            None => Ok(false),
        }
    }

    /// Evicts a storage as the schedule says. `false`: that cannot be now.
    pub(in crate::pool) fn evict_as_scheduled(
        &mut self,
        id: StorageId,
        how: Eviction,
    ) -> Result<bool, Error> {
        let storage = &self.graph.storages[id];
        if how == Eviction::Offload || storage.host.is_some() {
            return self.offload(id, false);
        }
        if let Eviction::Encode(encoding) = how {
            return self.encode(id, encoding);
        }
        let allowed = self.settings.ways.recompute && self.remake_ns(id, storage).is_some();
        if allowed {
            self.drop_bytes(id);
        }
        Ok(allowed)
    }

    /// Evicts all that no op uses. Nothing waits for the room, so what has no place in the host tier stays.
    pub(in crate::pool) fn evict_all(&mut self) -> Result<(), Error> {
        let residents: Vec<StorageId> = self.graph.storages.residents().collect();
        for id in residents {
            if self.graph.storages[id].pins == 0 {
                self.evict(id, true)?;
            }
        }
        Ok(())
    }

    /// What the policy evicts next of the resident storages that are not pinned and may go.
    fn pick(&mut self, need_bytes: usize, may_go: impl Fn(&Self, StorageId) -> bool) -> Option<StorageId> {
        if let Knowledge::Neighbourhood { most } = self.follower.rule().knows() {
            self.graph.heed_changes(most);
        }
        let pool = &*self;
        let may_go = |id| may_go(pool, id);
        let first = |id| pool.goes_first(id) && may_go(id);
        [pool.follower.rule().least_bytes(need_bytes), 0].into_iter().find_map(|least_bytes| {
            let picked = pool.pick_of(need_bytes, Residents { least_bytes, first: true }, &first);
            picked.or_else(|| pool.pick_of(need_bytes, Residents { least_bytes, first: false }, &may_go))
        })
    }

    /// Whether there is any way to evict a resident storage.
    pub(in crate::pool) fn can_leave(&self, storage: &Storage) -> bool {
        let allowed = self.settings.ways;
        storage.pins == 0
            && (storage.host.is_some()
                || self.may_move(storage)
                || (allowed.recompute && storage.recipe.is_some() && !self.is_wanted(storage)))
    }

    /// Whether a storage's bytes may be kept on the host.
    pub(in crate::pool) fn may_move(&self, storage: &Storage) -> bool {
        let allowed = self.settings.ways;
        allowed.offload && (!allowed.checkpoints_only || self.is_scheduled_to_move(storage))
    }

    /// How the policy evicts a storage that is not clean. One that is recomputed first is dropped, if the policy ever drops.
    fn how(&self, id: StorageId, host_room: bool) -> Option<Eviction> {
        let storage = &self.graph.storages[id];
        let allowed = self.settings.ways;
        let move_ns = (host_room && self.may_move(storage)).then(|| self.move_ns(storage));
        let remake_ns = if allowed.recompute { self.remake_ns(id, storage) } else { None };
        let dropped = (self.is_recomputed_first(storage) || self.is_dropped(storage)) && remake_ns.is_some();
        let only = self.follower.rule().how(Ways { move_ns: None, remake_ns }).filter(|_| dropped);
        only.or_else(|| self.follower.rule().how(Ways { move_ns, remake_ns }))
    }

    /// Whether a storage's bytes are to be dropped before others leave. A plan knows better.
    fn is_recomputed_first(&self, storage: &Storage) -> bool {
        storage.is_recomputed_first() && !self.follower.is_following()
    }

    /// Whether that can be.
    fn goes_first(&self, id: StorageId) -> bool {
        self.is_recomputed_first(&self.graph.storages[id]) && self.how(id, false) == Some(Eviction::Drop)
    }

    /// Predicted time to make a resident storage again if its bytes were dropped now; `None` if they may not be: no
    /// recipe, a recomputation under way reads them, or an op on the way does not fit the budget. Where evicted storages rely
    /// on it, bringing one of those back would take a recomputation within a recomputation: only where the policy weighs
    /// that, the program asked for it, or there is no other way.
    pub(in crate::pool) fn remake_ns(&self, id: StorageId, storage: &Storage) -> Option<u64> {
        let is_first = self.is_recomputed_first(storage);
        if storage.recipe.is_none()
            || !self.may_drop()
            || self.is_wanted(storage)
            || (storage.claims > 0 && !is_first && !self.nests())
        {
            return None;
        }
        if !self.may_move(storage) {
            return self.replay_ns(storage.recipe?);
        }
        // A chain that may be long is one that grows: what is dropped on the way lengthens others.
        let order = self.graph.remake_order(id, !is_first)?;
        order.iter().map(|&recipe| self.replay_ns(recipe)).sum()
    }

    /// Whether what evicted storages rely on may be dropped too.
    fn nests(&self) -> bool {
        self.follower.is_following()
            || self.follower.rule().knows() != Knowledge::Recency
            || !self.settings.ways.offloads_all()
    }

    fn replay_ns(&self, id: RecipeId) -> Option<u64> {
        let recipe = self.graph.recipe(id);
        let fits = self.working_set_bytes(&recipe.inputs, &recipe.instruction, false)
            <= self.memory.device.limit_bytes();
        fits.then_some(recipe.instruction.launch_ns)
    }

    /// What it costs to move a storage away and back: the predicted time, once the copies before it are done.
    fn move_ns(&self, storage: &Storage) -> u64 {
        let move_ns = self.offload_wait_ns() + 2 * self.engine().props().copy_ns(storage.size_bytes);
        self.settings.ways.price_of_moving(move_ns)
    }

    fn drop_bytes(&mut self, id: StorageId) {
        let cost_ns = self.remake_ns(id, &self.graph.storages[id]).unwrap_or(0);
        self.forget_bytes(id, How::Drop, Eviction::Drop, cost_ns);
        self.observer.counters.drops += 1;
    }

    /// The bytes of a resident storage that has a recipe and no host copy go; `cost_ns`: what that was predicted to cost.
    pub(in crate::pool) fn forget_bytes(
        &mut self,
        id: StorageId,
        how: How,
        decision: Eviction,
        cost_ns: u64,
    ) {
        self.note_eviction(id, how, || cost_ns);
        self.decided(id, decision);
        self.graph.free_device(id, &mut self.memory);
        self.graph.dropped(id);
        self.graph.lost_bytes(id);
        self.is_absent(id);
        self.observer.counters.evictions += 1;
    }

    /// Offloads everything that is resident, pinned or not, so that free memory is in one piece, towards room for `need_bytes`.
    pub(in crate::pool) fn compact(&mut self, op: &'static str, need_bytes: usize) -> Result<(), Error> {
        self.observer.counters.compactions += 1;
        // Planned addresses would split what is joined.
        self.memory.device.depart();
        let used_bytes = self.memory.device.used_bytes();
        self.settings.log(
            log::Level::Debug,
            format_args!("{op}: emptying the arena of {used_bytes} bytes to join its gaps"),
        );
        let residents: Vec<StorageId> = self.graph.storages.residents().collect();
        for id in residents {
            if !self.move_out(id, true)? {
                return Err(self.nowhere_to_go(op, id, need_bytes));
            }
        }
        Ok(())
    }

    /// A storage would have to leave for `need_bytes`, and cannot.
    pub(in crate::pool) fn nowhere_to_go(&self, op: &'static str, id: StorageId, need_bytes: usize) -> Error {
        let (used_bytes, budget_bytes) = (self.memory.device.used_bytes(), self.memory.device.limit_bytes());
        if !self.settings.ways.offload {
            return Error::NothingToEvict { op, needed_bytes: need_bytes, used_bytes, budget_bytes };
        }
        let needed_bytes = self.graph.storages[id].size_bytes;
        let alive = self.graph.storages.iter().filter(|(_, storage)| storage.active());
        let alive = alive.map(|(_, storage)| aligned(storage.size_bytes));
        // A block of a page and more takes whole pages.
        let page_bytes = self.settings.page_bytes(budget_bytes);
        let in_blocks = |bytes: usize| match page_bytes {
            Some(page_bytes) if bytes >= page_bytes => bytes.next_multiple_of(page_bytes),
            _ => bytes,
        };
        let (alive_bytes, in_blocks_bytes) =
            alive.fold((0, 0), |(sum, in_blocks_sum), bytes| (sum + bytes, in_blocks_sum + in_blocks(bytes)));
        let op_bytes = self.observer.usage.largest_op_bytes.max(in_blocks(aligned(need_bytes)));
        self.full(op, needed_bytes, alive_bytes, Some(self.settings.budget_for(in_blocks_bytes + op_bytes)))
    }

    /// What the program writes or reads has no room in the host tier.
    pub(in crate::pool) fn host_tier_full(&self, op: &'static str, needed_bytes: usize) -> Error {
        self.full(op, needed_bytes, 0, None)
    }

    /// The host tier is full; with a limit of `enough_bytes` it would not be, if that is more than what is in use and needed.
    fn full(
        &self,
        op: &'static str,
        needed_bytes: usize,
        enough_bytes: usize,
        least_budget_bytes: Option<usize>,
    ) -> Error {
        let (used_bytes, limit_bytes) = (self.memory.host.used_bytes(), self.memory.host.limit_bytes());
        // Where there would be room, it is in pieces.
        let taken_bytes =
            if used_bytes + aligned(needed_bytes) > limit_bytes { used_bytes } else { limit_bytes };
        let least_limit_bytes = enough_bytes.max(taken_bytes + aligned(needed_bytes));
        Error::HostTierFull {
            op,
            needed_bytes,
            used_bytes,
            limit_bytes,
            least_limit_bytes,
            least_budget_bytes,
        }
    }

    /// Counts what is refused for want of memory.
    pub(in crate::pool) fn counted<T>(&mut self, result: Result<T, Error>) -> Result<T, Error> {
        if result.as_ref().is_err_and(Error::is_out_of_memory) {
            self.observer.counters.out_of_memory += 1;
        }
        result
    }

    /// What was refused so far.
    pub fn refused_ops(&self) -> u64 {
        self.observer.counters.out_of_memory
    }

    /// What was refused since was only tried, and not asked for.
    pub fn refused_only(&mut self, ops: u64) {
        self.observer.counters.out_of_memory = ops;
    }
}
