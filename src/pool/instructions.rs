//! The instructions that the pool has seen. Training repeats its ops, so each instruction is worked out once and shared by all
//! recipes that use it.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::input::Input;
use crate::config::Exactness;
use crate::engine::{Engine, Instruction};
use crate::op::{Inputs, Op, View};

/// The number of unused instructions that may be kept, in case their ops come again.
const MAX_UNUSED: usize = 1024;

/// All instructions in use, and some unused ones.
#[derive(Debug, Default)]
pub struct Instructions {
    known: HashTable<Arc<Instruction>>,
    hasher: DefaultHashBuilder,
    /// The number of instructions at which unused ones are removed.
    max_known: usize,
}

impl Instructions {
    /// The instruction of `op` on these inputs. Where results need not have the same bits, it has all algorithms of the engine
    /// to choose from.
    pub fn get(
        &mut self,
        engine: &dyn Engine,
        exactness: Exactness,
        op: &Op,
        inputs: &[Input],
    ) -> Arc<Instruction> {
        let mut state = self.hasher.build_hasher();
        op.hash(&mut state);
        inputs.iter().for_each(|input| input.view.hash(&mut state));
        let hash = state.finish();
        let same = |known: &Arc<Instruction>| {
            known.op == *op && known.views.iter().eq(inputs.iter().map(|input| &input.view))
        };
        if let Some(known) = self.known.find(hash, same) {
            return known.clone();
        }
        let views: Inputs<View> = inputs.iter().map(|input| input.view).collect();
        if self.known.len() >= self.max_known {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.max_known = 2 * self.known.len() + MAX_UNUSED;
        }
        let made = Instruction::new(engine, *op, engine.algorithm(op, &views), &views);
        let made = Arc::new(match exactness {
            Exactness::Exact => made,
            Exactness::Fast => made.with_others(engine),
        });
        let hasher = &self.hasher;
        let hash_of = |known: &Arc<Instruction>| {
            let mut state = hasher.build_hasher();
            known.op.hash(&mut state);
            known.views.iter().for_each(|view| view.hash(&mut state));
            state.finish()
        };
        self.known.insert_unique(hash, made.clone(), hash_of);
        made
    }
}

#[cfg(test)]
mod tests {
    use super::super::remat::storage::Storages;
    use super::*;
    use crate::engine::sim::{SimEngine, profiles};
    use crate::op::{Dtype, Shape, Unary};
    use crate::schedule::StreamId;

    #[test]
    fn equal_ops_on_equal_views_share_an_instruction_and_unused_ones_are_removed() {
        let engine = SimEngine::new(&profiles()[0]);
        let id = Storages::default().insert(0, "test", StreamId::default(), 0);
        let mut instructions = Instructions::default();
        let mut get = |op, count| {
            let view = View::contiguous(Dtype::F32, Shape::new(&[count]));
            instructions.get(
                &engine,
                Exactness::Exact,
                &op,
                &[Input { id, view, consumed: false, parameter_of: Default::default() }],
            )
        };
        let kept = get(Op::Unary(Unary::Exp), 10);
        assert!(Arc::ptr_eq(&kept, &get(Op::Unary(Unary::Exp), 10)));
        assert!(!Arc::ptr_eq(&kept, &get(Op::Unary(Unary::Exp), 11)));
        assert!(!Arc::ptr_eq(&kept, &get(Op::Unary(Unary::Log), 10)));
        for count in 0..10 * MAX_UNUSED {
            get(Op::Unary(Unary::Log), count);
        }
        assert!(Arc::ptr_eq(&kept, &get(Op::Unary(Unary::Exp), 10)));
        assert!(instructions.known.len() <= MAX_UNUSED + 2);
    }
}
