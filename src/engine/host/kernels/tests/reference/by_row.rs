//! Softmax, layer norm and Fourier transforms, by definition.

use super::{Data, flat, indices, rows};
use crate::op::{Norm, Shape, Softmax};

/// Rows along `axis`, in the order of the other indices, as the elements of an output in row-major order.
fn unrows(rows: &[Vec<f64>], shape: Shape, axis: usize) -> Vec<f64> {
    let length = rows.first().map_or(0, Vec::len);
    let out = shape.with(axis, length);
    let mut elements = vec![0.0; out.count()];
    for (row, index) in rows.iter().zip(indices(&shape.with(axis, 1))) {
        for (k, &value) in row.iter().enumerate() {
            let mut index = index.clone();
            index[axis] = k;
            elements[flat(&out, &index)] = value;
        }
    }
    elements
}

/// The largest; NaN wins.
fn largest(row: &[f64]) -> f64 {
    row.iter().fold(f64::NEG_INFINITY, |a, &b| if a > b || a.is_nan() { a } else { b })
}

pub fn softmax(x: &Data, kind: Softmax, axis: usize) -> Vec<f64> {
    let of_row = |row: &Vec<f64>| {
        let largest = largest(row);
        let sum: f64 = row.iter().map(|x| (x - largest).exp()).sum();
        let value = |x: &f64| match kind {
            Softmax::Plain => (x - largest).exp() / sum,
            Softmax::Log => x - largest - sum.ln(),
        };
        row.iter().map(value).collect()
    };
    let rows: Vec<Vec<f64>> = rows(x, axis).iter().map(of_row).collect();
    unrows(&rows, *x.view.shape(), axis)
}

pub fn attention_weights(inputs: &[Data], scale: f64, causal: bool) -> Vec<f64> {
    let (shape, scores) = (*inputs[0].view.shape(), inputs[0].elements());
    let mask = inputs.get(1).map(Data::elements);
    let (queries, keys) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    let mut out = Vec::new();
    for (row, begin) in (0..scores.len()).step_by(keys.max(1)).enumerate() {
        let hidden = |k: usize| {
            causal && k + queries > row % queries + keys
                || mask.as_ref().is_some_and(|mask| mask[begin + k] != 0.0)
        };
        let score = |k: usize| if hidden(k) { f64::NEG_INFINITY } else { scores[begin + k] * scale };
        let row: Vec<f64> = (0..keys).map(score).collect();
        let largest = largest(&row).max(f64::MIN);
        let largest = if row.iter().any(|x| x.is_nan()) { f64::NAN } else { largest };
        let powers = row.iter().map(|x| (x - largest).exp());
        let sum: f64 = powers.clone().sum();
        out.extend(powers.map(|power| if sum == 0.0 { 0.0 } else { power / sum }));
    }
    out
}

pub fn norm(kind: Norm, inputs: &[Data], epsilon: f64) -> Vec<f64> {
    let axis = inputs[0].view.shape().rank() - 1;
    let (gamma, beta) = (inputs[1].elements(), inputs.get(2).map(Data::elements));
    let of_row = |row: &Vec<f64>| {
        let (mean, deviation) = moments(kind, row, epsilon);
        let shift = |k: usize| beta.as_ref().map_or(0.0, |beta| beta[k]);
        let value = |(k, x): (usize, &f64)| (x - mean) / deviation * gamma[k] + shift(k);
        row.iter().enumerate().map(value).collect()
    };
    let rows: Vec<Vec<f64>> = rows(&inputs[0], axis).iter().map(of_row).collect();
    unrows(&rows, *inputs[0].view.shape(), axis)
}

/// What a norm takes from a row, and what it divides by.
fn moments(kind: Norm, row: &[f64], epsilon: f64) -> (f64, f64) {
    let count = row.len() as f64;
    let mean = if kind == Norm::Layer { row.iter().sum::<f64>() / count } else { 0.0 };
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    (mean, (variance + epsilon).sqrt())
}

/// By the softmax's Jacobian, written out.
pub fn softmax_backward(inputs: &[Data], kind: Softmax, axis: usize, scale: f64) -> Vec<f64> {
    let of_row = |(y, gradient): (&Vec<f64>, &Vec<f64>)| {
        // How output j changes with input i.
        let change = |i: usize, j: usize| match kind {
            Softmax::Plain => y[j] * (f64::from(i == j) - y[i]),
            Softmax::Log => f64::from(i == j) - y[i].exp(),
        };
        let total = |i: usize| (0..y.len()).map(|j| gradient[j] * change(i, j)).sum::<f64>();
        (0..y.len()).map(|i| total(i) * scale).collect()
    };
    let (y, gradient) = (rows(&inputs[0], axis), rows(&inputs[1], axis));
    let rows: Vec<Vec<f64>> = y.iter().zip(&gradient).map(of_row).collect();
    unrows(&rows, *inputs[0].view.shape(), axis)
}

/// Every output's change with every input of its row, written out.
pub fn norm_backward(kind: Norm, inputs: &[Data], epsilon: f64, weights: bool) -> Vec<Vec<f64>> {
    let (x, gamma, gradient) = (rows(&inputs[0], 1), inputs[1].elements(), rows(&inputs[2], 1));
    let width = gamma.len();
    let (mut of_x, mut of_gamma, mut of_beta) = (Vec::new(), vec![0.0; width], vec![0.0; width]);
    for (x, gradient) in x.iter().zip(&gradient) {
        let (mean, deviation) = moments(kind, x, epsilon);
        let normal: Vec<f64> = x.iter().map(|x| (x - mean) / deviation).collect();
        let share = if kind == Norm::Layer { 1.0 / width as f64 } else { 0.0 };
        let change = |i: usize, j: usize| {
            (f64::from(i == j) - share - normal[i] * normal[j] / width as f64) / deviation
        };
        let total = |i: usize| (0..width).map(|j| gradient[j] * gamma[j] * change(i, j)).sum::<f64>();
        of_x.extend((0..width).map(total));
        for k in 0..width {
            of_gamma[k] += gradient[k] * normal[k];
            of_beta[k] += gradient[k];
        }
    }
    let of_weights = if kind == Norm::Layer { [of_gamma, of_beta].concat() } else { of_gamma };
    [of_x].into_iter().chain(weights.then_some(of_weights)).collect()
}

/// The cosine and sine of `k` parts of the circle of `length`.
fn turn(k: usize, length: usize) -> (f64, f64) {
    let angle = std::f64::consts::TAU * (k % length) as f64 / length as f64;
    (angle.cos(), angle.sin())
}

pub fn real_fft(x: &Data, axis: usize, length: usize) -> Vec<Vec<f64>> {
    let part = |pick: fn((f64, f64)) -> f64| {
        let of_row = |row: &Vec<f64>| {
            let term = |bin: usize, k: usize| row[k] * pick(turn(bin * k, length));
            let bins = 0..length / 2 + 1;
            bins.map(|bin| (0..length.min(row.len())).map(|k| term(bin, k)).sum()).collect()
        };
        let rows: Vec<Vec<f64>> = rows(x, axis).iter().map(of_row).collect();
        unrows(&rows, *x.view.shape(), axis)
    };
    vec![part(|(cos, _)| cos), part(|(_, sin)| -sin)]
}

pub fn inverse_real_fft(inputs: &[Data], axis: usize, length: usize) -> Vec<f64> {
    let (real, imaginary) = (rows(&inputs[0], axis), rows(&inputs[1], axis));
    let of_row = |(real, imaginary): (&Vec<f64>, &Vec<f64>)| {
        let value = |k: usize| {
            let bins = real.len().min(length / 2 + 1);
            // Those between the first and the middle stand for their conjugates too.
            let weight = |bin: usize| if bin == 0 || 2 * bin == length { 1.0 } else { 2.0 };
            let term = |bin: usize| {
                let (cos, sin) = turn(bin * k, length);
                weight(bin) * (real[bin] * cos - imaginary[bin] * sin)
            };
            (0..bins).map(term).sum::<f64>() / length as f64
        };
        (0..length).map(value).collect()
    };
    let rows: Vec<Vec<f64>> = real.iter().zip(&imaginary).map(of_row).collect();
    unrows(&rows, *inputs[0].view.shape(), axis)
}
