//! Launches that failed after their submission, and what descends from them.
//!
//! A kernel that meets an index out of range says so when it has run. By then ops on its output are submitted, and their
//! outputs may be gone again. So while launches that can fail are on their way, what each op read and made is remembered;
//! when one turns out to have failed, all that descends from it is marked, and from then on ops pass the mark on as they
//! come. A read of what is marked tells the failure. Nothing waits for this, and nothing is decided by it.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashSet;

use crate::engine::{Engine, EngineError, Failure, Instruction, Lane, Mark};
use crate::error::Error;
use crate::op::{Inputs, PerOutput};
use crate::pool::Pool;
use crate::pool::remat::storage::{Storages, Cause};
use crate::pool::remat::ids::StorageId;
use crate::pool::input::Input;

/// Ops after which it is asked again which launches are done.
const ASK_EVERY: usize = 256;

/// Failures that are kept for a `sync` to tell.
const MOST_UNTOLD: usize = 64;

/// An op of the program.
#[derive(Debug)]
struct Submitted {
    /// The end of its launch.
    mark: Mark,
    instruction: Arc<Instruction>,
    /// Storages by their numbers.
    inputs: Inputs<u64>,
    outputs: PerOutput<(u64, StorageId)>,
}

/// What is known of failures.
#[derive(Debug, Default)]
pub struct Failures {
    /// All ops since the oldest launch that can fail and of which nothing is known yet.
    submitted: VecDeque<Submitted>,
    /// Ops since that was last asked.
    unasked: usize,
    /// Failures that neither a read nor a `sync` has told.
    untold: Vec<Cause>,
    /// A failure of which it is not known what it spoiled: all reads tell it from then on.
    of_all: Option<Cause>,
}

impl Failures {
    /// Marks what descends from a launch that failed. `false` if the launch is not among those remembered. One that met an index
    /// out of range was then a recomputation, which repeats a failure that is known. Any other may have spoiled anything.
    fn descend(&mut self, storages: &mut Storages, Failure { mark, error }: Failure) -> bool {
        let cause = Arc::new(error);
        let Some(at) = self.submitted.iter().position(|op| op.mark == mark) else {
            if !matches!(*cause, EngineError::Index { .. }) {
                self.of_all.get_or_insert(cause);
            }
            return false;
        };
        let mut failed = HashSet::new();
        for (place, op) in self.submitted.range(at..).enumerate() {
            for (output, &(number, id)) in op.outputs.iter().enumerate() {
                let depends = |(input, read): (usize, &u64)| {
                    failed.contains(read) && op.instruction.op.depends(output, input)
                };
                if place > 0 && !op.inputs.iter().enumerate().any(depends) {
                    continue;
                }
                failed.insert(number);
                if storages.contains(id) && storages[id].number == number {
                    storages[id].failure.get_or_insert_with(|| cause.clone());
                }
            }
        }
        if self.untold.len() < MOST_UNTOLD {
            self.untold.push(cause);
        }
        true
    }

    /// A failure is told.
    fn told(&mut self, cause: &Cause) {
        self.untold.retain(|untold| !Arc::ptr_eq(untold, cause));
    }

    /// Forgets the ops before the first launch that can fail of which nothing is known, and that has not ended by `until`.
    fn forget(&mut self, until: u64) {
        let is_open = |op: &Submitted| op.instruction.op.checks_indices() && op.mark.sequence > until;
        let known = self.submitted.iter().position(is_open).unwrap_or(self.submitted.len());
        self.submitted.drain(..known);
    }

    /// The end of the last launch that can fail and is done, or zero.
    fn done(&self, engine: &dyn Engine) -> u64 {
        let can_fail = self.submitted.iter().filter(|op| op.instruction.op.checks_indices());
        can_fail
            .map(|op| op.mark)
            .take_while(|&mark| engine.reached(mark))
            .last()
            .map_or(0, |mark| mark.sequence)
    }
}

impl Pool {
    /// An op was submitted: what it made has the failures of what it read.
    pub(in crate::pool) fn inherit(
        &mut self,
        inputs: &[Input],
        instruction: &Arc<Instruction>,
        outputs: &[StorageId],
    ) {
        let storages = &mut self.graph.storages;
        for (place, input) in inputs.iter().enumerate() {
            let Some(cause) = storages[input.id].failure.clone() else { continue };
            for (output, &id) in outputs.iter().enumerate() {
                if instruction.op.depends(output, place) {
                    storages[id].failure.get_or_insert_with(|| cause.clone());
                }
            }
        }
        if self.observer.failures.submitted.is_empty() && !instruction.op.checks_indices() {
            return;
        }
        let mark = self.submitter.engine.mark(Lane::Compute);
        let number = |id: StorageId| self.graph.storages[id].number;
        self.observer.failures.submitted.push_back(Submitted {
            mark,
            instruction: instruction.clone(),
            inputs: inputs.iter().map(|input| number(input.id)).collect(),
            outputs: outputs.iter().map(|&id| (number(id), id)).collect(),
        });
        self.observer.failures.unasked += 1;
        if self.observer.failures.unasked >= ASK_EVERY {
            self.ask_for_failures();
        }
    }

    /// Finds out which launches have failed, of those that are done.
    fn ask_for_failures(&mut self) {
        let engine = self.submitter.engine.clone();
        // Asked first: a launch that is done by now is among the failures, if it failed.
        let until = self.observer.failures.done(&*engine);
        for failure in engine.failures() {
            let is_new = self.observer.failures.descend(&mut self.graph.storages, failure);
            self.observer.counters.failed_ops += u64::from(is_new);
        }
        self.observer.failures.forget(until);
        self.observer.failures.unasked = 0;
    }

    /// Whether what was read is right, once the work that made it is done.
    pub(in crate::pool) fn check(&mut self, id: StorageId) -> Result<(), Error> {
        self.ask_for_failures();
        let cause =
            self.observer.failures.of_all.as_ref().or(self.graph.storages[id].failure.as_ref()).cloned();
        cause.map_or(Ok(()), |cause| {
            self.observer.failures.told(&cause);
            Err(self.memory.error((*cause).clone()))
        })
    }

    /// The first failure that was not told yet, of all work that is done.
    pub fn failure(&mut self) -> Result<(), Error> {
        self.ask_for_failures();
        let untold = std::mem::take(&mut self.observer.failures.untold).into_iter().next();
        let cause = self.observer.failures.of_all.clone().or(untold);
        cause.map_or(Ok(()), |cause| Err(self.memory.error((*cause).clone())))
    }
}
