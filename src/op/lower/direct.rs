use bytemuck::{Pod, Zeroable};

use super::{Calls, KernelCall, KernelName, Request};
use crate::op::{Conv, Dtype, Op, View};

/// Arguments of direct convolutions (`Direct` in `direct.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Direct {
    out: u64,
    a: u64,
    b: u64,
    bias: u64,
    chunk: u64,
    count: u64,
    images: u64,
    groups: u64,
    channels: [u64; 2],
    strides_a: [i64; 5],
    strides_b: [i64; 5],
    stride_bias: i64,
    input: [i32; 3],
    made: [i32; 3],
    kernel: [i32; 3],
    stride: [i32; 3],
    padding: [i32; 3],
    dilation: [i32; 3],
}

const FORWARD: &str = "forward";
const INPUT: &str = "backward_input";
const WEIGHT: &str = "backward_weight";

/// The kernel of a convolution, and the views of its image, weight and output.
fn parts<'a>(op: &Op, inputs: &[&'a View], made: &'a View) -> Option<(&'static str, Conv, [&'a View; 3])> {
    Some(match *op {
        Op::Conv(conv) => (FORWARD, conv, [inputs[0], inputs[1], made]),
        Op::ConvBackwardInput { conv, .. } => (INPUT, conv, [made, inputs[0], inputs[1]]),
        Op::ConvBackwardWeight { conv, .. } => (WEIGHT, conv, [inputs[0], made, inputs[1]]),
        _ => return None,
    })
}

/// A convolution; nothing for other ops.
pub fn convolution(request: &Request, calls: &mut Calls) {
    let (a, b, out) = (&request.inputs[0], &request.inputs[1], &request.outputs[0]);
    let Some((kind, conv, [image, weight, output])) = parts(request.op, &[&a.view, &b.view], &out.view)
    else {
        return;
    };
    let bias = request.inputs.get(2);
    let space = |view: &View| [2, 3, 4].map(|axis| view.shape()[axis] as i32);
    let strides = |view: &View| [0, 1, 2, 3, 4].map(|axis| view.layout.strides()[axis] as i64);
    let small = |sizes: [usize; 3]| sizes.map(|size| size as i32);
    let args = Direct {
        out: out.first(),
        a: a.first(),
        b: b.first(),
        bias: bias.map_or(0, |bias| bias.first()),
        chunk: request.chunk as u64,
        count: out.view.shape().count() as u64,
        images: image.shape()[0] as u64,
        groups: conv.groups as u64,
        channels: [weight.shape()[1] as u64, (weight.shape()[0] / conv.groups) as u64],
        strides_a: strides(&a.view),
        strides_b: strides(&b.view),
        stride_bias: bias.map_or(0, |bias| bias.view.layout.strides()[0] as i64),
        input: space(image),
        made: space(output),
        kernel: space(weight),
        stride: small(conv.stride),
        padding: small(conv.padding),
        dilation: small(conv.dilation),
    };
    let name = KernelName::new("direct", kind, out.view.dtype);
    KernelCall::push(calls, name, args.count, args.chunk, &args);
}

pub fn names(names: &mut Vec<KernelName>) {
    for kind in [FORWARD, INPUT, WEIGHT] {
        names.extend(Dtype::FLOATS.map(|dtype| KernelName::new("direct", kind, dtype)));
    }
}
