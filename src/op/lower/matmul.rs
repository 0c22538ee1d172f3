use bytemuck::{Pod, Zeroable};

use super::space::{Dim, Space};
use super::{Calls, KernelCall, KernelName, Request};
use crate::op::Dtype;

/// Arguments of products (`Matmul` in `matmul.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Product {
    out: u64,
    left: u64,
    right: u64,
    bias: u64,
    chunk: u64,
    inner: u64,
    steps: [i64; 2],
    space: Space,
}

pub fn product(request: &Request, calls: &mut Calls) {
    let (a, b, bias) = (&request.inputs[0], &request.inputs[1], request.inputs.get(2));
    let (left, right) = (&a.view.layout, &b.view.layout);
    let (row, column) = (left.shape().rank() - 2, left.shape().rank() - 1);
    let inner = left.shape()[column];
    let bias_step = bias.map_or(0, |bias| bias.view.layout.strides()[0]);
    let batches = (0..row).map(|axis| Dim::of(&[left, right], axis));
    let rows = Dim { size: left.shape()[row], steps: [left.strides()[row], 0, 0] };
    let columns = Dim { size: right.shape()[column], steps: [0, right.strides()[column], bias_step] };
    let space = Space::new(batches.chain([rows, columns]));
    let args = Product {
        out: request.outputs[0].first(),
        left: a.first(),
        right: b.first(),
        bias: bias.map_or(0, |bias| bias.first()),
        chunk: (request.chunk / inner.max(1)).max(1) as u64,
        inner: inner as u64,
        steps: [left.strides()[column], right.strides()[row]].map(|step| step as i64),
        space,
    };
    KernelCall::push(calls, name(a.view.dtype), space.count, args.chunk, &args);
}

fn name(dtype: Dtype) -> KernelName {
    KernelName::new("matmul", "", dtype)
}

pub fn names(names: &mut Vec<KernelName>) {
    names.extend(Dtype::INTEGERS.map(name));
    names.extend(Dtype::FLOATS.map(name));
}
