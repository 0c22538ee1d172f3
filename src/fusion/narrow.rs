//! Elementwise ops of tensors that are all broadcast along the same axes compute each value once, and what they make is broadcast
//! like that again. Burn's gradient of a mean divides a tensor as large as the mean's input, which repeats one value for each
//! mean. A constant, and what is made of it alone, is computed again in the smaller shape.

use arrayvec::ArrayVec;

use super::partition::StepInput;
use super::run::{FusionRun, MIN_RATIO_TO_OVERTAKE, StepOp};
use super::tensor::{FusionTarget, FusionTensor};
use super::threads::ThreadRuns;
use crate::error::Error;
use crate::op::{Inputs, MAX_STEPS, Op, Shape};

/// Places of steps in a run, in order.
type ConstantSteps = ArrayVec<u8, MAX_STEPS>;

impl<T: FusionTensor> ThreadRuns<T> {
    /// Has an elementwise op wait that makes the same values again and again, in a smaller shape. Returns the promise of its
    /// result in its own shape, or nothing if the values differ or are few.
    pub(super) fn push_narrow(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        step: &StepOp,
        (op, tensors): (&Op, &Inputs<T>),
    ) -> Result<Option<T>, Error> {
        let full = *step.made.shape();
        let run = self.current();
        // Most often one of them repeats nothing.
        let is_full = |tensor: &T| is_full(tensor.view().layout.strides(), &full);
        if tensors.iter().any(|tensor| is_full(tensor) && run.constant(tensor).is_none()) {
            return Ok(None);
        }
        let constants: Inputs<_> = tensors.iter().map(|tensor| run.constant(tensor)).collect();
        let Some(narrow) = narrow_shape(&full, tensors, &constants) else { return Ok(None) };
        // The run may end while they are made.
        let ops =
            |places: &ConstantSteps| places.iter().map(|&place| run.steps[usize::from(place)].op).collect();
        let constants: Vec<Option<Vec<Op>>> =
            constants.iter().map(|places| places.as_ref().map(ops)).collect();
        let mut narrowed = Inputs::new();
        for (tensor, constant) in tensors.iter().zip(&constants) {
            narrowed.push(match constant {
                Some(ops) => match self.remake(target, ops, narrow)? {
                    Some(made) => made,
                    None => return Ok(None),
                },
                None => narrow_tensor(tensor, &narrow),
            });
        }
        let made = self.push_step(target, op, &mut narrowed)?;
        Ok(made.map(|made| {
            let layout = made.view().layout.expand(full);
            made.with_layout(layout)
        }))
    }

    /// Has the ops wait that make a constant, in this shape.
    fn remake(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        ops: &[Op],
        narrow: Shape,
    ) -> Result<Option<T>, Error> {
        let mut made = Inputs::new();
        for op in ops {
            let op = match *op {
                Op::Fill { dtype, value, .. } => Op::Fill { shape: narrow, dtype, value },
                op => op,
            };
            let Some(next) = self.push_step(target, &op, &mut made)? else { return Ok(None) };
            made = [next].into_iter().collect();
        }
        Ok(made.pop())
    }

    fn push_step(
        &mut self,
        target: &mut FusionTarget<'_, T>,
        op: &Op,
        tensors: &mut Inputs<T>,
    ) -> Result<Option<T>, Error> {
        match StepOp::of(op, tensors) {
            Some(step) => self.push(target, step, (op, tensors)),
            None => Ok(None),
        }
    }
}

impl<T: FusionTensor> FusionRun<T> {
    /// The steps that make a tensor of which all elements are one constant: a filled tensor, and functions of it.
    fn constant(&self, tensor: &T) -> Option<ConstantSteps> {
        let mut places = ConstantSteps::new();
        let mut at = self.view.filter(|whole| tensor.is_flat(whole)).and_then(|_| self.step_of(tensor));
        while let Some(place) = at {
            let step = &self.steps[place];
            places.push(place as u8);
            at = match step.inputs[..] {
                [] => None,
                [StepInput::Step(from)] => Some(from as usize),
                _ => return None,
            };
        }
        places.reverse();
        (!places.is_empty()).then_some(places)
    }
}

/// Whether a tensor of a shape repeats no value, by its strides.
fn is_full(strides: &[isize], shape: &Shape) -> bool {
    strides.iter().zip(shape.dims()).all(|(&stride, &size)| stride != 0 || size <= 1)
}

/// The shape of the values that differ, if each comes at least as often as makes an op overtake others.
fn narrow_shape<T: FusionTensor, C>(full: &Shape, tensors: &[T], constants: &[Option<C>]) -> Option<Shape> {
    let varying = tensors.iter().zip(constants).filter(|(_, constant)| constant.is_none());
    let varies = |axis: usize| varying.clone().any(|(tensor, _)| tensor.view().layout.strides()[axis] != 0);
    let axes = (0..full.rank()).filter(|&axis| full[axis] > 1 && !varies(axis));
    let narrow = axes.fold(*full, |shape, axis| shape.with(axis, 1));
    let is_worth_it = full.count() >= MIN_RATIO_TO_OVERTAKE * narrow.count();
    (varying.clone().next().is_some() && is_worth_it).then_some(narrow)
}

/// The tensor's elements in a shape that leaves out repetitions.
fn narrow_tensor<T: FusionTensor>(tensor: &T, narrow: &Shape) -> T {
    let layout = &tensor.view().layout;
    let narrowed = (0..narrow.rank())
        .filter(|&axis| narrow[axis] == 1)
        .fold(*layout, |layout, axis| layout.slice(axis, 0, 1, 1));
    tensor.clone().with_layout(narrowed)
}
