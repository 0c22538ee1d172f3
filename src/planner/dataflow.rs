//! An iteration as policies see it.

use super::iteration::{Iteration, IterationStep};
use crate::engine::{ALIGN_BYTES, Props, aligned};
use crate::liveness::{Dataflow, NewOp};
use crate::op::{Inputs, Origin, Reads};

impl Iteration {
    /// The data flow of the iteration. Its values are the slots, its intervals those of the iteration.
    pub fn dataflow(&self, props: &Props) -> Dataflow {
        let mut flow = Dataflow {
            memory_bytes_per_second: props.memory_bytes_per_second,
            overhead_ns: props.overhead_ns,
            ..Dataflow::default()
        };
        for (slot, &size_bytes) in self.size_bytes.iter().enumerate() {
            let persists = slot < self.successors.len();
            flow.value(aligned(size_bytes), props.copy_ns(size_bytes), persists);
        }
        for (slot, &successor) in self.successors.iter().enumerate() {
            flow.values[slot].successor = successor.map(|slot| slot as usize);
        }
        for step in &self.steps {
            match step {
                IterationStep::Op { instruction, inputs, outputs } => {
                    let bytes = |slot: u32| aligned(self.size_bytes[slot as usize]);
                    let op = &instruction.op;
                    let taken_bytes: usize = self.made_in_place(op, inputs, outputs).map(bytes).sum();
                    let read: Inputs<(usize, Reads)> = (inputs.iter().enumerate())
                        .map(|(at, &(slot, _))| (slot as usize, op.reads(at)))
                        .collect();
                    let made: Vec<usize> = outputs.iter().map(|&slot| slot as usize).collect();
                    flow.op(&NewOp {
                        name: op.name(),
                        launch_ns: instruction.launch_ns,
                        extra_bytes: instruction.scratch_bytes.next_multiple_of(ALIGN_BYTES) as isize
                            - taken_bytes as isize,
                        exact: op.replays_exactly(),
                        inputs: &read,
                        outputs: &made,
                    });
                    for (place, (&slot, &view)) in outputs.iter().zip(&instruction.outputs).enumerate() {
                        let input = instruction.views.first().copied();
                        let counts = self.counts[slot as usize];
                        let origin = Origin { op: *op, input, place, view, counts };
                        flow.values[slot as usize].origin = Some(origin);
                    }
                    for &(slot, _) in inputs.iter().filter(|(_, consumed)| *consumed) {
                        flow.values[slot as usize].freed_after = Some(flow.ops.len() - 1);
                    }
                }
                IterationStep::Free(slot) => {
                    flow.values[*slot as usize].freed_after = Some(flow.ops.len().saturating_sub(1));
                }
                IterationStep::Read(slot) => flow.values[*slot as usize].is_read = true,
                IterationStep::Write(_) | IterationStep::Sync => {}
            }
        }
        flow.finish();
        flow
    }
}
