//! An op, from request to submission: its inputs made resident, its outputs placed, its recipe recorded.

use std::sync::Arc;

use smallvec::SmallVec;

use super::algorithm::least;
use super::memory::block::Block;
use super::remat::storage::TierCopy;
use super::remat::ids::StorageId;
use super::submit::Pending;
use super::{Pool, Residents};
use crate::config::Sabotage;
use crate::engine::{Instruction, Launch, Span, Tier, aligned};
use crate::error::{Error, WorkingSet};
use crate::op::{Inputs, MAX_OUTPUTS, Op, PerOutput, View};
use crate::pool::input::{Input, lies_alike};

/// Outputs and scratch.
const MAX_BLOCKS: usize = MAX_OUTPUTS + 1;
type Blocks = SmallVec<[(Block, Pending); MAX_BLOCKS]>;
type Ids = Inputs<StorageId>;
/// What an op made, and how to read it.
type Outputs = PerOutput<(StorageId, View)>;

/// What became of an op: the instruction that was submitted, the input whose memory its first output took, and its outputs.
struct Ran {
    plan: Arc<Instruction>,
    overwritten: Option<usize>,
    copies: Result<PerOutput<TierCopy>, Error>,
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
    pub fn run_or_keep(
        &mut self,
        op: &Op,
        inputs: &[Input],
    ) -> Result<(PerOutput<StorageId>, Result<(), Error>), Error> {
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

    fn run_or_keep_instruction(
        &mut self,
        asked: &Arc<Instruction>,
        inputs: &[Input],
    ) -> Result<(PerOutput<StorageId>, Result<(), Error>), Error> {
        self.observer.clock += 1;
        let stream = self.follower.streams.current();
        self.follower.streams[stream].ops += 1;
        if self.follower.policy.encodes() {
            self.log_from_now_on();
        }
        let advanced = self.advance(asked);
        let Ran { plan, overwritten, copies } = self.run_on_encoded_or_not(asked, inputs, advanced);
        let plan = &plan;
        let outputs = copies.map(|copies| {
            let outputs = self.keep_outputs(inputs, plan, copies);
            self.log_op(inputs, asked, &outputs);
            if let Some(index) = overwritten {
                self.give_up(inputs[index].id, outputs[0]);
            }
            outputs
        });
        self.look_around();
        let given_up = overwritten.filter(|_| outputs.is_ok());
        for (index, input) in inputs.iter().enumerate() {
            if input.consumed && outputs.is_ok() && given_up != Some(index) {
                self.let_go(input.id);
            }
        }
        let outputs = self.counted(outputs)?;
        let touched = inputs.iter().map(|input| input.id).chain(outputs.iter().copied());
        let after = self.tally(plan, &outputs).and_then(|()| self.touched(touched));
        let after = after.and_then(|()| {
            if self.follower.policy.evicts_at_once() { self.evict_all() } else { self.prefetch() }
        });
        Ok((outputs, after))
    }

    /// Submits an op, on the encoded form of an input where that is all that there is of it and suffices.
    fn run_on_encoded_or_not(
        &mut self,
        asked: &Arc<Instruction>,
        inputs: &[Input],
        ready: Result<(), Error>,
    ) -> Ran {
        let (ready, on_encoded) = match ready.and_then(|()| self.on_encoded(asked, inputs)) {
            Ok(on_encoded) => (Ok(()), on_encoded),
            Err(error) => (Err(error), None),
        };
        let Some((instruction, read)) = on_encoded else { return self.run_on(asked, inputs, ready) };
        self.observer.usage.largest_op_bytes =
            self.observer.usage.largest_op_bytes.max(self.least_bytes(asked, inputs));
        let ran = self.run_on(&instruction, &read, ready);
        self.used_form(&read, inputs);
        // It is known and recomputed as what was asked for: the encoded form is not there for ever.
        Ran { plan: asked.clone(), ..ran }
    }

    /// Device memory that an op needs at once, at the least.
    pub(super) fn least_bytes(&self, asked: &Arc<Instruction>, inputs: &[Input]) -> usize {
        let ids: Ids = inputs.iter().map(|input| input.id).collect();
        let least = least(asked);
        self.working_set_bytes(&ids, least, self.overwritten_input(inputs, least).is_some())
    }

    fn run_on(&mut self, asked: &Arc<Instruction>, inputs: &[Input], ready: Result<(), Error>) -> Ran {
        let ids: Ids = inputs.iter().map(|input| input.id).collect();
        let least = least(asked);
        let overwritten = self.overwritten_input(inputs, least);
        // A fused op is run in parts where it does not fit, which were counted when they came.
        if !matches!(asked.op, Op::Fused { .. }) {
            let least_bytes = self.working_set_bytes(&ids, least, overwritten.is_some());
            self.observer.usage.largest_op_bytes = self.observer.usage.largest_op_bytes.max(least_bytes);
        }
        let plan = self.chosen(asked, &ids, overwritten.is_some());
        let mut ahead = None;
        let copies = ready.and_then(|()| {
            if overwritten.is_none() {
                ahead = self.encode_ahead(inputs, &plan)?;
            }
            let taken = overwritten.or(ahead.as_ref().map(|(place, _)| *place));
            let blocks = self.reserve(&ids, &plan, taken)?;
            let result = self.submit(&ids, &plan, blocks, taken);
            self.unpin(&ids);
            result
        });
        ahead.into_iter().for_each(|(_, made)| self.leave_encoded(made));
        Ran { plan, overwritten, copies }
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
        self.track(inputs, plan, &outputs);
        self.graph.record(plan, inputs.iter().map(|input| input.id).collect(), &outputs);
        self.note_op(inputs, plan, &outputs);
        self.inherit(inputs, plan, &outputs);
        outputs
    }

    /// An input that is about to be overwritten, but that an evicted storage needs, is kept in the host tier, if nowhere else.
    fn keep_claimed(&mut self, op: &'static str, id: StorageId) -> Result<(), Error> {
        let storage = &self.graph.storages[id];
        let kept = storage.claims == 0 || storage.host.is_some() || self.is_encoded(storage);
        if kept || (self.settings.ways.offload && self.write_back(id, true)?) {
            return Ok(());
        }
        Err(self.nowhere_to_go(op, id, self.graph.storages[id].size_bytes))
    }

    /// The storage's block and last handle went to `heir`. What is left is a host copy, if an evicted storage needs it.
    fn give_up(&mut self, id: StorageId, heir: StorageId) {
        if self.settings.sabotage == Some(Sabotage::StaleCleanCopy) {
            self.graph.storages[heir].host = self.graph.storages.take_host(id);
        }
        self.no_handle(id);
        if !self.graph.storages[id].active() {
            self.graph.free_host(id, &mut self.memory);
            self.graph.lost_bytes(id);
        }
        self.graph.settle(id);
    }

    /// Whether an op that needs so much device memory at once could be run; it counts as one that was.
    pub fn allows(&mut self, need_bytes: usize) -> bool {
        let is_allowed = need_bytes <= self.budget_bytes();
        if is_allowed {
            self.observer.usage.largest_op_bytes = self.observer.usage.largest_op_bytes.max(need_bytes);
        }
        is_allowed
    }

    /// The same of an op by itself.
    pub fn allows_op(&mut self, op: &Op, inputs: &[Input]) -> bool {
        let asked = self.submitter.instruction(self.settings.exactness, op, inputs);
        asked.is_ok_and(|asked| {
            let need_bytes = self.least_bytes(&asked, inputs);
            self.allows(need_bytes)
        })
    }

    /// Whether an op that needs as much counted as one that was run: then it changes nothing to ask for this one.
    pub fn has_allowed(&self, need_bytes: usize) -> bool {
        need_bytes <= self.observer.usage.largest_op_bytes.min(self.budget_bytes())
    }

    /// Device memory that there is.
    pub fn budget_bytes(&self) -> usize {
        self.memory.device.limit_bytes()
    }

    /// What a storage holds.
    pub fn size_bytes(&self, id: StorageId) -> usize {
        self.graph.storages[id].size_bytes
    }

    /// Device memory that an op needs at once, without its first output if that is made in place.
    pub(super) fn working_set_bytes(
        &self,
        inputs: &[StorageId],
        plan: &Instruction,
        in_place: bool,
    ) -> usize {
        let mut seen = Ids::new();
        for &id in inputs {
            if !seen.contains(&id) {
                seen.push(id);
            }
        }
        let read = seen.iter().map(|&id| self.graph.storages[id].size_bytes);
        read.chain(plan.new_bytes(in_place)).map(aligned).sum()
    }

    /// The input whose span the first output takes: one that this op consumes and that lies just as the output will.
    /// If evicted storages need it, only where there is no other way to fit the budget; so too where what makes room for the
    /// rest may come to need it, and it cannot be kept.
    fn overwritten_input(&self, inputs: &[Input], plan: &Instruction) -> Option<usize> {
        let output = plan.outputs.first()?;
        let possible = |index: &usize| {
            let Input { id, consumed, .. } = inputs[*index];
            let storage = &self.graph.storages[id];
            consumed
                && storage.host_pins == 0
                && storage.size_bytes == output.size_bytes()
                && lies_alike(inputs, *index, plan)
        };
        let may_be_claimed = !self.settings.ways.offloads_all() && plan.new_bytes(true).next().is_some();
        let claimed = |index: &usize| may_be_claimed || self.graph.storages[inputs[*index].id].claims > 0;
        let unclaimed = (0..inputs.len()).find(|index| possible(index) && !claimed(index));
        unclaimed.or_else(|| {
            let ids: Ids = inputs.iter().map(|input| input.id).collect();
            let bytes = self.working_set_bytes(&ids, plan, false);
            (0..inputs.len()).find(|index| bytes > self.memory.device.limit_bytes() && possible(index))
        })
    }

    /// Makes every input resident and pins it, and places outputs and scratch: all of it or nothing.
    pub(super) fn reserve(
        &mut self,
        ids: &[StorageId],
        plan: &Instruction,
        overwritten: Option<usize>,
    ) -> Result<Blocks, Error> {
        let needed_bytes = self.working_set_bytes(ids, plan, overwritten.is_some());
        if needed_bytes > self.memory.device.limit_bytes() {
            return Err(self.too_large(ids, plan, needed_bytes));
        }
        self.remake_all(ids)?;
        for &id in ids {
            self.graph.storages[id].pins += 1;
        }
        let mut blocks = Blocks::new();
        let mut placed = self.place_all(ids, plan, overwritten, &mut blocks);
        if let Ok(false) = placed {
            let need_bytes = plan.new_bytes(overwritten.is_some()).sum();
            let compacted = self.compact(plan.op.name(), need_bytes);
            placed = compacted.and_then(|()| self.place_all(ids, plan, overwritten, &mut blocks));
        }
        match placed {
            Ok(placed) => {
                assert!(placed, "an empty arena holds what fits the budget");
                Ok(blocks)
            }
            Err(error) => {
                self.unpin(ids);
                Err(error)
            }
        }
    }

    /// Whether there was room for all; if not, nothing is placed.
    fn place_all(
        &mut self,
        ids: &[StorageId],
        plan: &Instruction,
        overwritten: Option<usize>,
        blocks: &mut Blocks,
    ) -> Result<bool, Error> {
        let op = plan.op.name();
        for &id in ids {
            if self.graph.storages[id].device.is_some() {
                self.graph.storages.touch(id, self.observer.computed_ns);
            } else if !self.fetch(op, id)? {
                return Ok(false);
            }
        }
        let mut placed = Ok(true);
        for bytes in plan.new_bytes(overwritten.is_some()) {
            placed = self.place(op, bytes).map(|placed| placed.map(|placed| blocks.push(placed)).is_some());
            if !matches!(placed, Ok(true)) {
                break;
            }
        }
        // Only now: what was dropped to make room may need what is overwritten, or have taken its place in the host tier.
        if let (Ok(true), Some(index)) = (&placed, overwritten) {
            placed = self.keep_claimed(op, ids[index]).map(|()| true);
        }
        if !matches!(placed, Ok(true)) {
            blocks.drain(..).for_each(|(block, pending)| self.memory.device.free(block, pending));
        }
        placed
    }

    pub(super) fn unpin(&mut self, ids: &[StorageId]) {
        for &id in ids {
            self.graph.storages[id].pins -= 1;
        }
    }

    /// Launches on resident inputs and placed blocks; returns the copies of the outputs. The block of an overwritten
    /// input passes to the first output.
    pub(super) fn submit(
        &mut self,
        ids: &[StorageId],
        plan: &Arc<Instruction>,
        blocks: Blocks,
        overwritten: Option<usize>,
    ) -> Result<PerOutput<TierCopy>, Error> {
        // What decodes a form also reads what lies beside it.
        let form = ids.first().copied().filter(|&id| self.graph.storages[id].beside.is_some());
        let beside = form.and_then(|id| self.graph.storages[id].beside.as_deref().copied());
        let (copies, done) = self.submit_on(ids, plan, blocks, overwritten, beside)?;
        if let Some(beside) = form.and_then(|id| self.graph.storages[id].beside.as_deref_mut()) {
            beside.touched = beside.touched.and(done);
        }
        Ok(copies)
    }

    /// The same of an op whose last input lies in the host tier, `beside` the others; with when it is done.
    pub(super) fn submit_beside(
        &mut self,
        ids: &[StorageId],
        plan: &Arc<Instruction>,
        blocks: Blocks,
        beside: Option<TierCopy>,
    ) -> Result<(PerOutput<TierCopy>, Pending), Error> {
        self.submit_on(ids, plan, blocks, None, beside)
    }

    fn submit_on(
        &mut self,
        ids: &[StorageId],
        plan: &Arc<Instruction>,
        mut blocks: Blocks,
        overwritten: Option<usize>,
        beside: Option<TierCopy>,
    ) -> Result<(PerOutput<TierCopy>, Pending), Error> {
        let scratch = (plan.scratch_bytes > 0).then(|| blocks.pop().expect("scratch is placed last"));
        if let Some(index) = overwritten {
            let copy = self.graph.storages[ids[index]].device.expect("inputs are resident");
            blocks.insert(0, (copy.block, copy.touched));
        }
        let resident = |&id: &StorageId| self.graph.storages[id].device.expect("inputs are resident");
        let reads: Inputs<TierCopy> = ids.iter().map(resident).collect();
        let mut launch = self.launch(ids, plan, &blocks, scratch);
        if let (Some(beside), Some(view)) = (beside, plan.views.last()) {
            launch.inputs.push(self.memory.host.span(beside.block, view.size_bytes()));
        }
        let written = blocks.iter().chain(&scratch).fold(Pending::default(), |all, (_, busy)| all.and(*busy));
        let pending = reads.iter().chain(&beside).fold(written, |all, copy| all.and(copy.written));
        let launched = self.submitter.launch(&launch, pending);
        if self.settings.sabotage == Some(Sabotage::InPlaceShared) {
            self.overwrite_shared_input(&launch);
        }
        let mark = launched.map_err(|error| {
            let placed = blocks.iter().skip(usize::from(overwritten.is_some())).chain(&scratch);
            for &(block, busy) in placed {
                self.memory.device.free(block, busy);
            }
            self.memory.error(error)
        })?;
        let launch_ns = u128::from(plan.launch_ns);
        self.observer.usage.use_over_time.0 += self.memory.device.used_bytes() as u128 * launch_ns;
        self.observer.usage.use_over_time.1 += launch_ns;
        self.observer.computed_ns += plan.launch_ns;
        let stream = self.follower.streams.current();
        self.follower.streams[stream].computed_ns += plan.launch_ns;
        self.observer.counters.ops += 1;
        self.observer.counters.ops_after_read += u64::from(self.observer.counters.reads > 0);
        for (&id, copy) in ids.iter().zip(&reads) {
            self.graph.storages[id].device = Some(TierCopy { touched: copy.touched.with(mark), ..*copy });
        }
        if let Some((block, _)) = scratch {
            self.memory.device.free(block, Pending::default().with(mark));
        }
        if let Some(index) = overwritten {
            self.graph.storages.take_device(ids[index]);
        }
        let done = Pending::default().with(mark);
        Ok((blocks.iter().map(|(block, _)| TierCopy::new(*block, done)).collect(), done))
    }

    /// The instruction with the memory under its views.
    fn launch(
        &self,
        ids: &[StorageId],
        plan: &Arc<Instruction>,
        blocks: &Blocks,
        scratch: Option<(Block, Pending)>,
    ) -> Launch {
        let input = |&id: &StorageId| {
            let storage = &self.graph.storages[id];
            self.memory.device.span(storage.device.expect("inputs are resident").block, storage.size_bytes)
        };
        let output = |(&(block, _), view): (&(Block, Pending), &View)| {
            self.memory.device.span(block, view.size_bytes())
        };
        let workspace = scratch.map(|(block, _)| self.memory.device.span(block, plan.scratch_bytes));
        Launch {
            instruction: plan.clone(),
            inputs: ids.iter().map(input).collect(),
            outputs: blocks.iter().zip(&plan.outputs).map(output).collect(),
            scratch: workspace.unwrap_or(Span::empty(Tier::Device)),
        }
    }

    fn too_large(&mut self, ids: &[StorageId], plan: &Instruction, needed_bytes: usize) -> Error {
        let mut parts = Vec::new();
        let mut part = |what: &str, view: &View, bytes: usize| {
            parts.push(format!("{what}: {:?} {}, {bytes} bytes", view.shape(), view.dtype))
        };
        for (id, view) in ids.iter().zip(plan.views.iter()) {
            part("reads", view, self.graph.storages[*id].size_bytes);
        }
        for view in &plan.outputs {
            part("makes", view, view.size_bytes());
        }
        if plan.scratch_bytes > 0 {
            parts.push(format!("workspace: {} bytes", plan.scratch_bytes));
        }
        let mut residents = self.residents();
        residents.truncate(5);
        Error::WorkingSet(Box::new(WorkingSet {
            op: plan.op.name(),
            parts,
            needed_bytes: self.settings.budget_for(needed_bytes),
            budget_bytes: self.memory.device.limit_bytes(),
            residents,
        }))
    }

    /// The resident storages.
    fn residents(&self) -> Residents {
        let storages = &self.graph.storages;
        let resident = |id| (storages[id].size_bytes, storages[id].made_by);
        let mut residents: Residents = storages.residents().map(resident).collect();
        residents.sort_by(|a, b| b.cmp(a));
        residents
    }

    /// Remembers when the most memory was in use, and what was there at the op that the settings name.
    fn look_around(&mut self) {
        if self.memory.device.peak_bytes() > self.observer.usage.peak.0 {
            self.observer.usage.peak = (self.memory.device.peak_bytes(), self.observer.clock);
        }
        if self.settings.portrait_at == Some(self.observer.clock) {
            self.observer.snapshot = self.residents();
        }
    }

    /// Planted fault: runs the op once more, over its first input.
    fn overwrite_shared_input(&mut self, launch: &Launch) {
        let mut launch = launch.clone();
        let (Some(&input), Some(output)) = (launch.inputs.first(), launch.outputs.first_mut()) else {
            return;
        };
        let Instruction { op, views, .. } = &*launch.instruction;
        if op.in_place(0) && input.bytes == output.bytes && views[0].layout.is_contiguous() {
            *output = input;
            let _ = self.submitter.launch(&launch, Pending::default());
        }
    }
}
