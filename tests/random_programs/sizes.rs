//! The memory that a program needs by the shapes of its tensors alone.

use std::collections::BTreeMap;
use std::rc::Rc;

use burn_overcommit::op::{Dtype, View};

use crate::program::{Program, Slot, Step, Use};

/// Blocks are multiples of this.
const ALIGN_BYTES: usize = 256;

/// A storage's type and size. Handles share it.
type Storage = Rc<(Dtype, usize)>;

/// The most bytes that are alive at once: what the program holds, and what the step that runs makes.
pub fn most_alive_bytes(program: &Program) -> usize {
    let mut slots = BTreeMap::<Slot, Storage>::new();
    let mut most_bytes = 0;
    for step in program.steps() {
        let held: usize = distinct(&slots);
        let made = match step {
            Step::Write { to, dtype, shape, .. } => vec![(*to, View::contiguous(*dtype, *shape))],
            Step::Create { to, op } => vec![(*to, op.outputs(&[])[0])],
            Step::Run { op, inputs, to } => {
                let view = |input: &Use| View { dtype: slots[&input.slot].0, layout: input.layout };
                let views: Vec<View> = inputs.iter().map(view).collect();
                inputs.iter().filter(|input| input.last).for_each(|input| drop(slots.remove(&input.slot)));
                to.iter().copied().zip(op.outputs(&views)).collect()
            }
            Step::Alias { from, to } => {
                let storage = slots[&from.slot].clone();
                if from.last {
                    slots.remove(&from.slot);
                }
                slots.insert(*to, storage);
                Vec::new()
            }
            Step::Drop(slot) => {
                slots.remove(slot);
                Vec::new()
            }
            Step::Read(_) | Step::Enter | Step::Leave | Step::TooLarge(_) => Vec::new(),
        };
        let made = made.into_iter().map(|(slot, view)| {
            (slot, Rc::new((view.dtype, view.size_bytes().max(1).next_multiple_of(ALIGN_BYTES))))
        });
        let made: Vec<(Slot, Storage)> = made.collect();
        most_bytes = most_bytes.max(held + made.iter().map(|(_, storage)| storage.1).sum::<usize>());
        slots.extend(made);
    }
    most_bytes
}

/// The bytes of all storages, each counted once.
fn distinct(slots: &BTreeMap<Slot, Storage>) -> usize {
    let by_address = slots.values().map(|storage| (Rc::as_ptr(storage), storage.1));
    by_address.collect::<BTreeMap<_, _>>().into_values().sum()
}
