//! Naive functions, where burn-flex lacks an op, is wrong, or promises less.

use std::cmp::Ordering;

use burn_backend::DType;

use crate::host::{Host, Values, number};

/// Inputs and outputs with the reference's dtypes.
type Naive = fn(&[(Host, DType)], usize) -> Vec<(Host, DType)>;

/// By the name of a case without its variant.
pub fn of(case: &str) -> Option<Naive> {
    Some(match case {
        // burn-flex's are not stable in long rows, and it has no `argtopk`.
        "float_argsort" | "int_argsort" => |inputs, axis| vec![argsort(&inputs[0], axis, false, usize::MAX)],
        "float_argsort descending" | "int_argsort descending" => {
            |inputs, axis| vec![argsort(&inputs[0], axis, true, usize::MAX)]
        }
        "float_argtopk" | "int_argtopk" => |inputs, axis| vec![argsort(&inputs[0], axis, true, 2)],
        // burn-flex panics where another axis is empty.
        "float_any_dim" | "int_any_dim" | "bool_any_dim" => {
            |inputs, axis| vec![any(&inputs[0].0, axis, true)]
        }
        "float_all_dim" | "int_all_dim" | "bool_all_dim" => {
            |inputs, axis| vec![any(&inputs[0].0, axis, false)]
        }
        // burn-flex multiplies zero by infinity.
        "float_remainder" => |inputs, _| floats(inputs, remainder),
        "float_remainder_scalar" => |inputs, _| floats(inputs, |x, _| remainder(x, 0.75)),
        // burn-flex loses NaN; the standard's arithmetic and PyTorch keep it.
        "float_clamp_min" => |inputs, _| floats(inputs, |x, _| if x < -0.7 { -0.7 } else { x }),
        "float_clamp_max" => |inputs, _| floats(inputs, |x, _| if x > 0.9 { 0.9 } else { x }),
        "relu" => |inputs, _| floats(inputs, |x, _| if x < 0.0 { 0.0 } else { x }),
        "prelu" => |inputs, _| floats(inputs, |x, slope| if x > 0.0 { x } else { x * slope }),
        // burn-flex's angles are of f32.
        "rfft" | "rfft padded" => |inputs, _| rfft(&inputs[0].0, 1, 8),
        "rfft first" => |inputs, _| rfft(&inputs[0].0, 0, 16),
        "irfft" => |inputs, _| irfft(&inputs[0].0, &inputs[1].0, 1, 8),
        "irfft first" => |inputs, _| irfft(&inputs[0].0, &inputs[1].0, 0, 16),
        // Integers wrap as Rust's wrapping arithmetic does, in every width.
        "int_add" => |inputs, _| ints(inputs, i128::wrapping_add),
        "int_sub" => |inputs, _| ints(inputs, i128::wrapping_sub),
        "int_mul" => |inputs, _| ints(inputs, i128::wrapping_mul),
        "int_neg" => |inputs, _| ints(inputs, |x, _| -x),
        "int_div" => |inputs, _| ints(inputs, |x, y| x / y),
        "int_remainder" => |inputs, _| ints(inputs, |x, y| (x % y + y) % y),
        "bitwise_and" => |inputs, _| ints(inputs, |x, y| x & y),
        "bitwise_or" => |inputs, _| ints(inputs, |x, y| x | y),
        "bitwise_xor" => |inputs, _| ints(inputs, |x, y| x ^ y),
        "bitwise_not" => |inputs, _| ints(inputs, |x, _| !x),
        "bitwise_left_shift" => |inputs, _| ints(inputs, |x, y| x << y),
        "bitwise_right_shift" => |inputs, _| ints(inputs, |x, y| x >> y),
        _ => return None,
    })
}

/// Each pair of elements; the same one twice where there is one input.
fn floats(inputs: &[(Host, DType)], op: fn(f64, f64) -> f64) -> Vec<(Host, DType)> {
    let values = |input: Option<&(Host, DType)>| match input.map(|(host, _)| &host.values) {
        Some(Values::Float(values)) => values.clone(),
        _ => panic!("a float input was expected"),
    };
    let (x, y) = (values(inputs.first()), values(inputs.last()));
    let values = x.into_iter().zip(y).map(|(x, y)| op(x, y)).collect();
    vec![(Host::new(&inputs[0].0.shape, Values::Float(values)), DType::F64)]
}

fn ints(inputs: &[(Host, DType)], op: fn(i128, i128) -> i128) -> Vec<(Host, DType)> {
    let values = |input: Option<&(Host, DType)>| match input.map(|(host, _)| &host.values) {
        Some(Values::Int(values)) => values.clone(),
        _ => panic!("an integer input was expected"),
    };
    let (x, y) = (values(inputs.first()), values(inputs.last()));
    let values = x.into_iter().zip(y).map(|(x, y)| op(x, y)).collect();
    vec![(Host::new(&inputs[0].0.shape, Values::Int(values)), DType::I64)]
}

/// With the sign of the divisor.
fn remainder(x: f64, y: f64) -> f64 {
    let rest = x % y;
    if rest != 0.0 && (rest < 0.0) != (y < 0.0) { rest + y } else { rest }
}

/// The shape with `size` along the axis.
fn resized(shape: &[usize], axis: usize, size: usize) -> Vec<usize> {
    let mut shape = shape.to_vec();
    shape[axis] = size;
    shape
}

fn at(place: &[usize], axis: usize, index: usize) -> Vec<usize> {
    let mut place = place.to_vec();
    place[axis] = index;
    place
}

/// The first `count` of a row, in an order that keeps equal ones as they were; NaN is the greatest.
fn argsort((x, dtype): &(Host, DType), axis: usize, descending: bool, count: usize) -> (Host, DType) {
    let size = x.shape[axis];
    let shape = resized(&x.shape, axis, count.min(size));
    let compare = |a: usize, b: usize| match &x.values {
        Values::Float(v) => v[a].partial_cmp(&v[b]).unwrap_or_else(|| v[a].is_nan().cmp(&v[b].is_nan())),
        Values::Int(v) => v[a].cmp(&v[b]),
        Values::Bool(_) => Ordering::Equal,
    };
    let mut indices = vec![0; shape.iter().product()];
    for row in crate::host::places(&resized(&x.shape, axis, 1)) {
        let source = |index: usize| number(&x.shape, &at(&row, axis, index));
        let mut order: Vec<usize> = (0..size).collect();
        order.sort_by(|&a, &b| {
            let ascending = compare(source(a), source(b));
            if descending { ascending.reverse() } else { ascending }
        });
        for (rank, index) in order.into_iter().take(count).enumerate() {
            indices[number(&shape, &at(&row, axis, rank))] = index as i128;
        }
    }
    let dtype = if dtype.is_float() { DType::I64 } else { *dtype };
    (Host::new(&shape, Values::Int(indices)), dtype)
}

/// Whether any of a row is `wanted` to be nonzero, or else whether all are.
fn any(x: &Host, axis: usize, wanted: bool) -> (Host, DType) {
    let truth = |number: usize| match &x.values {
        Values::Float(values) => values[number] != 0.0,
        Values::Int(values) => values[number] != 0,
        Values::Bool(values) => values[number],
    };
    let shape = resized(&x.shape, axis, 1);
    let row = |place: Vec<usize>| {
        let mut row = (0..x.shape[axis]).map(|index| truth(number(&x.shape, &at(&place, axis, index))));
        if wanted { row.any(|x| x) } else { row.all(|x| x) }
    };
    let values = crate::host::places(&shape).map(row).collect();
    (Host::new(&shape, Values::Bool(values)), crate::host::NATIVE)
}

fn real(x: &Host) -> &[f64] {
    let Values::Float(values) = &x.values else { panic!("a float input was expected") };
    values
}

/// The cosine and the sine of a part of a turn.
fn turn(part: usize, whole: usize) -> [f64; 2] {
    let (sine, cosine) = (std::f64::consts::TAU * (part % whole) as f64 / whole as f64).sin_cos();
    [cosine, sine]
}

/// The first half of the spectrum of a signal that is padded with zeros to `length`.
fn rfft(x: &Host, axis: usize, length: usize) -> Vec<(Host, DType)> {
    let shape = resized(&x.shape, axis, length / 2 + 1);
    let part = |imaginary: usize, sign: f64| {
        let value = |place: Vec<usize>| -> f64 {
            let term = |t: usize| {
                sign * real(x)[number(&x.shape, &at(&place, axis, t))]
                    * turn(t * place[axis], length)[imaginary]
            };
            (0..x.shape[axis].min(length)).map(term).sum()
        };
        let values = crate::host::places(&shape).map(value).collect();
        (Host::new(&shape, Values::Float(values)), DType::F64)
    };
    vec![part(0, 1.0), part(1, -1.0)]
}

/// The signal of half a spectrum; the other half is its conjugate.
fn irfft(re: &Host, im: &Host, axis: usize, length: usize) -> Vec<(Host, DType)> {
    let shape = resized(&re.shape, axis, length);
    let value = |place: Vec<usize>| -> f64 {
        let term = |frequency: usize| {
            let index = number(&re.shape, &at(&place, axis, frequency));
            let [cosine, sine] = turn(frequency * place[axis], length);
            let twice = if frequency == 0 || 2 * frequency == length { 1.0 } else { 2.0 };
            twice * (real(re)[index] * cosine - real(im)[index] * sine) / length as f64
        };
        (0..re.shape[axis]).map(term).sum()
    };
    let values = crate::host::places(&shape).map(value).collect();
    vec![(Host::new(&shape, Values::Float(values)), DType::F64)]
}
