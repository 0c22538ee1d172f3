//! The device memory that ops need, and which storages are needed.

use super::ids::StorageId;
use super::recipe::Graph;
use super::storage::Storage;
use crate::engine::{Instruction, aligned};
use crate::op::{Encoding, Inputs, Op};

impl Graph {
    /// The device memory that an op needs at once: its inputs, outputs and workspace, without the outputs that are made in
    /// place.
    pub fn working_set_bytes(
        &self,
        inputs: &[StorageId],
        instruction: &Instruction,
        in_place: usize,
    ) -> usize {
        let mut seen = Inputs::<StorageId>::new();
        for &id in inputs {
            if !seen.contains(&id) {
                seen.push(id);
            }
        }
        let read = seen.iter().map(|&id| self.storages[id].size_bytes);
        read.chain(instruction.new_bytes(in_place)).map(aligned).sum()
    }

    /// The device memory that an op's inputs and outputs need in addition to what they have, without the workspace.
    pub fn missing_bytes(&self, ids: &[StorageId], instruction: &Instruction, in_place: usize) -> usize {
        let is_resident = |&id: &StorageId| self.storages[id].copies.device.is_some();
        let mut resident: Vec<StorageId> = ids.iter().copied().filter(is_resident).collect();
        resident.sort_unstable();
        resident.dedup();
        let resident = resident.into_iter().map(|id| aligned(self.storages[id].size_bytes));
        self.working_set_bytes(ids, instruction, in_place)
            - instruction.aligned_scratch_bytes()
            - resident.sum::<usize>()
    }

    /// Marks storages as wanted by a rematerialization.
    pub fn want(&mut self, ids: &[StorageId]) {
        ids.iter().for_each(|&id| self.storages[id].uses.wanted += 1);
    }

    /// Undoes one [`want`](Graph::want).
    pub fn unwant(&mut self, ids: &[StorageId]) {
        ids.iter().for_each(|&id| self.storages[id].uses.wanted -= 1);
    }

    /// Whether a rematerialization under way keeps a storage from being dropped.
    pub fn is_wanted(&self, storage: &Storage) -> bool {
        storage.uses.wanted > 0 && !self.rematerialization.drops_wanted
    }

    /// Takes one pin off each storage.
    pub fn unpin(&mut self, ids: &[StorageId]) {
        for &id in ids {
            self.storages[id].uses.pins -= 1;
        }
    }

    /// The encoded form that stands for a storage, if there is one, and its encoding.
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

    /// The number of storages that handles or claims need.
    pub fn live_storages(&self) -> usize {
        self.storages.iter().filter(|(_, storage)| storage.active()).count()
    }

    /// The sizes of the resident storages and the ops that made them, the largest first.
    pub fn residents(&self) -> Vec<(usize, &'static str)> {
        let storages = &self.storages;
        let resident = |id| (storages[id].size_bytes, storages[id].made_by);
        let mut residents: Vec<(usize, &'static str)> = storages.residents().map(resident).collect();
        residents.sort_by(|a, b| b.cmp(a));
        residents
    }
}
