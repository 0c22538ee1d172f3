use bytemuck::{Pod, Zeroable};

use super::call::blocks;
use super::{Args, Calls, KernelCall, KernelName, Placed, Request};
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
const COLUMNS: &str = "columns";
const FROM_COLUMNS: &str = "from_columns";

/// One image of a convolution, and its column matrix: a row for every channel and place of the kernel, a column for every
/// place of the window.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// The convolution.
    pub conv: Conv,
    /// The images.
    pub images: Placed,
    /// Which of them.
    pub index: usize,
    /// Depth, height and width of the kernel.
    pub kernel: [usize; 3],
    /// Address of the matrix, row by row.
    pub matrix: u64,
    /// Elements that make a block.
    pub chunk: usize,
}

impl Columns {
    /// Rows and columns of the matrix.
    pub fn sizes(&self) -> [usize; 2] {
        let image = self.images.view.shape();
        let places = self.conv.output_size(self.size(), self.kernel);
        [image[1] * self.kernel.iter().product::<usize>(), places.iter().product()]
    }

    fn size(&self) -> [usize; 3] {
        [2, 3, 4].map(|axis| self.images.view.shape()[axis])
    }

    /// The kernel that lays the matrix out.
    pub fn lay_out(&self) -> KernelCall {
        let strides = [0, 1, 2, 3, 4].map(|axis| self.images.view.layout.strides()[axis] as i64);
        let [rows, columns] = self.sizes();
        self.call(COLUMNS, rows * columns, [self.matrix, self.image()], strides)
    }

    /// The kernel that adds the matrix up to the image, which is row-major: each pixel becomes the sum of where it is.
    pub fn add_up(&self) -> KernelCall {
        let taps: usize = self.kernel.iter().product();
        let columns = self.sizes()[1];
        let strides = [(taps * columns) as i64, columns as i64, 1, 0, 0];
        let count = self.images.view.shape().dims()[1..].iter().product();
        self.call(FROM_COLUMNS, count, [self.image(), self.matrix], strides)
    }

    fn image(&self) -> u64 {
        let step = self.images.view.layout.strides()[0] * self.images.view.dtype.size_bytes() as isize;
        self.images.first().wrapping_add_signed((step * self.index as isize) as i64)
    }

    fn call(&self, kind: &'static str, count: usize, [out, a]: [u64; 2], strides_a: [i64; 5]) -> KernelCall {
        let small = |sizes: [usize; 3]| sizes.map(|size| size as i32);
        let args = Direct {
            out,
            a,
            chunk: self.chunk as u64,
            count: count as u64,
            images: 1,
            groups: 1,
            strides_a,
            input: small(self.size()),
            made: small(self.conv.output_size(self.size(), self.kernel)),
            kernel: small(self.kernel),
            stride: small(self.conv.stride),
            padding: small(self.conv.padding),
            dilation: small(self.conv.dilation),
            ..Direct::zeroed()
        };
        let name = KernelName::new("direct", kind, self.images.view.dtype);
        KernelCall { name, blocks: blocks(args.count, args.chunk), args: Args::new(&args) }
    }
}

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
    for kind in [FORWARD, INPUT, WEIGHT, COLUMNS, FROM_COLUMNS] {
        names.extend(Dtype::FLOATS.map(|dtype| KernelName::new("direct", kind, dtype)));
    }
}
