//! What ops need of storages, and which storages are needed.

use super::ids::StorageId;
use super::recipe::Graph;
use super::storage::Storage;
use crate::engine::{Instruction, aligned};
use crate::op::{Encoding, Inputs, Op};

impl Graph {
    /// Device memory that an op needs at once, without its first output if that is made in place.
    pub fn working_set_bytes(&self, inputs: &[StorageId], plan: &Instruction, in_place: bool) -> usize {
        let mut seen = Inputs::<StorageId>::new();
        for &id in inputs {
            if !seen.contains(&id) {
                seen.push(id);
            }
        }
        let read = seen.iter().map(|&id| self.storages[id].size_bytes);
        read.chain(plan.new_bytes(in_place)).map(aligned).sum()
    }

    /// Device memory that what an op reads and makes takes in addition to what is there, without its workspace.
    pub fn missing_bytes(&self, ids: &[StorageId], plan: &Instruction, in_place: bool) -> usize {
        let there = |&id: &StorageId| self.storages[id].copies.device.is_some();
        let mut resident: Vec<StorageId> = ids.iter().copied().filter(there).collect();
        resident.sort_unstable();
        resident.dedup();
        let resident = resident.into_iter().map(|id| aligned(self.storages[id].size_bytes));
        self.working_set_bytes(ids, plan, in_place) - plan.aligned_scratch_bytes() - resident.sum::<usize>()
    }

    pub fn want(&mut self, ids: &[StorageId]) {
        ids.iter().for_each(|&id| self.storages[id].uses.wanted += 1);
    }

    pub fn unwant(&mut self, ids: &[StorageId]) {
        ids.iter().for_each(|&id| self.storages[id].uses.wanted -= 1);
    }

    /// Whether a recomputation under way keeps a storage.
    pub fn is_wanted(&self, storage: &Storage) -> bool {
        storage.uses.wanted > 0 && !self.rematerialization.drops_wanted
    }

    pub fn unpin(&mut self, ids: &[StorageId]) {
        for &id in ids {
            self.storages[id].uses.pins -= 1;
        }
    }

    /// What a storage without bytes is encoded into, if it is.
    pub fn form_of(&self, storage: &Storage) -> Option<(StorageId, Encoding)> {
        if let Some(signs) = storage.lineage.signs {
            return Some((signs, Encoding::Signs));
        }
        let recipe = self.recipe(storage.lineage.recipe?);
        match recipe.instruction.op {
            Op::Decode { encoding, .. } => Some((recipe.inputs[0], encoding)),
            _ => None,
        }
    }

    /// Whether there is an encoded form of a storage.
    pub fn is_encoded(&self, storage: &Storage) -> bool {
        self.form_of(storage).is_some()
    }

    /// Number of storages that handles or claims need.
    pub fn live_storages(&self) -> usize {
        self.storages.iter().filter(|(_, storage)| storage.active()).count()
    }

    /// Number of storages that must stay where they are.
    pub fn pinned_storages(&self) -> usize {
        let pinned = |storage: &Storage| storage.uses.pins + storage.uses.host_pins + storage.uses.wanted > 0;
        self.storages.iter().filter(|(_, storage)| pinned(storage)).count()
    }

    /// The resident storages.
    pub fn residents(&self) -> Vec<(usize, &'static str)> {
        let storages = &self.storages;
        let resident = |id| (storages[id].size_bytes, storages[id].made_by);
        let mut residents: Vec<(usize, &'static str)> = storages.residents().map(resident).collect();
        residents.sort_by(|a, b| b.cmp(a));
        residents
    }
}
