//! A run: the ops of a thread that wait, and the tensors that they read.

use arrayvec::ArrayVec;

use super::deferred::DeferredGradient;
use super::partition::StepInput;
use super::reduction::{FinalReduction, ReducedAxes, WaitingCopy, dims_of_axis, order_of, row_major};
use super::shelf::{Shelf, Shelved};
use super::tensor::{FusionTarget, FusionTensor, Promise, TensorMaker};
use crate::engine::aligned;
use crate::module;
use crate::op::{Dtype, Inputs, MAX_STEPS, Op, Reduce, StepKind, StepScalars, View};
use crate::pool::Pool;

/// An op is submitted before a run if it is this many times smaller.
pub const MIN_RATIO_TO_OVERTAKE: usize = 16;

/// Steps that make at most so many bytes each become one op even if they share no tensor: a launch costs more than the memory
/// that the op needs at once.
pub const MAX_SMALL_BYTES: usize = 64 << 10;

/// An op that waits as a step of a run.
pub struct WaitingStep<T: FusionTensor> {
    pub op: Op,
    pub kind: StepKind,
    pub scalars: StepScalars,
    pub inputs: ArrayVec<StepInput, 2>,
    pub promise: Promise<T>,
    /// Whether the program held the promise when the run was last about to be submitted, and the run is to keep it.
    pub is_held: bool,
    /// Whether the promise is on the shelf: the step is only for others to read.
    pub is_shelved: bool,
    /// Whether it makes one value for each row.
    pub is_row: bool,
}

/// The ops of a thread that are not submitted yet: elementwise ops of one shape and one type of float, and a reduction
/// or a copy of one of their results; or a deferred gradient alone.
pub struct FusionRun<T: FusionTensor> {
    /// What each step makes.
    pub view: Option<View>,
    /// How many checkpointed scopes the thread was in.
    scopes: u32,
    /// The module of the first op that waits.
    module: Option<&'static str>,
    pub steps: Vec<WaitingStep<T>>,
    /// The tensors that the steps read and that no step makes; `None` once no step reads them any more.
    pub externals: Vec<Option<T>>,
    /// A copy in another order, which waits for a reduction of it. It is submitted last.
    pub copy: Option<WaitingCopy<T>>,
    /// The reduction that the run ends in.
    pub reduction: Option<FinalReduction<T>>,
    pub deferred: Option<DeferredGradient<T>>,
}

impl<T: FusionTensor> Default for FusionRun<T> {
    fn default() -> Self {
        FusionRun {
            view: None,
            scopes: 0,
            module: None,
            steps: Vec::new(),
            externals: Vec::new(),
            copy: None,
            reduction: None,
            deferred: None,
        }
    }
}

/// An op that can be a step of a run.
#[derive(Clone, Debug)]
pub struct StepOp {
    op: Op,
    kind: StepKind,
    scalars: StepScalars,
    /// What it makes.
    pub made: View,
}

impl StepOp {
    /// An op that makes this as a step.
    pub fn new(op: Op, kind: StepKind, scalars: StepScalars, made: View) -> Self {
        StepOp { op, kind, scalars, made }
    }

    /// Whether what it makes of an element depends on the element's place.
    pub fn depends_on_place(&self) -> bool {
        self.kind == StepKind::Draw
    }

    /// An op on these tensors as a step, if it can be one.
    pub fn of<T: FusionTensor>(op: &Op, tensors: &[T]) -> Option<Self> {
        let (kind, scalars) = StepKind::of(op)?;
        let made = match (*op, tensors.first()) {
            (Op::Fill { shape, dtype, .. } | Op::Random { shape, dtype, .. }, _) => {
                View::contiguous(dtype, shape)
            }
            (_, first) => View::contiguous(first?.view().dtype, *first?.view().shape()),
        };
        let is_alike = |(place, tensor): (usize, &T)| {
            let is_mask = kind == StepKind::MaskFill && place == 1;
            let dtype = if is_mask { Dtype::Bool } else { made.dtype };
            tensor.view().dtype.stored() == dtype && tensor.view().shape() == made.shape()
        };
        let are_alike = tensors.iter().enumerate().all(is_alike);
        (made.dtype.is_float() && made.shape().count() > 0 && are_alike).then_some(StepOp {
            op: *op,
            kind,
            scalars,
            made,
        })
    }
}

impl<T: FusionTensor> FusionRun<T> {
    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        let has_steps = !self.steps.is_empty() || !self.externals.is_empty();
        !has_steps && self.copy.is_none() && self.reduction.is_none() && self.deferred.is_none()
    }

    /// How many checkpointed scopes the thread was in.
    pub fn scopes(&self) -> u32 {
        self.scopes
    }

    /// The module of the first op.
    pub fn module(&self) -> Option<&'static str> {
        self.module
    }

    /// Whether an op on these tensors, inside this many scopes, can be the next step: what it makes has the shape of
    /// the run, or as many elements in the order of all that it reads.
    pub fn continues(&self, shelf: &Shelf<T>, step: &StepOp, tensors: &[T], scopes: u32) -> bool {
        let is_alike = |whole: &View| {
            let is_flat = whole.dtype == step.made.dtype
                && whole.shape().count() == step.made.shape().count()
                && tensors.iter().all(|tensor| tensor.is_flat(whole));
            *whole == step.made || is_flat || self.is_of_rows(step, tensors)
        };
        let has_room = self.steps.len() + shelf.steps(tensors) < MAX_STEPS;
        // An earlier run decides nothing.
        !self.is_empty()
            && self.view.as_ref().is_some_and(is_alike)
            && self.scopes == scopes
            && has_room
            && !self.is_apart(shelf, tensors)
    }

    /// Whether an op on these tensors would begin another program at the end of a long run, which would then be full before that
    /// program is whole.
    fn is_apart(&self, shelf: &Shelf<T>, tensors: &[T]) -> bool {
        let is_long = self.steps.len() > MAX_STEPS / 2;
        let is_large = self.view.is_some_and(|view| view.size_bytes() > MAX_SMALL_BYTES);
        let is_here = |tensor: &T| {
            self.promises(tensor) || shelf.has(tensor) || self.externals_of(tensor).next().is_some()
        };
        is_long && is_large && !tensors.is_empty() && !tensors.iter().any(is_here)
    }

    /// Begins anew, with steps that make this, if there are to be any.
    pub fn begin(&mut self, view: Option<View>, scopes: u32) {
        debug_assert!(self.is_empty(), "ops that wait are submitted before a run begins");
        (self.view, self.scopes, self.module) = (view, scopes, module::current());
    }

    /// Whether an op that waits here makes the tensor's storage.
    pub fn promises(&self, tensor: &T) -> bool {
        let is_copy = self.copy.as_ref().is_some_and(|copy| copy.makes(tensor));
        let is_deferred = self.deferred.as_ref().is_some_and(|deferred| deferred.makes(tensor));
        is_copy || is_deferred || self.step_of(tensor).is_some()
    }

    /// The step that makes the tensor's storage.
    pub(super) fn step_of(&self, tensor: &T) -> Option<usize> {
        self.steps.iter().position(|step| step.promise.is_for(tensor))
    }

    /// Whether the tensor is the result of a step, or of one on the shelf, seen in the order in which the step makes it.
    pub fn has_whole(&self, shelf: &Shelf<T>, tensor: &T) -> bool {
        let Some(whole) = self.view else { return false };
        let is_whole = |at: usize| tensor.is_flat(&self.made_by(&self.steps[at]));
        self.step_of(tensor).is_some_and(is_whole)
            || self.has_repeated(tensor)
            || shelf.has_whole(tensor, &whole)
    }

    /// An upper bound of [`need_bytes`](FusionRun::need_bytes) that is faster to compute.
    pub fn max_need_bytes(&self, pool: &Pool, tensors: &[T]) -> usize {
        let made_bytes = self.view.map_or(0, |view| view.size_bytes());
        let size_bytes = |tensor: &T| tensor.try_id().map_or(made_bytes, |id| pool.size_bytes(id));
        aligned(made_bytes) + tensors.iter().map(size_bytes).map(aligned).sum::<usize>()
    }

    /// Device memory that an elementwise op on these tensors needs at once if it is submitted by itself.
    pub fn need_bytes(&self, pool: &Pool, made: &View, tensors: &[T]) -> usize {
        let size_bytes = |tensor: &T| tensor.try_id().map_or(made.size_bytes(), |id| pool.size_bytes(id));
        let is_new = |at: &usize| !tensors[..*at].iter().any(|other| other.is_same_storage(&tensors[*at]));
        let read: usize = (0..tensors.len()).filter(is_new).map(|at| aligned(size_bytes(&tensors[at]))).sum();
        let in_place = tensors.iter().any(|tensor| {
            let own = tensors.iter().filter(|other| other.is_same_storage(tensor)).count();
            let seen_whole =
                tensors.iter().all(|other| !other.is_same_storage(tensor) || other.view() == made);
            seen_whole
                && size_bytes(tensor) == made.size_bytes()
                && tensor.handles() == own + self.externals_of(tensor).count()
        });
        read + if in_place { 0 } else { aligned(made.size_bytes()) }
    }

    /// Takes an op in as the next step; returns the promise of its result. An op that is a step already has its result.
    pub fn push(
        &mut self,
        maker: &T::Maker,
        shelf: &Shelf<T>,
        StepOp { op, kind, scalars, made }: StepOp,
        tensors: impl Iterator<Item = T>,
    ) -> T {
        let reduces = matches!(kind, StepKind::Row(_));
        let is_row = reduces || self.view.is_some_and(|whole| whole.shape().count() != made.shape().count());
        let mut inputs = ArrayVec::<StepInput, 2>::new();
        for tensor in tensors {
            let is_repeated = is_row && !reduces && tensor.try_id().is_some();
            let tensor = if is_repeated { self.repeated(tensor) } else { tensor };
            inputs.push(self.step_input(shelf, tensor));
        }
        let promised = maker.promise(made);
        let promise = Promise::of(&promised);
        let is_same =
            |step: &&mut WaitingStep<T>| step.op == op && step.inputs == inputs && step.is_row == is_row;
        if let Some(same) = self.steps.iter_mut().find(is_same) {
            if let Some(promised) = same.promise.tensor() {
                return promised.with_layout(made.layout);
            }
            (same.promise, same.is_shelved) = (promise, false);
            return promised;
        }
        let step =
            WaitingStep { op, kind, scalars, inputs, promise, is_held: true, is_shelved: false, is_row };
        self.steps.push(step);
        promised
    }

    /// A tensor as a step reads it.
    pub(super) fn step_input(&mut self, shelf: &Shelf<T>, tensor: T) -> StepInput {
        if let Some(step) = self.step_of(&tensor) {
            return StepInput::Step(step as u8);
        }
        if let Some(shelved) = shelf.find(&tensor) {
            return StepInput::Step(self.compute_again(shelf, shelved));
        }
        let tensor = self.in_shape(tensor);
        let is_same = |external: &Option<T>| {
            let external = external.as_ref();
            external
                .is_some_and(|external| external.is_same_storage(&tensor) && external.view() == tensor.view())
        };
        let place = self.externals.iter().position(is_same).unwrap_or_else(|| {
            self.externals.push(Some(tensor));
            self.externals.len() - 1
        });
        StepInput::External(place as u8)
    }

    /// Adds the steps that compute a result on the shelf, but for those that are there; returns the place of the last.
    pub(super) fn compute_again(&mut self, shelf: &Shelf<T>, shelved: &Shelved<T>) -> u8 {
        let inputs: ArrayVec<StepInput, 2> =
            shelved.inputs.iter().map(|tensor| self.step_input(shelf, tensor.clone())).collect();
        let Shelved { op, kind, .. } = *shelved;
        let is_same = |step: &WaitingStep<T>| step.op == op && step.inputs == inputs && !step.is_row;
        if let Some(same) = self.steps.iter().position(is_same) {
            return same as u8;
        }
        let (scalars, promise) = (shelved.scalars.clone(), shelved.promise.clone());
        let (is_held, is_shelved, is_row) = (false, true, false);
        self.steps.push(WaitingStep { op, kind, scalars, inputs, promise, is_held, is_shelved, is_row });
        self.steps.len() as u8 - 1
    }

    /// The tensor in the run's shape, if its elements lie in the run's order.
    pub fn in_shape(&self, tensor: T) -> T {
        let whole = self.view.expect("a run has begun");
        if !tensor.is_flat(&whole) {
            return tensor;
        }
        let layout = tensor.view().layout.reshape(*whole.shape()).expect("what is contiguous has any shape");
        tensor.with_layout(layout)
    }

    /// The external tensor in a place.
    pub fn external(&self, place: u8) -> &T {
        self.externals[place as usize].as_ref().expect("a tensor is held until no step reads it")
    }

    /// The places of the external tensors that share a tensor's storage, through whichever view.
    pub fn externals_of(&self, tensor: &T) -> impl Iterator<Item = u8> {
        let places = (0..).zip(&self.externals);
        places
            .filter(|(_, external)| {
                external.as_ref().is_some_and(|external| external.is_same_storage(tensor))
            })
            .map(|(place, _)| place)
    }

    /// Whether an op may be submitted before the run: it reads nothing of the run, and is small beside it or a gradient
    /// that the deferred one waits for.
    pub fn lets_pass(&self, op: &Op, tensors: &[T]) -> bool {
        if self.is_empty() {
            return false;
        }
        let deferred = self.deferred.as_ref();
        let view = self.view.as_ref().or(deferred.map(DeferredGradient::view));
        let max_bytes = view.map_or(0, |view| view.size_bytes() / MIN_RATIO_TO_OVERTAKE);
        let read: Inputs<View> = tensors.iter().map(|tensor| *tensor.view()).collect();
        let is_small = |views: &[View]| views.iter().map(View::size_bytes).sum::<usize>() <= max_bytes;
        !tensors.iter().any(|tensor| self.promises(tensor))
            && (deferred.is_some_and(|deferred| deferred.waits_for(op, tensors))
                || is_small(&read) && is_small(&op.outputs(&read)))
    }

    /// Whether a copy of this tensor can wait at the end of the run.
    pub fn can_copy(&self, tensor: &T) -> bool {
        let order = self.step_of(tensor).and_then(|_| order_of(&self.view?, tensor.view()));
        self.copy.is_none() && order.is_some()
    }

    /// Takes a copy in, to be submitted last; returns the promise of its result.
    pub fn copy(&mut self, maker: &T::Maker, op: Op, from: T) -> T {
        debug_assert!(self.copy.is_none(), "at most one copy waits");
        let (copy, promised) = WaitingCopy::new(maker, op, from);
        self.copy = Some(copy);
        promised
    }

    /// Takes a gradient in as the only op, to be submitted after others; returns the promise of its result.
    pub fn defer(&mut self, maker: &T::Maker, op: Op, inputs: Inputs<T>, scopes: u32) -> T {
        let (deferred, promised) = DeferredGradient::new(maker, op, inputs);
        self.begin(None, scopes);
        self.deferred = Some(deferred);
        promised
    }

    /// Takes a reduction of the tensor in as the run's end, if it can be: returns the promise of its result, or else
    /// the tensor.
    #[allow(clippy::result_large_err, reason = "the tensor goes back to where it came from")]
    pub fn reduce(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        shelf: &Shelf<T>,
        (kind, axis): (Reduce, usize),
        tensor: T,
    ) -> Result<T, T> {
        let axes = self.reduced_axes(axis, &tensor).filter(|_| !self.has_rows());
        let (Some(axes), Some(whole)) = (axes, self.view) else { return Err(tensor) };
        let view = View::contiguous(tensor.view().dtype, tensor.view().shape().with(axis, 1));
        let (mut reduction, promised) = FinalReduction::new(target.maker, kind, axes, [whole, view]);
        if !target.pool.allows(aligned(whole.size_bytes()) + reduction.need_bytes) {
            return Err(tensor);
        }
        let copy = self.copy.take_if(|copy| copy.makes(&tensor));
        reduction.input = self.step_input(shelf, copy.map_or(tensor, WaitingCopy::into_from));
        self.reduction = Some(reduction);
        Ok(promised)
    }

    /// Which of the run's values a reduction of this tensor along an axis adds up, and in which order; `None` if the run
    /// cannot end in it.
    fn reduced_axes(&self, axis: usize, tensor: &T) -> Option<ReducedAxes> {
        let (whole, view) = (self.view?, tensor.view());
        let shape = view.shape();
        let is_whole = view.layout.is_contiguous() && shape.count() == whole.shape().count();
        let copy = self.copy.as_ref().filter(|copy| copy.makes(tensor));
        let order = match copy {
            // The copy is needed elsewhere too, so it is made.
            Some(_) if tensor.handles() > 1 => return None,
            Some(copy) if copy.from().try_id().is_none() => order_of(&whole, copy.from().view())?,
            Some(_) => row_major(),
            None => self.step_of(tensor).map(|_| row_major())?,
        };
        let dims: Vec<usize> =
            order[..whole.shape().rank()].iter().map(|&at| whole.shape()[at as usize]).collect();
        let range = dims_of_axis(&dims, shape, axis).filter(|_| is_whole)?;
        Some(ReducedAxes { order, range })
    }
}
