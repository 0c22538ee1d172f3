//! An op from request to submission: its inputs become resident, its outputs get memory, and its recipe is recorded.

use std::sync::Arc;

use super::Pool;
use super::algorithm::with_smallest_workspace;
use super::evict::encoding::Encoded;
use super::launch::Blocks;
use super::remat::away::TierCopy;
use super::remat::ids::StorageId;
use crate::config::PlantedFault;
use crate::engine::{Instruction, Tier, aligned};
use crate::error::Error;
use crate::op::{Inputs, Op, PerOutput, View};
use crate::pool::input::{Input, Overwritten, module_of};

/// The outputs of an op, with the views to read them by.
type Outputs = PerOutput<(StorageId, View)>;
/// The outputs of an op, and whether the steps after the op succeeded.
type Made = (PerOutput<StorageId>, Result<(), Error>);

/// An op that is ready to acquire memory.
#[derive(Debug)]
struct Resolved {
    /// The instruction to launch.
    launched: Arc<Instruction>,
    /// The instruction to record instead, if an input is read in its encoded form. A recipe must not depend on that
    /// form, because the form does not stay.
    recorded: Option<Arc<Instruction>>,
    /// The inputs to read instead, if one is read in its encoded form. They are seldom there, and lie elsewhere so that an op is
    /// small to pass on.
    read: Option<Vec<Input>>,
    /// The storages that are read.
    ids: Inputs<StorageId>,
    /// The consumed inputs whose memory outputs take.
    overwritten: Overwritten,
    /// The input that is encoded before the op instead of after it, so that the first output takes its memory.
    encoded: Option<(usize, Encoded)>,
}

impl Resolved {
    /// What the op reads: its inputs, or encoded forms in place of some.
    fn read<'a>(&'a self, inputs: &'a [Input]) -> &'a [Input] {
        self.read.as_deref().unwrap_or(inputs)
    }

    /// The instruction that becomes the recipe of the outputs.
    fn recorded(&self) -> &Arc<Instruction> {
        self.recorded.as_ref().unwrap_or(&self.launched)
    }

    /// The inputs whose memory outputs take.
    fn overwritten_or_encoded(&self) -> Overwritten {
        let mut places = Overwritten::from_slice(&self.overwritten);
        places.extend(self.encoded.iter().map(|&(place, _)| place));
        places
    }
}

impl Pool {
    /// Submits an op. Returns its outputs, each with one handle, and the views to read them by. Handles that the op
    /// consumes are gone, even after an error. Nothing else is lost by an error.
    pub fn run(&mut self, op: &Op, inputs: &[Input]) -> Result<Outputs, Error> {
        let exactness = self.settings.exactness;
        let requested = self.submitter.instruction(exactness, op, inputs);
        let outputs = self.run_instruction(&requested, inputs)?;
        Ok(outputs.into_iter().zip(requested.outputs.iter().copied()).collect())
    }

    /// Like [`run`](Pool::run), but after an error the handles that the op would have consumed still exist. An error of
    /// the steps after the op is returned along with the outputs.
    pub fn run_or_keep(&mut self, op: &Op, inputs: &[Input]) -> Result<Made, Error> {
        let exactness = self.settings.exactness;
        let requested = self.submitter.instruction(exactness, op, inputs);
        self.run_or_keep_instruction(&requested, inputs)
    }

    /// Like [`run`](Pool::run), for an instruction that is known.
    pub fn run_instruction(
        &mut self,
        requested: &Arc<Instruction>,
        inputs: &[Input],
    ) -> Result<PerOutput<StorageId>, Error> {
        match self.run_or_keep_instruction(requested, inputs) {
            Ok((outputs, Ok(()))) => Ok(outputs),
            Ok((outputs, Err(error))) => {
                outputs.into_iter().for_each(|id| self.release(id));
                Err(error)
            }
            Err(error) => {
                let consumed = inputs.iter().filter(|input| input.consumed);
                consumed.for_each(|input| self.release(input.id));
                Err(error)
            }
        }
    }

    /// Runs an op in five steps: resolve it, acquire memory for its operands, launch it, record its outputs, and follow
    /// up with what the plan or the policy does after it.
    fn run_or_keep_instruction(
        &mut self,
        requested: &Arc<Instruction>,
        inputs: &[Input],
    ) -> Result<Made, Error> {
        self.begin_op(&requested.op);
        let largest_before_bytes = self.observer.usage.largest_op_bytes;
        let resolved = self.advance(requested).and_then(|()| self.resolve(requested, inputs));
        let launched = resolved.and_then(|mut op| {
            let blocks = self.acquire(&mut op, inputs);
            let copies = blocks.and_then(|blocks| self.launch_resolved(&op, blocks));
            self.end_encoded(&mut op, inputs);
            Ok((copies?, op))
        });
        let recorded = launched.map(|(copies, op)| (self.record(&op, requested, inputs, copies), op));
        self.note_peak();
        let (outputs, op) = self.counted(recorded).map_err(|error| {
            // Only ops that ran count.
            self.observer.usage.largest_op_bytes = largest_before_bytes;
            error.of_module(module_of(inputs))
        })?;
        let consumed = |&index: &usize| inputs[index].consumed && !op.overwritten.contains(&index);
        (0..inputs.len()).filter(consumed).for_each(|index| self.drop_handle(inputs[index].id));
        let after = self.follow_up(&op, inputs, &outputs);
        Ok((outputs, after))
    }

    /// Counts an op. A policy that encodes wants a log from the first op on, and others from the first eviction on.
    fn begin_op(&mut self, op: &Op) {
        self.observer.clock += 1;
        self.submitter.spend(|host| op.calls() * host.op_ns);
        if let Some(before_bytes) = self.memory.device.take_lowered_from() {
            self.warn_of_lowered_budget(before_bytes);
        }
        let stream = self.follower.streams.current();
        self.follower.streams[stream].ops += 1;
        if self.follower.policy.encodes() {
            self.follower.start_log_if_wanted(&self.graph, &mut self.memory);
        }
    }

    /// Determines what is launched for an op: by which algorithm, on which encoded form if an input exists only in that
    /// form, and which inputs are overwritten.
    fn resolve(&mut self, requested: &Arc<Instruction>, inputs: &[Input]) -> Result<Resolved, Error> {
        let on_encoded = self.substitute_encoded(requested, inputs)?;
        if on_encoded.is_some() {
            let min_bytes = self.min_working_set_bytes(requested, inputs);
            self.observer.note_need(min_bytes);
        }
        let (requested, recorded, read) = match on_encoded {
            Some((instruction, read)) => (instruction, Some(requested.clone()), Some(read)),
            None => (requested.clone(), None, None),
        };
        let inputs = read.as_deref().unwrap_or(inputs);
        let ids: Inputs<StorageId> = inputs.iter().map(|input| input.id).collect();
        let least = with_smallest_workspace(&requested);
        let overwritten = self.overwritten_inputs(inputs, least);
        // If a fused op does not fit, its steps run one by one. Their needs were noted when the steps were requested.
        if !matches!(requested.op, Op::Fused { .. }) {
            self.observer.note_need(self.graph.working_set_bytes(&ids, least, overwritten.len()));
        }
        let launched = self.choose_algorithm(&requested, &ids, overwritten.len());
        Ok(Resolved { launched, recorded, read, ids, overwritten, encoded: None })
    }

    /// Makes all inputs resident, pins them, and places outputs and workspace.
    fn acquire(&mut self, op: &mut Resolved, inputs: &[Input]) -> Result<Blocks, Error> {
        if op.overwritten.is_empty() {
            op.encoded = self.encode_early(op.read(inputs), &op.launched)?;
        }
        let overwritten = op.overwritten_or_encoded();
        self.check_working_set(&op.ids, &op.launched, overwritten.len())?;
        self.rematerialize_all(&op.ids)?;
        self.place_operands(&op.ids, &op.launched, &overwritten)
    }

    /// Launches an op on its memory, and unpins its inputs.
    fn launch_resolved(&mut self, op: &Resolved, blocks: Blocks) -> Result<PerOutput<TierCopy>, Error> {
        let copies = self.submit(&op.ids, &op.launched, blocks, &op.overwritten_or_encoded());
        self.graph.unpin(&op.ids);
        copies
    }

    /// Ends the use of encoded forms after the op has run or has failed. An input that was encoded early loses its
    /// bytes.
    fn end_encoded(&mut self, op: &mut Resolved, inputs: &[Input]) {
        if let Some((_, encoded)) = op.encoded.take() {
            self.finish_encoding(encoded);
        }
        if let Some(read) = &op.read {
            self.release_forms(read, inputs);
        }
    }

    /// Makes records of the outputs, and logs the op.
    fn record(
        &mut self,
        op: &Resolved,
        requested: &Arc<Instruction>,
        inputs: &[Input],
        copies: PerOutput<TierCopy>,
    ) -> PerOutput<StorageId> {
        let outputs = self.record_outputs(inputs, op.recorded(), copies);
        self.follower.log_op(&self.graph, inputs, requested, &outputs);
        for (&index, &heir) in op.overwritten.iter().zip(&outputs) {
            self.retire_overwritten(inputs[index].id, heir);
        }
        outputs
    }

    /// Does what comes after an op: counts values, begins the plan's intervals, and evicts or fetches storages early.
    fn follow_up(&mut self, op: &Resolved, inputs: &[Input], outputs: &[StorageId]) -> Result<(), Error> {
        self.tally(op.recorded(), outputs)?;
        self.begin_intervals(inputs.iter().map(|input| input.id).chain(outputs.iter().copied()))?;
        if self.follower.policy.evicts_at_once() {
            return self.evict_all();
        }
        self.load_ahead()?;
        self.prefetch()
    }

    /// Makes records of the outputs and their recipe, and reports the op to tracker, journal and failures.
    fn record_outputs(
        &mut self,
        inputs: &[Input],
        instruction: &Arc<Instruction>,
        copies: PerOutput<TierCopy>,
    ) -> PerOutput<StorageId> {
        let stream = self.follower.streams.current();
        let outputs: PerOutput<StorageId> = (instruction.outputs.iter().zip(copies))
            .map(|(view, copy)| {
                let id = self.graph.storages.insert(
                    view.size_bytes(),
                    instruction.op.name(),
                    stream,
                    self.follower.streams.scopes,
                );
                self.graph.storages.set_device(id, copy, self.observer.computed_ns);
                self.graph.storages[id].dtype = Some(view.dtype);
                self.follower.streams[stream].held_bytes += aligned(view.size_bytes());
                id
            })
            .collect();
        self.follower.track(&mut self.graph, inputs, instruction, &outputs);
        self.graph.record(instruction, inputs.iter().map(|input| input.id).collect(), &outputs);
        self.observer.note_op(&self.graph, &self.submitter, inputs, instruction, &outputs);
        let failures = &mut self.observer.failures;
        let failed = failures.inherit(&mut self.graph, &self.submitter, inputs, instruction, &outputs);
        self.observer.counters.failed_ops += failed;
        outputs
    }

    /// Retires an overwritten input whose block and last handle went to `heir`. Only a host copy stays, if an evicted
    /// storage needs it.
    fn retire_overwritten(&mut self, id: StorageId, heir: StorageId) {
        if self.settings.planted_fault == Some(PlantedFault::StaleCleanCopy) {
            for tier in Tier::AWAY {
                let stale = self.graph.storages.set_away(id, tier, None);
                self.graph.storages.set_away(heir, tier, stale);
            }
        }
        self.follower.note_last_handle_gone(&mut self.graph, id);
        if !self.graph.storages[id].active() {
            self.graph.free_away(id, &mut self.memory);
            self.graph.join_component(id);
        }
        self.graph.settle(id);
    }
}
