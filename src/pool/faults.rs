//! Planted faults in rematerializations. A test plants them to show that it would notice such an error.

use std::sync::Arc;

use crate::config::PlantedFault;
use crate::engine::{Engine, Instruction};
use crate::op::{Op, View};

impl PlantedFault {
    /// The wrong instruction that a rematerialization runs in place of the recipe's.
    pub(super) fn spoil(self, engine: &dyn Engine, instruction: &Arc<Instruction>) -> Arc<Instruction> {
        let Instruction { mut op, mut algorithm, .. } = **instruction;
        let mut views = instruction.views.clone();
        match self {
            PlantedFault::ReusedSeed => {
                if let Op::Random { seed, .. } = &mut op {
                    *seed ^= 1;
                }
            }
            PlantedFault::ChangedAlgorithm => algorithm.0 += 1,
            PlantedFault::WrongLayout => views.iter_mut().for_each(|view| {
                // The wrong view must stay within the storage.
                if view.layout.offset() == 0 && view.layout.strides().iter().all(|&step| step > 0) {
                    *view = View::contiguous(view.dtype, *view.shape());
                }
            }),
            _ => return instruction.clone(),
        }
        Arc::new(Instruction::new(engine, op, algorithm, &views))
    }
}
