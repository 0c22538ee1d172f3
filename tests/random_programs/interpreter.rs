//! The values of a program by the plain definitions of its ops, and how far from them an engine may be: not at all where values
//! are small integers, whose sums are the same in any order.

use std::collections::BTreeMap;
use std::rc::Rc;

use burn_overcommit::op::{Binary, Conv, Cumulative, Dtype, Op, Reduce, Scalar, Shape, Unary, Update, View};
use burn_overcommit::runtime;
use burn_overcommit::{OvercommitDevice, op::Layout};
use half::{bf16, f16};

use crate::data::{Data, indices, numbers};
use crate::program::{Program, Slot, Step, Use};
use crate::reference;

/// The elements of a storage.
#[derive(Debug)]
struct Known {
    dtype: Dtype,
    values: Vec<f64>,
    /// How far from these the right ones may be; infinite where nothing is known.
    slack: f64,
}

/// A read of a slot, in the order of the view.
#[derive(Debug)]
pub struct Expected {
    pub slot: Slot,
    dtype: Dtype,
    values: Vec<f64>,
    pub slack: f64,
}

/// A program whose values are computed beside it.
pub struct Interpreter {
    slots: BTreeMap<Slot, (Rc<Known>, Layout)>,
    reads: Vec<Expected>,
    /// Where random numbers are copied from.
    device: OvercommitDevice,
}

/// All reads in so many of a program's steps, and then one of each tensor that is left.
pub fn reads(program: &Program, steps: usize, device: OvercommitDevice) -> Vec<Expected> {
    let mut interpreter = Interpreter { slots: BTreeMap::new(), reads: Vec::new(), device };
    for (position, step) in program.steps().take(steps).enumerate() {
        interpreter.step(position, step);
    }
    let left: Vec<Slot> = interpreter.slots.keys().copied().collect();
    left.into_iter().for_each(|slot| interpreter.read(slot));
    interpreter.reads
}

impl Interpreter {
    fn step(&mut self, position: usize, step: &Step) {
        match step {
            Step::Write { to, dtype, shape, values } => {
                let values = numbers(*dtype, &values.bytes(*dtype, shape.count()));
                self.put(*to, *dtype, *shape, (values, 0.0));
            }
            Step::Create { to, op } => {
                let made = op.outputs(&[])[0];
                let values = match *op {
                    Op::Random { shape, dtype, distribution, seed } => {
                        let op = Op::Random { shape, dtype, distribution, seed: seed ^ position as u64 };
                        let copy = runtime::create(&self.device, op).and_then(runtime::read);
                        numbers(dtype, &copy.expect("enough memory"))
                    }
                    op => reference::outputs(op, &[]).swap_remove(0),
                };
                self.put(*to, made.dtype, *made.shape(), (values, 0.0));
            }
            Step::Run { op, inputs, to } => {
                let inputs: Vec<(Data, f64)> = inputs.iter().map(|input| self.input(input)).collect();
                let views: Vec<View> = inputs.iter().map(|(data, _)| data.view).collect();
                for ((&slot, view), known) in to.iter().zip(op.outputs(&views)).zip(run(*op, &inputs)) {
                    self.put(slot, view.dtype, *view.shape(), known);
                }
            }
            Step::Alias { from, to } => {
                let known = self.take(from);
                self.slots.insert(*to, (known, from.layout));
            }
            Step::Drop(slot) => drop(self.slots.remove(slot)),
            Step::Read(slot) => self.read(*slot),
            Step::Enter | Step::Leave | Step::TooLarge(_) => {}
        }
    }

    fn put(&mut self, slot: Slot, dtype: Dtype, shape: Shape, (values, slack): (Vec<f64>, f64)) {
        let known = Known { dtype, values, slack };
        self.slots.insert(slot, (Rc::new(known), Layout::contiguous(shape)));
    }

    fn take(&mut self, from: &Use) -> Rc<Known> {
        let known = self.slots[&from.slot].0.clone();
        if from.last {
            self.slots.remove(&from.slot);
        }
        known
    }

    fn input(&mut self, from: &Use) -> (Data, f64) {
        let known = self.take(from);
        let view = View { dtype: known.dtype, layout: from.layout };
        (Data { view, storage: known.values.clone() }, known.slack)
    }

    fn read(&mut self, slot: Slot) {
        let (known, layout) = &self.slots[&slot];
        let data = Data { view: View { dtype: known.dtype, layout: *layout }, storage: known.values.clone() };
        let (dtype, values, slack) = (known.dtype, data.elements(), known.slack);
        self.reads.push(Expected { slot, dtype, values, slack });
    }
}

impl Expected {
    /// Panics if these bytes are not what was to be read.
    pub fn check(&self, slot: Slot, bytes: &[u8]) {
        assert_eq!(slot, self.slot, "reads are in the order of the program");
        let found = numbers(self.dtype, bytes);
        assert_eq!(found.len(), self.values.len(), "slot {slot} has other elements");
        for (place, (found, expected)) in found.into_iter().zip(&self.values).enumerate() {
            let near = found == *expected
                || found.is_nan() && expected.is_nan()
                || self.slack > 0.0 && (self.slack.is_infinite() || (found - expected).abs() <= self.slack);
            assert!(
                near,
                "slot {slot}, element {place} of {:?} is {found}, by definition {expected}, give or take {}",
                self.dtype, self.slack
            );
        }
    }
}

/// The nearest value of the type. Halves are computed in 32 bits, and then rounded.
fn rounded(dtype: Dtype, value: f64) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(value as f32),
        Dtype::F16 => f16::from_f32(value as f32).to_f64(),
        Dtype::BF16 => bf16::from_f32(value as f32).to_f64(),
        _ => value,
    }
}

/// How far apart neighbours near one are.
fn epsilon(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(f32::EPSILON),
        Dtype::F16 => f16::EPSILON.to_f64(),
        Dtype::BF16 => bf16::EPSILON.to_f64(),
        _ => f64::EPSILON,
    }
}

/// The values of an op's outputs, each with its slack.
fn run(op: Op, inputs: &[(Data, f64)]) -> Vec<(Vec<f64>, f64)> {
    let data: Vec<Data> = inputs.iter().map(|(data, _)| data.clone()).collect();
    let views: Vec<View> = data.iter().map(|data| data.view).collect();
    let outputs = op.outputs(&views);
    let made = defined(op, &data).into_iter().zip(outputs).enumerate();
    made.map(|(place, (values, view))| {
        let values: Vec<f64> = values.into_iter().map(|value| rounded(view.dtype, value)).collect();
        // Products of larger integers, which wrap around, are not exact in 64 bits of a float.
        let is_small =
            |(data, _): &(Data, f64)| data.view.dtype.is_float() || largest(&data.storage) <= 2f64.powi(26);
        let is_moved = matches!(nature(&op, place, view.dtype), Nature::Moves);
        let is_known = values.iter().all(|value| value.abs() < 2f64.powi(53))
            && (is_moved || inputs.iter().all(is_small));
        let slack = if is_known { slack(op, place, inputs, &values, view.dtype) } else { f64::INFINITY };
        (values, slack)
    })
    .collect()
}

/// An op's outputs by its definition, not rounded.
fn defined(op: Op, inputs: &[Data]) -> Vec<Vec<f64>> {
    let dtype = inputs.first().map_or(Dtype::F64, |input| input.view.dtype);
    let is_float = dtype.is_float();
    let typed = |scalar: Scalar| Scalar::from(rounded(dtype, scalar.as_f64()));
    match op {
        Op::Matmul => vec![product(inputs)],
        Op::Conv(conv) => vec![convolved(&conv, inputs)],
        Op::ConvBackwardInput { conv, .. } | Op::ConvBackwardWeight { conv, .. } => {
            vec![convolved_back(op, &conv, inputs)]
        }
        // A scalar has the element type of the tensor.
        Op::BinaryScalar(kind, scalar) if is_float => {
            reference::outputs(Op::BinaryScalar(kind, typed(scalar)), inputs)
        }
        Op::CompareScalar(kind, scalar) if is_float => {
            reference::outputs(Op::CompareScalar(kind, typed(scalar)), inputs)
        }
        Op::MaskFill(scalar) if is_float => reference::outputs(Op::MaskFill(typed(scalar)), inputs),
        op => reference::outputs(op, inputs),
    }
}

fn product(inputs: &[Data]) -> Vec<f64> {
    let (a, b) = (inputs[0].elements(), inputs[1].elements());
    let bias = inputs.get(2).map(Data::elements);
    let (dims, n) =
        (inputs[0].view.shape().dims(), inputs[1].view.shape().dims()[inputs[1].view.shape().rank() - 1]);
    let [m, k] = [dims[dims.len() - 2], dims[dims.len() - 1]];
    let batches = dims[..dims.len() - 2].iter().product();
    let element = |batch: usize, row: usize, column: usize| {
        let term = |at: usize| a[(batch * m + row) * k + at] * b[(batch * k + at) * n + column];
        (0..k).map(term).sum::<f64>() + bias.as_ref().map_or(0.0, |bias| bias[column])
    };
    let rows = (0..batches).flat_map(|batch| (0..m).map(move |row| (batch, row)));
    rows.flat_map(|(batch, row)| (0..n).map(move |column| (batch, row, column)))
        .map(|(batch, row, column)| element(batch, row, column))
        .collect()
}

/// Calls `meet` with the flat places of image, weight and output that meet in a term of a convolution.
fn each_term(conv: &Conv, [x, w, y]: [&[usize]; 3], mut meet: impl FnMut([usize; 3])) {
    let flat =
        |dims: &[usize], at: [usize; 5]| at.iter().zip(dims).fold(0, |flat, (at, size)| flat * size + at);
    let taps: Vec<Vec<usize>> = indices(&Shape::new(&w[1..])).collect();
    for out in indices(&Shape::new(y)) {
        let first = out[1] / (w[0] / conv.groups) * w[1];
        for tap in &taps {
            let place = |d: usize| {
                let padded = out[2 + d] * conv.stride[d] + tap[1 + d] * conv.dilation[d];
                padded.checked_sub(conv.padding[d]).filter(|&place| place < x[2 + d])
            };
            let (Some(z), Some(r), Some(c)) = (place(0), place(1), place(2)) else { continue };
            let image = flat(x, [out[0], first + tap[0], z, r, c]);
            let weight = flat(w, [out[1], tap[0], tap[1], tap[2], tap[3]]);
            meet([image, weight, flat(y, [out[0], out[1], out[2], out[3], out[4]])]);
        }
    }
}

fn convolved(conv: &Conv, inputs: &[Data]) -> Vec<f64> {
    let (x, w) = (inputs[0].elements(), inputs[1].elements());
    let views: Vec<View> = inputs.iter().map(|input| input.view).collect();
    let made = Op::Conv(*conv).outputs(&views)[0];
    let dims = [views[0].shape().dims(), views[1].shape().dims(), made.shape().dims()];
    let plane = dims[2][2..].iter().product::<usize>();
    let mut y: Vec<f64> = match inputs.get(2).map(Data::elements) {
        Some(bias) => (0..made.shape().count()).map(|at| bias[at / plane % bias.len()]).collect(),
        None => vec![0.0; made.shape().count()],
    };
    each_term(conv, dims, |[image, weight, out]| y[out] += x[image] * w[weight]);
    y
}

fn convolved_back(op: Op, conv: &Conv, inputs: &[Data]) -> Vec<f64> {
    let (other, gradient) = (inputs[0].elements(), inputs[1].elements());
    let views: Vec<View> = inputs.iter().map(|input| input.view).collect();
    let made = *op.outputs(&views)[0].shape();
    let of_image = matches!(op, Op::ConvBackwardInput { .. });
    let known = views[0].shape().dims();
    let [x, w] = if of_image { [made.dims(), known] } else { [known, made.dims()] };
    let mut sums = vec![0.0; made.count()];
    each_term(conv, [x, w, views[1].shape().dims()], |[image, weight, out]| {
        let [to, from] = if of_image { [image, weight] } else { [weight, image] };
        sums[to] += other[from] * gradient[out];
    });
    sums
}

/// How an op changes the exactness of values.
enum Nature {
    /// It only passes elements on.
    Moves,
    /// An output depends on its inputs by leaps.
    Leaps,
    /// Each element is one sum, product or quotient, rounded once.
    RoundsOnce,
    /// Sums of products, in any order.
    Sums,
    /// A smooth function of one value; how steep it is at most, if that is known.
    Smooth(Option<f64>),
    /// A formula over rows.
    Rows,
}

fn nature(op: &Op, place: usize, dtype: Dtype) -> Nature {
    match *op {
        Op::Copy { .. } if dtype.is_float() => Nature::Moves,
        Op::Where | Op::MaskFill(_) | Op::SliceAssign { .. } | Op::Gather { .. } | Op::Select { .. } => {
            Nature::Moves
        }
        Op::Sort { .. } | Op::Unary(Unary::Neg | Unary::Abs | Unary::Relu) => Nature::Moves,
        Op::Binary(Binary::Max | Binary::Min) | Op::BinaryScalar(Binary::Max | Binary::Min, _) => {
            Nature::Moves
        }
        Op::Reduce { kind: Reduce::Max | Reduce::Min | Reduce::MaxAbs, .. } => Nature::Moves,
        Op::Cumulative { kind: Cumulative::Max | Cumulative::Min, .. } => Nature::Moves,
        Op::MaxPool2d { .. } if place == 0 => Nature::Moves,
        Op::Scatter { update, .. } | Op::SelectUpdate { update, .. } => match update {
            Update::Add | Update::Mul => Nature::Leaps,
            _ => Nature::Moves,
        },
        _ if !dtype.is_float() => Nature::Leaps,
        Op::Unary(Unary::Square | Unary::Recip | Unary::Sqrt)
        | Op::Binary(
            Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::ReverseSub | Binary::ReverseDiv,
        )
        | Op::BinaryScalar(
            Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::ReverseSub | Binary::ReverseDiv,
            _,
        ) => Nature::RoundsOnce,
        Op::Unary(Unary::Round | Unary::Sign | Unary::Floor | Unary::Ceil | Unary::Trunc)
        | Op::Binary(Binary::ReluBackward) => Nature::Leaps,
        Op::Unary(Unary::Sin | Unary::Cos | Unary::Tanh | Unary::Sigmoid | Unary::Atan | Unary::Asinh) => {
            Nature::Smooth(Some(1.0))
        }
        Op::Unary(Unary::Erf) => Nature::Smooth(None),
        Op::Unary(_) | Op::Binary(Binary::Atan2) => Nature::Smooth(None),
        Op::Reduce { kind: Reduce::Sum, .. } | Op::Cumulative { kind: Cumulative::Sum, .. } => Nature::Sums,
        Op::Matmul | Op::Conv(_) | Op::ConvBackwardInput { .. } | Op::ConvBackwardWeight { .. } => {
            Nature::Sums
        }
        Op::MaxPool2dBackward { .. } => Nature::Sums,
        _ => Nature::Rows,
    }
}

/// How far an engine may be from the values of an output.
fn slack(op: Op, place: usize, inputs: &[(Data, f64)], values: &[f64], dtype: Dtype) -> f64 {
    let worst = inputs.iter().map(|&(_, slack)| slack).fold(0.0, f64::max);
    if worst.is_infinite() {
        return f64::INFINITY;
    }
    // The sign of a zero may be either, if it is a sum.
    let has_zeros =
        || inputs.iter().any(|(data, _)| data.view.dtype.is_float() && data.storage.contains(&0.0));
    if matches!(op, Op::ArgSort { .. } | Op::Binary(Binary::Atan2)) && has_zeros() {
        return f64::INFINITY;
    }
    let step = epsilon(dtype) * largest(values);
    let unless_inexact = |slack: f64| if worst == 0.0 { slack } else { f64::INFINITY };
    match nature(&op, place, dtype) {
        Nature::Moves if worst == 0.0 => 0.0,
        Nature::Moves => worst + step,
        Nature::Leaps => unless_inexact(0.0),
        Nature::RoundsOnce if worst == 0.0 => 0.0,
        Nature::RoundsOnce => carried(&op, inputs) + step,
        Nature::Sums => slack_of_sums(op, inputs, dtype)
            .map_or(f64::INFINITY, |slack| if slack == 0.0 { 0.0 } else { slack + step }),
        // The series of the reference does not reach far.
        Nature::Smooth(_) if op == Op::Unary(Unary::Erf) && largest(&inputs[0].0.storage) > 3.0 => {
            f64::INFINITY
        }
        Nature::Smooth(_) if op == Op::Unary(Unary::Erf) => unless_inexact(3.0 * step + 1e-11),
        Nature::Smooth(Some(steepness)) => steepness * worst + 3.0 * step,
        Nature::Smooth(None) => unless_inexact(3.0 * step),
        Nature::Rows => unless_inexact(64.0 * epsilon(dtype) * (1.0 + largest(values) + reach(inputs))),
    }
}

fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |largest, value| value.abs().max(largest))
}

/// The largest product of inputs, summed over a row: the size of the terms of a formula.
fn reach(inputs: &[(Data, f64)]) -> f64 {
    let product: f64 = inputs.iter().map(|(data, _)| largest(&data.storage).max(1.0)).product();
    let width = inputs.iter().flat_map(|(data, _)| data.view.shape().dims().iter().copied()).max();
    product * width.unwrap_or(1) as f64
}

/// The slack of inputs in a sum, product or quotient of two.
fn carried(op: &Op, inputs: &[(Data, f64)]) -> f64 {
    let (a, of_a) = (largest(&inputs[0].0.storage), inputs[0].1);
    let (b, of_b) = match *op {
        Op::BinaryScalar(_, scalar) => (Scalar::as_f64(scalar).abs(), 0.0),
        _ => inputs.get(1).map_or((a, of_a), |(data, slack)| (largest(&data.storage), *slack)),
    };
    match *op {
        Op::Unary(Unary::Square) => 2.0 * a * of_a + of_a * of_a,
        Op::Binary(Binary::Mul) | Op::BinaryScalar(Binary::Mul, _) => a * of_b + b * of_a + of_a * of_b,
        Op::Binary(Binary::Add | Binary::Sub | Binary::ReverseSub)
        | Op::BinaryScalar(Binary::Add | Binary::Sub | Binary::ReverseSub, _) => of_a + of_b,
        _ => f64::INFINITY,
    }
}

/// The slack of sums of products: none if no partial sum needs more bits than the type that is summed in has.
fn slack_of_sums(op: Op, inputs: &[(Data, f64)], dtype: Dtype) -> Option<f64> {
    let with = |more: f64| -> f64 {
        let absolute = |(data, slack): &(Data, f64)| Data {
            view: data.view,
            storage: match data.view.dtype.is_float() {
                true => data.storage.iter().map(|value| value.abs() + more * slack).collect(),
                false => data.storage.clone(),
            },
        };
        let data: Vec<Data> = inputs.iter().map(absolute).collect();
        largest(&defined(op, &data)[0])
    };
    let exact = if dtype == Dtype::F64 { 2f64.powi(53) } else { 2f64.powi(24) };
    let floats = inputs.iter().filter(|(data, _)| data.view.dtype.is_float());
    let grains: Vec<f64> = floats.clone().map(|(data, _)| grain(&data.storage)).collect();
    // A bias is added to products of the first two.
    let grain = match grains[..] {
        [one] => one,
        [a, b] => a * b,
        [a, b, bias] => (a * b).min(bias),
        _ => return None,
    };
    if floats.clone().all(|&(_, slack)| slack == 0.0) {
        // No sum has more terms than an operand has elements.
        let terms = floats.clone().take(2).map(|(data, _)| data.view.shape().count()).min()?;
        let factors = floats.clone().take(2).map(|(data, _)| largest(&data.storage)).product::<f64>();
        let bias = floats.clone().nth(2).map_or(0.0, |(data, _)| largest(&data.storage));
        if terms as f64 * factors + bias <= exact * grain || with(0.0) <= exact * grain {
            return Some(0.0);
        }
    }
    let sum = with(0.0);
    let terms = inputs.iter().map(|(data, _)| data.view.shape().count()).max()? as f64;
    let summed = if dtype == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
    let most = with(1.0);
    Some(most - sum + terms * epsilon(summed) * most)
}

/// The largest power of two that divides all the values.
fn grain(values: &[f64]) -> f64 {
    let of = |value: f64| {
        let bits = value.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as i32 - 1075;
        let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
        2f64.powi(exponent + mantissa.trailing_zeros() as i32)
    };
    values.iter().copied().filter(|&value| value != 0.0).map(of).fold(f64::INFINITY, f64::min)
}

#[test]
fn the_grain_of_values_is_a_power_of_two_that_divides_them() {
    assert_eq!(grain(&[0.0, 6.0, -4.0]), 2.0);
    assert_eq!(grain(&[1.5, 3.0]), 0.5);
}
