use bytemuck::{Pod, Zeroable};

use super::call::{RAW, dtypes};
use super::pointwise::copy_view;
use super::space::{Dim, Space};
use super::{Calls, KernelCall, KernelName, Placed, Request, TEAM};
use crate::op::{Dtype, MAX_RANK, Update, View};

/// Arguments of reading and updating by index (`Indexed` in `index.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Indexed {
    out: u64,
    index: u64,
    data: u64,
    fault: u64,
    chunk: u64,
    size: u64,
    count: u64,
    teams: u64,
    steps: [i64; 3],
    space: Space,
}

/// Elements by index cost more than an addition.
const COST: usize = 4;
/// Neighbouring elements that a block of a scatter takes at least: a few cache lines.
const LANES: usize = 64;

/// Copies `destination` to the output, unless the op runs in place.
fn begin(request: &Request, calls: &mut Calls) {
    let (x, out) = (&request.inputs[0], &request.outputs[0]);
    if x.first() != out.first() || !x.view.layout.is_contiguous() {
        copy_view(x, x.view.dtype, out.first(), &out.view.layout, request.chunk, calls);
    }
}

pub fn slice_assign(
    request: &Request,
    starts: &[usize; MAX_RANK],
    steps: &[isize; MAX_RANK],
    calls: &mut Calls,
) {
    begin(request, calls);
    let (value, out) = (&request.inputs[1], &request.outputs[0]);
    let mut region = *out;
    for (axis, &size) in value.view.shape().dims().iter().enumerate() {
        region.view.layout = region.view.layout.slice(axis, starts[axis], size, steps[axis]);
    }
    copy_view(value, out.view.dtype, region.first(), &region.view.layout, request.chunk, calls);
}

pub fn gather(request: &Request, axis: usize, calls: &mut Calls) {
    let (x, index) = (&request.inputs[0].view.layout, &request.inputs[1].view.layout);
    let dims = (0..index.shape().rank()).map(|k| Dim {
        size: index.shape()[k],
        steps: [index.strides()[k], if k == axis { 0 } else { x.strides()[k] }, 0],
    });
    push_gather(request, axis, Space::new(dims), calls);
}

pub fn select(request: &Request, axis: usize, calls: &mut Calls) {
    let (x, index) = (&request.inputs[0].view.layout, &request.inputs[1].view.layout);
    let out = request.outputs[0].view.shape();
    let dims = (0..out.rank()).map(|k| Dim {
        size: out[k],
        steps: if k == axis { [index.strides()[0], 0, 0] } else { [0, x.strides()[k], 0] },
    });
    push_gather(request, axis, Space::new(dims), calls);
}

fn push_gather(request: &Request, axis: usize, space: Space, calls: &mut Calls) {
    let (x, index) = (&request.inputs[0], &request.inputs[1]);
    let args = Indexed {
        out: request.outputs[0].first(),
        index: index.first(),
        data: x.first(),
        fault: request.fault,
        chunk: request.items_per_block(COST),
        size: x.view.shape()[axis] as u64,
        count: 0,
        teams: 0,
        steps: [0, x.view.layout.strides()[axis] as i64, 0],
        space,
    };
    let name = KernelName::new("gather", "", x.view.dtype.raw()).with(index.view.dtype);
    KernelCall::push(calls, name, space.count, args.chunk, &args);
}

pub fn scatter(request: &Request, axis: usize, update: Update, calls: &mut Calls) {
    let index = request.inputs[1].view.layout;
    push_scatter(request, axis, update, |k| index.strides()[k], index.strides()[axis], 0, calls);
}

pub fn select_update(request: &Request, axis: usize, update: Update, calls: &mut Calls) {
    let step = request.inputs[1].view.layout.strides()[0];
    let teams = match request.threads {
        1 => 0,
        _ => update_teams(&request.outputs[0].view, &request.inputs[2].view, axis),
    };
    push_scatter(request, axis, update, |_| 0, step, teams, calls);
}

/// Indices that a team has for itself at least: it looks at all of them.
const OWN: usize = 32;
/// The most teams of one update: about as many as a large device has at once.
const MAX_TEAMS: usize = 2048;

/// Teams that share the indices of a part of each slice, by their lowest bits: a power of two.
pub fn update_teams(out: &View, value: &View, axis: usize) -> usize {
    let (count, size) = (value.shape()[axis], out.shape()[axis]);
    let parts = value.shape().with(axis, 1).count().div_ceil(TEAM).max(1);
    let most = (count / OWN).min(size).min(MAX_TEAMS / parts).max(1);
    1 << most.ilog2()
}

/// `across(k)` is the index's step along dimension `k`, `along` its step along the axis. If there are teams that share the indices,
/// each has an element of a slice for each of its threads.
fn push_scatter(
    request: &Request,
    axis: usize,
    update: Update,
    across: impl Fn(usize) -> isize,
    along: isize,
    teams: usize,
    calls: &mut Calls,
) {
    begin(request, calls);
    let [index, value] = [1, 2].map(|n: usize| -> &Placed { &request.inputs[n] });
    let (out, layout) = (&request.outputs[0], &value.view.layout);
    let strides = out.view.layout.strides();
    let dims = (0..layout.shape().rank())
        .filter(|&k| k != axis)
        .map(|k| Dim { size: layout.shape()[k], steps: [strides[k], across(k), layout.strides()[k]] });
    let count = layout.shape()[axis];
    // Rows of the innermost axis are updated one by one, others side by side.
    let least = if strides[axis] == 1 { 1 } else { LANES };
    let mut args = Indexed {
        out: out.first(),
        index: index.first(),
        data: value.first(),
        fault: request.fault,
        chunk: (request.chunk / COST / count.max(1)).max(least) as u64,
        size: out.view.shape()[axis] as u64,
        count: count as u64,
        teams: teams as u64,
        steps: [strides[axis], along, layout.strides()[axis]].map(|step| step as i64),
        space: Space::new(dims),
    };
    let name = scatter_name(update, out.view.dtype).with(index.view.dtype);
    if teams == 0 {
        return KernelCall::push(calls, name, args.space.count, args.chunk, &args);
    }
    args.chunk = request.threads as u64;
    KernelCall::push(calls, name, args.space.count.div_ceil(args.chunk) * args.teams, 1, &args);
}

/// Assignments only move bytes.
fn scatter_name(update: Update, dtype: Dtype) -> KernelName {
    KernelName::new("scatter", update.name(), if update == Update::Assign { dtype.raw() } else { dtype })
}

pub fn names(names: &mut Vec<KernelName>) {
    for index in Dtype::INDICES {
        names.extend(RAW.map(|dtype| KernelName::new("gather", "", dtype).with(index)));
        for &update in Update::ALL {
            let all: Vec<Dtype> = dtypes().filter(|&dtype| update.supports(dtype)).collect();
            let dtypes = if update == Update::Assign { RAW.to_vec() } else { all };
            names.extend(dtypes.into_iter().map(|dtype| scatter_name(update, dtype).with(index)));
        }
    }
}
