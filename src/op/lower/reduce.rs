use bytemuck::{Pod, Zeroable};

use super::space::{Dim, Space};
use super::{Calls, KernelCall, KernelName, Request, dtypes};
use crate::op::{ArgReduce, Dtype, Reduce, View};

/// Arguments of every reduction (`Reduce` in `reduce.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Reduction {
    out: u64,
    x: u64,
    chunk: u64,
    size: u64,
    step: i64,
    piece: u64,
    outputs: u64,
    divisor: u64,
    space: Space,
}

/// Long rows with few outputs are cut in pieces of this many elements, so that threads can share them. Fixed, because
/// it decides the order of additions.
const PIECE: usize = 16 * 1024;
/// With more outputs than this there are rows enough to share.
const FEW_OUTPUTS: usize = 64;
/// Neighbouring outputs that a block takes at least, where rows are reduced side by side: whole
/// runs of cache lines.
const COLUMNS: usize = 512;

fn pieces(x: &View, axis: usize, outputs: usize) -> usize {
    let size = x.shape()[axis];
    if size > PIECE && outputs <= FEW_OUTPUTS { size.div_ceil(PIECE) } else { 1 }
}

pub fn scratch_bytes(x: &View, axis: usize, out: &View) -> usize {
    let outputs = out.shape().count();
    match pieces(x, axis, outputs) {
        1 => 0,
        pieces => pieces * outputs * partial(x.dtype).size_bytes(),
    }
}

/// What the results of pieces are kept as: halves are rounded once, at the end.
fn partial(dtype: Dtype) -> Dtype {
    if dtype.is_half() { Dtype::F32 } else { dtype }
}

fn name(kind: Reduce, from: Dtype, to: Dtype) -> KernelName {
    let name = KernelName::new("reduce", kind.name(), from);
    if from.stored() == to.stored() { name } else { name.with(to) }
}

pub fn reduce(request: &Request, kind: Reduce, axis: usize, calls: &mut Calls) {
    let (x, out) = (&request.inputs[0], &request.outputs[0]);
    let (dtype, partial) = (x.view.dtype, partial(x.view.dtype));
    let outputs = out.view.shape().count();
    let pieces = pieces(&x.view, axis, outputs);
    let mut first = whole(request, axis, pieces);
    if pieces == 1 {
        return push(calls, name(kind, dtype, dtype), &mut first, request.chunk);
    }
    first.out = request.scratch;
    first.piece = PIECE as u64;
    // A mean divides once, at the end.
    let inner = if kind == Reduce::Mean { Reduce::Sum } else { kind };
    push(calls, name(inner, dtype, partial), &mut first, request.chunk);
    let mut second = Reduction {
        out: out.first(),
        x: request.scratch,
        size: pieces as u64,
        step: outputs as i64,
        piece: pieces as u64,
        space: Space::new([Dim { size: outputs, steps: [1, 0, 0] }].into_iter()),
        ..first
    };
    push(calls, name(kind, partial, dtype), &mut second, request.chunk);
}

pub fn arg_reduce(request: &Request, kind: ArgReduce, axis: usize, calls: &mut Calls) {
    let (x, out) = (&request.inputs[0], &request.outputs[0]);
    let name = KernelName::new("reduce", kind.name(), x.view.dtype).with(out.view.dtype);
    push(calls, name, &mut whole(request, axis, 1), request.chunk);
}

/// A reduction of `axis`, over an outermost dimension of `pieces`.
fn whole(request: &Request, axis: usize, pieces: usize) -> Reduction {
    let x = &request.inputs[0];
    let layout = &x.view.layout;
    let (rank, size, step) = (layout.shape().rank(), layout.shape()[axis], layout.strides()[axis]);
    let piece_dim = Dim { size: pieces, steps: [step * PIECE as isize, 0, 0] };
    let others = (0..rank).filter(|&other| other != axis).map(|other| Dim::of(&[layout], other));
    Reduction {
        out: request.outputs[0].first(),
        x: x.first(),
        chunk: 0,
        size: size as u64,
        step: step as i64,
        piece: size as u64,
        outputs: request.outputs[0].view.shape().count() as u64,
        divisor: size as u64,
        space: Space::new([piece_dim].into_iter().chain(others)),
    }
}

fn push(calls: &mut Calls, name: KernelName, args: &mut Reduction, chunk: usize) {
    let by_column = args.space.strides[0][0].abs() < args.step.abs();
    let least = if by_column { COLUMNS.min(args.outputs as usize).max(1) } else { 1 };
    args.chunk = (chunk / args.piece.max(1) as usize).max(least) as u64;
    KernelCall::push(calls, name, args.space.count, args.chunk, args);
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in dtypes() {
        for &kind in Reduce::ALL.iter().filter(|kind| kind.supports(dtype)) {
            names.push(name(kind, dtype, dtype));
            if dtype.is_half() {
                names.push(name(kind, Dtype::F32, dtype));
                if kind != Reduce::Mean {
                    names.push(name(kind, dtype, Dtype::F32));
                }
            }
        }
        if !dtype.is_bool() {
            let kinds = ArgReduce::ALL.iter().map(|kind| KernelName::new("reduce", kind.name(), dtype));
            names.extend(kinds.flat_map(|name| Dtype::INDICES.map(|index| name.with(index))));
        }
    }
}
