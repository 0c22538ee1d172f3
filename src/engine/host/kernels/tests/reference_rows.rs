//! Softmax, layer norm and Fourier transforms, by definition.

use super::{Data, flat, indices, rows};
use crate::op::{Shape, Softmax};

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

pub fn layer_norm(inputs: &[Data], epsilon: f64) -> Vec<f64> {
    let axis = inputs[0].view.shape().rank() - 1;
    let (gamma, beta) = (inputs[1].elements(), inputs.get(2).map(Data::elements));
    let of_row = |row: &Vec<f64>| {
        let count = row.len() as f64;
        let mean = row.iter().sum::<f64>() / count;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let shift = |k: usize| beta.as_ref().map_or(0.0, |beta| beta[k]);
        let value = |(k, x): (usize, &f64)| (x - mean) / (variance + epsilon).sqrt() * gamma[k] + shift(k);
        row.iter().enumerate().map(value).collect()
    };
    let rows: Vec<Vec<f64>> = rows(&inputs[0], axis).iter().map(of_row).collect();
    unrows(&rows, *inputs[0].view.shape(), axis)
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
