//! A run can end in a sum, mean or maximum of what one of its steps makes, or of a copy of that in another order of dimensions.
//! Values are reduced as they are made, in the order in which a reduction of the stored values adds them, so that the
//! bits are the same and neither the values nor the copy need memory. Burn's batch norm sums each channel over all
//! images through such a copy. Values that are needed elsewhere as well are written to their own storage.

use super::partition::StepInput;
use super::tensor::{FusionTarget, FusionTensor, Promise, TensorMaker};
use crate::engine::aligned;
use crate::error::Error;
use crate::op::{Ending, MAX_RANK, MAX_SCALARS, Op, Program, Reduce, Shape, Source, View, lower};
use crate::pool::StorageId;

/// A copy of a tensor in another order. It waits for a reduction of it.
pub struct WaitingCopy<T: FusionTensor> {
    op: Op,
    from: T,
    promise: Promise<T>,
}

impl<T: FusionTensor> WaitingCopy<T> {
    /// A copy of a tensor, and the tensor that is promised for it.
    pub fn new(maker: &T::Maker, op: Op, from: T) -> (Self, T) {
        let promised = maker.promise(View::contiguous(from.view().dtype, *from.view().shape()));
        (WaitingCopy { op, from, promise: Promise::of(&promised) }, promised)
    }

    /// The tensor that is copied.
    pub fn from(&self) -> &T {
        &self.from
    }

    /// The tensor that is copied, in place of the copy.
    pub fn into_from(self) -> T {
        self.from
    }

    /// Whether it makes the tensor's storage.
    pub fn makes(&self, tensor: &T) -> bool {
        self.promise.is_for(tensor)
    }

    /// Whether the program can still ask for it.
    pub fn is_wanted(&self) -> bool {
        self.promise.is_wanted()
    }

    /// Submits the copy that waits here, if there is one. After an error it still waits.
    pub fn submit(waiting: &mut Option<Self>, target: &mut FusionTarget<'_, T>) -> Result<(), Error> {
        let Some(WaitingCopy { op, from, .. }) = waiting else { return Ok(()) };
        let view = View::contiguous(from.view().dtype, *from.view().shape());
        let input = from.as_input(from.handles() == 1);
        let (made, after) = target.pool.run_or_keep(op, std::slice::from_ref(&input))?;
        if let Some(WaitingCopy { from, promise, .. }) = waiting.take() {
            if input.consumed {
                // The pool owns it now, so its handle goes without a release.
                from.into_input();
            }
            made.into_iter().for_each(|id| drop(promise.keep(target.maker, id, view)));
        }
        let planned = target.maker.after_op(target.pool);
        after.and(planned)
    }
}

/// Which values a reduction adds up, of those that a run makes in row-major order.
#[derive(Clone, Copy, Debug)]
pub struct ReducedAxes {
    /// The run's dimensions in the order of the tensor that is reduced.
    pub order: [u8; MAX_RANK],
    /// Where in that order the reduced dimensions begin and end.
    pub range: [u8; 2],
}

/// The reduction that a run ends in.
pub struct FinalReduction<T: FusionTensor> {
    kind: Reduce,
    axes: ReducedAxes,
    /// What it reads.
    pub input: StepInput,
    promise: Promise<T>,
    view: View,
    /// Device memory for its result and workspace.
    pub need_bytes: usize,
}

impl<T: FusionTensor> FinalReduction<T> {
    /// A reduction of such values that makes this, and the tensor that is promised for it.
    pub fn new(maker: &T::Maker, kind: Reduce, axes: ReducedAxes, [whole, view]: [View; 2]) -> (Self, T) {
        let promised = maker.promise(view);
        let promise = Promise::of(&promised);
        let mut reduction =
            FinalReduction { kind, axes, input: StepInput::Step(0), promise, view, need_bytes: 0 };
        let program = Program::new(&[], &[], Some(reduction.ending(Source::Input(0))));
        let op = Op::Fused { program, scalars: [0; MAX_SCALARS] };
        let scratch_bytes = lower::scratch_bytes(&op, &[whole], &op.outputs(&[whole]));
        reduction.need_bytes = aligned(view.size_bytes()) + aligned(scratch_bytes);
        (reduction, promised)
    }

    /// Whether the program can still ask for it.
    pub fn is_wanted(&self) -> bool {
        self.promise.is_wanted()
    }

    /// The end of a program that reduces these values.
    pub fn ending(&self, source: Source) -> Ending {
        Ending { kind: self.kind, source, order: self.axes.order, reduced: self.axes.range }
    }

    /// Keeps the promise, now that the storage exists.
    pub fn keep(self, maker: &T::Maker, id: StorageId) -> T {
        self.promise.keep(maker, id, self.view)
    }
}

/// Whether an op copies floats into another order than they lie in.
pub fn reorders<T: FusionTensor>(op: &Op, tensors: &[T]) -> bool {
    let view = tensors.first().map(T::view);
    view.is_some_and(|view| {
        let is_same = *op == Op::Copy { dtype: view.dtype } && view.dtype.is_float();
        is_same && view.shape().count() > 0 && !view.layout.is_contiguous()
    })
}

/// The order of dimensions that changes nothing.
pub fn row_major() -> [u8; MAX_RANK] {
    std::array::from_fn(|axis| axis as u8)
}

/// For each dimension of a view, which dimension of a whole row-major view it is, if the view has all elements of that
/// in another order.
pub fn order_of(whole: &View, seen: &View) -> Option<[u8; MAX_RANK]> {
    let (rank, strides) = (whole.shape().rank(), whole.layout.strides());
    if seen.shape().rank() != rank || seen.layout.offset() != 0 {
        return None;
    }
    let mut order = row_major();
    for at in 0..rank {
        let (size, stride) = (seen.shape()[at], seen.layout.strides()[at]);
        let is_it = |axis: &usize| {
            let is_new = !order[..at].contains(&(*axis as u8));
            is_new && whole.shape()[*axis] == size && (size == 1 || strides[*axis] == stride)
        };
        order[at] = (0..rank).find(is_it)? as u8;
    }
    Some(order)
}

/// Where in these dimensions those begin and end that make up one axis of a shape with as many elements.
pub fn dims_of_axis(dims: &[usize], shape: &Shape, axis: usize) -> Option<[u8; 2]> {
    let reaches = |from: usize, count: usize| {
        (from..=dims.len()).find(|&to| dims[from..to].iter().product::<usize>() == count)
    };
    let begin = reaches(0, shape.dims()[..axis].iter().product())?;
    let end = reaches(begin, shape[axis])?;
    Some([begin as u8, end as u8])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Dtype, Layout};

    #[test]
    fn the_order_of_a_view_is_found() {
        let whole = View::contiguous(Dtype::F32, Shape::new(&[3, 5, 1, 3]));
        let seen = |layout: Layout| View { layout, ..whole };
        for axes in [[0, 1, 2, 3], [1, 0, 2, 3], [3, 2, 1, 0]] {
            let order =
                order_of(&whole, &seen(whole.layout.permute(&axes))).expect("a permutation has an order");
            assert_eq!(order[..4], axes.map(|axis| axis as u8));
        }
        assert_eq!(order_of(&whole, &seen(whole.layout.flip(1))), None);
        assert_eq!(order_of(&whole, &seen(whole.layout.slice(1, 0, 4, 1))), None);
        let expanded = Layout::contiguous(Shape::new(&[1, 5, 1, 3])).expand(*whole.shape());
        assert_eq!(order_of(&whole, &seen(expanded)), None);
    }

    #[test]
    fn an_axis_is_found_among_the_dimensions_that_make_it_up() {
        let shape = |dims: &[usize]| Shape::new(dims);
        assert_eq!(dims_of_axis(&[8, 4, 6, 6], &shape(&[8, 144]), 1), Some([1, 4]));
        assert_eq!(dims_of_axis(&[4, 8, 6, 6], &shape(&[4, 8, 6, 6]), 0), Some([0, 1]));
        assert_eq!(dims_of_axis(&[4, 8], &shape(&[4, 1, 8]), 1), Some([1, 1]));
        assert_eq!(dims_of_axis(&[4, 6], &shape(&[2, 12]), 1), None);
    }
}
