use bytemuck::{Pod, Zeroable};

use super::image::{Image, pair, size};
use super::{Calls, KernelCall, KernelName, Request};
use crate::op::{Dtype, Pool2d, Taps};

/// Arguments of every pooling kernel (`Pool` in `pool.cuh`).
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
    tile: u64,
    input: [i32; 2],
    pooled: [i32; 2],
    kernel: [i32; 2],
    stride: [i32; 2],
    padding: [i32; 2],
    dilation: [i32; 2],
    count_include_pad: u64,
    per_word_log2: u64,
}

/// How many times the work of an addition one tap of a window takes.
const TAP_COST: usize = 2;
/// The most elements of a plane that gradients are sent to at once (`TILE` in `pool_max.cu`).
const TILE: usize = 4096;

const MAX: &str = "max";
const MAX_BACKWARD: &str = "max_backward";
const MAX_BACKWARD_TAPS: &str = "max_backward_taps";
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
    push(request, name, args, args.pooled, calls);
}

pub fn max_backward(request: &Request, pool: &Pool2d, calls: &mut Calls) {
    let name = name(request, MAX_BACKWARD).with(request.inputs[1].view.dtype);
    push_backward(request, name, args(request, Direction::Backward, Some(pool)), calls);
}

pub fn max_backward_taps(request: &Request, taps: &Taps, calls: &mut Calls) {
    let [gradient, words] = request.inputs else { unreachable!("it has two inputs") };
    let gradient = Request { inputs: std::slice::from_ref(gradient), ..*request };
    let mut args = args(&gradient, Direction::Backward, Some(&taps.pool));
    args.indices.data = words.first();
    args.per_word_log2 = u64::from((u32::BITS / taps.bits()).ilog2());
    push_backward(request, name(request, MAX_BACKWARD_TAPS), args, calls);
}

fn push_backward(request: &Request, name: KernelName, mut args: Pool, calls: &mut Calls) {
    let [height, width] = args.input.map(|size| size as usize);
    // Whole rows, where they fit: what windows send to other tiles is read in vain.
    let tile = if width <= TILE { TILE / width.max(1) * width } else { TILE };
    let planes = request.outputs[0].view.shape().dims()[..2].iter().product::<usize>();
    let count = planes * (height * width).div_ceil(tile.max(1));
    args.count = count as u64;
    args.tile = tile as u64;
    args.chunk = (request.chunk / (TAP_COST * tile.min(height * width).max(1))).max(1) as u64;
    KernelCall::push(calls, name, args.count, args.chunk, &args);
}

pub fn average(request: &Request, pool: &Pool2d, calls: &mut Calls) {
    let args = args(request, Direction::Forward, Some(pool));
    push(request, name(request, AVERAGE), args, args.pooled, calls);
}

pub fn average_backward(request: &Request, pool: &Pool2d, calls: &mut Calls) {
    let args = args(request, Direction::Backward, Some(pool));
    push(request, name(request, AVERAGE_BACKWARD), args, args.input, calls);
}

pub fn adaptive(request: &Request, calls: &mut Calls) {
    let args = args(request, Direction::Forward, None);
    push(request, name(request, ADAPTIVE), args, args.pooled, calls);
}

pub fn adaptive_backward(request: &Request, calls: &mut Calls) {
    let args = args(request, Direction::Backward, None);
    push(request, name(request, ADAPTIVE_BACKWARD), args, args.input, calls);
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
    let (read, made) = (size(x.view.shape()), size(out.view.shape()));
    let (input, pooled) = match direction {
        Direction::Forward => (read, made),
        Direction::Backward => (made, read),
    };
    let of = |part: fn(&Pool2d) -> [usize; 2]| pool.map_or([0; 2], |pool| pair(part(pool)));
    let shape = out.view.shape();
    turned(Pool {
        out: out.first(),
        out_indices: 0,
        x: Image::of(x),
        indices: request.inputs.get(1).map_or_else(Image::zeroed, Image::of),
        chunk: 0,
        channels: shape[1] as u64,
        count: 0,
        tile: 0,
        input,
        pooled,
        kernel: of(|pool| pool.kernel),
        stride: of(|pool| pool.stride),
        padding: of(|pool| pool.padding),
        dilation: of(|pool| pool.dilation),
        count_include_pad: u64::from(pool.is_some_and(|pool| pool.count_include_pad)),
        per_word_log2: 0,
    })
}

/// Images of width one as images of height one, so that the rows are long: Burn pools one dimension that way.
fn turned(mut args: Pool) -> Pool {
    let slim = args.input[1] == 1 && args.pooled[1] == 1;
    // Adaptive pools have a kernel of zero.
    if slim && args.kernel[1] <= 1 && args.padding[1] == 0 {
        let sizes = [&mut args.input, &mut args.pooled, &mut args.kernel];
        let steps = [&mut args.stride, &mut args.padding, &mut args.dilation];
        sizes.into_iter().chain(steps).for_each(|pair| pair.swap(0, 1));
        for image in [&mut args.x, &mut args.indices] {
            image.strides.swap(2, 3);
        }
    }
    args
}

/// The rows of an output whose planes have this size.
fn push(request: &Request, name: KernelName, mut args: Pool, size: [i32; 2], calls: &mut Calls) {
    let width = size[1] as usize;
    // Every element reads about as many taps as there are inputs for an output, or one.
    let (read, made) = (request.inputs[0].view.shape().count(), request.outputs[0].view.shape().count());
    let taps = read.div_ceil(made.max(1)).max((args.kernel[0] * args.kernel[1]) as usize).max(1);
    args.count = (made / width.max(1)) as u64;
    args.chunk = (request.chunk / (TAP_COST * taps * width.max(1))).max(1) as u64;
    KernelCall::push(calls, name, args.count, args.chunk, &args);
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in Dtype::FLOATS {
        let kinds = [MAX, MAX_BACKWARD_TAPS, AVERAGE, AVERAGE_BACKWARD, ADAPTIVE, ADAPTIVE_BACKWARD];
        names.extend(kinds.map(|kind| KernelName::new("pool", kind, dtype)));
        for index in Dtype::INDICES {
            names.extend([MAX, MAX_BACKWARD].map(|kind| KernelName::new("pool", kind, dtype).with(index)));
        }
    }
}
