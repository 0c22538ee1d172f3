use bytemuck::{Pod, Zeroable};

use super::{Calls, KernelCall, KernelName, Placed, Request};
use crate::op::{Dtype, Pool2d, Shape};

/// A view of `[n, c, h, w]` (`Image` in `pool.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Image {
    data: u64,
    strides: [i64; 4],
}

/// Arguments of every pooling kernel (`Pool` in `pool.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Pool {
    out: u64,
    out_indices: u64,
    x: Image,
    indices: Image,
    chunk: u64,
    channels: u64,
    count: u64,
    input: [i32; 2],
    pooled: [i32; 2],
    kernel: [i32; 2],
    stride: [i32; 2],
    padding: [i32; 2],
    dilation: [i32; 2],
    count_include_pad: u64,
}

/// How many times the work of an addition one tap of a window takes.
const TAP_COST: usize = 4;

const MAX: &str = "max";
const MAX_BACKWARD: &str = "max_backward";
const AVERAGE: &str = "average";
const AVERAGE_BACKWARD: &str = "average_backward";
const ADAPTIVE: &str = "adaptive";
const ADAPTIVE_BACKWARD: &str = "adaptive_backward";

pub fn max(request: &Request, pool: &Pool2d, calls: &mut Calls) {
    let mut args = args(request, Direction::Forward, Some(pool));
    let mut name = name(request, MAX);
    if let Some(indices) = request.outputs.get(1) {
        args.out_indices = indices.first();
        name = name.with(indices.view.dtype);
    }
    push(request, name, args, calls);
}

pub fn max_backward(request: &Request, pool: &Pool2d, calls: &mut Calls) {
    let mut args = args(request, Direction::Backward, Some(pool));
    args.indices = image(&request.inputs[1]);
    push(request, name(request, MAX_BACKWARD).with(request.inputs[1].view.dtype), args, calls);
}

pub fn average(request: &Request, pool: &Pool2d, calls: &mut Calls) {
    push(request, name(request, AVERAGE), args(request, Direction::Forward, Some(pool)), calls);
}

pub fn average_backward(request: &Request, pool: &Pool2d, calls: &mut Calls) {
    push(request, name(request, AVERAGE_BACKWARD), args(request, Direction::Backward, Some(pool)), calls);
}

pub fn adaptive(request: &Request, calls: &mut Calls) {
    push(request, name(request, ADAPTIVE), args(request, Direction::Forward, None), calls);
}

pub fn adaptive_backward(request: &Request, calls: &mut Calls) {
    push(request, name(request, ADAPTIVE_BACKWARD), args(request, Direction::Backward, None), calls);
}

fn name(request: &Request, kind: &'static str) -> KernelName {
    KernelName::new("pool", kind, request.inputs[0].view.dtype)
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Forward,
    Backward,
}

/// Adaptive pools have no window of their own.
fn args(request: &Request, direction: Direction, pool: Option<&Pool2d>) -> Pool {
    let (x, out) = (&request.inputs[0], &request.outputs[0]);
    let size = |shape: &Shape| [shape[2] as i32, shape[3] as i32];
    let (read, made) = (size(x.view.shape()), size(out.view.shape()));
    let (input, pooled) = match direction {
        Direction::Forward => (read, made),
        Direction::Backward => (made, read),
    };
    let pair = |of: fn(&Pool2d) -> [usize; 2]| pool.map_or([0; 2], |pool| of(pool).map(|size| size as i32));
    let shape = out.view.shape();
    Pool {
        out: out.first(),
        out_indices: 0,
        x: image(x),
        indices: Image::zeroed(),
        chunk: 0,
        channels: shape[1] as u64,
        count: (shape[0] * shape[1] * shape[2]) as u64,
        input,
        pooled,
        kernel: pair(|pool| pool.kernel),
        stride: pair(|pool| pool.stride),
        padding: pair(|pool| pool.padding),
        dilation: pair(|pool| pool.dilation),
        count_include_pad: u64::from(pool.is_some_and(|pool| pool.count_include_pad)),
    }
}

fn image(placed: &Placed) -> Image {
    let strides = placed.view.layout.strides();
    Image { data: placed.first(), strides: std::array::from_fn(|axis| strides[axis] as i64) }
}

fn push(request: &Request, name: KernelName, mut args: Pool, calls: &mut Calls) {
    let shape = request.outputs[0].view.shape();
    // Every element reads about as many taps as there are inputs for an output, or one.
    let read = request.inputs[0].view.shape().count();
    let taps = read.div_ceil(shape.count().max(1)).max((args.kernel[0] * args.kernel[1]) as usize).max(1);
    args.chunk = (request.chunk / (TAP_COST * taps * shape[3].max(1))).max(1) as u64;
    let rows = if shape[3] == 0 { 0 } else { args.count };
    KernelCall::push(calls, name, rows, args.chunk, &args);
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in Dtype::FLOATS {
        let kinds = [MAX, AVERAGE, AVERAGE_BACKWARD, ADAPTIVE, ADAPTIVE_BACKWARD];
        names.extend(kinds.map(|kind| KernelName::new("pool", kind, dtype)));
        for index in Dtype::INDICES {
            names.extend([MAX, MAX_BACKWARD].map(|kind| KernelName::new("pool", kind, dtype).with(index)));
        }
    }
}
