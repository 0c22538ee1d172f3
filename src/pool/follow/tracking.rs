//! Which thread a storage belongs to, and what that thread's tracker predicts for it.

use super::follower::Follower;
use crate::engine::{Instruction, aligned};
use crate::liveness::{NextUse, Observed, Signature, Touch, TrackedOperand};
use crate::op::Inputs;
use crate::pool::input::Input;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::recipe::Graph;

impl Follower {
    /// Reports an op to the tracker of its thread, and notes in the operands what the tracker predicts for them.
    pub fn track(
        &mut self,
        graph: &mut Graph,
        inputs: &[Input],
        instruction: &Instruction,
        outputs: &[StorageId],
    ) {
        inputs.iter().for_each(|input| self.take_over(graph, input.id));
        if !self.policy.prefetches() && !self.plans_iterations() {
            return;
        }
        let current = self.streams.current();
        let stream = &mut self.streams[current];
        let ids = || inputs.iter().map(|input| input.id).chain(outputs.iter().copied());
        let operand = |id| TrackedOperand { touch: graph.storages[id].access.touch, next: NextUse::Unknown };
        let mut operands: Inputs<TrackedOperand> = ids().map(operand).collect();
        let observed = Observed {
            signature: Signature(instruction.signature),
            live_bytes: stream.held_bytes,
            scratch_bytes: instruction.scratch_bytes,
            launch_ns: instruction.launch_ns,
        };
        let context = stream.tracker.op(observed, &mut operands);
        stream.recent.push(context);
        self.active_plans.find(current, &stream.recent);
        for (id, operand) in ids().zip(operands) {
            let storage = &mut graph.storages[id];
            storage.access.touch = operand.touch;
            storage.access.next_use = match operand.next {
                NextUse::At(op) => NextUse::At(stream.ops + op - stream.tracker.now()),
                other => other,
            };
            if std::mem::take(&mut storage.access.prefetched) {
                self.prefetch_distance.note_used();
            }
        }
    }

    /// Makes a storage belong to the current stream, because one of its ops uses it. Predictions of the previous
    /// stream's tracker no longer apply.
    pub fn take_over(&mut self, graph: &mut Graph, id: StorageId) {
        let (current, storage) = (self.streams.current(), &mut graph.storages[id]);
        let owner = std::mem::replace(&mut storage.access.stream, current);
        if owner == current {
            return;
        }
        self.streams[owner].absent.remove(id, storage);
        let bytes = if storage.uses.held { aligned(storage.size_bytes) } else { 0 };
        self.streams[owner].held_bytes -= bytes;
        self.streams[current].held_bytes += bytes;
        (storage.access.touch, storage.access.next_use) = (Touch::default(), NextUse::Unknown);
    }

    /// Notes that a storage has lost its device memory.
    pub fn note_absent(&mut self, graph: &Graph, id: StorageId) {
        let storage = &graph.storages[id];
        self.streams[storage.access.stream].absent.insert(id, storage);
    }

    /// Notes that a storage has device memory again.
    pub fn note_present(&mut self, graph: &Graph, id: StorageId) {
        let storage = &graph.storages[id];
        self.streams[storage.access.stream].absent.remove(id, storage);
    }

    /// Notes that the last handle of a storage is gone.
    pub fn note_last_handle_gone(&mut self, graph: &mut Graph, id: StorageId) {
        let storage = &mut graph.storages[id];
        storage.uses.held = false;
        let stream = &mut self.streams[storage.access.stream];
        stream.held_bytes -= aligned(storage.size_bytes);
        stream.tracker.dropped(storage.access.touch);
        stream.absent.remove(id, storage);
    }
}
