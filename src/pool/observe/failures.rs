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
use crate::op::{Inputs, PerOutput};
use crate::pool::input::Input;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::recipe::Graph;
use crate::pool::remat::storage::{Cause, Storage, Storages};
use crate::pool::submit::Submitter;

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

    /// An op was submitted: what it made has the failures of what it read. How many launches are newly known to have failed.
    pub fn inherit(
        &mut self,
        graph: &mut Graph,
        submitter: &Submitter,
        inputs: &[Input],
        instruction: &Arc<Instruction>,
        outputs: &[StorageId],
    ) -> u64 {
        let storages = &mut graph.storages;
        for (place, input) in inputs.iter().enumerate() {
            let Some(cause) = storages[input.id].failure.clone() else { continue };
            for (output, &id) in outputs.iter().enumerate() {
                if instruction.op.depends(output, place) {
                    storages[id].failure.get_or_insert_with(|| cause.clone());
                }
            }
        }
        if self.submitted.is_empty() && !instruction.op.checks_indices() {
            return 0;
        }
        let mark = submitter.engine.mark(Lane::Compute);
        self.submitted.push_back(Submitted {
            mark,
            instruction: instruction.clone(),
            inputs: inputs.iter().map(|input| storages.number(input.id)).collect(),
            outputs: outputs.iter().map(|&id| (storages.number(id), id)).collect(),
        });
        self.unasked += 1;
        if self.unasked >= ASK_EVERY { self.ask(graph, submitter) } else { 0 }
    }

    /// Finds out which launches have failed, of those that are done. How many that was not known of.
    pub fn ask(&mut self, graph: &mut Graph, submitter: &Submitter) -> u64 {
        let engine = &*submitter.engine;
        // Asked first: a launch that is done by now is among the failures, if it failed.
        let until = self.done(engine);
        let failures = engine.failures().into_iter();
        let new = failures.filter(|failure| self.descend(&mut graph.storages, failure.clone())).count();
        self.forget(until);
        self.unasked = 0;
        new as u64
    }

    /// What a read of a storage is to tell, if anything.
    pub fn of(&mut self, storage: &Storage) -> Option<Cause> {
        let cause = self.of_all.as_ref().or(storage.failure.as_ref()).cloned()?;
        self.told(&cause);
        Some(cause)
    }

    /// The first failure that was not told yet.
    pub fn first_untold(&mut self) -> Option<Cause> {
        let untold = std::mem::take(&mut self.untold).into_iter().next();
        self.of_all.clone().or(untold)
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
