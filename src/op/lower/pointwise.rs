use arrayvec::ArrayVec;
use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use super::call::{RAW, dtypes};
use super::space::{Dim, MAX_OPERANDS, Space};
use super::{Calls, KernelCall, KernelName, Placed, Request, transpose};
use crate::op::{Binary, Compare, Dtype, Layout, MAX_RANK, Scalar, Unary};

/// Arguments of every elementwise kernel (`Pointwise` in `views.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Pointwise {
    out: u64,
    inputs: [u64; MAX_OPERANDS],
    scalars: [u64; 2],
    chunk: u64,
    space: Space,
}

/// Functions that cost many times an addition get smaller blocks.
const HEAVY: usize = 8;

pub fn unary(request: &Request, kind: Unary, calls: &mut Calls) {
    let name = KernelName::new("unary", kind.name(), request.inputs[0].view.dtype);
    let cheap = matches!(
        kind,
        Unary::Neg
            | Unary::Abs
            | Unary::Square
            | Unary::Cube
            | Unary::Relu
            | Unary::Not
            | Unary::Floor
            | Unary::Ceil
    );
    elementwise(request, name, [0; 2], if cheap { 1 } else { HEAVY }, calls);
}

pub fn binary(request: &Request, kind: Binary, calls: &mut Calls) {
    let name = KernelName::new("binary", kind.name(), request.inputs[0].view.dtype);
    elementwise(request, name, [0; 2], cost(kind), calls);
}

/// The kind of the kernel that takes signs.
pub const RELU_BACKWARD: &str = "relu_backward";

pub fn relu_backward_signs(request: &Request, calls: &mut Calls) {
    let [signs, gradient] = request.inputs else { unreachable!("it has two inputs") };
    let args = Pointwise {
        out: request.outputs[0].first(),
        inputs: [gradient.first(), signs.first(), 0],
        scalars: [0; 2],
        chunk: request.chunk as u64,
        space: Space::of(&[&gradient.view.layout]),
    };
    let name = KernelName::new("signs", RELU_BACKWARD, gradient.view.dtype);
    KernelCall::push(calls, name, args.space.count, args.chunk, &args);
}

pub fn binary_scalar(request: &Request, kind: Binary, value: Scalar, calls: &mut Calls) {
    let dtype = request.inputs[0].view.dtype;
    // Squares are by far the most frequent powers, and a product is exact to the last bit.
    if kind == Binary::Pow && value.as_f64() == 2.0 {
        return unary(request, Unary::Square, calls);
    }
    let name = KernelName::new("binary_scalar", kind.name(), dtype);
    let value = if kind.wraps() { wrapped_bits(dtype, value) } else { bits(dtype, value) };
    elementwise(request, name, [value, 0], cost(kind), calls);
}

pub fn clamp(request: &Request, low: Scalar, high: Scalar, calls: &mut Calls) {
    let dtype = request.inputs[0].view.dtype;
    let name = KernelName::new("clamp", "", dtype);
    elementwise(request, name, [low, high].map(|limit| bits(dtype, limit)), 1, calls);
}

pub fn compare(request: &Request, kind: Compare, calls: &mut Calls) {
    let name = KernelName::new("compare", kind.name(), request.inputs[0].view.dtype);
    elementwise(request, name, [0; 2], 1, calls);
}

pub fn compare_scalar(request: &Request, kind: Compare, value: Scalar, calls: &mut Calls) {
    let dtype = request.inputs[0].view.dtype;
    let name = KernelName::new("compare_scalar", kind.name(), dtype);
    elementwise(request, name, [bits(dtype, value), 0], 1, calls);
}

pub fn choose(request: &Request, calls: &mut Calls) {
    let name = KernelName::new("where", "", request.inputs[1].view.dtype.raw());
    elementwise(request, name, [0; 2], 1, calls);
}

pub fn mask_fill(request: &Request, value: Scalar, calls: &mut Calls) {
    let dtype = request.inputs[0].view.dtype;
    elementwise(request, KernelName::new("mask_fill", "", dtype.raw()), [bits(dtype, value), 0], 1, calls);
}

pub fn copy(request: &Request, calls: &mut Calls) {
    let (x, out) = (&request.inputs[0], &request.outputs[0]);
    copy_view(x, out.view.dtype, out.first(), &out.view.layout, request.chunk, calls);
}

/// Copies `x` to the elements that `layout` names; `out` is the address of the one at index zero.
pub fn copy_view(x: &Placed, dtype: Dtype, out: u64, layout: &Layout, chunk: usize, calls: &mut Calls) {
    let name = copy_name(x.view.dtype, dtype);
    let mut args = Pointwise {
        out,
        inputs: [x.first(), 0, 0],
        scalars: [0; 2],
        chunk: chunk as u64,
        space: Space::of(&[&x.view.layout, layout]),
    };
    let moves = x.view.dtype.stored() == dtype.stored();
    if moves && transpose::push(&args.space, dtype, [x.first(), out], chunk, calls) {
        return;
    }
    let size_x = x.view.dtype.size_bytes() as u64;
    let Some((tiled, rest)) = tile(&args.space) else {
        return KernelCall::push(calls, name, args.space.count, args.chunk, &args);
    };
    args.space = tiled;
    KernelCall::push(calls, name, tiled.count, args.chunk, &args);
    if let Some((space, [offset_x, offset_out])) = rest {
        args.space = space;
        args.inputs[0] = args.inputs[0].wrapping_add_signed(offset_x * size_x as i64);
        args.out = args.out.wrapping_add_signed(offset_out * dtype.size_bytes() as i64);
        KernelCall::push(calls, name, space.count, args.chunk, &args);
    }
}

/// Copies without a conversion only move bytes.
fn copy_name(from: Dtype, to: Dtype) -> KernelName {
    let (from, to) = if from.stored() == to.stored() { (from.raw(), to.raw()) } else { (from, to) };
    KernelName::new("copy", "", from).with(to)
}

/// Elements of a cache line: the side of a tile.
const TILE: u64 = 16;

/// A space and the offsets of its first element in input and output.
type Rest = (Space, [i64; 2]);

/// For transposing copies that convert or run backward; others have a kernel. The order of their elements is free:
/// where the input runs along another dimension than the output, strips of [`TILE`] of the input's dimension become the
/// innermost one, so that both sides use whole cache lines. What does not fill a strip is a space of its own.
fn tile(space: &Space) -> Option<(Space, Option<Rest>)> {
    let rank = space.rank as usize;
    let [input, output, _] = &space.strides;
    let transposes = input[0].abs() > 1 && output[0].abs() == 1 && space.sizes[0] >= 4;
    if !transposes || rank == MAX_RANK {
        return None;
    }
    let along = (1..rank).find(|&axis| input[axis].abs() == 1 && space.sizes[axis] >= TILE)?;
    let dim = |axis: usize, size: u64, times: i64| Dim {
        size: size as usize,
        steps: space.strides.map(|row| (row[axis] * times) as isize),
    };
    // Outermost first: the untouched dimensions, the strips, the output's own dimension, the elements of a strip.
    let ordered = |strips: u64, width: u64| {
        let others =
            (1..rank).rev().filter(|&axis| axis != along).map(|axis| dim(axis, space.sizes[axis], 1));
        let last = [dim(along, strips, TILE as i64), dim(0, space.sizes[0], 1), dim(along, width, 1)];
        let dims: ArrayVec<Dim, { MAX_RANK + 1 }> = others.chain(last).collect();
        Space::new(dims.into_iter())
    };
    let (strips, left) = (space.sizes[along] / TILE, space.sizes[along] % TILE);
    let start = (strips * TILE) as i64;
    let rest = (left > 0).then(|| (ordered(1, left), [input[along] * start, output[along] * start]));
    Some((ordered(strips, TILE), rest))
}

fn cost(kind: Binary) -> usize {
    match kind {
        Binary::Pow | Binary::Atan2 | Binary::Remainder => HEAVY,
        _ => 1,
    }
}

fn elementwise(request: &Request, name: KernelName, scalars: [u64; 2], cost: usize, calls: &mut Calls) {
    let inputs = request.inputs;
    let mut args = Pointwise {
        out: request.outputs[0].first(),
        inputs: [0; MAX_OPERANDS],
        scalars,
        // A thread of a GPU takes neighbours at once.
        chunk: if request.threads > 1 { request.chunk as u64 } else { request.items_per_block(cost) },
        space: match inputs {
            [a] => Space::of(&[&a.view.layout]),
            [a, b] => Space::of(&[&a.view.layout, &b.view.layout]),
            [a, b, c] => Space::of(&[&a.view.layout, &b.view.layout, &c.view.layout]),
            _ => unreachable!("elementwise ops have one to three inputs"),
        },
    };
    for (address, input) in args.inputs.iter_mut().zip(inputs) {
        *address = input.first();
    }
    KernelCall::push(calls, name, args.space.count, args.chunk, &args);
}

/// The bits of `value` as an element of `dtype`, in the low bytes. Integers saturate.
pub fn bits(dtype: Dtype, value: Scalar) -> u64 {
    let float = value.as_f64();
    match dtype {
        Dtype::F64 => float.to_bits(),
        Dtype::F32 => u64::from((float as f32).to_bits()),
        Dtype::F16 => u64::from(f16::from_f64(float).to_bits()),
        Dtype::BF16 => u64::from(bf16::from_f64(float).to_bits()),
        Dtype::Bool | Dtype::Bool8 | Dtype::Bool32 => u64::from(float != 0.0),
        _ => {
            let (least, greatest) = dtype.range();
            low_bytes(dtype, value.as_int().clamp(least, greatest))
        }
    }
}

/// As [`bits`], but integers wrap.
fn wrapped_bits(dtype: Dtype, value: Scalar) -> u64 {
    if dtype.is_integer() { low_bytes(dtype, value.as_int()) } else { bits(dtype, value) }
}

fn low_bytes(dtype: Dtype, value: i128) -> u64 {
    value as u64 & (u64::MAX >> (64 - 8 * dtype.size_bytes()))
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in dtypes() {
        let unary = Unary::ALL.iter().filter(|kind| kind.supports(dtype));
        names.extend(unary.map(|kind| KernelName::new("unary", kind.name(), dtype)));
        for kind in Binary::ALL.iter().filter(|kind| kind.supports(dtype)) {
            names.push(KernelName::new("binary", kind.name(), dtype));
            names.push(KernelName::new("binary_scalar", kind.name(), dtype));
        }
        for kind in Compare::ALL {
            names.push(KernelName::new("compare", kind.name(), dtype));
            names.push(KernelName::new("compare_scalar", kind.name(), dtype));
        }
        if !dtype.is_bool() {
            names.push(KernelName::new("clamp", "", dtype));
        }
        names.extend(dtypes().filter(|&to| to != dtype).map(|to| copy_name(dtype, to)));
    }
    for dtype in RAW {
        names.extend(["where", "mask_fill"].map(|family| KernelName::new(family, "", dtype)));
        names.push(copy_name(dtype, dtype));
    }
}
