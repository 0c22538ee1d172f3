use bytemuck::{Pod, Zeroable};

use super::call::dtypes;
use super::space::{Dim, Space};
use super::{Calls, KernelCall, KernelName, Request, TEAM};
use crate::op::{Dtype, Op, View};

/// Arguments of sorting (`Sort` in `sort.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Sort {
    out: u64,
    x: u64,
    scratch: u64,
    room: u64,
    chunk: u64,
    size: u64,
    count: u64,
    steps: [i64; 2],
    flip: u64,
    space: Space,
}

/// Sorting an element costs as much as this many additions.
const COST: usize = 16;
/// Each block has workspace for a row of its own, so there are not to be many.
const MAX_BLOCKS: usize = 16;
/// Workspaces begin on cache lines of their own.
const LINE_BYTES: usize = 64;

fn rows(x: &View, axis: usize) -> usize {
    let sizes = x.shape().dims().iter().enumerate();
    sizes.filter(|&(other, _)| other != axis).map(|(_, &size)| size).product()
}

/// Two copies of a row: of keys, or of keys and indices in 32 bits, aligned as the larger of the two is.
fn room_bytes(x: &View, axis: usize, indices: bool) -> usize {
    let key_bytes = x.dtype.size_bytes();
    let item_bytes = if indices { 2 * key_bytes.max(size_of::<u32>()) } else { key_bytes };
    (2 * x.shape()[axis] * item_bytes).next_multiple_of(LINE_BYTES)
}

pub fn scratch_bytes(x: &View, axis: usize, indices: bool) -> usize {
    rows(x, axis).min(MAX_BLOCKS) * room_bytes(x, axis, indices)
}

pub fn sort(request: &Request, axis: usize, descending: bool, calls: &mut Calls) {
    let (x, out) = (&request.inputs[0], &request.outputs[0]);
    let (from, to) = (&x.view.layout, &out.view.layout);
    let (size, count) = (from.shape()[axis], to.shape()[axis]);
    if count == 0 {
        return;
    }
    let indices = matches!(request.op, Op::ArgSort { .. });
    let others = (0..from.shape().rank()).filter(|&other| other != axis);
    let rows = rows(&x.view, axis);
    // A team sorts rows that have no more elements than it has threads without workspace (`sort_short` in `sort.cu`).
    let needs_room = request.threads == 1 || size > TEAM;
    let least = if needs_room { rows.div_ceil(MAX_BLOCKS) } else { TEAM / size };
    let args = Sort {
        out: out.first(),
        x: x.first(),
        scratch: request.scratch,
        room: room_bytes(&x.view, axis, indices) as u64,
        chunk: least.max(request.chunk / COST / size) as u64,
        size: size as u64,
        count: count as u64,
        steps: [from, to].map(|layout| layout.strides()[axis] as i64),
        flip: if descending { u64::MAX } else { 0 },
        space: Space::new(others.map(|other| Dim::of(&[from, to], other))),
    };
    let name =
        if indices { name("argsort", x.view.dtype).with(out.view.dtype) } else { name("sort", x.view.dtype) };
    KernelCall::push(calls, name, args.space.count, args.chunk, &args);
}

fn name(family: &'static str, dtype: Dtype) -> KernelName {
    KernelName::new(family, "", dtype)
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in dtypes().filter(|dtype| !dtype.is_bool()) {
        names.push(name("sort", dtype));
        names.extend(Dtype::INDICES.map(|index| name("argsort", dtype).with(index)));
    }
}
