//! Gradients of softmax and of the norms.
//!
//! A norm's gradient takes rows and columns that are evenly apart; other views are copied first. The sums over rows,
//! for gamma and beta, are those of pieces of rows whose length depends on the width alone, added up in order.

use bytemuck::{Pod, Zeroable};

use super::call::dtypes;
use super::norm::{WEIGHT, rows, step};
use super::reduce::COLUMNS;
use super::space::{Dim, Space};
use super::{Calls, Dtype, KernelCall, KernelName, Request};
use crate::op::{Norm, Scalar, Softmax, View};

/// Arguments of a softmax's gradient (`SoftmaxBackward` in `norm_backward.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct SoftmaxBackward {
    out: u64,
    y: u64,
    gradient: u64,
    chunk: u64,
    size: u64,
    step_y: i64,
    step_gradient: i64,
    step_out: i64,
    scale: f64,
    space: Space,
}

/// Arguments of every kernel of a norm's gradient (`NormBackward` in `norm_backward.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct NormBackward {
    out: u64,
    x: u64,
    gamma: u64,
    gradient: u64,
    moments: u64,
    sums: u64,
    chunk: u64,
    size: u64,
    rows: u64,
    piece: u64,
    parts: u64,
    row_x: i64,
    row_gradient: i64,
    step_x: i64,
    step_gamma: i64,
    step_gradient: i64,
    epsilon: f64,
    space: Space,
}

pub fn softmax(request: &Request, kind: Softmax, axis: usize, scale: Scalar, calls: &mut Calls) {
    let (y, gradient, out) = (&request.inputs[0], &request.inputs[1], &request.outputs[0]);
    let mut args = SoftmaxBackward {
        out: out.first(),
        y: y.first(),
        gradient: gradient.first(),
        chunk: 0,
        size: y.view.shape()[axis] as u64,
        step_y: step(y, axis),
        step_gradient: step(gradient, axis),
        step_out: step(out, axis),
        scale: scale.as_f64(),
        space: rows(&[y, gradient, out], axis),
    };
    let (count, weight) = (args.space.count, if kind == Softmax::Log { WEIGHT } else { 2 });
    args.chunk = request.per_block(weight).rows(&args.space, args.step_y, args.size, count);
    let kind = if kind == Softmax::Log { "log" } else { "" };
    KernelCall::push(
        calls,
        KernelName::new("softmax_backward", kind, y.view.dtype),
        count,
        args.chunk,
        &args,
    );
}

/// Rows of a norm whose terms are added up together: fixed, because it decides the order of additions. Few enough that
/// threads have pieces to share, so many that their sums are small beside the input.
fn rows_per_piece(width: usize) -> usize {
    (32 * 1024 / width.max(1)).max(64)
}

/// Of gamma, and of beta if there is one.
fn parts(kind: Norm) -> usize {
    if kind == Norm::Layer { 2 } else { 1 }
}

/// Bytes of a value as it is computed.
fn computed_bytes(dtype: Dtype) -> usize {
    dtype.size_bytes().max(4)
}

/// Where the sums of pieces begin: after two moments of every row.
fn moments_bytes(x: &View) -> usize {
    2 * x.shape()[0] * computed_bytes(x.dtype)
}

pub fn scratch_bytes(kind: Norm, weights: bool, x: &View) -> usize {
    if !weights {
        return 0;
    }
    let [rows, width] = [x.shape()[0], x.shape()[1]];
    let sums = rows.div_ceil(rows_per_piece(width)) * parts(kind) * width;
    moments_bytes(x) + sums * computed_bytes(x.dtype)
}

/// The gradient of x last: it may overwrite what the others read.
pub fn norm(request: &Request, kind: Norm, epsilon: Scalar, calls: &mut Calls) {
    let [x, gamma, gradient] = request.inputs else { unreachable!("a norm's gradient reads three tensors") };
    let (dtype, centred) = (x.view.dtype, if kind == Norm::Layer { "layer" } else { "rms" });
    let [rows, width] = [x.view.shape()[0], x.view.shape()[1]];
    let piece = rows_per_piece(width);
    let (step_x, step_gradient) = (step(x, 1), step(gradient, 1));
    let space = Space::new([Dim::of(&[&x.view.layout, &gradient.view.layout], 0)].into_iter());
    let args = NormBackward {
        out: request.outputs[0].first(),
        x: x.first(),
        gamma: gamma.first(),
        gradient: gradient.first(),
        moments: request.scratch,
        sums: request.scratch + moments_bytes(&x.view) as u64,
        chunk: request.per_block(4).rows(&space, step_x, width as u64, 1),
        size: width as u64,
        rows: rows as u64,
        piece: piece as u64,
        parts: parts(kind) as u64,
        row_x: step(x, 0),
        row_gradient: step(gradient, 0),
        step_x,
        step_gamma: step(gamma, 0),
        step_gradient,
        epsilon: epsilon.as_f64(),
        space,
    };
    let name = |family, kind| KernelName::new(family, kind, dtype);
    if let Some(weights) = request.outputs.get(1) {
        let pieces = Dim {
            size: rows.div_ceil(piece),
            steps: [args.row_x as isize * piece as isize, args.row_gradient as isize * piece as isize, 0],
        };
        let columns = Dim { size: width, steps: [step_x as isize, step_gradient as isize, 0] };
        // A thread takes neighbouring columns, or several threads one each.
        let columns_per_block = if request.threads == 1 { COLUMNS } else { request.threads };
        let tiles = columns_per_block.min(width).max(1) as u64;
        let chunk = (request.chunk as u64 / 4 / piece as u64).max(tiles);
        let sums = NormBackward { chunk, space: Space::new([pieces, columns].into_iter()), ..args };
        let count = parts(kind) * width;
        let all = Dim { size: count, steps: [1, 0, 0] };
        let totals = NormBackward {
            out: weights.first(),
            chunk: columns_per_block as u64,
            space: Space::new([all].into_iter()),
            ..args
        };
        KernelCall::push(calls, name("norm_moments", centred), args.rows, args.chunk, &args);
        KernelCall::push(calls, name("norm_weights", ""), sums.space.count, sums.chunk, &sums);
        KernelCall::push(calls, name("norm_totals", ""), count as u64, totals.chunk, &totals);
    }
    KernelCall::push(calls, name("norm_backward", centred), args.rows, args.chunk, &args);
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in dtypes().filter(|dtype: &Dtype| dtype.is_float()) {
        names.extend(["", "log"].map(|kind| KernelName::new("softmax_backward", kind, dtype)));
        for kind in ["layer", "rms"] {
            names
                .extend(["norm_backward", "norm_moments"].map(|family| KernelName::new(family, kind, dtype)));
        }
        names.extend(["norm_weights", "norm_totals"].map(|family| KernelName::new(family, "", dtype)));
    }
}

#[cfg(test)]
pub fn args_size(family: &str) -> usize {
    if family == "softmax_backward" { size_of::<SoftmaxBackward>() } else { size_of::<NormBackward>() }
}
