//! The iterations of a recorded program.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::liveness::{Observed, Signature, Touch, TrackedOperand, Tracker};
use crate::trace::{Event, OpEvent, Program};

/// The loop that most ops of a program belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Iterations {
    /// The number of ops of an iteration.
    pub ops: usize,
    /// The op with which the first of them begins.
    pub since: usize,
}

/// Finds the loop that most ops belong to, as the pool does: an iteration is known once it has come twice.
pub(super) fn iterations(program: &Program) -> Option<Iterations> {
    let mut tracker = Tracker::default();
    let mut touches: HashMap<u64, Touch> = HashMap::new();
    // For each number of ops, how many ops were in such iterations, and the first.
    let mut found: HashMap<usize, (usize, usize)> = HashMap::new();
    let mut ops = 0;
    for event in &program.events {
        match event {
            Event::Op(op) => {
                follow(&mut tracker, &mut touches, op);
                ops += 1;
                if let Some(period) = tracker.period() {
                    let period = period as usize;
                    found.entry(period).or_insert((0, ops - (2 * period).min(ops))).0 += 1;
                }
            }
            Event::Free(storage) => drop_touch(&mut tracker, &mut touches, *storage),
            _ => {}
        }
    }
    let (ops, (_, since)) = found.into_iter().max_by_key(|&(period, (ops, _))| (ops, period))?;
    Some(Iterations { ops, since })
}

fn follow(tracker: &mut Tracker, touches: &mut HashMap<u64, Touch>, op: &OpEvent) {
    let mut hasher = DefaultHasher::new();
    op.name.hash(&mut hasher);
    op.outputs.iter().for_each(|made| made.bytes.hash(&mut hasher));
    let storages = || op.inputs.iter().copied().chain(op.outputs.iter().map(|made| made.storage));
    let touched = |storage| TrackedOperand {
        touch: touches.get(&storage).copied().unwrap_or_default(),
        ..Default::default()
    };
    let mut operands: Vec<TrackedOperand> = storages().map(touched).collect();
    let signature = Signature(hasher.finish());
    tracker.op(
        Observed { signature, live_bytes: 0, scratch_bytes: op.scratch_bytes, launch_ns: 0 },
        &mut operands,
    );
    touches.extend(storages().zip(operands).map(|(storage, operand)| (storage, operand.touch)));
    op.consumed.iter().for_each(|&place| drop_touch(tracker, touches, op.inputs[place]));
}

fn drop_touch(tracker: &mut Tracker, touches: &mut HashMap<u64, Touch>, storage: u64) {
    if let Some(touch) = touches.remove(&storage) {
        tracker.dropped(touch);
    }
}
