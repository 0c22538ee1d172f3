//! Reductions of rows in the middle of a run, on a GPU. The sum, mean or maximum of each row is a step like others, so that a
//! softmax or a layer norm is one op: a block of threads reads a row once, and what the norm computes in between is never in
//! memory. Steps of one value for each row follow it: the root of a variance. A later step of whole tensors reads such a value
//! as the program sees it, repeated along the row.

use super::run::{FusionRun, StepOp, WaitingStep};
use super::shelf::Shelf;
use super::tensor::{FusionTarget, FusionTensor, Promise, TensorMaker};
use super::threads::ThreadRuns;
use crate::engine::aligned;
use crate::error::Error;
use crate::op::{Inputs, Op, Reduce, StepKind, StepScalars, View, lower};

/// The shortest row that the threads of a block share.
const MIN_ROW: usize = 128;

/// The view of one value for each row of a tensor: its last dimension is one. Nothing if the rows are short.
fn of_rows(whole: &View) -> Option<View> {
    let last = whole.shape().rank().checked_sub(1).filter(|&last| whole.shape()[last] >= MIN_ROW)?;
    Some(View::contiguous(whole.dtype, whole.shape().with(last, 1)))
}

/// A view of one value for each row in the place of one that repeats it along the row.
pub(super) fn one_of_each_row(view: &View) -> View {
    let last = view.shape().rank() - 1;
    View { layout: view.layout.slice(last, 0, 1, 1), ..*view }
}

impl<T: FusionTensor> FusionRun<T> {
    /// What a step makes that has one value for each row.
    pub(super) fn row_view(&self) -> View {
        self.view.as_ref().and_then(of_rows).expect("a run with such steps has long rows")
    }

    /// Whether rows are reduced on the way.
    pub(super) fn has_rows(&self) -> bool {
        self.steps.iter().any(|step| step.is_row)
    }

    /// What a step makes.
    pub(super) fn made_by(&self, step: &WaitingStep<T>) -> View {
        if step.is_row { self.row_view() } else { self.view.expect("a run has begun") }
    }

    /// Whether a step here makes one value for each row, which the tensor repeats along it.
    pub(super) fn has_repeated(&self, tensor: &T) -> bool {
        let is_row = |at: usize| self.steps[at].is_row;
        self.step_of(tensor).is_some_and(is_row)
            && self
                .view
                .is_some_and(|whole| tensor.view().layout == self.row_view().layout.expand(*whole.shape()))
    }

    /// Whether the step makes one value for each row, of such values, in a run that has some.
    pub(super) fn is_of_rows(&self, step: &StepOp, tensors: &[T]) -> bool {
        let Some(row) = self.view.as_ref().and_then(of_rows).filter(|_| self.has_rows()) else {
            return false;
        };
        step.made.dtype == row.dtype
            && step.made.shape().count() == row.shape().count()
            && !step.depends_on_place()
            && tensors.iter().all(|tensor| tensor.is_flat(&row))
    }

    /// A tensor of one value for each row, repeated along it.
    pub(super) fn repeated(&self, tensor: T) -> T {
        let whole = self.view.expect("a run has begun");
        let layout =
            tensor.view().layout.reshape(*self.row_view().shape()).expect("what is contiguous has any shape");
        tensor.with_layout(layout.expand(*whole.shape()))
    }

    /// The values of a step, one for each row, as a result on the shelf reads them.
    pub(super) fn row_result(&mut self, maker: &T::Maker, at: usize) -> T {
        let promised = self.steps[at].promise.tensor().unwrap_or_else(|| {
            let promised = maker.promise(self.row_view());
            self.steps[at].promise = Promise::of(&promised);
            promised
        });
        self.repeated(promised)
    }

    /// Takes the reduction of a tensor's rows in as the next step.
    fn push_row(&mut self, maker: &T::Maker, shelf: &Shelf<T>, kind: Reduce, tensor: T) -> T {
        let (made, row) = (of_rows(tensor.view()).expect("its rows are long"), self.row_view());
        let op = Op::Reduce { kind, axis: row.shape().rank() - 1 };
        let step = StepOp::new(op, StepKind::Row(kind), StepScalars::new(), made);
        self.push(maker, shelf, step, [tensor].into_iter())
    }
}

impl<T: FusionTensor> ThreadRuns<T> {
    /// Takes the reduction of a tensor's rows in as a step; returns the promise of its result, or nothing if that cannot be.
    pub(super) fn reduce_rows(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        (kind, axis): (Reduce, usize),
        tensors: &mut Inputs<T>,
    ) -> Result<Option<T>, Error> {
        let (view, op) = (*tensors[0].view(), Op::Reduce { kind, axis });
        let Some(row) = of_rows(&view).filter(|_| axis + 1 == view.shape().rank()) else { return Ok(None) };
        let is_dense = view.dtype.is_float() && view.layout.is_contiguous() && view.shape().count() > 0;
        let need_bytes = aligned(view.size_bytes()) + aligned(row.size_bytes());
        let in_pieces = || lower::scratch_bytes(&op, &[view], &op.outputs(&[view])) > 0;
        // Which a run can end in.
        let is_copied = self.current().copy.as_ref().is_some_and(|copy| copy.makes(&tensors[0]));
        if !target.pool.is_gpu() || !is_dense || is_copied || in_pieces() || !target.pool.allows(need_bytes) {
            return Ok(None);
        }
        let whole = StepOp::new(op, StepKind::Row(kind), StepScalars::new(), view);
        let joins = |runs: &Self| {
            let (run, shelf, scopes) = runs.waiting();
            let rows = run.view.as_ref().and_then(of_rows);
            let has_as_many = rows.is_some_and(|rows| rows.shape().count() == row.shape().count());
            has_as_many && run.continues(shelf, &whole, tensors, scopes)
        };
        if !joins(self) {
            if self.lets_pass(&op, tensors) {
                return Ok(None);
            }
            self.end_current(target, tensors)?;
            self.begin(view);
        }
        let (tensor, (run, shelf, _)) = (&tensors[0], self.waiting());
        if tensor.try_id().is_none() && !run.has_whole(shelf, tensor) {
            self.end_run_of(target, tensor)?;
        }
        let tensor = tensors.swap_remove(0);
        let (run, shelf) = self.joined(false);
        Ok(Some(run.push_row(target.maker, shelf, kind, tensor)))
    }

    /// Ends a run that reduces rows, before a reduction of another kind; what that reduces may be computed again.
    pub(super) fn end_rows(&mut self, target: &mut FusionTarget<'_, T>, tensor: &T) -> Result<(), Error> {
        if !self.current().has_rows() || !self.current().promises(tensor) {
            return Ok(());
        }
        self.end_current(target, &[])?;
        let (run, shelf) = self.joined(false);
        let Some(shelved) = shelf.find(tensor) else { return Ok(()) };
        // On the shelf is only what is made outside of all scopes.
        run.begin(Some(shelved.made), 0);
        run.compute_again(shelf, shelved);
        Ok(())
    }
}
