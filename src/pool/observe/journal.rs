//! The events that the pool notes in the journal, and tells subscribers of.

use super::observer::Observer;
use crate::engine::{Instruction, Lane};
use crate::module::ModuleId;
use crate::pool::input::{Input, can_overwrite, module_of};
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::recipe::Graph;
use crate::pool::submit::Submitter;
use crate::trace::{Copied, Event, Evicted, How, Made, OpEvent, Recomputed};

impl Observer {
    /// Notes an op of the program.
    pub fn note_op(
        &self,
        graph: &Graph,
        submitter: &Submitter,
        inputs: &[Input],
        instruction: &Instruction,
        outputs: &[StorageId],
    ) {
        self.journal.note(|| {
            let places =
                |wanted: &dyn Fn(usize) -> bool| (0..inputs.len()).filter(|&at| wanted(at)).collect();
            let Instruction { op, views, scratch_bytes, .. } = instruction;
            Event::Op(OpEvent {
                name: op.name().into(),
                inputs: inputs.iter().map(|input| graph.storages.number(input.id)).collect(),
                consumed: places(&|at| inputs[at].consumed),
                in_place: places(&|at| can_overwrite(inputs, at, instruction)),
                outputs: outputs.iter().map(|&id| graph.storages.made_as(id)).collect(),
                scratch_bytes: *scratch_bytes,
                work: op.work(views, &instruction.outputs),
                exact: op.replays_exactly(),
                parameters: places(&|at| inputs[at].parameter_of != ModuleId::default()),
                module: module_of(inputs).map(Into::into),
                ran: submitter.last(Lane::Compute),
            })
        });
    }

    /// Notes an op that the pool runs on its own, such as a rematerialization, and the storages that it restores.
    pub fn note_recompute(
        &self,
        graph: &Graph,
        submitter: &Submitter,
        op: &'static str,
        restored: &[StorageId],
    ) {
        self.journal.note(|| {
            Event::Recompute(Recomputed {
                name: op.into(),
                storages: restored.iter().map(|&id| graph.storages.made_as(id)).collect(),
                ran: submitter.last(Lane::Compute),
            })
        });
    }

    /// Notes a copy between the tiers.
    pub fn note_copy(&self, graph: &Graph, submitter: &Submitter, lane: Lane, id: StorageId) {
        self.journal.note(|| {
            let Made { storage, bytes } = graph.storages.made_as(id);
            Event::Copy(Copied { lane, storage, bytes, within: false, ran: submitter.last(lane) })
        });
    }

    /// Notes that a storage was moved within device memory.
    pub fn note_move(&self, graph: &Graph, submitter: &Submitter, lane: Lane, id: StorageId) {
        self.journal.note(|| {
            let Made { storage, bytes } = graph.storages.made_as(id);
            let ran = submitter.last(lane);
            Event::Copy(Copied { lane, storage, bytes, within: true, ran })
        });
    }

    /// Notes an eviction and its predicted cost.
    pub fn note_eviction(&self, graph: &Graph, id: StorageId, how: How, cost_ns: impl FnOnce() -> u64) {
        let storage = &graph.storages[id];
        self.telemetry.evicted(storage.made_by, storage.size_bytes, how);
        self.journal.note(|| {
            let Made { storage, bytes } = graph.storages.made_as(id);
            let made_by = graph.storages[id].made_by.into();
            Event::Evict(Evicted { storage, bytes, made_by, how, cost_ns: cost_ns() })
        });
    }
}
