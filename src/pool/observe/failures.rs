//! Launches that fail after their submission, and the storages that descend from them.
//!
//! A kernel that meets an index out of range reports it only when it runs. By then ops that read its output are
//! submitted, and their outputs may be gone again. So as long as the result of such a launch is unknown, the pool
//! remembers what each op reads and makes. If the launch has failed, all storages that descend from it are marked, and
//! later ops pass the mark on to their outputs. A read of a marked storage returns the failure as its error. Nothing
//! waits for this, and no decision depends on it.

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

/// The number of ops after which the engine is asked which launches are done.
const POLL_EVERY: usize = 256;

/// The maximum number of failures that are kept for the next `sync` to report.
const MAX_UNREPORTED: usize = 64;

/// An op of the program.
#[derive(Debug)]
struct Submitted {
    /// The end of its launch.
    mark: Mark,
    instruction: Arc<Instruction>,
    /// The numbers of its inputs.
    inputs: Inputs<u64>,
    outputs: PerOutput<(u64, StorageId)>,
}

/// What is known of failures.
#[derive(Debug, Default)]
pub struct Failures {
    /// All ops since the oldest launch that can fail and whose result is unknown.
    submitted: VecDeque<Submitted>,
    /// The number of ops since the engine was last asked.
    unpolled_ops: usize,
    /// The failures that neither a read nor a `sync` has reported.
    unreported: Vec<Cause>,
    /// A failure that may have spoiled any storage. From then on all reads report it.
    of_all_storages: Option<Cause>,
}

impl Failures {
    /// Marks all storages that descend from a failed launch. Returns `false` if the launch is not among the remembered
    /// ones. If it met an index out of range, it was a rematerialization, which repeats a known failure. Any other
    /// failure may have spoiled anything.
    fn mark_descendants(&mut self, storages: &mut Storages, Failure { mark, error }: Failure) -> bool {
        let cause = Arc::new(error);
        let Some(at) = self.submitted.iter().position(|op| op.mark == mark) else {
            if !matches!(*cause, EngineError::Index { .. }) {
                self.of_all_storages.get_or_insert(cause);
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
        if self.unreported.len() < MAX_UNREPORTED {
            self.unreported.push(cause);
        }
        true
    }

    /// Notes that a failure is reported.
    fn note_reported(&mut self, cause: &Cause) {
        self.unreported.retain(|unreported| !Arc::ptr_eq(unreported, cause));
    }

    /// Passes failures of an op's inputs on to its outputs, and remembers the op. Returns how many failed launches were
    /// found.
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
        self.unpolled_ops += 1;
        if self.unpolled_ops >= POLL_EVERY { self.poll(graph, submitter) } else { 0 }
    }

    /// Asks the engine which of the completed launches have failed. Returns how many of these were new.
    pub fn poll(&mut self, graph: &mut Graph, submitter: &Submitter) -> u64 {
        let engine = &*submitter.engine;
        // This comes first, so that a launch that counts as done is among the failures if it failed.
        let until = self.last_done(engine);
        let failures = engine.failures().into_iter();
        let new =
            failures.filter(|failure| self.mark_descendants(&mut graph.storages, failure.clone())).count();
        self.forget(until);
        self.unpolled_ops = 0;
        new as u64
    }

    /// The failure that a read of a storage must report, if any.
    pub fn reported_for(&mut self, storage: &Storage) -> Option<Cause> {
        let cause = self.of_all_storages.as_ref().or(storage.failure.as_ref()).cloned()?;
        self.note_reported(&cause);
        Some(cause)
    }

    /// The first failure that was not reported yet.
    pub fn first_unreported(&mut self) -> Option<Cause> {
        let unreported = std::mem::take(&mut self.unreported).into_iter().next();
        self.of_all_storages.clone().or(unreported)
    }

    /// Forgets the ops up to `until`, except from the first launch on whose result is unknown.
    fn forget(&mut self, until: u64) {
        let is_open = |op: &Submitted| op.instruction.op.checks_indices() && op.mark.sequence > until;
        let known = self.submitted.iter().position(is_open).unwrap_or(self.submitted.len());
        self.submitted.drain(..known);
    }

    /// The sequence number of the last completed launch that can fail, or zero.
    fn last_done(&self, engine: &dyn Engine) -> u64 {
        let can_fail = self.submitted.iter().filter(|op| op.instruction.op.checks_indices());
        can_fail
            .map(|op| op.mark)
            .take_while(|&mark| engine.reached(mark))
            .last()
            .map_or(0, |mark| mark.sequence)
    }
}
