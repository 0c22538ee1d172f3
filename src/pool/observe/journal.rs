//! What the journal is told.

use crate::engine::{Instruction, Lane};
use crate::pool::Pool;
use crate::pool::remat::ids::StorageId;
use crate::pool::input::{Input, lies_alike};
use crate::trace::{Copied, Event, Evicted, How, Made, OpEvent, Ran, Recomputed};

impl Pool {
    /// The program says where it is.
    pub fn note(&self, text: &str) {
        self.observer.journal.note(|| Event::Note(text.into()));
    }

    /// The program waits for all work.
    pub fn note_sync(&mut self) {
        self.observer.journal.note(|| Event::Sync);
        self.log_sync();
    }

    pub(in crate::pool) fn note_op(
        &self,
        inputs: &[Input],
        instruction: &Instruction,
        outputs: &[StorageId],
    ) {
        self.observer.journal.note(|| {
            let places =
                |wanted: &dyn Fn(usize) -> bool| (0..inputs.len()).filter(|&at| wanted(at)).collect();
            let Instruction { op, views, scratch_bytes, .. } = instruction;
            Event::Op(OpEvent {
                name: op.name().into(),
                inputs: inputs.iter().map(|input| self.number(input.id)).collect(),
                consumed: places(&|at| inputs[at].consumed),
                in_place: places(&|at| lies_alike(inputs, at, instruction)),
                outputs: outputs.iter().map(|&id| self.made(id)).collect(),
                scratch_bytes: *scratch_bytes,
                work: op.work(views, &instruction.outputs),
                exact: op.replays_exactly(),
                ran: self.submitted(Lane::Compute),
            })
        });
    }

    pub(in crate::pool) fn note_recompute(&self, op: &'static str, restored: &[StorageId]) {
        self.observer.journal.note(|| {
            Event::Recompute(Recomputed {
                name: op.into(),
                storages: restored.iter().map(|&id| self.made(id)).collect(),
                ran: self.submitted(Lane::Compute),
            })
        });
    }

    pub(in crate::pool) fn note_copy(&self, lane: Lane, id: StorageId) {
        self.observer.journal.note(|| {
            let Made { storage, bytes } = self.made(id);
            Event::Copy(Copied { lane, storage, bytes, within: false, ran: self.submitted(lane) })
        });
    }

    /// A storage was moved within device memory.
    pub(in crate::pool) fn note_move(&self, lane: Lane, id: StorageId) {
        self.observer.journal.note(|| {
            let Made { storage, bytes } = self.made(id);
            let ran = self.submitted(lane);
            Event::Copy(Copied { lane, storage, bytes, within: true, ran })
        });
    }

    /// `cost_ns`: what the eviction was predicted to cost.
    pub(in crate::pool) fn note_eviction(&self, id: StorageId, how: How, cost_ns: impl FnOnce() -> u64) {
        self.observer.journal.note(|| {
            let Made { storage, bytes } = self.made(id);
            let made_by = self.graph.storages[id].made_by.into();
            Event::Evict(Evicted { storage, bytes, made_by, how, cost_ns: cost_ns() })
        });
    }

    /// A storage by its number, which is never used again.
    pub(in crate::pool) fn made(&self, id: StorageId) -> Made {
        Made { storage: self.number(id), bytes: self.graph.storages[id].size_bytes }
    }

    pub(in crate::pool) fn number(&self, id: StorageId) -> u64 {
        self.graph.storages[id].number
    }

    /// The last piece of work of a lane.
    fn submitted(&self, lane: Lane) -> Ran {
        Ran { sequence: self.engine().mark(lane).sequence, ..Ran::default() }
    }
}
