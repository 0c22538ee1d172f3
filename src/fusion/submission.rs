//! How a run is submitted: without the steps that nobody needs, and the others as few ops.

use arrayvec::ArrayVec;

use super::deferred::DeferredGradient;
use super::partition::{External, MAX_EXTERNALS, MAX_RUN_STEPS, PartitionStep, StepInput, first_region};
use super::reduction::WaitingCopy;
use super::rows::one_of_each_row;
use super::run::{FusionRun, MAX_SMALL_BYTES, WaitingStep};
use super::tensor::{FusionTarget, FusionTensor, TensorMaker};
use crate::engine::aligned;
use crate::error::Error;
use crate::op::{
    Inputs, MAX_FUSED_INPUTS, MAX_FUSED_OUTPUTS, MAX_SCALARS, MAX_STEPS, Op, Program, Source, Step, StepKind,
};
use crate::pool::{Input, Pool};

/// The first steps of a run as one op.
struct RegionOp {
    op: Op,
    /// The places of the external tensors that it reads.
    reads: ArrayVec<u8, MAX_FUSED_INPUTS>,
    /// The steps whose results it writes.
    outputs: ArrayVec<u8, MAX_FUSED_OUTPUTS>,
    /// Whether it reads one value for each row, not repeated along it.
    is_of_rows: bool,
}

impl<T: FusionTensor> FusionRun<T> {
    /// Submits the ops of the run that the program still needs. After an error, the ops that could not be submitted go on
    /// waiting, and are tried again when the run next ends.
    pub fn submit(&mut self, target: &mut FusionTarget<'_, T>) -> Result<(), Error> {
        DeferredGradient::submit(&mut self.deferred, target)?;
        loop {
            self.forget_unwanted();
            if self.steps.is_empty() && self.reduction.is_none() {
                WaitingCopy::submit(&mut self.copy, target)?;
                self.externals.clear();
                return Ok(());
            }
            match self.region_steps() {
                1 if self.steps.is_empty() => self.submit_program(target, 1)?,
                1 => self.submit_region(target, 1, self.first_step_alone())?,
                count => {
                    let reads = self.region_reads(count);
                    if self.fits(target.pool, count, &reads) {
                        self.submit_region(target, count, self.program(count, reads))?;
                    } else {
                        // By the kernel that would have run them together, since an op's own kernel may give a NaN another sign.
                        (0..count).try_for_each(|_| self.submit_one(target))?;
                    }
                }
            }
        }
    }

    /// Leaves out steps whose results nobody can ask for, and the external tensors that only these read.
    fn forget_unwanted(&mut self) {
        let mut wanted = [false; MAX_STEPS];
        let mut read = [false; MAX_EXTERNALS];
        self.reduction.take_if(|reduction| !reduction.is_wanted());
        self.copy.take_if(|copy| !copy.is_wanted());
        match self.reduction.as_ref().map(|reduction| reduction.input) {
            Some(StepInput::External(place)) => read[place as usize] = true,
            Some(StepInput::Step(place)) => wanted[place as usize] = true,
            None => {}
        }
        for (at, step) in self.steps.iter_mut().enumerate().rev() {
            step.is_held = step.promise.is_wanted() && !step.is_shelved;
            wanted[at] |= step.is_held;
            if !wanted[at] {
                continue;
            }
            for input in &step.inputs {
                match *input {
                    StepInput::External(place) => read[place as usize] = true,
                    StepInput::Step(place) => wanted[place as usize] = true,
                }
            }
        }
        let unread = self.externals.iter_mut().zip(read).filter(|(_, read)| !read);
        unread.for_each(|(external, _)| *external = None);
        if wanted[..self.steps.len()].iter().all(|wanted| *wanted) {
            return;
        }
        let place_of = |step: u8| wanted[..step as usize].iter().filter(|wanted| **wanted).count() as u8;
        self.step_inputs_mut().for_each(|input| {
            if let StepInput::Step(place) = input {
                *place = place_of(*place);
            }
        });
        let mut wanted = wanted.iter();
        self.steps.retain(|_| wanted.next() == Some(&true));
    }

    /// What all steps and the reduction read.
    fn step_inputs_mut(&mut self) -> impl Iterator<Item = &mut StepInput> {
        let reduction = self.reduction.iter_mut().map(|reduction| &mut reduction.input);
        self.steps.iter_mut().flat_map(|step| &mut step.inputs).chain(reduction)
    }

    /// What the first `count` steps read, where the reduction counts as the last step.
    fn step_inputs(&self, count: usize) -> impl Iterator<Item = StepInput> {
        let reduction = self.reduction.iter().filter(move |_| count > self.steps.len());
        let inputs = self.steps.iter().take(count).flat_map(|step| step.inputs.iter().copied());
        inputs.chain(reduction.map(|reduction| reduction.input))
    }

    /// Whether a step after the first `count`, or the reduction after them, reads this.
    fn reads_after(&self, count: usize, input: StepInput) -> bool {
        let reduction = self.reduction.as_ref().filter(|_| count <= self.steps.len());
        let mut steps = self.steps.iter().skip(count);
        steps.any(|step| step.inputs.contains(&input))
            || reduction.is_some_and(|reduction| reduction.input == input)
    }

    /// How many of the first steps, the reduction included, become one op.
    fn region_steps(&self) -> usize {
        if self.steps.len() + usize::from(self.reduction.is_some()) == 1 {
            return 1;
        }
        let view = self.view.expect("a run has begun");
        let externals: ArrayVec<External, MAX_EXTERNALS> = (self.externals.iter())
            .map(|tensor| {
                let tensor = tensor.as_ref();
                let is_large = |tensor: &T| tensor.view().distinct_bytes() >= view.size_bytes();
                External {
                    is_large: tensor.is_some_and(is_large),
                    is_mask: tensor.is_some_and(|tensor| tensor.view().dtype.is_bool()),
                }
            })
            .collect();
        let steps = self.steps.iter().map(|step| PartitionStep {
            inputs: step.inputs.clone(),
            scalars: step.scalars.len(),
            is_held: step.is_held,
        });
        let reduction = self.reduction.iter().map(|reduction| PartitionStep {
            inputs: [reduction.input].into_iter().collect(),
            scalars: 0,
            is_held: true,
        });
        let steps: ArrayVec<PartitionStep, MAX_RUN_STEPS> = steps.chain(reduction).collect();
        first_region(&steps, &externals, view.size_bytes() <= MAX_SMALL_BYTES)
    }

    /// Of the first `count` steps, those whose results the program or a later step needs.
    fn outputs(&self, count: usize) -> ArrayVec<u8, MAX_FUSED_OUTPUTS> {
        let outlives =
            |at: &usize| self.steps[*at].is_held || self.reads_after(count, StepInput::Step(*at as u8));
        (0..count.min(self.steps.len())).filter(outlives).map(|at| at as u8).collect()
    }

    /// The places of the external tensors that the first `count` steps read, each once, masks last.
    fn region_reads(&self, count: usize) -> ArrayVec<u8, MAX_FUSED_INPUTS> {
        let mut reads = ArrayVec::<u8, MAX_FUSED_INPUTS>::new();
        for are_masks in [false, true] {
            for input in self.step_inputs(count) {
                if let StepInput::External(place) = input
                    && self.external(place).view().dtype.is_bool() == are_masks
                    && !reads.contains(&place)
                {
                    reads.push(place);
                }
            }
        }
        reads
    }

    /// Whether nobody needs a tensor's storage after the first `count` steps, through whichever view.
    fn is_done_with(&self, count: usize, tensor: &T) -> bool {
        let is_later = |place| self.reads_after(count, StepInput::External(place));
        tensor.handles() == self.externals_of(tensor).count() && !self.externals_of(tensor).any(is_later)
    }

    /// Whether the first `count` steps, which read this, fit the budget as one op. One by one they do.
    fn fits(&self, pool: &Pool, count: usize, reads: &[u8]) -> bool {
        let ids: ArrayVec<_, MAX_FUSED_INPUTS> =
            reads.iter().map(|&place| self.external(place).id()).collect();
        let distinct = (0..ids.len()).filter(|&at| !ids[..at].contains(&ids[at]));
        let read_bytes: usize = distinct.map(|at| aligned(pool.size_bytes(ids[at]))).sum();
        let bytes = |&at: &u8| aligned(self.made_by(&self.steps[at as usize]).size_bytes());
        let made_bytes: usize = self.outputs(count).iter().map(bytes).sum();
        let reduction = self.reduction.as_ref().filter(|_| count > self.steps.len());
        let reduction_bytes = reduction.map_or(0, |reduction| reduction.need_bytes);
        read_bytes + made_bytes + reduction_bytes <= pool.budget_bytes()
    }

    /// Submits the first `count` steps as a program.
    fn submit_program(&mut self, target: &mut FusionTarget<'_, T>, count: usize) -> Result<(), Error> {
        self.submit_region(target, count, self.program(count, self.region_reads(count)))
    }

    /// Submits the first step as a program, or as the op that it is if it reads nothing or makes one value for each row.
    fn submit_one(&mut self, target: &mut FusionTarget<'_, T>) -> Result<(), Error> {
        match self.steps.first() {
            Some(step) if step.inputs.is_empty() || step.is_row => {
                self.submit_region(target, 1, self.first_step_alone())
            }
            _ => self.submit_program(target, 1),
        }
    }

    /// Submits the first `count` steps, which are this op.
    fn submit_region(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        count: usize,
        RegionOp { op, reads, outputs, is_of_rows }: RegionOp,
    ) -> Result<(), Error> {
        let inputs: Inputs<Input> = (reads.iter().enumerate())
            .map(|(at, &place)| {
                let tensor = self.external(place);
                let is_last =
                    !reads[at + 1..].iter().any(|&other| self.external(other).is_same_storage(tensor));
                let consumed = is_last && self.is_done_with(count, tensor);
                let view = if is_of_rows { one_of_each_row(tensor.view()) } else { *tensor.view() };
                Input { view, ..tensor.as_input(consumed) }
            })
            .collect();
        let (made, after) = target.pool.run_or_keep(&op, &inputs)?;
        for (&place, input) in reads.iter().zip(&inputs) {
            if input.consumed {
                self.hand_over(place);
            }
        }
        let mut made = made.into_iter();
        for (&at, id) in outputs.iter().zip(&mut made) {
            let step @ WaitingStep { promise, is_shelved, is_row, .. } = &self.steps[at as usize];
            let view = self.made_by(step);
            let tensor = match is_shelved {
                true => target.maker.tensor(id, view),
                false => promise.keep(target.maker, id, view),
            };
            let tensor = if *is_row { self.repeated(tensor) } else { self.in_shape(tensor) };
            self.pass_on(at, count, tensor);
        }
        if let Some(id) = made.next()
            && let Some(reduction) = self.reduction.take()
        {
            reduction.keep(target.maker, id);
        }
        let count = count.min(self.steps.len());
        self.steps.drain(..count);
        for input in self.step_inputs_mut() {
            if let StepInput::Step(place) = input {
                *place -= count as u8;
            }
        }
        let planned = target.maker.after_op(target.pool);
        after.and(planned)
    }

    /// The op has consumed an external tensor's storage, which is the pool's now.
    fn hand_over(&mut self, place: u8) {
        let tensor = self.external(place).clone();
        let places: ArrayVec<u8, MAX_EXTERNALS> = self.externals_of(&tensor).collect();
        places.into_iter().for_each(|place| self.externals[place as usize] = None);
        tensor.into_input();
    }

    /// From now on, steps after the first `count` read this tensor as an external one, which step `at` has made.
    fn pass_on(&mut self, at: u8, count: usize, tensor: T) {
        let place = self.externals.len() as u8;
        let mut is_read = false;
        let is_later = count <= self.steps.len();
        let reduction = self.reduction.iter_mut().filter(|_| is_later).map(|reduction| &mut reduction.input);
        let steps = self.steps.iter_mut().skip(count).flat_map(|step| &mut step.inputs);
        for input in steps.chain(reduction) {
            if *input == StepInput::Step(at) {
                (*input, is_read) = (StepInput::External(place), true);
            }
        }
        if is_read {
            self.externals.push(Some(tensor));
        }
    }

    /// The first step as the op that the program asked for.
    fn first_step_alone(&self) -> RegionOp {
        let step = &self.steps[0];
        let place = |input: &StepInput| match *input {
            StepInput::External(place) => place,
            StepInput::Step(_) => unreachable!("no step is before the first"),
        };
        let is_of_rows = step.is_row && !matches!(step.kind, StepKind::Row(_));
        let reads = step.inputs.iter().map(place).collect();
        RegionOp { op: step.op, reads, outputs: self.outputs(1), is_of_rows }
    }

    /// The first `count` steps, which read this, as a program, which ends in the reduction if there are fewer steps than that.
    fn program(&self, count: usize, reads: ArrayVec<u8, MAX_FUSED_INPUTS>) -> RegionOp {
        let outputs = self.outputs(count);
        let mut scalars = ArrayVec::<u64, MAX_SCALARS>::new();
        let mut steps = ArrayVec::<Step, MAX_STEPS>::new();
        let source = |input: &StepInput| match *input {
            StepInput::Step(place) => Source::Step(place),
            StepInput::External(place) => {
                let at = reads.iter().position(|&other| other == place);
                Source::Input(at.expect("the region reads it") as u8)
            }
        };
        for step in self.steps.iter().take(count) {
            let own = (scalars.len() as u8..).take(step.scalars.len()).map(Source::Scalar);
            let sources: ArrayVec<Source, 3> = step.inputs.iter().map(source).chain(own).collect();
            scalars.extend(step.scalars.iter().copied());
            let made = Step::new(step.kind, &sources);
            steps.push(if step.is_row { made.of_rows() } else { made });
        }
        let mut bits = [0; MAX_SCALARS];
        bits[..scalars.len()].copy_from_slice(&scalars);
        let reduction = self.reduction.as_ref().filter(|_| count > self.steps.len());
        let ending = reduction.map(|reduction| reduction.ending(source(&reduction.input)));
        let program = Program::new(&steps, &outputs, ending)
            .ended_by_rows(self.view.expect("a run has begun").shape().rank());
        RegionOp { op: Op::Fused { program, scalars: bits }, reads, outputs, is_of_rows: false }
    }
}
