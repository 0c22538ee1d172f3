use bytemuck::{Pod, Zeroable};

use super::space::Space;
use super::{Calls, KernelCall, KernelName, Request};
use crate::op::{COUNTED_RUN, Dtype, MAX_RANK};

/// Arguments of counting and finding bools that are set (`Argwhere` in `argwhere.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct ArgWhere {
    out: u64,
    mask: u64,
    ends: u64,
    chunk: u64,
    rank: u64,
    rows: u64,
    sizes: [u64; MAX_RANK],
    space: Space,
}

pub fn count_set(request: &Request, calls: &mut Calls) {
    push(request, KernelName::new("count_set", "", Dtype::Bool), 0, calls);
}

pub fn argwhere(request: &Request, calls: &mut Calls) {
    let name = KernelName::new("argwhere", "", request.outputs[0].view.dtype);
    push(request, name, request.inputs[1].first(), calls);
}

/// One block per run.
fn push(request: &Request, name: KernelName, ends: u64, calls: &mut Calls) {
    let mask = &request.inputs[0];
    let shape = mask.view.shape();
    let mut sizes = [1; MAX_RANK];
    for (to, &size) in sizes.iter_mut().zip(shape.dims()) {
        *to = size as u64;
    }
    let args = ArgWhere {
        out: request.outputs[0].first(),
        mask: mask.first(),
        ends,
        chunk: COUNTED_RUN as u64,
        rank: shape.rank() as u64,
        rows: request.outputs[0].view.shape()[0] as u64,
        sizes,
        space: Space::of(&[&mask.view.layout]),
    };
    KernelCall::push(calls, name, args.space.count, args.chunk, &args);
}

pub fn names(names: &mut Vec<KernelName>) {
    names.push(KernelName::new("count_set", "", Dtype::Bool));
    names.extend(Dtype::INDICES.map(|index| KernelName::new("argwhere", "", index)));
}
