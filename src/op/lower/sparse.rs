use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{Calls, KernelCall, KernelName, Request};
use crate::op::{Dtype, PIECE, ROW, Sparse, SparseParts};

/// Arguments of the kernels of sparse forms (`Sparse` in `sparse.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct SparseArgs {
    x: u64,
    starts: u64,
    pieces: u64,
    total: u64,
    marks: u64,
    values: u64,
    rest: u64,
    chunk: u64,
    rows: u64,
    count: u64,
    capacity: u64,
    certain: u64,
    first: u64,
    wanted: u64,
}

/// Of values at `x`, and counts of rows at `starts`, followed by those of pieces and that of all.
fn args(chunk: usize, x: u64, count: usize, starts: u64) -> SparseArgs {
    let word = size_of::<u32>() as u64;
    let rows = count.div_ceil(ROW) as u64;
    let pieces = starts + rows * word;
    let total = pieces + rows.div_ceil(PIECE as u64) * word;
    let chunk = (chunk / ROW).max(PIECE) as u64;
    SparseArgs { x, starts, pieces, total, chunk, rows, count: count as u64, ..SparseArgs::zeroed() }
}

/// Counts by row, and what follows from that: where each begins.
fn count(args: &SparseArgs, dtype: Dtype, calls: &mut Calls) {
    let name = |kind, dtype| KernelName::new("sparse", kind, dtype);
    KernelCall::push(calls, name("count", dtype.raw()), args.rows, args.chunk, args);
    let pieces = SparseArgs { chunk: 1, ..*args };
    let piece_count = args.rows.div_ceil(PIECE as u64);
    KernelCall::push(calls, name("add_rows", Dtype::U32), piece_count, 1, &pieces);
    KernelCall::push(calls, name("add_pieces", Dtype::U32), 1, 1, args);
}

/// How many values are not zero, into a word.
pub fn tally(request: &Request, calls: &mut Calls) {
    let [x, word] = [&request.inputs[0], &request.inputs[1]];
    let args = args(request.chunk, x.first(), x.view.shape().count(), request.scratch);
    count(&SparseArgs { total: word.first(), ..args }, x.view.dtype, calls);
}

/// Workspace of [`tally`]: counts by row and by piece.
pub fn tally_scratch_bytes(count: usize) -> usize {
    let rows = count.div_ceil(ROW);
    (rows + rows.div_ceil(PIECE)).max(1) * size_of::<u32>()
}

/// Of a form at `form`, what is beside it at `rest`, and values at `x`.
fn coded(chunk: usize, sparse: Sparse, [x, form, rest]: [u64; 3], count: usize) -> SparseArgs {
    let SparseParts { capacity, marks, values, .. } = sparse.parts(count);
    let at = |words: usize| form + (words * size_of::<u32>()) as u64;
    let (marks, values) = (at(marks), at(values));
    let (capacity, certain) = (capacity as u64, sparse.certain_rows(count) as u64);
    SparseArgs { marks, values, rest, capacity, certain, ..args(chunk, x, count, form) }
}

pub fn encode(request: &Request, sparse: Sparse, calls: &mut Calls) {
    let ([x, rest], form) = ([&request.inputs[0], &request.inputs[1]], &request.outputs[0]);
    let addresses = [x.first(), form.first(), rest.first()];
    let args = coded(request.chunk, sparse, addresses, x.view.shape().count());
    count(&args, x.view.dtype, calls);
    let kind = if sparse.has_columns() { "encode_columns" } else { "encode_bits" };
    let name = KernelName::new("sparse", kind, x.view.dtype.raw());
    KernelCall::push(calls, name, args.rows, args.chunk, &args);
}

pub fn decode(request: &Request, sparse: Sparse, calls: &mut Calls) {
    let ([form, rest], x) = ([&request.inputs[0], &request.inputs[1]], &request.outputs[0]);
    let addresses = [x.first(), form.first(), rest.first()];
    let args = coded(request.chunk, sparse, addresses, x.view.shape().count());
    decode_rows(&SparseArgs { wanted: args.rows, ..args }, sparse, x.view.dtype, calls);
}

/// Rows in which some values of `count` are, by one block.
pub fn decode_some(
    sparse: Sparse,
    dtype: Dtype,
    count: usize,
    some: &Range<usize>,
    addresses: [u64; 3],
    calls: &mut Calls,
) {
    let (first, end) = (some.start / ROW, some.end.div_ceil(ROW));
    let args = coded(end * ROW, sparse, addresses, count);
    let args = SparseArgs { first: first as u64, wanted: (end - first) as u64, ..args };
    decode_rows(&args, sparse, dtype, calls);
}

fn decode_rows(args: &SparseArgs, sparse: Sparse, dtype: Dtype, calls: &mut Calls) {
    let kind = if sparse.has_columns() { "decode_columns" } else { "decode_bits" };
    let name = KernelName::new("sparse", kind, dtype.raw());
    KernelCall::push(calls, name, args.wanted, args.chunk, args);
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in [Dtype::U64, Dtype::U32, Dtype::U16] {
        let kinds = ["count", "encode_bits", "decode_bits", "encode_columns", "decode_columns"];
        names.extend(kinds.map(|kind| KernelName::new("sparse", kind, dtype)));
    }
    names.extend(["add_rows", "add_pieces"].map(|kind| KernelName::new("sparse", kind, Dtype::U32)));
}
