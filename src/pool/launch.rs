//! Launching an op whose inputs are resident and whose outputs and workspace have blocks.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::config::PlantedFault;
use crate::engine::{Instruction, Launch, Mark, Span, Tier};
use crate::error::Error;
use crate::op::{MAX_OUTPUTS, PerOutput, View};
use crate::pool::Pool;
use crate::pool::input::Overwritten;
use crate::pool::memory::block::Block;
use crate::pool::remat::away::TierCopy;
use crate::pool::remat::ids::StorageId;
use crate::pool::submit::PendingWork;

/// The maximum number of blocks of an op: its outputs and its workspace.
const MAX_BLOCKS: usize = MAX_OUTPUTS + 1;
/// The blocks of an op's outputs, then the block of its workspace, if it has one.
pub(super) type Blocks = SmallVec<[(Block, PendingWork); MAX_BLOCKS]>;

impl Pool {
    /// Launches an op on resident inputs and placed blocks, and returns the copies of the outputs. The first outputs
    /// take the blocks of the overwritten inputs.
    pub(super) fn submit(
        &mut self,
        ids: &[StorageId],
        instruction: &Arc<Instruction>,
        blocks: Blocks,
        overwritten: &Overwritten,
    ) -> Result<PerOutput<TierCopy>, Error> {
        // An op that decodes a form also reads the form's overflow.
        let form = ids.first().copied().filter(|&id| self.graph.storages[id].copies.overflow.is_some());
        let overflow = form.and_then(|id| self.graph.storages[id].copies.overflow.as_deref().copied());
        let (copies, done) = self.submit_on(ids, instruction, blocks, overwritten, overflow)?;
        if let Some(overflow) = form.and_then(|id| self.graph.storages[id].copies.overflow.as_deref_mut()) {
            overflow.touched = overflow.touched.with(done);
        }
        Ok(copies)
    }

    /// Launches an op whose last operand, if there is one besides `ids`, lies in the host tier. Also returns the end of the
    /// op, to wait for before that operand is read or freed.
    pub(super) fn submit_with_host_input(
        &mut self,
        ids: &[StorageId],
        instruction: &Arc<Instruction>,
        blocks: Blocks,
        host_operand: Option<TierCopy>,
    ) -> Result<(PerOutput<TierCopy>, Mark), Error> {
        self.submit_on(ids, instruction, blocks, &Overwritten::new(), host_operand)
    }

    /// Launches an op, notes the work that it leaves pending on its operands, and frees its workspace.
    fn submit_on(
        &mut self,
        ids: &[StorageId],
        instruction: &Arc<Instruction>,
        mut blocks: Blocks,
        overwritten: &Overwritten,
        host_operand: Option<TierCopy>,
    ) -> Result<(PerOutput<TierCopy>, Mark), Error> {
        let scratch = (instruction.scratch_bytes > 0).then(|| blocks.pop().expect("scratch is placed last"));
        for (place, &index) in overwritten.iter().enumerate() {
            let copy = self.graph.storages[ids[index]].copies.device.expect("inputs are resident");
            blocks.insert(place, (copy.block, copy.touched));
        }
        let mut launch = self.launch(ids, instruction, &blocks, scratch);
        if let (Some(host_operand), Some(view)) = (host_operand, instruction.views.last()) {
            launch.inputs.push(self.memory.host.span(host_operand.block, view.size_bytes()));
        }
        let mut pending = host_operand.map_or(PendingWork::default(), |copy| copy.touched);
        for (_, busy) in blocks.iter().chain(&scratch) {
            pending = pending.and(*busy);
        }
        for &id in ids {
            let copy = self.graph.storages[id].copies.device.as_ref().expect("inputs are resident");
            pending = pending.with(copy.written);
        }
        let launched = self.submitter.launch(&launch, pending);
        if self.settings.planted_fault == Some(PlantedFault::InPlaceShared) {
            self.overwrite_shared_input(&launch);
        }
        let mark = launched.map_err(|error| {
            let placed = blocks.iter().skip(overwritten.len()).chain(&scratch);
            for &(block, busy) in placed {
                self.memory.device.free(block, busy);
            }
            self.memory.error(error)
        })?;
        let launch_ns = u128::from(instruction.launch_ns);
        self.observer.usage.use_over_time.0 += self.memory.device.used_bytes() as u128 * launch_ns;
        self.observer.usage.use_over_time.1 += launch_ns;
        self.observer.computed_ns += instruction.launch_ns;
        let stream = self.follower.streams.current();
        self.follower.streams[stream].computed_ns += instruction.launch_ns;
        self.observer.counters.ops += 1;
        self.observer.counters.guided_ops += u64::from(self.follower.active_plans.followed().is_some());
        self.observer.counters.ops_after_read += u64::from(self.observer.counters.reads > 0);
        for &id in ids {
            let copy = self.graph.storages[id].copies.device.as_mut().expect("inputs are resident");
            copy.touched = copy.touched.with(mark);
        }
        if let Some((block, _)) = scratch {
            self.memory.device.free(block, mark.into());
        }
        for &index in overwritten {
            self.graph.storages.take_device(ids[index]);
        }
        Ok((blocks.iter().map(|(block, _)| TierCopy::new(*block, mark)).collect(), mark))
    }

    /// The instruction with the memory of its operands.
    fn launch(
        &self,
        ids: &[StorageId],
        instruction: &Arc<Instruction>,
        blocks: &Blocks,
        scratch: Option<(Block, PendingWork)>,
    ) -> Launch {
        let input = |&id: &StorageId| {
            let storage = &self.graph.storages[id];
            self.memory
                .device
                .span(storage.copies.device.as_ref().expect("inputs are resident").block, storage.size_bytes)
        };
        let output = |(&(block, _), view): (&(Block, PendingWork), &View)| {
            self.memory.device.span(block, view.size_bytes())
        };
        let workspace = scratch.map(|(block, _)| self.memory.device.span(block, instruction.scratch_bytes));
        Launch {
            instruction: instruction.clone(),
            inputs: ids.iter().map(input).collect(),
            outputs: blocks.iter().zip(&instruction.outputs).map(output).collect(),
            scratch: workspace.unwrap_or(Span::empty(Tier::Device)),
        }
    }

    /// The planted fault: runs the op once more, with its first input as its output.
    fn overwrite_shared_input(&mut self, launch: &Launch) {
        let mut launch = launch.clone();
        let (Some(&input), Some(output)) = (launch.inputs.first(), launch.outputs.first_mut()) else {
            return;
        };
        let Instruction { op, views, .. } = &*launch.instruction;
        if op.in_place(0) && input.bytes == output.bytes && views[0].layout.is_contiguous() {
            *output = input;
            let _ = self.submitter.launch(&launch, PendingWork::default());
        }
    }
}
