//! Attention and its gradients, by definition, a query at a time.

use super::Data;
use crate::op::{Attention, Shape};

/// The rows of a tensor `[batch, heads, rows, width]`, head by head.
fn heads(x: &Data) -> Vec<Vec<Vec<f64>>> {
    let (shape, elements) = (x.view.shape(), x.elements());
    let rows: Vec<Vec<f64>> = elements.chunks(shape[3]).map(<[f64]>::to_vec).collect();
    rows.chunks(shape[2]).map(<[_]>::to_vec).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `[batch, heads, rows, width]` as `[batch, rows, heads, width]`.
fn side_by_side(by_head: &[Vec<Vec<f64>>], batches: usize) -> Vec<f64> {
    let count = by_head.len() / batches;
    let rows = by_head[0].len();
    let row = |batch: usize, row: usize| (0..count).flat_map(move |head| &by_head[batch * count + head][row]);
    (0..batches).flat_map(|batch| (0..rows).flat_map(move |n| row(batch, n))).copied().collect()
}

/// The scores of a query, minus infinity where a key does not count.
struct Scores<'a> {
    attention: &'a Attention,
    mask: Option<Vec<f64>>,
    shape: Shape,
}

impl Scores<'_> {
    fn of(&self, head: usize, query: usize, row: &[f64], keys: &[Vec<f64>]) -> Vec<f64> {
        let (queries, count) = (self.shape[2], keys.len());
        let score = |(key, other): (usize, &Vec<f64>)| {
            let place = (head * queries + query) * count + key;
            let is_hidden = self.attention.causal && key + queries > query + count
                || self.mask.as_ref().is_some_and(|mask| mask[place] != 0.0);
            if is_hidden { f64::NEG_INFINITY } else { dot(row, other) * self.attention.scale.as_f64() }
        };
        keys.iter().enumerate().map(score).collect()
    }
}

pub fn forward(inputs: &[Data], attention: &Attention) -> Vec<Vec<f64>> {
    let [queries, keys, values] = [0, 1, 2].map(|n| heads(&inputs[n]));
    let shape = *inputs[0].view.shape();
    let scores = Scores { attention, mask: inputs.get(3).map(Data::elements), shape };
    let (mut out, mut sums) = (queries.clone(), Vec::new());
    for head in 0..queries.len() {
        for (n, row) in queries[head].iter().enumerate() {
            let scores = scores.of(head, n, row, &keys[head]);
            let largest = scores.iter().copied().fold(f64::MIN, f64::max);
            let sum: f64 = scores.iter().map(|score| (score - largest).exp()).sum();
            let weight = |score: &f64| if sum == 0.0 { 0.0 } else { (score - largest).exp() / sum };
            out[head][n] = vec![0.0; inputs[2].view.shape()[3]];
            for (score, value) in scores.iter().zip(&values[head]) {
                out[head][n].iter_mut().zip(value).for_each(|(to, value)| *to += weight(score) * value);
            }
            sums.push(if sum == 0.0 { f64::INFINITY } else { largest + sum.ln() });
        }
    }
    vec![side_by_side(&out, shape[0]), sums]
}

pub fn backward(inputs: &[Data], attention: &Attention) -> Vec<Vec<f64>> {
    let [queries, keys, values, out, _, gradients] =
        [0, 1, 2, 3, 4, 5].map(|n| if n == 4 { Vec::new() } else { heads(&inputs[n]) });
    let (sums, shape) = (inputs[4].elements(), *inputs[0].view.shape());
    let scores = Scores { attention, mask: inputs.get(6).map(Data::elements), shape };
    let zeros = |of: &[Vec<Vec<f64>>]| -> Vec<Vec<Vec<f64>>> {
        of.iter().map(|head| head.iter().map(|row| vec![0.0; row.len()]).collect()).collect()
    };
    let [mut of_queries, mut of_keys, mut of_values] = [&queries, &keys, &values].map(|x| zeros(x));
    let add = |to: &mut Vec<f64>, times: f64, row: &[f64]| {
        to.iter_mut().zip(row).for_each(|(to, x)| *to += times * x);
    };
    for head in 0..queries.len() {
        for (n, row) in queries[head].iter().enumerate() {
            let gradient = &gradients[head][n];
            let delta = dot(&out[head][n], gradient);
            for (k, score) in scores.of(head, n, row, &keys[head]).into_iter().enumerate() {
                let weight = (score - sums[head * shape[2] + n]).exp();
                let slope = weight * (dot(gradient, &values[head][k]) - delta) * attention.scale.as_f64();
                add(&mut of_queries[head][n], slope, &keys[head][k]);
                add(&mut of_keys[head][k], slope, row);
                add(&mut of_values[head][k], weight, gradient);
            }
        }
    }
    [of_queries, of_keys, of_values].iter().map(|x| side_by_side(x, shape[0])).collect()
}
