//! What every op means, written in `f64` as plainly as possible.

use super::case::{Data, indices};
use super::*;

#[path = "reference_pools.rs"]
mod pools;

/// The values of an op's outputs.
pub fn outputs(op: Op, inputs: &[Data]) -> Vec<Vec<f64>> {
    let views: Vec<View> = inputs.iter().map(|input| input.view).collect();
    let x: Vec<Vec<f64>> = inputs.iter().map(Data::elements).collect();
    let view = op.outputs(&views)[0];
    let first = match op {
        Op::Fill { value, .. } => vec![value.as_f64(); view.shape().count()],
        Op::Arange { count, start, step, .. } => {
            (0..count).map(|i| (start + i as i64 * step) as f64).collect()
        }
        Op::Copy { dtype } => x[0].iter().map(|&x| convert(x, dtype)).collect(),
        Op::Unary(kind) => x[0].iter().map(|&x| unary(kind, x)).collect(),
        Op::Binary(kind) => x[0].iter().zip(&x[1]).map(|(&a, &b)| binary(kind, view.dtype, a, b)).collect(),
        Op::BinaryScalar(kind, b) => {
            let b = convert(b.as_f64(), view.dtype);
            x[0].iter().map(|&a| binary(kind, view.dtype, a, b)).collect()
        }
        Op::Compare(kind) => x[0].iter().zip(&x[1]).map(|(a, b)| compare(kind, a, b)).collect(),
        Op::CompareScalar(kind, b) => x[0].iter().map(|a| compare(kind, a, &b.as_f64())).collect(),
        Op::Where => (0..x[0].len()).map(|i| if x[0][i] != 0.0 { x[1][i] } else { x[2][i] }).collect(),
        Op::MaskFill(value) => {
            (0..x[0].len()).map(|i| if x[1][i] != 0.0 { value.as_f64() } else { x[0][i] }).collect()
        }
        Op::Reduce { kind, axis } => rows(&inputs[0], axis).iter().map(|row| reduce(kind, row)).collect(),
        Op::ArgReduce { kind, axis, .. } => rows(&inputs[0], axis).iter().map(|row| arg(kind, row)).collect(),
        Op::MaxPool2d { pool, indices } => return pools::max(inputs, &pool, &view, indices.is_some()),
        Op::MaxPool2dBackward { .. } => pools::max_backward(inputs, &view),
        Op::AvgPool2d(pool) => pools::average(inputs, &pool, &view),
        Op::AvgPool2dBackward { pool, .. } => pools::average_backward(inputs, &pool, &view),
        Op::AdaptiveAvgPool2d { .. } => pools::adaptive(inputs, &view),
        Op::AdaptiveAvgPool2dBackward { .. } => pools::adaptive_backward(inputs, &view),
        _ => indexed(op, inputs, &view),
    };
    vec![first]
}

/// Row-major position of an index.
pub fn flat(shape: &Shape, index: &[usize]) -> usize {
    index.iter().zip(shape.dims()).fold(0, |flat, (&i, &size)| flat * size + i)
}

/// The elements along `axis`, for each index of the other dimensions.
fn rows(x: &Data, axis: usize) -> Vec<Vec<f64>> {
    let (shape, elements) = (*x.view.shape(), x.elements());
    let element = |mut index: Vec<usize>, k: usize| {
        index[axis] = k;
        elements[flat(&shape, &index)]
    };
    let outputs = indices(&shape.with(axis, 1));
    outputs.map(|index| (0..shape[axis]).map(|k| element(index.clone(), k)).collect()).collect()
}

fn reduce(kind: Reduce, row: &[f64]) -> f64 {
    let extreme = |start: f64, pick: fn(f64, f64) -> f64| {
        row.iter().fold(start, |a, &b| if a.is_nan() || b.is_nan() { f64::NAN } else { pick(a, b) })
    };
    match kind {
        Reduce::Sum => row.iter().sum(),
        Reduce::Mean => row.iter().sum::<f64>() / row.len() as f64,
        Reduce::Prod => row.iter().product(),
        Reduce::Max => extreme(f64::NEG_INFINITY, f64::max),
        Reduce::Min => extreme(f64::INFINITY, f64::min),
    }
}

fn arg(kind: ArgReduce, row: &[f64]) -> f64 {
    let wins = |a: f64, b: f64| match kind {
        _ if a.is_nan() => false,
        _ if b.is_nan() => true,
        ArgReduce::Max => b > a,
        ArgReduce::Min => b < a,
    };
    (1..row.len()).fold(0, |best, k| if wins(row[best], row[k]) { k } else { best }) as f64
}

fn indexed(op: Op, inputs: &[Data], view: &View) -> Vec<f64> {
    let x: Vec<Vec<f64>> = inputs.iter().map(Data::elements).collect();
    let (shape, out) = (*inputs[0].view.shape(), *view.shape());
    let other = |n: usize| *inputs[n].view.shape();
    let replaced = |mut index: Vec<usize>, axis: usize, to: f64| {
        index[axis] = to as usize;
        index
    };
    let mut changed = x[0].clone();
    match op {
        Op::Gather { axis } => {
            let from = |index: Vec<usize>| replaced(index.clone(), axis, x[1][flat(&out, &index)]);
            indices(&out).map(|index| x[0][flat(&shape, &from(index))]).collect()
        }
        Op::Select { axis } => {
            let from = |index: Vec<usize>| replaced(index.clone(), axis, x[1][index[axis]]);
            indices(&out).map(|index| x[0][flat(&shape, &from(index))]).collect()
        }
        Op::ScatterAdd { axis } => {
            for (n, index) in indices(&other(2)).enumerate() {
                let to = flat(&shape, &replaced(index, axis, x[1][n]));
                changed[to] = add(view.dtype, changed[to], x[2][n]);
            }
            changed
        }
        Op::SelectAdd { axis } => {
            for (n, index) in indices(&other(2)).enumerate() {
                let to = flat(&shape, &replaced(index.clone(), axis, x[1][index[axis]]));
                changed[to] = add(view.dtype, changed[to], x[2][n]);
            }
            changed
        }
        Op::SliceAssign { starts, steps } => {
            for (n, index) in indices(&other(1)).enumerate() {
                let to = |k: usize| (starts[k] as isize + index[k] as isize * steps[k]) as usize;
                changed[flat(&shape, &(0..index.len()).map(to).collect::<Vec<_>>())] = x[1][n];
            }
            changed
        }
        _ => panic!("no reference for {op:?}"),
    }
}

/// Adding bools is `or`.
fn add(dtype: Dtype, a: f64, b: f64) -> f64 {
    if dtype == Dtype::Bool { a.max(b) } else { a + b }
}

fn convert(x: f64, dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(x as f32),
        Dtype::I32 => f64::from(x as i32),
        Dtype::I64 => x as i64 as f64,
        Dtype::Bool => f64::from(u8::from(x != 0.0)),
    }
}

fn unary(kind: Unary, x: f64) -> f64 {
    match kind {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign if x == 0.0 => 0.0,
        Unary::Sign => x.signum(),
        Unary::Square => x * x,
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Log1p => x.ln_1p(),
        Unary::Sqrt => x.sqrt(),
        Unary::Recip => 1.0 / x,
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Tanh => x.tanh(),
        Unary::Asin => x.asin(),
        Unary::Asinh => x.asinh(),
        Unary::Acos => x.acos(),
        Unary::Acosh => x.acosh(),
        Unary::Atan => x.atan(),
        Unary::Atanh => x.atanh(),
        Unary::Erf => erf(x),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Trunc => x.trunc(),
        Unary::Relu => x.max(0.0),
        Unary::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Unary::Not => 1.0 - x,
    }
}

/// The series of the error function; enough terms for |x| < 4.
fn erf(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

fn binary(kind: Binary, dtype: Dtype, a: f64, b: f64) -> f64 {
    let float = dtype == Dtype::F32;
    let divide = |a: f64, b: f64| match (float, b == 0.0) {
        (true, _) => a / b,
        (false, true) => 0.0,
        (false, false) => (a / b).trunc(),
    };
    match kind {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        Binary::Div => divide(a, b),
        Binary::Remainder if !float && b == 0.0 => 0.0,
        Binary::Remainder => a - b * (a / b).floor(),
        Binary::Pow if float => a.powf(b),
        Binary::Pow => a.powf(b).trunc_or_zero(a),
        Binary::Atan2 => a.atan2(b),
        Binary::Max => a.max(b),
        Binary::Min => a.min(b),
        Binary::And => f64::from(u8::from(a + b == 2.0)),
        Binary::Or => f64::from(u8::from(a + b > 0.0)),
        Binary::Xor => f64::from(u8::from(a != b)),
        Binary::ReluBackward => {
            if a > 0.0 {
                b
            } else {
                0.0
            }
        }
        Binary::ReverseSub => b - a,
        Binary::ReverseDiv => divide(b, a),
    }
}

trait IntegerPower {
    fn trunc_or_zero(self, base: f64) -> f64;
}

impl IntegerPower for f64 {
    /// An integer power: negative exponents leave nothing of bases other than 1 and -1, and 0 is 0.
    fn trunc_or_zero(self, base: f64) -> f64 {
        if base == 0.0 && self.is_infinite() { 0.0 } else { self.trunc() }
    }
}

fn compare(kind: Compare, a: &f64, b: &f64) -> f64 {
    let holds = match kind {
        Compare::Equal => a == b,
        Compare::NotEqual => a != b,
        Compare::Greater => a > b,
        Compare::GreaterEqual => a >= b,
        Compare::Lower => a < b,
        Compare::LowerEqual => a <= b,
    };
    f64::from(u8::from(holds))
}
