//! Instructions: an op on certain views, with all that follows from them alone. Training repeats itself, so each is worked
//! out and kept once, however many recipes refer to it.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::engine::{Algorithm, Engine};
use crate::op::{Op, Outputs, View};

/// An op on views.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    pub op: Op,
    pub algorithm: Algorithm,
    /// How it reads its inputs.
    pub views: Box<[View]>,
    pub outputs: Outputs,
    pub scratch_bytes: usize,
    /// Predicted time.
    pub launch_ns: u64,
}

impl Instruction {
    /// Worked out for this engine and algorithm.
    pub fn new(engine: &dyn Engine, op: Op, algorithm: Algorithm, views: &[View]) -> Self {
        let outputs = op.outputs(views);
        let scratch_bytes = engine.scratch(&op, algorithm, views, &outputs);
        let launch_ns = engine.props().launch_ns(&op.work(views, &outputs));
        Instruction { op, algorithm, views: views.into(), outputs, scratch_bytes, launch_ns }
    }

    /// Sizes of what must be placed: outputs, but for one done in place, then scratch.
    pub fn new_bytes(&self, in_place: bool) -> impl Iterator<Item = usize> {
        let outputs = self.outputs.iter().skip(usize::from(in_place)).map(View::size_bytes);
        outputs.chain((self.scratch_bytes > 0).then_some(self.scratch_bytes))
    }
}

/// Unused instructions that are kept, in case they come back.
const SPARE: usize = 1024;

/// All instructions.
#[derive(Debug, Default)]
pub struct Instructions {
    known: HashTable<Arc<Instruction>>,
    hasher: DefaultHashBuilder,
    /// How many there may be before unused ones are looked for.
    most: usize,
}

impl Instructions {
    /// The instruction of `op` on `views`.
    pub fn get(&mut self, engine: &dyn Engine, op: Op, views: &[View]) -> Arc<Instruction> {
        let hash = self.hasher.hash_one((op, views));
        let same = |known: &Arc<Instruction>| known.op == op && *known.views == *views;
        if let Some(known) = self.known.find(hash, same) {
            return known.clone();
        }
        if self.known.len() >= self.most {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.most = 2 * self.known.len() + SPARE;
        }
        let made = Arc::new(Instruction::new(engine, op, engine.algorithm(&op, views), views));
        let hasher = &self.hasher;
        self.known.insert_unique(hash, made.clone(), |known| hasher.hash_one((known.op, &*known.views)));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sim::{SimEngine, profiles};
    use crate::op::{Dtype, Shape, Unary};

    #[test]
    fn equal_ops_on_equal_views_are_one_and_unused_ones_go() {
        let engine = SimEngine::new(&profiles()[0]);
        let view = |count| View::contiguous(Dtype::F32, Shape::new(&[count]));
        let mut instructions = Instructions::default();
        let mut get = |op, count| instructions.get(&engine, op, &[view(count)]);
        let kept = get(Op::Unary(Unary::Exp), 10);
        assert!(Arc::ptr_eq(&kept, &get(Op::Unary(Unary::Exp), 10)));
        assert!(!Arc::ptr_eq(&kept, &get(Op::Unary(Unary::Exp), 11)));
        assert!(!Arc::ptr_eq(&kept, &get(Op::Unary(Unary::Log), 10)));
        for count in 0..10 * SPARE {
            get(Op::Unary(Unary::Log), count);
        }
        assert!(Arc::ptr_eq(&kept, &get(Op::Unary(Unary::Exp), 10)));
        assert!(instructions.known.len() <= SPARE + 2);
    }
}
