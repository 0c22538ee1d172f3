//! Runs of elementwise ops, which are fused into few ops.
//!
//! Elementwise ops of floats that a thread asks for one after the other, of one shape and type, are not submitted at
//! once. Each returns a *promise*, a handle without a storage. When the run ends, steps whose results nobody needs are
//! left out, and the rest is submitted as few `Op::Fused`: programs of at most 16 steps, 8 inputs, 4 outputs and 8
//! scalars, by value in the op. Scalars lie apart from the steps, so that those that change from step to step make no
//! new template. To the pool a fused op is an op like others.
//!
//! - *A run ends* with an op that does not belong to it, a reduction, a read or anything else that is asked of the
//!   device, another checkpointed scope, 16 ops, or when another thread needs what was promised to it. All of that
//!   follows from program order, not from time or free memory.
//! - *Which steps become one op* is decided in `segments`; a step that stays alone is submitted as the op that was
//!   asked for. `ending` has the reductions that a run can end in. The gradient of a convolution's input waits in the
//!   same place (`defer`).
//! - *An op that is small beside a run*, with at most a sixteenth of its bytes, and that reads nothing of it, goes
//!   ahead of it: what a norm computes for each channel does not end the run over its image.
//! - *The budget* allows a fused op what its steps need. Where the op does not fit as a whole, its steps run one by
//!   one, by the same kernel. So the smallest budget is that of the steps, and an op that does not fit by itself is
//!   refused when it is asked for.
//! - *Inputs are held by the run.* An input that the program drops meanwhile is consumed by the last op that reads it,
//!   through whatever views it was read before. So a step takes no more memory in a run than it was said to need.
//! - *An error* (of the engine, or a full host tier) comes with the call that ends the run. Steps that were not
//!   submitted wait on with their inputs, and are tried again when the run next ends, unless their handles are gone by
//!   then.
//! - *The bits* are those of the ops by themselves: each step rounds to the element type (`kernels/fused.cu`, which
//!   interprets a program, 256 elements at a time on the host and one on the device). The exception is a NaN's sign on
//!   the host: a sum of two NaN has that of the first, and which is the first is the compiler's choice.
//! - *Not steps* are functions that take many registers, which all programs would pay for; the gradient of a rectifier,
//!   which by itself can read signs; clamps, comparisons, masks, casts and integers.
//! - *The name* of a fused op is `fused`, `fused_sum` or `fused_mean` by what it ends in, or `fused_add` if it adds two
//!   tensors, which can be the end of a branch, by which layers are found.
//!
//! `Config::fusion` turns runs on and off. Without it, a device whose memory is fast for its arithmetic fuses only ops
//! on whole tensors in order, without reductions. Decision record 38 has the reasons.

use std::sync::{Arc, Weak};

use arrayvec::ArrayVec;

use super::defer::Deferred;
use super::ending::{Copied, End, keep};
use super::segments::{self, Given, MOST_STEPS, Operand};
use super::tensor::Handle;
use super::{Runtime, Tensor};
use crate::engine::aligned;
use crate::error::Error;
use crate::op::{
    Dtype, Inputs, MAX_FUSED_INPUTS, MAX_FUSED_OUTPUTS, MAX_SCALARS, MAX_STEPS, Op, Program, Scalar, Shape,
    Source, Step, StepKind, View,
};
use crate::pool::{Input, Pool};

/// The most tensors from outside that there are in a run: two for each step, and what was made of those that are done.
pub const MOST_GIVEN: usize = 3 * MAX_STEPS;

/// An op that can be a step.
#[derive(Debug)]
pub(super) struct Pending {
    op: Op,
    kind: StepKind,
    scalar: Option<Scalar>,
    operands: ArrayVec<Operand, 2>,
    /// The handle of what it makes.
    made: Weak<Handle>,
    /// Whether it existed when that was last asked.
    kept: bool,
}

/// The ops of a thread that are not submitted yet: elementwise, of one shape and one type of float.
#[derive(Debug, Default)]
pub struct Run {
    pub(super) view: Option<View>,
    /// Checkpointed scopes that the thread was in.
    scopes: u32,
    pub(super) steps: Vec<Pending>,
    /// What they read of other ops; nothing where that is done.
    pub(super) given: Vec<Option<Tensor>>,
    /// A copy in another order, which waits for a reduction of it, and is submitted last.
    pub(super) copied: Option<Copied>,
    /// The reduction that it ends in.
    pub(super) end: Option<End>,
    /// An op that waits instead of all that.
    pub(super) deferred: Option<Deferred>,
}

/// What a step computes, and its scalar, if it has one.
pub type AsStep = (StepKind, Option<Scalar>);

/// How an op on these tensors could be a step of a run.
pub fn as_step(op: &Op, tensors: &[Tensor]) -> Option<AsStep> {
    let (dtype, shape): (Dtype, &Shape) = (tensors.first()?.dtype(), tensors[0].shape());
    let alike = tensors.iter().all(|tensor| tensor.dtype() == dtype && tensor.shape() == shape);
    (alike && dtype.is_float() && shape.count() > 0).then(|| StepKind::of(op)).flatten()
}

/// Whether two tensors are of one storage.
fn is_same(a: &Tensor, b: &Tensor) -> bool {
    Arc::ptr_eq(a.handle(), b.handle())
}

/// A program of one step, for engines that get ready for programs.
pub fn sample() -> Op {
    let kind = StepKind::Unary(crate::op::Unary::Neg);
    let step = Step { kind, sources: [Source::Input(0); 2] };
    Op::Fused { program: Program::new(&[step], &[0], None), scalars: [0; MAX_SCALARS] }
}

impl Run {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        let has_steps = !self.steps.is_empty() || !self.given.is_empty();
        !has_steps && self.copied.is_none() && self.end.is_none() && self.deferred.is_none()
    }

    /// The scopes that it was collected in.
    pub fn scopes(&self) -> u32 {
        self.scopes
    }

    /// Whether an op that makes this, in so many scopes, can be the next step.
    pub fn continues(&self, view: &View, scopes: u32) -> bool {
        self.view.as_ref() == Some(view) && self.scopes == scopes && self.steps.len() < MAX_STEPS
    }

    /// Begins anew, with steps that make this, if any.
    pub fn begin(&mut self, view: Option<View>, scopes: u32) {
        debug_assert!(self.is_empty(), "what waits is submitted before");
        (self.view, self.scopes) = (view, scopes);
    }

    /// Whether one of its steps is to make the tensor's storage.
    pub fn promises(&self, tensor: &Tensor) -> bool {
        let is_copied = self.copied.as_ref().is_some_and(|copied| copied.makes(tensor));
        let is_deferred = self.deferred.as_ref().is_some_and(|deferred| deferred.makes(tensor));
        is_copied || is_deferred || self.step_of(tensor).is_some()
    }

    pub(super) fn step_of(&self, tensor: &Tensor) -> Option<usize> {
        let handle = Arc::as_ptr(tensor.handle());
        self.steps.iter().position(|step| step.made.as_ptr() == handle)
    }

    /// Whether the tensor is what a step makes, as it makes it.
    pub fn has_whole(&self, tensor: &Tensor) -> bool {
        self.view.as_ref() == Some(tensor.view()) && self.step_of(tensor).is_some()
    }

    /// No less than [`need_bytes`](Run::need_bytes), and sooner known.
    pub fn most_bytes(&self, pool: &Pool, tensors: &[Tensor]) -> usize {
        let made_bytes = self.view.map_or(0, |view| view.size_bytes());
        let size_bytes = |tensor: &Tensor| tensor.try_id().map_or(made_bytes, |id| pool.size_bytes(id));
        aligned(made_bytes) + tensors.iter().map(size_bytes).map(aligned).sum::<usize>()
    }

    /// Device memory that the op needs at once, submitted by itself.
    pub fn need_bytes(&self, pool: &Pool, tensors: &[Tensor]) -> usize {
        let made = View::contiguous(tensors[0].dtype(), *tensors[0].shape());
        let size_bytes =
            |tensor: &Tensor| tensor.try_id().map_or(made.size_bytes(), |id| pool.size_bytes(id));
        let is_new = |at: &usize| !tensors[..*at].iter().any(|other| is_same(other, &tensors[*at]));
        let read: usize = (0..tensors.len()).filter(is_new).map(|at| aligned(size_bytes(&tensors[at]))).sum();
        let in_place = tensors.iter().any(|tensor| {
            let own = tensors.iter().filter(|other| is_same(other, tensor)).count();
            let seen_whole = tensors.iter().all(|other| !is_same(other, tensor) || *other.view() == made);
            seen_whole
                && size_bytes(tensor) == made.size_bytes()
                && tensor.handles() == own + self.waiting(tensor).count()
        });
        read + if in_place { 0 } else { aligned(made.size_bytes()) }
    }

    /// Takes an op in as the next step; returns what it is to make.
    pub fn push(
        &mut self,
        runtime: &Arc<Runtime>,
        op: Op,
        (kind, scalar): AsStep,
        tensors: impl Iterator<Item = Tensor>,
    ) -> Tensor {
        let made = Tensor::promised(runtime.clone(), self.view.expect("a run has begun"));
        let operands = tensors.map(|tensor| self.operand(tensor)).collect();
        self.steps.push(Pending {
            op,
            kind,
            scalar,
            operands,
            made: Arc::downgrade(made.handle()),
            kept: true,
        });
        made
    }

    pub(super) fn operand(&mut self, tensor: Tensor) -> Operand {
        if let Some(step) = self.step_of(&tensor) {
            return Operand::Step(step as u8);
        }
        let same = |given: &Option<Tensor>| {
            let given = given.as_ref();
            given.is_some_and(|given| is_same(given, &tensor) && given.view() == tensor.view())
        };
        let place = self.given.iter().position(same).unwrap_or_else(|| {
            self.given.push(Some(tensor));
            self.given.len() - 1
        });
        Operand::Given(place as u8)
    }

    /// Submits what is wanted of the run. After an error, what could not be submitted is still there, and is tried again when
    /// the run next ends.
    pub fn submit(&mut self, runtime: &Arc<Runtime>, pool: &mut Pool) -> Result<(), Error> {
        self.submit_deferred(runtime, pool)?;
        loop {
            self.forget_unwanted();
            if self.steps.is_empty() && self.end.is_none() {
                self.submit_copied(runtime, pool)?;
                self.given.clear();
                return Ok(());
            }
            match self.first_segment() {
                1 => self.submit_first(runtime, pool, 1, !self.steps.is_empty())?,
                count if self.fits(pool, count) => self.submit_first(runtime, pool, count, false)?,
                // By the kernel that would have run them together: an op's own may give a NaN another sign.
                count => (0..count).try_for_each(|_| self.submit_first(runtime, pool, 1, false))?,
            }
        }
    }

    /// Leaves out steps whose values nobody can ask for, and what only these read.
    fn forget_unwanted(&mut self) {
        let mut wanted = [false; MAX_STEPS];
        let mut read = [false; MOST_GIVEN];
        self.end.take_if(|end| !end.is_wanted());
        self.copied.take_if(|copied| !copied.is_wanted());
        match self.end.as_ref().map(|end| end.operand) {
            Some(Operand::Given(place)) => read[place as usize] = true,
            Some(Operand::Step(place)) => wanted[place as usize] = true,
            None => {}
        }
        for (at, step) in self.steps.iter_mut().enumerate().rev() {
            step.kept = step.made.strong_count() > 0;
            wanted[at] |= step.kept;
            if !wanted[at] {
                continue;
            }
            for operand in &step.operands {
                match *operand {
                    Operand::Given(place) => read[place as usize] = true,
                    Operand::Step(place) => wanted[place as usize] = true,
                }
            }
        }
        let unread = self.given.iter_mut().zip(read).filter(|(_, read)| !read);
        unread.for_each(|(given, _)| *given = None);
        if wanted[..self.steps.len()].iter().all(|wanted| *wanted) {
            return;
        }
        let place_of = |step: u8| wanted[..step as usize].iter().filter(|wanted| **wanted).count() as u8;
        self.operands().for_each(|operand| {
            if let Operand::Step(place) = operand {
                *place = place_of(*place);
            }
        });
        let mut wanted = wanted.iter();
        self.steps.retain(|_| wanted.next() == Some(&true));
    }

    /// What its steps and its end read.
    fn operands(&mut self) -> impl Iterator<Item = &mut Operand> {
        let end = self.end.iter_mut().map(|end| &mut end.operand);
        self.steps.iter_mut().flat_map(|step| &mut step.operands).chain(end)
    }

    /// Whether what it ends in, or a step after the first `count`, reads this.
    fn reads_after(&self, count: usize, operand: Operand) -> bool {
        let end = self.end.as_ref().filter(|_| count <= self.steps.len());
        let mut steps = self.steps.iter().skip(count);
        steps.any(|step| step.operands.contains(&operand)) || end.is_some_and(|end| end.operand == operand)
    }

    /// How many of the first steps, with what they end in, are to be one op.
    fn first_segment(&self) -> usize {
        if self.steps.len() + usize::from(self.end.is_some()) == 1 {
            return 1;
        }
        let view = self.view.expect("a run has begun");
        let given: ArrayVec<Given, MOST_GIVEN> = (self.given.iter())
            .map(|tensor| {
                let tensor = tensor.as_ref();
                let is_large = |tensor: &Tensor| tensor.view().distinct_bytes() >= view.size_bytes();
                let goes = |tensor: &Tensor| *tensor.view() == view && tensor.handles() == 1;
                Given { is_large: tensor.is_some_and(is_large), goes: tensor.is_some_and(goes) }
            })
            .collect();
        let steps = self.steps.iter().map(|step| segments::Step {
            operands: step.operands.clone(),
            has_scalar: step.scalar.is_some(),
            kept: step.kept,
            reduces: false,
        });
        let end = self.end.iter().map(|end| segments::Step {
            operands: [end.operand].into_iter().collect(),
            has_scalar: false,
            kept: true,
            reduces: true,
        });
        let steps: ArrayVec<segments::Step, MOST_STEPS> = steps.chain(end).collect();
        segments::first(&steps, &given)
    }

    /// Whether a handle or a step after the first `count` wants what a step makes.
    fn outlives(&self, at: usize, count: usize) -> bool {
        self.steps[at].kept || self.reads_after(count, Operand::Step(at as u8))
    }

    /// What the first `count` steps read, and what they end in.
    fn operands_of(&self, count: usize) -> impl Iterator<Item = Operand> {
        let end = self.end.iter().filter(move |_| count > self.steps.len()).map(|end| end.operand);
        self.steps.iter().take(count).flat_map(|step| step.operands.iter().copied()).chain(end)
    }

    /// Of the first `count` steps those whose values are written.
    fn outputs(&self, count: usize) -> ArrayVec<u8, MAX_FUSED_OUTPUTS> {
        let steps = 0..count.min(self.steps.len());
        steps.filter(|&at| self.outlives(at, count)).map(|at| at as u8).collect()
    }

    /// The tensors from outside that the first `count` steps read, each once.
    fn inputs(&self, count: usize) -> ArrayVec<u8, MAX_FUSED_INPUTS> {
        let mut inputs = ArrayVec::new();
        for operand in self.operands_of(count) {
            if let Operand::Given(place) = operand
                && !inputs.contains(&place)
            {
                inputs.push(place);
            }
        }
        inputs
    }

    /// The places of the tensors from outside that are of a tensor's storage, through whatever view.
    fn waiting(&self, tensor: &Tensor) -> impl Iterator<Item = u8> {
        let places = (0..).zip(&self.given);
        places
            .filter(|(_, given)| given.as_ref().is_some_and(|given| is_same(given, tensor)))
            .map(|(place, _)| place)
    }

    /// Whether nothing wants a tensor's storage after the first `count` steps, through whatever view.
    fn is_done_with(&self, count: usize, tensor: &Tensor) -> bool {
        let is_later = |place| self.reads_after(count, Operand::Given(place));
        tensor.handles() == self.waiting(tensor).count() && !self.waiting(tensor).any(is_later)
    }

    fn given(&self, place: u8) -> &Tensor {
        self.given[place as usize].as_ref().expect("what a step reads is there until it is done")
    }

    /// Whether the first `count` steps are as one op within the budget, which they are one by one.
    fn fits(&self, pool: &Pool, count: usize) -> bool {
        let inputs = self.inputs(count);
        let ids: ArrayVec<_, MAX_FUSED_INPUTS> = inputs.iter().map(|&place| self.given(place).id()).collect();
        let distinct = (0..ids.len()).filter(|&at| !ids[..at].contains(&ids[at]));
        let read: usize = distinct.map(|at| aligned(pool.size_bytes(ids[at]))).sum();
        let view = self.view.expect("a run has begun");
        let made = self.outputs(count).len() * aligned(view.size_bytes());
        let end = self.end.as_ref().filter(|_| count > self.steps.len());
        read + made + end.map_or(0, |end| end.need_bytes(&view)) <= pool.budget_bytes()
    }

    /// Submits the first `count` steps as one op: as a program, or the only one as its own op, where `alone`.
    fn submit_first(
        &mut self,
        runtime: &Arc<Runtime>,
        pool: &mut Pool,
        count: usize,
        alone: bool,
    ) -> Result<(), Error> {
        let outputs = self.outputs(count);
        let (op, read) =
            if alone { (self.steps[0].op, self.operands_alone()) } else { self.fused(count, &outputs) };
        let inputs: Inputs<Input> = (read.iter().enumerate())
            .map(|(at, &place)| {
                let tensor = self.given(place);
                let is_last = !read[at + 1..].iter().any(|&other| is_same(self.given(other), tensor));
                let consumed = is_last && self.is_done_with(count, tensor);
                Input { id: tensor.id(), view: *tensor.view(), consumed }
            })
            .collect();
        let (made, after) = pool.run_or_keep(&op, &inputs)?;
        for (&place, input) in read.iter().zip(&inputs) {
            // The pool has it.
            if input.consumed {
                self.hand_over(place);
            }
        }
        let view = self.view.expect("a run has begun");
        let mut made = made.into_iter();
        for (&at, id) in outputs.iter().zip(&mut made) {
            let tensor = keep(&self.steps[at as usize].made, runtime, id, view);
            self.passes_on(at, count, tensor);
        }
        if let Some(id) = made.next()
            && let Some(end) = self.end.take()
        {
            end.keep(runtime, id);
        }
        let count = count.min(self.steps.len());
        self.steps.drain(..count);
        for operand in self.operands() {
            if let Operand::Step(place) = operand {
                *place -= count as u8;
            }
        }
        let planned = runtime.plan_what_was_learned(pool);
        after.and(planned)
    }

    /// The pool has the last handle of a tensor's storage.
    fn hand_over(&mut self, place: u8) {
        let tensor = self.given(place).clone();
        let places: ArrayVec<u8, MOST_GIVEN> = self.waiting(&tensor).collect();
        places.into_iter().for_each(|place| self.given[place as usize] = None);
        tensor.into_input();
    }

    /// What the first step reads, as its own op is given it.
    fn operands_alone(&self) -> ArrayVec<u8, MAX_FUSED_INPUTS> {
        let place = |operand: &Operand| match *operand {
            Operand::Given(place) => place,
            Operand::Step(_) => unreachable!("no step is before the first"),
        };
        self.steps[0].operands.iter().map(place).collect()
    }

    /// The first `count` steps as one op, and what it reads.
    fn fused(&self, count: usize, outputs: &[u8]) -> (Op, ArrayVec<u8, MAX_FUSED_INPUTS>) {
        let inputs = self.inputs(count);
        let mut scalars = ArrayVec::<u64, MAX_SCALARS>::new();
        let mut steps = ArrayVec::<Step, MAX_STEPS>::new();
        let source = |operand: &Operand| match *operand {
            Operand::Step(place) => Source::Step(place),
            Operand::Given(place) => {
                let at = inputs.iter().position(|&other| other == place);
                Source::Input(at.expect("it is among the inputs") as u8)
            }
        };
        for step in self.steps.iter().take(count) {
            let first = source(&step.operands[0]);
            let second = match (step.operands.get(1), step.scalar) {
                (Some(operand), _) => source(operand),
                (None, None) => first,
                (None, Some(value)) => {
                    scalars.push(value.as_f64().to_bits());
                    Source::Scalar(scalars.len() as u8 - 1)
                }
            };
            steps.push(Step { kind: step.kind, sources: [first, second] });
        }
        let mut bits = [0; MAX_SCALARS];
        bits[..scalars.len()].copy_from_slice(&scalars);
        let end = self.end.as_ref().filter(|_| count > self.steps.len());
        let ending = end.map(|end| end.ending(source(&end.operand)));
        (Op::Fused { program: Program::new(&steps, outputs, ending), scalars: bits }, inputs)
    }

    /// Steps after the first `count` read this tensor for what step `at` made.
    fn passes_on(&mut self, at: u8, count: usize, tensor: Tensor) {
        let place = self.given.len() as u8;
        let mut is_read = false;
        let is_later = count <= self.steps.len();
        let end = self.end.iter_mut().filter(|_| is_later).map(|end| &mut end.operand);
        let steps = self.steps.iter_mut().skip(count).flat_map(|step| &mut step.operands);
        for operand in steps.chain(end) {
            if *operand == Operand::Step(at) {
                (*operand, is_read) = (Operand::Given(place), true);
            }
        }
        if is_read {
            self.given.push(Some(tensor));
        }
    }
}
