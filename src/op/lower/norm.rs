use bytemuck::{Pod, Zeroable};

use super::call::dtypes;
use super::space::{Dim, Space};
use super::{Calls, Dtype, KernelCall, KernelName, Placed, Request};
use crate::op::{self, Scalar, Softmax};

/// Arguments of every softmax (`Softmax` in `norm.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Rows {
    out: u64,
    x: u64,
    mask: u64,
    chunk: u64,
    size: u64,
    step_x: i64,
    step_out: i64,
    step_mask: i64,
    queries: u64,
    scale: f64,
    space: Space,
}

/// Arguments of the norms (`Norm` in `norm.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Norm {
    out: u64,
    x: u64,
    gamma: u64,
    beta: u64,
    chunk: u64,
    size: u64,
    step_x: i64,
    step_gamma: i64,
    step_beta: i64,
    epsilon: f64,
    space: Space,
}

fn first(operand: Option<&Placed>) -> u64 {
    operand.map_or(0, Placed::first)
}

pub(super) fn step(operand: &Placed, axis: usize) -> i64 {
    operand.view.layout.strides()[axis] as i64
}

/// The rows along `axis` of operands of equal shape.
pub(super) fn rows(operands: &[&Placed], axis: usize) -> Space {
    let layouts: Vec<_> = operands.iter().map(|operand| &operand.view.layout).collect();
    let rank = layouts[0].shape().rank();
    Space::new((0..rank).filter(|&other| other != axis).map(|other| Dim::of(&layouts, other)))
}

pub fn softmax(request: &Request, kind: Softmax, axis: usize, calls: &mut Calls) {
    weights(request, if kind == Softmax::Log { "log" } else { "" }, axis, None, calls);
}

pub fn attention_weights(request: &Request, scale: Scalar, causal: bool, calls: &mut Calls) {
    let axis = request.inputs[0].view.shape().rank() - 1;
    weights(request, "masked", axis, Some((scale, causal)), calls);
}

fn weights(
    request: &Request,
    kind: &'static str,
    axis: usize,
    scores: Option<(Scalar, bool)>,
    calls: &mut Calls,
) {
    let (x, out, mask) = (&request.inputs[0], &request.outputs[0], request.inputs.get(1));
    let shape = x.view.shape();
    let mut args = Rows {
        out: out.first(),
        x: x.first(),
        mask: first(mask),
        chunk: 0,
        size: shape[axis] as u64,
        step_x: step(x, axis),
        step_out: step(out, axis),
        step_mask: mask.map_or(0, |mask| step(mask, axis)),
        queries: 0,
        scale: 1.0,
        space: rows(&[x, out, mask.unwrap_or(x)], axis),
    };
    if let Some((scale, causal)) = scores {
        args.scale = scale.as_f64();
        args.queries = if causal { shape[axis - 1] as u64 } else { 0 };
    }
    let count = args.space.count;
    args.chunk = request.per_block(WEIGHT).rows(&args.space, args.step_x, args.size, count);
    KernelCall::push(calls, KernelName::new("softmax", kind, x.view.dtype), count, args.chunk, &args);
}

/// How much more an element of a softmax costs than cheap work.
pub(super) const WEIGHT: usize = 8;

pub fn norm(request: &Request, kind: op::Norm, epsilon: Scalar, calls: &mut Calls) {
    let (x, gamma, beta) = (&request.inputs[0], &request.inputs[1], request.inputs.get(2));
    let axis = x.view.shape().rank() - 1;
    let mut args = Norm {
        out: request.outputs[0].first(),
        x: x.first(),
        gamma: gamma.first(),
        beta: first(beta),
        chunk: 0,
        size: x.view.shape()[axis] as u64,
        step_x: step(x, axis),
        step_gamma: step(gamma, 0),
        step_beta: beta.map_or(0, |beta| step(beta, 0)),
        epsilon: epsilon.as_f64(),
        space: rows(&[x], axis),
    };
    args.chunk = request.per_block(2).rows(&args.space, args.step_x, args.size, 1);
    KernelCall::push(
        calls,
        KernelName::new(kind.name(), "", x.view.dtype),
        args.space.count,
        args.chunk,
        &args,
    );
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in dtypes().filter(|dtype: &Dtype| dtype.is_float()) {
        names.extend(["", "log", "masked"].map(|kind| KernelName::new("softmax", kind, dtype)));
        names.extend(op::Norm::ALL.iter().map(|kind| KernelName::new(kind.name(), "", dtype)));
    }
}

#[cfg(test)]
pub fn args_size(family: &str) -> usize {
    if family == "softmax" { size_of::<Rows>() } else { size_of::<Norm>() }
}
