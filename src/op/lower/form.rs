use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{Calls, KernelCall, KernelName, Request};
use crate::op::{Dtype, Encoding, FormParts, PIECE, ROW, Tally};

/// Arguments of the kernels of forms whose rows take as much as they need (`Form` in `form.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct FormArgs {
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

/// The kernels of a kind of form.
#[derive(Clone, Copy)]
struct Kernels {
    family: &'static str,
    count: &'static str,
    encode: &'static str,
    decode: &'static str,
}

const BITS: Kernels =
    Kernels { family: "sparse", count: "count", encode: "encode_bits", decode: "decode_bits" };
const COLUMNS: Kernels = Kernels { encode: "encode_columns", decode: "decode_columns", ..BITS };
const FLOATS: Kernels =
    Kernels { family: "planes", count: "count_float", encode: "encode_float", decode: "decode_float" };
const INTEGERS: Kernels =
    Kernels { family: "planes", count: "count_integer", encode: "encode_integer", decode: "decode_integer" };

impl Kernels {
    fn of_planes(dtype: Dtype) -> Self {
        if dtype.is_float() { FLOATS } else { INTEGERS }
    }

    fn of(encoding: Encoding, dtype: Dtype) -> Self {
        match encoding {
            Encoding::Sparse(sparse) if sparse.has_columns() => COLUMNS,
            Encoding::Sparse(_) => BITS,
            Encoding::Planes(_) => Kernels::of_planes(dtype),
            _ => unreachable!("the others take what their shapes say"),
        }
    }

    /// Counts by row, and what follows from that: where each begins.
    fn count(&self, args: &FormArgs, dtype: Dtype, calls: &mut Calls) {
        let name = |kind, dtype| KernelName::new(self.family, kind, dtype);
        KernelCall::push(calls, name(self.count, dtype.raw()), args.rows, args.chunk, args);
        let pieces = FormArgs { chunk: 1, ..*args };
        let piece_count = args.rows.div_ceil(PIECE as u64);
        KernelCall::push(calls, name("add_rows", Dtype::U32), piece_count, 1, &pieces);
        KernelCall::push(calls, name("add_pieces", Dtype::U32), 1, 1, args);
    }

    fn decode(&self, args: &FormArgs, dtype: Dtype, calls: &mut Calls) {
        let name = KernelName::new(self.family, self.decode, dtype.raw());
        KernelCall::push(calls, name, args.wanted, args.chunk, args);
    }
}

/// Of values at `x`, and counts of rows at `starts`, followed by those of pieces and that of all.
fn args(chunk: usize, x: u64, count: usize, starts: u64) -> FormArgs {
    let word = size_of::<u32>() as u64;
    let rows = count.div_ceil(ROW) as u64;
    let pieces = starts + rows * word;
    let total = pieces + rows.div_ceil(PIECE as u64) * word;
    let chunk = (chunk / ROW).max(PIECE) as u64;
    FormArgs { x, starts, pieces, total, chunk, rows, count: count as u64, ..FormArgs::zeroed() }
}

/// Of a form at `form`, what is beside it at `rest`, and values at `x`.
fn coded(chunk: usize, parts: &FormParts, [x, form, rest]: [u64; 3], count: usize) -> FormArgs {
    let at = |words: usize| form + (words * size_of::<u32>()) as u64;
    let (marks, values) = (at(parts.marks), at(parts.values));
    let (capacity, certain) = (parts.capacity as u64, parts.certain_rows as u64);
    FormArgs { marks, values, rest, capacity, certain, ..args(chunk, x, count, form) }
}

/// What a form of values would need room for, into a word.
pub fn tally(request: &Request, tally: Tally, calls: &mut Calls) {
    let [x, word] = [&request.inputs[0], &request.inputs[1]];
    let args = args(request.chunk, x.first(), x.view.shape().count(), request.scratch);
    let kernels = match tally {
        Tally::Nonzeros => BITS,
        Tally::Units => Kernels::of_planes(x.view.dtype),
    };
    kernels.count(&FormArgs { total: word.first(), ..args }, x.view.dtype, calls);
}

/// Workspace of [`tally`]: counts by row and by piece.
pub fn tally_scratch_bytes(count: usize) -> usize {
    let rows = count.div_ceil(ROW);
    (rows + rows.div_ceil(PIECE)).max(1) * size_of::<u32>()
}

pub fn encode(request: &Request, encoding: Encoding, parts: &FormParts, calls: &mut Calls) {
    let ([x, rest], form) = ([&request.inputs[0], &request.inputs[1]], &request.outputs[0]);
    let addresses = [x.first(), form.first(), rest.first()];
    let (dtype, args) = (x.view.dtype, coded(request.chunk, parts, addresses, x.view.shape().count()));
    let kernels = Kernels::of(encoding, dtype);
    kernels.count(&args, dtype, calls);
    let name = KernelName::new(kernels.family, kernels.encode, dtype.raw());
    KernelCall::push(calls, name, args.rows, args.chunk, &args);
}

pub fn decode(request: &Request, encoding: Encoding, parts: &FormParts, calls: &mut Calls) {
    let ([form, rest], x) = ([&request.inputs[0], &request.inputs[1]], &request.outputs[0]);
    let addresses = [x.first(), form.first(), rest.first()];
    let (dtype, args) = (x.view.dtype, coded(request.chunk, parts, addresses, x.view.shape().count()));
    Kernels::of(encoding, dtype).decode(&FormArgs { wanted: args.rows, ..args }, dtype, calls);
}

/// Rows in which some values of `count` are, by one block.
pub fn decode_some(
    (encoding, parts): (Encoding, &FormParts),
    dtype: Dtype,
    count: usize,
    some: &Range<usize>,
    addresses: [u64; 3],
    calls: &mut Calls,
) {
    let (first, end) = (some.start / ROW, some.end.div_ceil(ROW));
    let args = coded(end * ROW, parts, addresses, count);
    let args = FormArgs { first: first as u64, wanted: (end - first) as u64, ..args };
    Kernels::of(encoding, dtype).decode(&args, dtype, calls);
}

pub fn names(names: &mut Vec<KernelName>) {
    const FLOAT_SIZES: [Dtype; 3] = [Dtype::U64, Dtype::U32, Dtype::U16];
    let kinds: [(Kernels, &[Dtype]); 4] = [
        (BITS, &FLOAT_SIZES),
        (COLUMNS, &FLOAT_SIZES),
        (FLOATS, &FLOAT_SIZES),
        (INTEGERS, &[Dtype::U64, Dtype::U32, Dtype::U16, Dtype::U8]),
    ];
    for (Kernels { family, count, encode, decode }, dtypes) in kinds {
        let kinds = [Some(count).filter(|_| encode != COLUMNS.encode), Some(encode), Some(decode)];
        for &dtype in dtypes {
            names.extend(kinds.iter().flatten().map(|kind| KernelName::new(family, kind, dtype)));
        }
    }
    for family in ["sparse", "planes"] {
        names.extend(["add_rows", "add_pieces"].map(|kind| KernelName::new(family, kind, Dtype::U32)));
    }
}
