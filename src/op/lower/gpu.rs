//! How the work of a call is cut for a GPU's blocks.

use super::{Placed, Request, TEAM};
use crate::op::Op;

/// Threads of a block: a team's.
pub const THREADS: usize = TEAM;
/// Elements that a thread takes one after the other.
const ELEMENTS_PER_THREAD: usize = 8;

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
