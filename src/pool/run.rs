//! An op, from request to submission: its inputs made resident, its outputs placed, its recipe recorded.

use std::sync::Arc;

use super::Pool;
use super::algorithm::with_smallest_workspace;
use super::evict::encoding::Encoded;
use super::launch::Blocks;
use super::remat::ids::StorageId;
use super::remat::storage::TierCopy;
use crate::config::PlantedFault;
use crate::engine::{Instruction, aligned};
use crate::error::Error;
use crate::op::{Inputs, Op, PerOutput, View};
use crate::pool::input::Input;

/// What an op made, and how to read it.
type Outputs = PerOutput<(StorageId, View)>;
/// What an op made, and whether all went well after it.
type Made = (PerOutput<StorageId>, Result<(), Error>);

/// An op that is about to be launched.
#[derive(Debug)]
struct Resolved {
    launched: Arc<Instruction>,
    /// What is recorded in place of that, where an input is read in its encoded form: that form is not there for ever.
    recorded: Option<Arc<Instruction>>,
    /// What is read in place of the op's inputs, where one is read in its encoded form.
    read: Option<Inputs<Input>>,
    /// The input that is consumed and whose memory the first output takes.
    overwritten: Option<usize>,
    /// The input that is encoded before the op instead of after it, so that the first output takes its memory.
    encoded: Option<(usize, Encoded)>,
}

impl Resolved {
    fn read<'a>(&'a self, inputs: &'a [Input]) -> &'a [Input] {
        self.read.as_deref().unwrap_or(inputs)
    }

    fn recorded(&self) -> &Arc<Instruction> {
        self.recorded.as_ref().unwrap_or(&self.launched)
    }

    /// The input whose memory the first output takes.
    fn taken(&self) -> Option<usize> {
        self.overwritten.or(self.encoded.as_ref().map(|&(place, _)| place))
    }
}

impl Pool {
    /// Submits an op and returns what it makes: storages with one handle each, and how to read them. Handles that it
    /// consumes are gone, also after an error; nothing else is lost by one.
    pub fn run(&mut self, op: &Op, inputs: &[Input]) -> Result<Outputs, Error> {
        let exactness = self.settings.exactness;
        let asked = match self.submitter.instruction(exactness, op, inputs) {
            Ok(asked) => asked,
            Err(error) => {
                let consumed = inputs.iter().filter(|input| input.consumed);
                consumed.for_each(|input| self.release(input.id));
                return Err(error);
            }
        };
        let outputs = self.run_instruction(&asked, inputs)?;
        Ok(outputs.into_iter().zip(asked.outputs.iter().copied()).collect())
    }

    /// [`run`](Pool::run), but after an error the handles that the op was to consume are still there. Where something went wrong
    /// only after the op, that comes beside what it made.
    pub fn run_or_keep(&mut self, op: &Op, inputs: &[Input]) -> Result<Made, Error> {
        let exactness = self.settings.exactness;
        let asked = self.submitter.instruction(exactness, op, inputs)?;
        self.run_or_keep_instruction(&asked, inputs)
    }

    /// [`run`](Pool::run), of an op that is known to fit its inputs.
    pub fn run_instruction(
        &mut self,
        asked: &Arc<Instruction>,
        inputs: &[Input],
    ) -> Result<PerOutput<StorageId>, Error> {
        match self.run_or_keep_instruction(asked, inputs) {
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

    /// Runs an op in five steps: it is resolved, its operands acquire memory, it is launched, what it made is recorded, and what
    /// the plan or the policy does after it follows up.
    fn run_or_keep_instruction(&mut self, asked: &Arc<Instruction>, inputs: &[Input]) -> Result<Made, Error> {
        self.begin_op();
        let resolved = self.advance(asked).and_then(|()| self.resolve(asked, inputs));
        let launched = resolved.and_then(|mut op| {
            let blocks = self.acquire(&mut op, inputs);
            let copies = blocks.and_then(|blocks| self.launch_resolved(&op, inputs, blocks));
            self.end_encoded(&mut op, inputs);
            Ok((copies?, op))
        });
        let recorded = launched.map(|(copies, op)| (self.record(&op, asked, inputs, copies), op));
        self.look_around();
        let (outputs, op) = self.counted(recorded)?;
        let consumed = |&index: &usize| inputs[index].consumed && op.overwritten != Some(index);
        (0..inputs.len()).filter(consumed).for_each(|index| self.let_go(inputs[index].id));
        let after = self.follow_up(&op, inputs, &outputs);
        Ok((outputs, after))
    }

    fn begin_op(&mut self) {
        self.observer.clock += 1;
        let stream = self.follower.streams.current();
        self.follower.streams[stream].ops += 1;
        if self.follower.policy.encodes() {
            self.follower.log_from_now_on(&self.graph, &mut self.memory);
        }
    }

    /// What is launched for an op: by which algorithm, on the encoded form of an input where there is nothing else of it and that
    /// suffices, and which input is overwritten.
    fn resolve(&mut self, asked: &Arc<Instruction>, inputs: &[Input]) -> Result<Resolved, Error> {
        let on_encoded = self.on_encoded(asked, inputs)?;
        if on_encoded.is_some() {
            let least_bytes = self.least_bytes(asked, inputs);
            self.observer.needed(least_bytes);
        }
        let (asked, recorded, read) = match on_encoded {
            Some((instruction, read)) => (instruction, Some(asked.clone()), Some(read)),
            None => (asked.clone(), None, None),
        };
        let inputs = read.as_deref().unwrap_or(inputs);
        let ids: Inputs<StorageId> = inputs.iter().map(|input| input.id).collect();
        let least = with_smallest_workspace(&asked);
        let overwritten = self.overwritten_input(inputs, least);
        // A fused op is run in parts where it does not fit, which were counted when they came.
        if !matches!(asked.op, Op::Fused { .. }) {
            self.observer.needed(self.graph.working_set_bytes(&ids, least, overwritten.is_some()));
        }
        let launched = self.choose_algorithm(&asked, &ids, overwritten.is_some());
        Ok(Resolved { launched, recorded, read, overwritten, encoded: None })
    }

    /// Makes all inputs resident, pins them, and places outputs and workspace.
    fn acquire(&mut self, op: &mut Resolved, inputs: &[Input]) -> Result<Blocks, Error> {
        if op.overwritten.is_none() {
            op.encoded = self.encode_ahead(op.read(inputs), &op.launched)?;
        }
        let ids: Inputs<StorageId> = op.read(inputs).iter().map(|input| input.id).collect();
        self.check_working_set(&ids, &op.launched, op.taken().is_some())?;
        self.rematerialize_all(&ids)?;
        self.place_operands(&ids, &op.launched, op.taken())
    }

    fn launch_resolved(
        &mut self,
        op: &Resolved,
        inputs: &[Input],
        blocks: Blocks,
    ) -> Result<PerOutput<TierCopy>, Error> {
        let ids: Inputs<StorageId> = op.read(inputs).iter().map(|input| input.id).collect();
        let copies = self.submit(&ids, &op.launched, blocks, op.taken());
        self.graph.unpin(&ids);
        copies
    }

    /// The op has run, or could not: an input that was encoded early loses its bytes, and a form that was read is in use no more.
    fn end_encoded(&mut self, op: &mut Resolved, inputs: &[Input]) {
        if let Some((_, encoded)) = op.encoded.take() {
            self.leave_encoded(encoded);
        }
        if let Some(read) = &op.read {
            self.used_form(read, inputs);
        }
    }

    /// Makes records of what the op made, and logs the op.
    fn record(
        &mut self,
        op: &Resolved,
        asked: &Arc<Instruction>,
        inputs: &[Input],
        copies: PerOutput<TierCopy>,
    ) -> PerOutput<StorageId> {
        let outputs = self.keep_outputs(inputs, op.recorded(), copies);
        self.follower.log_op(&self.graph, inputs, asked, &outputs);
        if let Some(index) = op.overwritten {
            self.give_up(inputs[index].id, outputs[0]);
        }
        outputs
    }

    /// Does what comes after an op: values are counted, the plan's intervals begin, and storages are evicted or fetched early.
    fn follow_up(&mut self, op: &Resolved, inputs: &[Input], outputs: &[StorageId]) -> Result<(), Error> {
        self.tally(op.recorded(), outputs)?;
        self.touched(inputs.iter().map(|input| input.id).chain(outputs.iter().copied()))?;
        if self.follower.policy.evicts_at_once() { self.evict_all() } else { self.prefetch() }
    }

    /// Records of what was submitted: its outputs, and how they are made again.
    fn keep_outputs(
        &mut self,
        inputs: &[Input],
        plan: &Arc<Instruction>,
        copies: PerOutput<TierCopy>,
    ) -> PerOutput<StorageId> {
        let stream = self.follower.streams.current();
        let outputs: PerOutput<StorageId> = (plan.outputs.iter().zip(copies))
            .map(|(view, copy)| {
                let id = self.graph.storages.insert(
                    view.size_bytes(),
                    plan.op.name(),
                    stream,
                    self.follower.streams.scopes,
                );
                self.graph.storages.set_device(id, copy, self.observer.computed_ns);
                self.graph.storages[id].dtype = Some(view.dtype);
                self.follower.streams[stream].held_bytes += aligned(view.size_bytes());
                id
            })
            .collect();
        self.follower.track(&mut self.graph, inputs, plan, &outputs);
        self.graph.record(plan, inputs.iter().map(|input| input.id).collect(), &outputs);
        self.observer.note_op(&self.graph, &self.submitter, inputs, plan, &outputs);
        let failures = &mut self.observer.failures;
        let failed = failures.inherit(&mut self.graph, &self.submitter, inputs, plan, &outputs);
        self.observer.counters.failed_ops += failed;
        outputs
    }

    /// The storage's block and last handle went to `heir`. What is left is a host copy, if an evicted storage needs it.
    fn give_up(&mut self, id: StorageId, heir: StorageId) {
        if self.settings.planted_fault == Some(PlantedFault::StaleCleanCopy) {
            self.graph.storages[heir].copies.host = self.graph.storages.take_host(id);
        }
        self.follower.no_handle(&mut self.graph, id);
        if !self.graph.storages[id].active() {
            self.graph.free_host(id, &mut self.memory);
            self.graph.join_component(id);
        }
        self.graph.settle(id);
    }
}
