//! Attention: by tiles where there are kernels for it, else by products and a softmax.

use super::arguments::Scores;
use super::{cast, create, fail, gradient, linear, ok, pointwise, run, view};
use crate::op::{self, AttentionDropout, Binary, Compare, Dtype, Op, Scalar, Unary};
use crate::runtime::{self, Tensor};

/// Dropout: some numbers become zero, and the others are scaled so that their mean stays. It depends on the seed alone.
#[derive(Clone, Copy, Debug)]
pub struct Dropout {
    /// The probability with which a number becomes zero.
    pub probability: f64,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Dropout {
    /// Applies the dropout with the same numbers as Burn's module.
    #[track_caller]
    pub fn apply(self, x: Tensor) -> Tensor {
        let keep = 1.0 - self.probability;
        let kept = create::kept(*x.shape(), &x.device(), x.dtype(), keep, self.seed);
        pointwise::scalar(Binary::Mul, pointwise::binary(Binary::Mul, x, kept), 1.0 / keep)
    }
}

/// What an attention drops.
#[derive(Clone, Copy, Debug)]
pub enum Dropped {
    /// Scores, before masks, as Burn's `MultiHeadAttention` does.
    Scores(Dropout),
    /// Weights, as most others do.
    Weights(Dropout),
}

/// Inputs of attention other than query, key, value and bias.
#[derive(Clone, Debug)]
pub struct Attention {
    /// True where a key does not count.
    pub mask: Option<Tensor>,
    /// Scale, cap, causality.
    pub options: Scores,
    /// Dropout.
    pub dropout: Option<Dropped>,
}

/// What the gradient of an attention by tiles reads beside its inputs: `out[b, h, q, v]` and a number for each query.
#[derive(Clone, Debug)]
pub struct Attended {
    out: Tensor,
    sums: Tensor,
}

/// `softmax(query keyᵗ scale) value` over the keys that count.
#[track_caller]
pub fn attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
    options: Scores,
) -> Tensor {
    let (mask, options) = aligned_at_last(&query, &key, mask, options);
    let heads = query.shape()[1];
    let [key, value] = [key, value].map(|x| for_each_head(x, heads));
    Attention { mask, options, dropout: None }.forward([query, key, value], bias).0
}

/// `x[b, groups, k, v]` with each of its heads as often as queries share it.
#[track_caller]
fn for_each_head(x: Tensor, heads: usize) -> Tensor {
    let shape = *x.shape();
    let groups = shape[1];
    if groups == heads || !heads.is_multiple_of(groups.max(1)) {
        return x;
    }
    let each = view::reshape_to(x, &[shape[0], groups, 1, shape[2], shape[3]]);
    let each = view::expand_to(each, &[shape[0], groups, heads / groups, shape[2], shape[3]]);
    view::reshape(each, shape.with(1, heads))
}

/// An attention by tiles without mask and bias, and for each query the logarithm of the sum of the exponentials of its scores,
/// `[batch, heads, queries]`. `None` if there are no kernels for it.
#[track_caller]
pub fn with_logsumexp(inputs: [Tensor; 3], options: Scores) -> Option<(Tensor, Tensor)> {
    let attention = tiled(&inputs, options)?;
    let (out, attended) = attention.forward(inputs, None);
    Some((out, attended?.sums))
}

/// The gradients of query, key and value from what [`with_logsumexp`] made.
#[track_caller]
pub fn backward(
    inputs: [Tensor; 3],
    out: Tensor,
    sums: Tensor,
    gradient: Tensor,
    options: Scores,
) -> Option<[Tensor; 3]> {
    let attention = tiled(&inputs, options)?;
    Some(attention.backward_by_tiles(inputs, &Attended { out, sums }, gradient))
}

/// The attention without mask and bias, if there are kernels for it.
#[track_caller]
fn tiled([query, key, value]: &[Tensor; 3], options: Scores) -> Option<Attention> {
    let attention = Attention { mask: None, options, dropout: None };
    let is_tiled = !options.differs_in_alignment(query, key) && attention.is_tiled([query, key, value], None);
    is_tiled.then_some(attention)
}

/// The same attention with the last query at the place of the last key, as the ops have it, or a mask in place of the order.
#[track_caller]
fn aligned_at_last(
    query: &Tensor,
    key: &Tensor,
    mask: Option<Tensor>,
    options: Scores,
) -> (Option<Tensor>, Scores) {
    if !options.differs_in_alignment(query, key) {
        return (mask, options);
    }
    let [queries, keys] = [query, key].map(|x| x.shape()[2]);
    let places = |count: usize| create::arange(0..count as i64, 1, &query.device(), Dtype::I32);
    let [of_query, of_key] = [view::reshape_to(places(queries), &[queries, 1]), places(keys)];
    let later = pointwise::compare(Compare::Greater, of_key, of_query, Dtype::Bool);
    let later = view::reshape_to(later, &[1, 1, queries, keys]);
    let mask = match mask {
        Some(mask) => pointwise::binary(Binary::Or, cast(mask, Dtype::Bool), later),
        None => later,
    };
    (Some(mask), Scores { is_causal: false, ..options })
}

impl Scores {
    /// Whether the first query's place is asked for, and is another than in the ops.
    fn differs_in_alignment(&self, query: &Tensor, key: &Tensor) -> bool {
        self.is_causal && self.from_first && query.shape()[2] != key.shape()[2]
    }
}

/// A block has as many queries: fewer than a fourth of them would leave most of it idle.
const LEAST_QUERIES: usize = 16;

impl Attention {
    /// The weighted sums of values, and what the gradient of an attention by tiles needs.
    #[track_caller]
    pub fn forward(&self, inputs: [Tensor; 3], bias: Option<Tensor>) -> (Tensor, Option<Attended>) {
        if !self.is_tiled(inputs.each_ref(), bias.as_ref()) {
            let [query, key, value] = inputs;
            let (weights, _) = self.weights(query, key, bias);
            return (linear::matmul(self.dropped_weights(weights), value), None);
        }
        let op = Op::Attention(self.op(&inputs[0]));
        let [out, sums] = ok(runtime::run_pair(op, self.operands(inputs, &[])));
        let out = view::swap_dims(out, 1, 2);
        (out.clone(), Some(Attended { out, sums }))
    }

    /// Whether there are kernels for these shapes and options.
    fn is_tiled(&self, inputs: [&Tensor; 3], bias: Option<&Tensor>) -> bool {
        let [query, key, value] = inputs.map(Tensor::shape);
        let alike = inputs.iter().all(|x| x.shape().rank() == 4 && x.dtype() == inputs[0].dtype());
        alike
            && op::Attention::supports(inputs[0].dtype())
            && (bias.is_none() && self.options.softcap.is_none())
            && (key.with(2, query[2]) == *query && value.with(3, key[3]) == *key)
            && query[2] >= LEAST_QUERIES
            && [query, value].iter().all(|shape| (1..=op::Attention::MAX_WIDTH).contains(&shape[3]))
    }

    fn op(&self, query: &Tensor) -> op::Attention {
        let (of_weights, dropout) = match self.dropout {
            Some(Dropped::Weights(dropout)) => (true, Some(dropout)),
            Some(Dropped::Scores(dropout)) => (false, Some(dropout)),
            None => (false, None),
        };
        let dropout = dropout.map(|Dropout { probability, seed }| AttentionDropout {
            of_weights,
            keep: Scalar::from(1.0 - probability),
            seed,
        });
        op::Attention { scale: Scalar::from(self.scale(query)), causal: self.options.is_causal, dropout }
    }

    /// The tensors that the op reads; the elements of a row lie side by side.
    #[track_caller]
    fn operands(&self, inputs: [Tensor; 3], others: &[Tensor]) -> Vec<Tensor> {
        let [queries, keys] = [&inputs[0], &inputs[1]].map(|rows| rows.shape()[2]);
        let scores = inputs[0].shape().with(2, queries).with(3, keys);
        let mask = self.mask.clone().map(|mask| view::expand(cast(mask, Dtype::Bool), scores));
        inputs.into_iter().map(side_by_side).chain(others.iter().cloned()).chain(mask).collect()
    }

    /// Factor of the scores; without one, the root of the queries' width divides them.
    fn scale(&self, query: &Tensor) -> f64 {
        self.options.scale.unwrap_or_else(|| 1.0 / (query.shape()[3] as f64).sqrt())
    }

    fn dropped_weights(&self, weights: Tensor) -> Tensor {
        match self.dropout {
            Some(Dropped::Weights(dropout)) => dropout.apply(weights),
            _ => weights,
        }
    }

    fn dropped_scores(&self) -> Option<Dropout> {
        if let Some(Dropped::Scores(dropout)) = self.dropout { Some(dropout) } else { None }
    }

    /// Whether something comes between scale and softmax, so that the scores are scaled by an op of its own.
    fn scales_apart(&self, is_biased: bool) -> bool {
        self.options.softcap.is_some() || is_biased || self.dropped_scores().is_some()
    }

    /// The weights, and where scores are capped, the hyperbolic tangents that they were capped by.
    #[track_caller]
    fn weights(&self, query: Tensor, key: Tensor, bias: Option<Tensor>) -> (Tensor, Option<Tensor>) {
        let mut scale = self.scale(&query);
        let mut scores = linear::matmul(query, view::swap_dims(key, 2, 3));
        if self.scales_apart(bias.is_some()) {
            scores = pointwise::scalar(Binary::Mul, scores, scale);
            scale = 1.0;
        }
        if let Some(dropout) = self.dropped_scores() {
            scores = dropout.apply(scores);
        }
        let mut tangents = None;
        if let Some(cap) = self.options.softcap {
            if cap <= 0.0 {
                fail(format!("burn-overcommit: softcap must be positive, got {cap}"));
            }
            let capped = pointwise::unary(Unary::Tanh, pointwise::scalar(Binary::Div, scores, cap));
            tangents = Some(capped.clone());
            scores = pointwise::scalar(Binary::Mul, capped, cap);
        }
        if let Some(bias) = bias {
            scores = pointwise::binary(Binary::Add, scores, bias);
        }
        let op = Op::AttentionWeights { scale: Scalar::from(scale), causal: self.options.is_causal };
        let shape = *scores.shape();
        let mask = self.mask.clone().map(|mask| view::expand(cast(mask, Dtype::Bool), shape));
        (run(op, [scores].into_iter().chain(mask)), tangents)
    }
}

/// The tensor, or a copy whose rows have their elements side by side.
#[track_caller]
fn side_by_side(x: Tensor) -> Tensor {
    let is_row = x.shape()[3] == 1 || x.layout().strides()[3] == 1;
    if is_row { x } else { run(Op::Copy { dtype: x.dtype() }, [x]) }
}

impl Attention {
    #[track_caller]
    fn backward_by_tiles(&self, inputs: [Tensor; 3], attended: &Attended, gradient: Tensor) -> [Tensor; 3] {
        let op = Op::AttentionBackward(self.op(&inputs[0]));
        let others = [attended.out.clone(), attended.sums.clone(), side_by_side(gradient)];
        let made = ok(runtime::run_three(op, self.operands(inputs, &others)));
        made.map(|x| view::swap_dims(x, 1, 2))
    }

    /// The gradients of query, key, value and, if there is one, the bias, whose gradient is that of the scores.
    /// `attended` is what the forward pass made beside its output.
    #[track_caller]
    pub fn backward(
        &self,
        inputs: [Tensor; 3],
        bias: Option<Tensor>,
        attended: Option<&Attended>,
        gradient: Tensor,
    ) -> [Option<Tensor>; 4] {
        let Some(attended) = attended else {
            return self.backward_by_scores(inputs, bias, gradient);
        };
        let [of_query, of_key, of_value] = self.backward_by_tiles(inputs, attended, gradient).map(Some);
        [of_query, of_key, of_value, None]
    }

    /// The weights are recomputed, as in Rabe and Staats, "Self-attention does not need O(n^2) memory" (2021), section 3.
    #[track_caller]
    fn backward_by_scores(
        &self,
        [query, key, value]: [Tensor; 3],
        bias: Option<Tensor>,
        gradient: Tensor,
    ) -> [Option<Tensor>; 4] {
        let (scale, biased) = (self.scale(&query), bias.is_some());
        let apart = self.scales_apart(biased);
        let (weights, tangents) = self.weights(query.clone(), key.clone(), bias);
        let dropped = self.dropped_weights(weights.clone());
        let of_value = linear::matmul(view::swap_dims(dropped, 2, 3), gradient.clone());
        let of_weights = self.dropped_weights(linear::matmul(gradient, view::swap_dims(value, 2, 3)));
        let factor = if apart { 1.0 } else { scale };
        let mut of_scores = gradient::softmax(op::Softmax::Plain, weights, of_weights, 3, factor);
        let of_bias = biased.then(|| of_scores.clone());
        if let Some(tangents) = tangents {
            let falloff = pointwise::unary(Unary::Square, tangents);
            let less = pointwise::binary(Binary::Mul, of_scores.clone(), falloff);
            of_scores = pointwise::binary(Binary::Sub, of_scores, less);
        }
        if let Some(dropout) = self.dropped_scores() {
            of_scores = dropout.apply(of_scores);
        }
        if apart {
            of_scores = pointwise::scalar(Binary::Mul, of_scores, scale);
        }
        let of_query = linear::matmul(of_scores.clone(), key);
        let of_key = linear::matmul(view::swap_dims(of_scores, 2, 3), query);
        [Some(of_query), Some(of_key), Some(of_value), of_bias]
    }
}
