//! What a run of elementwise ops can end in: a sum or mean of what one of its steps makes, or of a copy of that in
//! another order of dimensions. Values are added up as they are made, in the order in which they would be if they were
//! in memory, so that the bits are the same, and neither the values nor the copy need be in memory. Burn's batch norm
//! sums each channel over all images through such a copy. Values that are kept besides are written to their own
//! storage.

use std::sync::{Arc, Weak};

use super::collect::Run;
use super::segments::Operand;
use super::tensor::Handle;
use super::{Runtime, Tensor};
use crate::engine::aligned;
use crate::error::Error;
use crate::op::{Ending, Inputs, MAX_RANK, MAX_SCALARS, Op, Program, Reduce, Shape, Source, View, lower};
use crate::pool::{Input, Pool, StorageId};

/// So many times smaller than what waits is an op that may be submitted before it.
const SMALL: usize = 16;

/// A copy that waits for a reduction of it.
#[derive(Debug)]
pub struct Copied {
    op: Op,
    from: Tensor,
    made: Weak<Handle>,
}

impl Copied {
    /// Whether it is to make the tensor's storage.
    pub fn makes(&self, tensor: &Tensor) -> bool {
        self.made.as_ptr() == Arc::as_ptr(tensor.handle())
    }

    /// Whether somebody can still ask for it.
    pub fn is_wanted(&self) -> bool {
        self.made.strong_count() > 0
    }
}

/// The reduction that a run ends in.
#[derive(Debug)]
pub struct End {
    kind: Reduce,
    order: [u8; MAX_RANK],
    reduced: [u8; 2],
    /// What it reads.
    pub operand: Operand,
    made: Weak<Handle>,
    view: View,
}

impl End {
    /// Whether somebody can still ask for it.
    pub fn is_wanted(&self) -> bool {
        self.made.strong_count() > 0
    }

    /// As the end of a program.
    pub fn ending(&self, source: Source) -> Ending {
        Ending { kind: self.kind, source, order: self.order, reduced: self.reduced }
    }

    /// Device memory for what it makes, and to make it, of inputs that are seen so.
    pub fn need_bytes(&self, view: &View) -> usize {
        let program = Program::new(&[], &[], Some(self.ending(Source::Input(0))));
        let (op, inputs) = (Op::Fused { program, scalars: [0; MAX_SCALARS] }, [*view]);
        let scratch_bytes = lower::scratch_bytes(&op, &inputs, &op.outputs(&inputs));
        aligned(self.view.size_bytes()) + aligned(scratch_bytes)
    }

    /// It was made.
    pub fn keep(self, runtime: &Arc<Runtime>, id: StorageId) -> Tensor {
        keep(&self.made, runtime, id, self.view)
    }
}

/// What was promised is there.
pub fn keep(made: &Weak<Handle>, runtime: &Arc<Runtime>, id: StorageId, view: View) -> Tensor {
    match made.upgrade() {
        Some(handle) => Tensor::keeping(handle, id),
        None => Tensor::new(runtime.clone(), id, view),
    }
}

/// A program that ends in a reduction along an axis, for engines that get ready for programs.
pub fn sample(kind: Reduce, axis: usize) -> Op {
    let reduced = [axis as u8, axis as u8 + 1];
    let ending = Ending { kind, source: Source::Input(0), order: in_order(), reduced };
    Op::Fused { program: Program::new(&[], &[], Some(ending)), scalars: [0; MAX_SCALARS] }
}

/// Whether an op copies floats of a view in another order than they lie in.
pub fn reorders(op: &Op, tensors: &[Tensor]) -> bool {
    let view = tensors.first().map(Tensor::view);
    view.is_some_and(|view| {
        let is_same = *op == Op::Copy { dtype: view.dtype } && view.dtype.is_float();
        is_same && view.shape().count() > 0 && !view.layout.is_contiguous()
    })
}

impl Run {
    /// Whether an op can be submitted before what waits: it reads nothing of that, and is small beside it or what that waits for.
    pub fn lets_pass(&self, op: &Op, tensors: &[Tensor]) -> bool {
        if self.is_empty() {
            return false;
        }
        let deferred = self.deferred.as_ref();
        let view = self.view.or(deferred.map(|deferred| deferred.view));
        let most = view.map_or(0, |view| view.size_bytes() / SMALL);
        let read: Inputs<View> = tensors.iter().map(|tensor| *tensor.view()).collect();
        let is_small = |views: &[View]| views.iter().map(View::size_bytes).sum::<usize>() <= most;
        tensors.iter().all(|tensor| tensor.try_id().is_some())
            && (deferred.is_some_and(|deferred| deferred.is_after(op, tensors))
                || is_small(&read) && is_small(&op.outputs(&read)))
    }

    /// Whether a copy of this can wait with what waits.
    pub fn can_copy(&self, tensor: &Tensor) -> bool {
        let order = self.step_of(tensor).and_then(|_| order_of(&self.view?, tensor.view()));
        self.copied.is_none() && order.is_some()
    }

    /// Takes a copy in, to be submitted last; returns what it is to make.
    pub fn copy(&mut self, runtime: &Arc<Runtime>, op: Op, from: Tensor) -> Tensor {
        debug_assert!(self.copied.is_none(), "one waits at most");
        let made = Tensor::promised(runtime.clone(), View::contiguous(from.dtype(), *from.shape()));
        self.copied = Some(Copied { op, from, made: Arc::downgrade(made.handle()) });
        made
    }

    /// Takes a reduction in as the end, if it can be: returns what it is to make, or else gives the tensor back.
    #[allow(clippy::result_large_err, reason = "the tensor goes back to where it came from")]
    pub fn end_in(
        &mut self,
        runtime: &Arc<Runtime>,
        pool: &mut Pool,
        (kind, axis): (Reduce, usize),
        tensor: Tensor,
    ) -> Result<Tensor, Tensor> {
        let Some((order, reduced)) = self.order_reduced(axis, &tensor) else { return Err(tensor) };
        let view = View::contiguous(tensor.dtype(), tensor.shape().with(axis, 1));
        let made = Tensor::promised(runtime.clone(), view);
        let weak = Arc::downgrade(made.handle());
        let mut end = End { kind, order, reduced, operand: Operand::Step(0), made: weak, view };
        let need_bytes = |whole: &View| aligned(whole.size_bytes()) + end.need_bytes(whole);
        if !self.view.is_some_and(|whole| pool.allows(need_bytes(&whole))) {
            return Err(tensor);
        }
        let copied = self.copied.take_if(|copied| copied.makes(&tensor));
        end.operand = self.operand(copied.map_or(tensor, |copied| copied.from));
        self.end = Some(end);
        Ok(made)
    }

    /// In which order the run's values are reduced by a reduction of this tensor along an axis, and which dimensions of them; nothing
    /// if it is no end.
    fn order_reduced(&self, axis: usize, tensor: &Tensor) -> Option<([u8; MAX_RANK], [u8; 2])> {
        let (whole, shape) = (self.view?, tensor.shape());
        let is_whole = tensor.layout().is_contiguous() && shape.count() == whole.shape().count();
        let copied = self.copied.as_ref().filter(|copied| copied.makes(tensor));
        let order = match copied {
            // A copy that is wanted for something else is made.
            Some(_) if tensor.handles() > 1 => return None,
            Some(copied) if copied.from.try_id().is_none() => order_of(&whole, copied.from.view())?,
            Some(_) => in_order(),
            None => self.step_of(tensor).map(|_| in_order())?,
        };
        let dims: Vec<usize> =
            order[..whole.shape().rank()].iter().map(|&at| whole.shape()[at as usize]).collect();
        let reduced = reduced(&dims, shape, axis).filter(|_| is_whole)?;
        Some((order, reduced))
    }

    /// Submits the copy, if it is still wanted.
    pub fn submit_copied(&mut self, runtime: &Arc<Runtime>, pool: &mut Pool) -> Result<(), Error> {
        let Some(copied) = &self.copied else { return Ok(()) };
        let (from, view) = (&copied.from, View::contiguous(copied.from.dtype(), *copied.from.shape()));
        let input = Input { id: from.id(), view: *from.view(), consumed: from.handles() == 1 };
        let (made, after) = pool.run_or_keep(&copied.op, std::slice::from_ref(&input))?;
        if let Some(Copied { from, made: promised, .. }) = self.copied.take() {
            if input.consumed {
                // The pool has it.
                from.into_input();
            }
            made.into_iter().for_each(|id| drop(keep(&promised, runtime, id, view)));
        }
        let planned = runtime.plan_what_was_learned(pool);
        after.and(planned)
    }
}

fn in_order() -> [u8; MAX_RANK] {
    std::array::from_fn(|axis| axis as u8)
}

/// Which dimension of a whole row-major view each of another view is, which has the same elements in another order.
fn order_of(whole: &View, seen: &View) -> Option<[u8; MAX_RANK]> {
    let (rank, strides) = (whole.shape().rank(), whole.layout.strides());
    if seen.shape().rank() != rank || seen.layout.offset() != 0 {
        return None;
    }
    let mut order = in_order();
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

/// Where in these dimensions those begin and end that are the axis of a shape with as many elements.
fn reduced(dims: &[usize], shape: &Shape, axis: usize) -> Option<[u8; 2]> {
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
            let order = order_of(&whole, &seen(whole.layout.permute(&axes))).expect("it is one");
            assert_eq!(order[..4], axes.map(|axis| axis as u8));
        }
        assert_eq!(order_of(&whole, &seen(whole.layout.flip(1))), None);
        assert_eq!(order_of(&whole, &seen(whole.layout.slice(1, 0, 4, 1))), None);
        let expanded = Layout::contiguous(Shape::new(&[1, 5, 1, 3])).expand(*whole.shape());
        assert_eq!(order_of(&whole, &seen(expanded)), None);
    }

    #[test]
    fn an_axis_is_found_among_the_dimensions_that_it_was_made_of() {
        let shape = |dims: &[usize]| Shape::new(dims);
        assert_eq!(reduced(&[8, 4, 6, 6], &shape(&[8, 144]), 1), Some([1, 4]));
        assert_eq!(reduced(&[4, 8, 6, 6], &shape(&[4, 8, 6, 6]), 0), Some([0, 1]));
        assert_eq!(reduced(&[4, 8], &shape(&[4, 1, 8]), 1), Some([1, 1]));
        assert_eq!(reduced(&[4, 6], &shape(&[2, 12]), 1), None);
    }
}
