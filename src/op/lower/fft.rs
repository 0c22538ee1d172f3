use bytemuck::{Pod, Zeroable};

use super::call::dtypes;
use super::space::{Dim, Space};
use super::{Calls, Dtype, KernelCall, KernelName, Placed, Request};
use crate::op::View;

/// Arguments of the Fourier transforms (`Fourier` in `fft.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Fourier {
    out: [u64; 2],
    x: [u64; 2],
    twiddles: u64,
    buffers: u64,
    chunk: u64,
    length: u64,
    given: u64,
    step_x: [i64; 2],
    step_out: i64,
    space: Space,
}

/// The most blocks, as each has buffers of its own.
const BLOCKS: usize = 32;
/// Elements that a block transforms at least.
const LEAST: usize = 16 * 1024;

/// How many rows make a block.
fn rows_per_block(rows: usize, length: usize) -> usize {
    rows.div_ceil(BLOCKS).max(LEAST / length).max(1)
}

/// What the kernels compute with.
fn computed(dtype: Dtype) -> Dtype {
    if dtype.is_half() { Dtype::F32 } else { dtype }
}

/// Bytes of the powers of the root of unity: those for a quarter of the circle, and three per butterfly. Whole cache
/// lines.
fn twiddle_bytes(dtype: Dtype, length: usize) -> usize {
    let half = length / 2;
    let numbers = (half / 2 + 1) + 3 * (half / 4);
    (2 * numbers * computed(dtype).size_bytes()).next_multiple_of(64)
}

/// The powers, then two complex rows of half the length per block.
pub fn scratch_bytes(x: &View, axis: usize, length: usize) -> usize {
    let rows = x.shape().with(axis, 1).count();
    let blocks = rows.div_ceil(rows_per_block(rows, length));
    twiddle_bytes(x.dtype, length) + blocks * 2 * length * computed(x.dtype).size_bytes()
}

pub fn forward(request: &Request, axis: usize, length: usize, calls: &mut Calls) {
    push(request, "", axis, length, calls);
}

pub fn inverse(request: &Request, axis: usize, length: usize, calls: &mut Calls) {
    push(request, "inverse", axis, length, calls);
}

fn push(request: &Request, kind: &'static str, axis: usize, length: usize, calls: &mut Calls) {
    let x = &request.inputs[0];
    let (second, last) = (request.inputs.last().unwrap_or(x), request.outputs.last().unwrap_or(x));
    let operands = [x, second, &request.outputs[0]];
    let layouts = operands.map(|operand: &Placed| &operand.view.layout);
    let others = (0..layouts[0].shape().rank()).filter(|&other| other != axis);
    let space = Space::new(others.map(|other| Dim::of(&layouts, other)));
    let dtype = x.view.dtype;
    let args = Fourier {
        out: [operands[2].first(), last.first()],
        x: [x.first(), second.first()],
        twiddles: request.scratch,
        buffers: request.scratch + twiddle_bytes(dtype, length) as u64,
        chunk: rows_per_block(space.count as usize, length) as u64,
        length: length as u64,
        given: x.view.shape()[axis] as u64,
        step_x: [layouts[0].strides()[axis] as i64, layouts[1].strides()[axis] as i64],
        step_out: layouts[2].strides()[axis] as i64,
        space,
    };
    let some = space.count.min(1);
    KernelCall::push(calls, KernelName::new("fft", "twiddles", dtype), some, 1, &args);
    KernelCall::push(calls, KernelName::new("fft", kind, dtype), space.count, args.chunk, &args);
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in dtypes().filter(|dtype| dtype.is_float()) {
        names.extend(["", "inverse", "twiddles"].map(|kind| KernelName::new("fft", kind, dtype)));
    }
}
