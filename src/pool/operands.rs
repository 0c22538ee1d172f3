//! Placing the operands of an op.

use super::launch::Blocks;
use crate::engine::{Instruction, aligned};
use crate::error::Error;
use crate::op::Inputs;
use crate::pool::Pool;
use crate::pool::input::Overwritten;
use crate::pool::remat::ids::StorageId;

impl Pool {
    /// Refuses an op whose working set exceeds the budget.
    pub(super) fn check_working_set(
        &self,
        ids: &[StorageId],
        instruction: &Instruction,
        in_place: usize,
    ) -> Result<(), Error> {
        let needed_bytes = self.graph.working_set_bytes(ids, instruction, in_place);
        let fits = needed_bytes <= self.memory.device.limit_bytes();
        if fits { Ok(()) } else { Err(self.too_large(ids, instruction, needed_bytes)) }
    }

    /// Makes every input resident and pins it, and places outputs and workspace. After an error, nothing is pinned or
    /// placed.
    pub(super) fn place_operands(
        &mut self,
        ids: &[StorageId],
        instruction: &Instruction,
        overwritten: &Overwritten,
    ) -> Result<Blocks, Error> {
        for &id in ids {
            self.graph.storages[id].uses.pins += 1;
        }
        let mut blocks = Blocks::new();
        let mut placed = self.place_all(ids, instruction, overwritten, &mut blocks);
        if let Ok(false) = placed {
            let emptied = self
                .empty_device(instruction.op.name(), self.missing_bytes(ids, instruction, overwritten.len()));
            placed = emptied.and_then(|()| self.place_all(ids, instruction, overwritten, &mut blocks));
        }
        match placed {
            Ok(placed) => {
                assert!(placed, "an empty arena holds what fits the budget");
                Ok(blocks)
            }
            Err(error) => {
                self.graph.unpin(ids);
                Err(error)
            }
        }
    }

    /// The device memory that an op lacks: for inputs that are elsewhere, for new outputs and for its workspace.
    fn missing_bytes(&self, ids: &[StorageId], instruction: &Instruction, in_place: usize) -> usize {
        let is_first = |&at: &usize| !ids[..at].contains(&ids[at]);
        let distinct = (0..ids.len()).filter(is_first).map(|at| &self.graph.storages[ids[at]]);
        let absent = distinct.filter(|storage| storage.copies.device.is_none());
        absent.map(|storage| storage.size_bytes).chain(instruction.new_bytes(in_place)).map(aligned).sum()
    }

    /// Places all operands. Returns `false` if there is no room, and then no outputs are placed.
    fn place_all(
        &mut self,
        ids: &[StorageId],
        instruction: &Instruction,
        overwritten: &Overwritten,
        blocks: &mut Blocks,
    ) -> Result<bool, Error> {
        let op = instruction.op.name();
        for &id in ids {
            if self.graph.storages[id].copies.device.is_some() {
                self.graph.storages.touch(id, self.observer.computed_ns);
            } else if !self.fetch(op, id)? {
                return Ok(false);
            }
        }
        let mut placed = Ok(true);
        for bytes in instruction.new_bytes(overwritten.len()) {
            placed = self.place(op, bytes).map(|placed| placed.map(|placed| blocks.push(placed)).is_some());
            if !matches!(placed, Ok(true)) {
                break;
            }
        }
        // This comes last: a storage that was dropped to make room may need an overwritten input, or may have taken its
        // place in the host tier.
        if let Ok(true) = placed {
            let overwritten = overwritten.iter().map(|&index| ids[index]);
            placed = self.keep_claimed(op, &overwritten.collect::<Inputs<StorageId>>()).map(|()| true);
        }
        if !matches!(placed, Ok(true)) {
            blocks.drain(..).for_each(|(block, pending)| self.memory.device.free(block, pending));
        }
        placed
    }

    /// Makes sure that inputs that are about to be overwritten stay stored in some form if evicted storages need them. A storage that is
    /// dropped for one of them may need another, and a copy of one may take the place of another's.
    fn keep_claimed(&mut self, op: &'static str, overwritten: &[StorageId]) -> Result<(), Error> {
        let is_lost = |pool: &Pool, id: &StorageId| {
            let storage = &pool.graph.storages[*id];
            storage.uses.claims > 0 && storage.copies.away.is_none() && !pool.graph.is_encoded(storage)
        };
        let mut writes = 0;
        while let Some(&id) = overwritten.iter().find(|id| is_lost(self, id)) {
            let may_write = self.settings.methods.offload && writes < overwritten.len();
            if may_write && self.write_back(id, true)? {
                writes += 1;
            } else if !self.drop_absent() {
                return Err(self.nowhere_to_go(op, id, self.graph.storages[id].size_bytes));
            }
        }
        Ok(())
    }
}
