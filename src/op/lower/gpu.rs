//! How the work of a call is cut for a GPU's blocks, each of 128 threads.
//!
//! - *Rows* of reductions, softmax, norms, attention weights and their gradients: those of 128 elements and more are
//!   shared by all threads of a block (`Together` in `rows.cuh`); shorter ones, and those that lie side by side, are a
//!   thread's each, as all are on the host. A row's code is the same: what a thread does by itself is in phases
//!   (`each_thread` in `simt.cuh`), between which the block waits. The last steps of a sum go through shared memory.
//!   Places of extremes, running sums and totals of the norms' weights are still a thread's each.
//! - *Local memory*: the driver sets it aside for every thread that there can be, outside of the budget. So no kernel
//!   has more than 64 bytes of it a thread, but for the interpreter of programs; what a thread would keep in an array
//!   passes through shared memory.
//! - *Updates of slices by index*, such as an embedding's gradient: teams share the indices by their lowest bits, and a
//!   team's threads the elements of a slice. Each team looks at all indices, so that one thread adds what goes to one
//!   element, in the order of the index, as on the host. Where most indices are the same, most of the work is one
//!   team's.
//! - *Sorting, Fourier transforms and `argwhere`* keep workspace or counts of their own for each block and share each
//!   row. Sorting has at most 16 blocks where rows need workspace, Fourier transforms 32.

use super::{Calls, Inputs, Placed, Request, TEAM, generated};
use crate::op::{Op, Program, View};

/// Threads of a block: a team's.
pub const THREADS: usize = TEAM;
/// Elements that a thread takes one after the other.
const ELEMENTS_PER_THREAD: usize = 8;

/// The op that stands for another on a GPU: a program, for what can be a step of one.
fn stand_in(op: &Op, inputs: &[Placed]) -> Option<Op> {
    let views: Inputs<View> = inputs.iter().map(|input| input.view).collect();
    Program::of_one(op, &views)
}

/// The kernel calls that compute an op; `None` for convolutions and the products of floats.
pub fn lower(request: &Request) -> Option<Calls> {
    let stand_in = stand_in(request.op, request.inputs);
    let op = stand_in.as_ref().unwrap_or(request.op);
    let mut calls = super::lower(&Request { op, chunk: chunk(op, request.inputs), ..*request })?;
    calls.iter_mut().for_each(generated::cut);
    Some(calls)
}

/// How many elements of an op a block takes: a few for each thread, or, where a thread always takes a row, a row for each.
pub fn chunk(op: &Op, inputs: &[Placed]) -> usize {
    let shape = |input: usize| inputs[input].view.shape();
    let row = match *op {
        Op::Cumulative { axis, .. } => shape(0)[axis],
        Op::Matmul => shape(0).dims().last().copied().unwrap_or(1),
        _ => 1,
    };
    THREADS * ELEMENTS_PER_THREAD * row.max(1)
}

/// The same for products and convolutions of floats, whose elements are sums: one for each thread.
pub fn direct_chunk(op: &Op, request: &Request) -> usize {
    let inner = match op {
        Op::Matmul => request.inputs[0].view.shape().dims().last().copied().unwrap_or(1).max(1),
        _ => 1,
    };
    THREADS * inner
}
