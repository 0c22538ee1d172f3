use super::{Algorithm, Engine, aligned};
use std::any::Any;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::op::{Op, Outputs, View};

/// An op on views, with all that follows from them alone. Launches of an engine name one.
#[derive(Debug, Clone, PartialEq)]
pub struct Instruction {
    /// What to compute.
    pub op: Op,
    /// The engine's algorithm, as [`Engine::algorithm`] chose it.
    pub algorithm: Algorithm,
    /// The views of its inputs.
    pub views: Box<[View]>,
    /// The views of its outputs.
    pub outputs: Outputs,
    /// Bytes of its workspace.
    pub scratch_bytes: usize,
    /// Its predicted time.
    pub launch_ns: u64,
    /// Equal for ops on equal views that differ in scalars or seeds alone.
    pub signature: u64,
    /// The same op by the engine's other algorithms, if one of them may be chosen.
    pub others: Box<[Arc<Instruction>]>,
    /// Its measured time, on engines that measure.
    pub measured: Measured,
    /// The engine's lowered form; the second is for launches whose first output lies where the first input does.
    pub lowered: [Kept; 2],
    /// The program's time for the submission, on a simulated device.
    pub submitted: Kept,
}

/// A value that an engine computes at the first launch and keeps. It does not count when instructions are compared.
#[derive(Default)]
pub struct Kept(OnceLock<Option<Box<dyn Any + Send + Sync>>>);

impl Kept {
    /// The value that `make` returned the first time.
    ///
    /// # Panics
    /// If that value had another type.
    pub fn get<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> Option<T>) -> Option<&T> {
        let made = self.0.get_or_init(|| make().map(|made| Box::new(made) as _));
        made.as_ref().map(|made| made.downcast_ref().expect("an instruction is of one engine"))
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").finish_non_exhaustive()
    }
}

impl Clone for Kept {
    /// A cell without a value.
    fn clone(&self) -> Self {
        Kept::default()
    }
}

impl PartialEq for Kept {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A measured time: a running mean in which the latest time counts for a quarter. It does not count when instructions
/// are compared.
#[derive(Debug, Default)]
pub struct Measured(AtomicU64);

impl Measured {
    /// Adds a time. Only one thread may call this at a time.
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
    /// An instruction for an engine and one of its algorithms.
    pub fn new(engine: &dyn Engine, op: Op, algorithm: Algorithm, views: &[View]) -> Self {
        let outputs = op.outputs(views);
        let scratch_bytes = engine.scratch(&op, algorithm, views, &outputs);
        let launch_ns = engine.launch_ns(&op, algorithm, views, &outputs);
        // The hasher has fixed keys, so the hash is the same in every run.
        let mut hasher = DefaultHasher::new();
        (op.template(), views).hash(&mut hasher);
        let signature = hasher.finish();
        let (views, others) = (views.into(), Box::default());
        let (measured, lowered, submitted) = Default::default();
        Instruction {
            op,
            algorithm,
            views,
            outputs,
            scratch_bytes,
            launch_ns,
            signature,
            others,
            measured,
            lowered,
            submitted,
        }
    }

    /// An instruction with all algorithms that the engine offers.
    pub fn with_others(self, engine: &dyn Engine) -> Self {
        let other = |algorithm| Arc::new(Instruction::new(engine, self.op, algorithm, &self.views));
        let others = engine.alternatives(&self.op, &self.views).into_iter().map(other).collect();
        Instruction { others, ..self }
    }

    /// The instruction for each algorithm that may be chosen.
    pub fn algorithms(self: &Arc<Self>) -> impl Iterator<Item = &Arc<Instruction>> {
        std::iter::once(self).chain(&self.others)
    }

    /// Device memory that its workspace takes.
    pub fn aligned_scratch_bytes(&self) -> usize {
        if self.scratch_bytes == 0 { 0 } else { aligned(self.scratch_bytes) }
    }

    /// Sizes of the blocks that must be placed: outputs, without the first ones, which are made in place, then the workspace.
    pub fn new_bytes(&self, in_place: usize) -> impl Iterator<Item = usize> {
        let outputs = self.outputs.iter().skip(in_place).map(View::size_bytes);
        outputs.chain((self.scratch_bytes > 0).then_some(self.scratch_bytes))
    }
}
