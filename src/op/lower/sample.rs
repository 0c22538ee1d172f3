use bytemuck::{Pod, Zeroable};

use super::image::{Image, pair, size};
use super::{Calls, KernelCall, KernelName, Request};
use crate::op::{Deform2d, Dtype, GridSample, View};

/// Arguments of sampling at the places of a grid (`Grid` in `sample.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Grid {
    out: u64,
    x: Image,
    grid: Image,
    chunk: u64,
    channels: u64,
    count: u64,
    input: [i32; 2],
    made: [i32; 2],
    nearest: u64,
    padding: u64,
    align_corners: u64,
}

/// Arguments of the kernels of deformable convolutions (`Deform` in `sample.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Deform {
    out: u64,
    out_mask: u64,
    columns: u64,
    x: Image,
    offset: Image,
    mask: Image,
    chunk: u64,
    count: u64,
    channels: u64,
    images: u64,
    input: [i32; 2],
    made: [i32; 2],
    kernel: [i32; 2],
    stride: [i32; 2],
    padding: [i32; 2],
    dilation: [i32; 2],
    offset_groups: u64,
}

/// Pixels of a piece of work (`PIECE` in `sample.cu`).
const PIECE: usize = 512;
/// How many times the work of an addition a sample takes.
const SAMPLE_COST: usize = 16;

const COLUMNS: &str = "columns";
const BACKWARD_OFFSET: &str = "backward_offset";
const BACKWARD_IMAGE: &str = "backward_image";

pub fn grid(request: &Request, how: GridSample, calls: &mut Calls) {
    let (x, grid, out) = (&request.inputs[0], &request.inputs[1], &request.outputs[0]);
    let shape = out.view.shape();
    let pieces = (shape[2] * shape[3]).div_ceil(PIECE);
    let args = Grid {
        out: out.first(),
        x: Image::of(x),
        grid: Image::of(grid),
        chunk: (request.chunk / (SAMPLE_COST * PIECE * shape[1].max(1))).max(1) as u64,
        channels: shape[1] as u64,
        count: (shape[0] * pieces) as u64,
        input: size(x.view.shape()),
        made: size(shape),
        nearest: u64::from(how.nearest),
        padding: how.padding as u64,
        align_corners: u64::from(how.align_corners),
    };
    KernelCall::push(calls, KernelName::new("grid_sample", "", x.view.dtype), args.count, args.chunk, &args);
}

/// `(x, offset, mask or nothing)`
pub fn columns(request: &Request, deform: &Deform2d, calls: &mut Calls) {
    let x = &request.inputs[0];
    let mut args = args(request, deform, x.view.shape()[1], &request.inputs[1].view);
    args.x = Image::of(x);
    args.input = size(x.view.shape());
    args.offset = Image::of(&request.inputs[1]);
    args.mask = request.inputs.get(2).map_or_else(Image::zeroed, Image::of);
    push_taps(request, COLUMNS, args, calls);
}

/// `(x, offset, gradient of the columns, mask or nothing)`
pub fn backward_offset(request: &Request, deform: &Deform2d, calls: &mut Calls) {
    let x = &request.inputs[0];
    let mut args = args(request, deform, x.view.shape()[1], &request.inputs[1].view);
    args.x = Image::of(x);
    args.input = size(x.view.shape());
    args.offset = Image::of(&request.inputs[1]);
    args.columns = request.inputs[2].first();
    args.mask = request.inputs.get(3).map_or_else(Image::zeroed, Image::of);
    args.out_mask = request.outputs.get(1).map_or(0, |mask| mask.first());
    push_taps(request, BACKWARD_OFFSET, args, calls);
}

/// `(offset, gradient of the columns, mask or nothing)`
pub fn backward_image(request: &Request, deform: &Deform2d, calls: &mut Calls) {
    let (out, offset) = (&request.outputs[0], &request.inputs[0]);
    let shape = out.view.shape();
    let mut args = args(request, deform, shape[1], &offset.view);
    args.x = Image::of(out);
    args.input = size(shape);
    args.offset = Image::of(offset);
    args.columns = request.inputs[1].first();
    args.mask = request.inputs.get(2).map_or_else(Image::zeroed, Image::of);
    args.count = (shape[0] * shape[1]) as u64;
    let samples = deform.kernel[0] * deform.kernel[1] * (args.made[0] * args.made[1]) as usize;
    args.chunk = (request.chunk / (SAMPLE_COST * samples.max(1))).max(1) as u64;
    let name = KernelName::new("deform", BACKWARD_IMAGE, offset.view.dtype);
    let count = if shape.count() == 0 { 0 } else { args.count };
    KernelCall::push(calls, name, count, args.chunk, &args);
}

/// What the kernels have in common. An offset's plane has the size of the convolution's output.
fn args(request: &Request, deform: &Deform2d, channels: usize, offset: &View) -> Deform {
    Deform {
        out: request.outputs[0].first(),
        channels: channels as u64,
        images: offset.shape()[0] as u64,
        made: size(offset.shape()),
        kernel: pair(deform.kernel),
        stride: pair(deform.stride),
        padding: pair(deform.padding),
        dilation: pair(deform.dilation),
        offset_groups: deform.offset_groups as u64,
        ..Deform::zeroed()
    }
}

/// A piece of work is some pixels under one tap, for all channels that share its offsets.
fn push_taps(request: &Request, kind: &'static str, mut args: Deform, calls: &mut Calls) {
    let pieces = (args.made[0] as usize * args.made[1] as usize).div_ceil(PIECE);
    let taps = (args.kernel[0] * args.kernel[1]) as u64 * args.offset_groups;
    let shared = (args.channels / args.offset_groups) as usize;
    args.count = args.images * taps * pieces as u64;
    args.chunk = (request.chunk / (SAMPLE_COST * PIECE * shared.max(1))).max(1) as u64;
    let name = KernelName::new("deform", kind, request.inputs[0].view.dtype);
    KernelCall::push(calls, name, args.count, args.chunk, &args);
}

pub fn names(names: &mut Vec<KernelName>) {
    names.extend(Dtype::FLOATS.map(|dtype| KernelName::new("grid_sample", "", dtype)));
    for kind in [COLUMNS, BACKWARD_OFFSET, BACKWARD_IMAGE] {
        names.extend([Dtype::F64, Dtype::F32].map(|dtype| KernelName::new("deform", kind, dtype)));
    }
}
