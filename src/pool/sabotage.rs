use std::sync::Arc;

use crate::engine::{Engine, Instruction};
use crate::op::{Op, View};

/// Planted faults. Each breaks one rule of the pool on purpose, so that the random-program test can show that it would
/// notice. Never set outside tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sabotage {
    /// Lanes do not wait for each other.
    MissingWait,
    /// An in-place op leaves the host copy of its input as a clean copy of its output.
    StaleCleanCopy,
    /// An op overwrites an input that has other handles.
    InPlaceShared,
    /// A replayed random op draws with another seed.
    ReusedSeed,
    /// A recipe forgets through which layout an input was read.
    WrongLayout,
    /// A replay uses another algorithm than the first run.
    ChangedAlgorithm,
    /// Pages are mapped at addresses where work is still to run.
    EarlyMapping,
    /// What is made in a checkpointed scope is like all else.
    LostMarks,
    /// A result of a checkpointed scope counts as made in it.
    MarkedResults,
}

impl Sabotage {
    /// Every fault.
    pub const ALL: [Sabotage; 9] = [
        Sabotage::MissingWait,
        Sabotage::StaleCleanCopy,
        Sabotage::InPlaceShared,
        Sabotage::ReusedSeed,
        Sabotage::WrongLayout,
        Sabotage::ChangedAlgorithm,
        Sabotage::EarlyMapping,
        Sabotage::LostMarks,
        Sabotage::MarkedResults,
    ];
}

impl Sabotage {
    /// What is run instead of an instruction when it is run again.
    pub(super) fn spoil(self, engine: &dyn Engine, instruction: &Arc<Instruction>) -> Arc<Instruction> {
        let Instruction { mut op, mut algorithm, .. } = **instruction;
        let mut views = instruction.views.clone();
        match self {
            Sabotage::ReusedSeed => {
                if let Op::Random { seed, .. } = &mut op {
                    *seed ^= 1;
                }
            }
            Sabotage::ChangedAlgorithm => algorithm.0 += 1,
            Sabotage::WrongLayout => views.iter_mut().for_each(|view| {
                // Only where the wrong view stays inside the storage.
                if view.layout.offset() == 0 && view.layout.strides().iter().all(|&step| step > 0) {
                    *view = View::contiguous(view.dtype, *view.shape());
                }
            }),
            _ => return instruction.clone(),
        }
        Arc::new(Instruction::new(engine, op, algorithm, &views))
    }
}
