use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Algorithm, Engine};
use crate::op::{Op, Outputs, View};

/// An op on views, and all that follows from them alone: what an engine is given to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// What to compute.
    pub op: Op,
    /// Which of the engine's ways, as [`Engine::algorithm`] chose it.
    pub algorithm: Algorithm,
    /// How it reads its inputs.
    pub views: Box<[View]>,
    /// What it makes.
    pub outputs: Outputs,
    /// Workspace it takes.
    pub scratch_bytes: usize,
    /// Its predicted time.
    pub launch_ns: u64,
    /// Equal for ops on equal views that differ in scalars or seeds alone.
    pub signature: u64,
    /// The same by the engine's other algorithms, where one may be chosen.
    pub others: Box<[Arc<Instruction>]>,
    /// What it really took lately, where the engine measures that.
    pub measured: Measured,
}

/// A measured time: a mean in which the last one counts for a quarter. It makes no difference between instructions.
#[derive(Debug, Default)]
pub struct Measured(AtomicU64);

impl Measured {
    /// It took so long. By one thread at a time.
    pub fn note(&self, ns: u64) {
        let mean_ns = self.ns().map_or(ns, |mean_ns| (3 * mean_ns + ns) / 4);
        self.0.store(mean_ns.max(1), Ordering::Relaxed);
    }

    /// The mean, if it was ever measured.
    pub fn ns(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&ns| ns > 0)
    }
}

impl Clone for Measured {
    fn clone(&self) -> Self {
        Measured(AtomicU64::new(self.0.load(Ordering::Relaxed)))
    }
}

impl PartialEq for Measured {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Instruction {
    /// Worked out for an engine and one of its algorithms.
    pub fn new(engine: &dyn Engine, op: Op, algorithm: Algorithm, views: &[View]) -> Self {
        let outputs = op.outputs(views);
        let scratch_bytes = engine.scratch(&op, algorithm, views, &outputs);
        let launch_ns = engine.launch_ns(&op, algorithm, views, &outputs);
        // Of fixed keys: the same in every run.
        let mut hasher = DefaultHasher::new();
        (op.template(), views).hash(&mut hasher);
        let signature = hasher.finish();
        let (views, measured, others) = (views.into(), Measured::default(), Box::default());
        Instruction { op, algorithm, views, outputs, scratch_bytes, launch_ns, signature, measured, others }
    }

    /// With all algorithms that the engine offers.
    pub fn with_others(self, engine: &dyn Engine) -> Self {
        let other = |algorithm| Arc::new(Instruction::new(engine, self.op, algorithm, &self.views));
        let others = engine.alternatives(&self.op, &self.views).into_iter().map(other).collect();
        Instruction { others, ..self }
    }

    /// By each algorithm that may be chosen.
    pub fn ways(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Instruction>> {
        std::iter::once(self).chain(&self.others)
    }

    /// Sizes of what must be placed: outputs, but for one done in place, then scratch.
    pub fn new_bytes(&self, in_place: bool) -> impl Iterator<Item = usize> {
        let outputs = self.outputs.iter().skip(usize::from(in_place)).map(View::size_bytes);
        outputs.chain((self.scratch_bytes > 0).then_some(self.scratch_bytes))
    }
}
