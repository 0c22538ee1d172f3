//! What every op means, written in `f64` as plainly as possible.

use half::{bf16, f16};

use super::data::{Data, indices};
use crate::op::*;

mod attention;
mod by_row;
mod order;
mod pools;
mod vision;

/// The values of an op's outputs.
pub fn outputs(op: Op, inputs: &[Data]) -> Vec<Vec<f64>> {
    let views: Vec<View> = inputs.iter().map(|input| input.view).collect();
    let x: Vec<Vec<f64>> = inputs.iter().map(Data::elements).collect();
    let view = op.outputs(&views)[0];
    let first = match op {
        Op::Fill { value, .. } => vec![value.as_f64(); view.shape().count()],
        Op::Arange { count, start, step, .. } => {
            (0..count).map(|i| wrap(view.dtype, (start + i as i64 * step) as f64)).collect()
        }
        Op::Copy { dtype } => {
            // Integers wrap where floats saturate.
            let wraps = views[0].dtype.is_integer() && dtype.is_integer();
            x[0].iter().map(|&x| if wraps { wrap(dtype, x) } else { convert(x, dtype) }).collect()
        }
        Op::Unary(kind) => x[0].iter().map(|&x| wrap(view.dtype, unary(kind, view.dtype, x))).collect(),
        Op::Binary(kind) => {
            let value = |(&a, &b): (&f64, &f64)| wrap(view.dtype, binary(kind, view.dtype, a, b));
            x[0].iter().zip(&x[1]).map(value).collect()
        }
        Op::BinaryScalar(kind, b) => {
            let b = if kind.wraps() && !view.dtype.is_bool() {
                b.as_f64()
            } else {
                convert(b.as_f64(), view.dtype)
            };
            x[0].iter().map(|&a| wrap(view.dtype, binary(kind, view.dtype, a, b))).collect()
        }
        Op::Clamp(low, high) => x[0].iter().map(|&x| x.min(high.as_f64()).max(low.as_f64())).collect(),
        Op::Compare(kind) => x[0].iter().zip(&x[1]).map(|(a, b)| compare(kind, a, b)).collect(),
        Op::CompareScalar(kind, b) => x[0].iter().map(|a| compare(kind, a, &b.as_f64())).collect(),
        Op::Where => (0..x[0].len()).map(|i| if x[0][i] != 0.0 { x[1][i] } else { x[2][i] }).collect(),
        Op::MaskFill(value) => {
            (0..x[0].len()).map(|i| if x[1][i] != 0.0 { value.as_f64() } else { x[0][i] }).collect()
        }
        Op::Reduce { kind, axis } => {
            let value = |row: &Vec<f64>| convert(wrap(view.dtype, reduce(kind, row)), view.dtype);
            rows(&inputs[0], axis).iter().map(value).collect()
        }
        Op::ArgReduce { kind, axis, values, .. } => {
            let rows = rows(&inputs[0], axis);
            let places: Vec<f64> = rows.iter().map(|row| arg(kind, row)).collect();
            let value = |(row, &place): (&Vec<f64>, &f64)| row[place as usize];
            let extremes = values.then(|| rows.iter().zip(&places).map(value).collect());
            return extremes.into_iter().chain([places]).collect();
        }
        Op::Softmax { kind, axis } => by_row::softmax(&inputs[0], kind, axis),
        Op::AttentionWeights { scale, causal } => by_row::attention_weights(inputs, scale.as_f64(), causal),
        Op::Attention(ref attention) => return attention::forward(inputs, attention),
        Op::AttentionBackward(ref attention) => return attention::backward(inputs, attention),
        Op::Norm { kind, epsilon } => by_row::norm(kind, inputs, epsilon.as_f64()),
        Op::SoftmaxBackward { kind, axis, scale } => {
            by_row::softmax_backward(inputs, kind, axis, scale.as_f64())
        }
        Op::NormBackward { kind, epsilon, weights } => {
            return by_row::norm_backward(kind, inputs, epsilon.as_f64(), weights);
        }
        Op::RealFft { axis, length } => return by_row::real_fft(&inputs[0], axis, length),
        Op::InverseRealFft { axis, length } => by_row::inverse_real_fft(inputs, axis, length),
        Op::Cumulative { kind, axis } => order::cumulative(kind, axis, &inputs[0]),
        Op::Sort { axis, descending, count } => order::sort(&inputs[0], axis, descending, count).0,
        Op::ArgSort { axis, descending, count, .. } => order::sort(&inputs[0], axis, descending, count).1,
        Op::CountSet => x[0].chunks(COUNTED_RUN).map(|run| run.iter().sum()).collect(),
        Op::ArgWhere { .. } => order::argwhere(&inputs[0]),
        Op::MaxPool2d { pool, indices } => return pools::max(inputs, &pool, &view, indices.is_some()),
        Op::MaxPool2dBackward { .. } => pools::max_backward(inputs, &view),
        Op::AvgPool2d(pool) => pools::average(inputs, &pool, &view),
        Op::AvgPool2dBackward { pool, .. } => pools::average_backward(inputs, &pool, &view),
        Op::AdaptiveAvgPool2d { .. } => pools::adaptive(inputs, &view),
        Op::AdaptiveAvgPool2dBackward { .. } => pools::adaptive_backward(inputs, &view),
        Op::Interpolate { resize, .. } => vision::interpolate(inputs, resize, &view),
        Op::InterpolateBackward { resize, .. } => vision::interpolate_backward(inputs, resize, &view),
        Op::GridSample(how) => vision::grid_sample(inputs, how, &view),
        Op::DeformColumns(deform) => vision::deform_columns(inputs, &deform, &view),
        Op::DeformBackwardOffset(deform) => return vision::deform_backward_offset(inputs, &deform),
        Op::DeformBackwardImage { deform, .. } => vision::deform_backward_image(inputs, &deform, &view),
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
        Reduce::MaxAbs => extreme(0.0, |a, b| a.max(b.abs())),
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
        Op::Scatter { axis, update: kind } => {
            for (n, index) in indices(&other(2)).enumerate() {
                let to = flat(&shape, &replaced(index, axis, x[1][n]));
                changed[to] = update(kind, view.dtype, changed[to], x[2][n]);
            }
            changed
        }
        Op::SelectUpdate { axis, update: kind } => {
            for (n, index) in indices(&other(2)).enumerate() {
                let to = flat(&shape, &replaced(index.clone(), axis, x[1][index[axis]]));
                changed[to] = update(kind, view.dtype, changed[to], x[2][n]);
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

/// Adding bools is `or`. What is added to or multiplied is rounded each time.
fn update(kind: Update, dtype: Dtype, x: f64, value: f64) -> f64 {
    match kind {
        Update::Assign => value,
        Update::Add if dtype.is_bool() => x.max(value),
        Update::Add => convert(wrap(dtype, x + value), dtype),
        Update::Mul => convert(wrap(dtype, x * value), dtype),
        Update::Min => x.min(value),
        Update::Max => x.max(value),
    }
}

fn convert(x: f64, dtype: Dtype) -> f64 {
    let (least, greatest) = dtype.range();
    match dtype {
        Dtype::F64 => x,
        Dtype::F32 => f64::from(x as f32),
        Dtype::F16 => f16::from_f64(x).to_f64(),
        Dtype::BF16 => bf16::from_f64(x).to_f64(),
        _ if dtype.is_bool() => f64::from(u8::from(x != 0.0)),
        _ => (x as i128).clamp(least, greatest) as f64,
    }
}

/// An integer modulo the size of the type.
fn wrap(dtype: Dtype, x: f64) -> f64 {
    let (least, greatest) = dtype.range();
    if dtype.is_integer() { ((x as i128 - least).rem_euclid(greatest - least + 1) + least) as f64 } else { x }
}

fn unary(kind: Unary, dtype: Dtype, x: f64) -> f64 {
    match kind {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign if x == 0.0 => 0.0,
        Unary::Sign => x.signum(),
        Unary::Square => x * x,
        Unary::Cube => x * x * x,
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Log1p => x.ln_1p(),
        Unary::Sqrt => x.sqrt(),
        Unary::Recip => 1.0 / x,
        Unary::InverseSqrt => x.powf(-0.5),
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
        Unary::LogSigmoid => -(-x).exp().ln_1p(),
        Unary::Gelu => x * normal_probability(x),
        Unary::Not if dtype.is_bool() => 1.0 - x,
        Unary::Not => -x - 1.0,
    }
}

fn normal_probability(x: f64) -> f64 {
    0.5 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))
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
    let float = dtype.is_float();
    let bits = |f: fn(i128, i128) -> i128| f(a as i128, b as i128) as f64;
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
        Binary::And => bits(|a, b| a & b),
        Binary::Or => bits(|a, b| a | b),
        Binary::Xor => bits(|a, b| a ^ b),
        Binary::ShiftLeft | Binary::ShiftRight => {
            let count = (b as i128).rem_euclid(8 * dtype.size_bytes() as i128);
            let a = a as i128;
            (if kind == Binary::ShiftLeft { a << count } else { a >> count }) as f64
        }
        Binary::LeakyRelu => {
            if a > 0.0 {
                a
            } else {
                a * b
            }
        }
        Binary::SigmoidBackward => b * a * (1.0 - a),
        Binary::LogSigmoidBackward => b / (1.0 + a.exp()),
        Binary::GeluBackward => {
            let density = (-0.5 * a * a).exp() / (2.0 * std::f64::consts::PI).sqrt();
            b * (normal_probability(a) + a * density)
        }
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
