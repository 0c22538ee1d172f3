use bytemuck::{Pod, Zeroable};

use super::call::dtypes;
use super::space::{Dim, Space};
use super::{Calls, KernelCall, KernelName, Request};
use crate::op::Cumulative;

/// Arguments of what comes up along an axis (`Cumulative` in `cumulative.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Scan {
    out: u64,
    x: u64,
    chunk: u64,
    size: u64,
    steps: [i64; 2],
    space: Space,
}

/// Neighbouring rows that a block takes at least, where they are scanned side by side: whole cache lines.
const COLUMNS: usize = 128;

pub fn scan(request: &Request, kind: Cumulative, axis: usize, calls: &mut Calls) {
    let (x, out) = (&request.inputs[0], &request.outputs[0]);
    let (from, to) = (&x.view.layout, &out.view.layout);
    let size = from.shape()[axis];
    if size == 0 {
        return;
    }
    let others = (0..from.shape().rank()).filter(|&other| other != axis);
    let space = Space::new(others.map(|other| Dim::of(&[from, to], other)));
    let least = if to.strides()[axis] == 1 { 1 } else { COLUMNS };
    let args = Scan {
        out: out.first(),
        x: x.first(),
        chunk: (request.chunk / size).max(least) as u64,
        size: size as u64,
        steps: [from, to].map(|layout| layout.strides()[axis] as i64),
        space,
    };
    let name = KernelName::new("cumulative", kind.name(), x.view.dtype);
    KernelCall::push(calls, name, space.count, args.chunk, &args);
}

pub fn names(names: &mut Vec<KernelName>) {
    for &kind in Cumulative::ALL {
        let numbers = dtypes().filter(|dtype| !dtype.is_bool());
        names.extend(numbers.map(|dtype| KernelName::new("cumulative", kind.name(), dtype)));
    }
}
