//! Attention by tiles: a block has some queries, or some keys, of one head, and the others pass by.

use bytemuck::{Pod, Zeroable};

use super::{Calls, Dtype, KernelCall, KernelName, Placed, Request};
use crate::op::{Attention, Layout, View, words_below};

/// A tensor of rows (`Operand` in `attention.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Default, Pod, Zeroable)]
struct Operand {
    first: u64,
    batch: i64,
    head: i64,
    row: i64,
}

/// Arguments of every pass (`Attention` in `attention.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Arguments {
    query: Operand,
    key: Operand,
    value: Operand,
    out: Operand,
    gradient: Operand,
    made: [Operand; 2],
    mask: Operand,
    mask_column: i64,
    sums: u64,
    deltas: u64,
    heads: u64,
    queries: u64,
    keys: u64,
    width: u64,
    value_width: u64,
    tiles: u64,
    causal: u64,
    scale: f64,
    dropped: u64,
    seed: u64,
    threshold: u64,
    kept_scale: f64,
}

impl Operand {
    fn at(first: u64, layout: &Layout, [batch, head, row]: [usize; 3]) -> Self {
        let [batch, head, row] = [batch, head, row].map(|axis| layout.strides()[axis] as i64);
        Operand { first, batch, head, row }
    }

    /// Of a tensor `[batch, heads, rows, ..]`.
    fn read(placed: &Placed) -> Self {
        Self::at(placed.first(), &placed.view.layout, [0, 1, 2])
    }

    /// Of a tensor `[batch, rows, heads, width]`.
    fn made(placed: &Placed) -> Self {
        Self::at(placed.first(), &placed.view.layout, [0, 2, 1])
    }
}

/// A pass over the scores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Forward,
    OfQueries,
    OfKeys,
}

impl Pass {
    const ALL: [Pass; 3] = [Pass::Forward, Pass::OfQueries, Pass::OfKeys];

    /// The kernel for rows of at most this width.
    fn kernel(self, width: usize, dtype: Dtype) -> KernelName {
        let kind = match (self, width) {
            (Pass::Forward, 32) => "32",
            (Pass::Forward, 64) => "64",
            (Pass::Forward, _) => "128",
            (Pass::OfQueries, 32) => "query_32",
            (Pass::OfQueries, 64) => "query_64",
            (Pass::OfQueries, _) => "query_128",
            (Pass::OfKeys, 32) => "key_32",
            (Pass::OfKeys, 64) => "key_64",
            (Pass::OfKeys, _) => "key_128",
        };
        KernelName::new("attention", kind, dtype)
    }

    /// Rows that a block has (`Sizes` in `attention.cuh`).
    fn rows(self, width: usize, dtype: Dtype, threads: usize) -> usize {
        let is_tight = threads > 1 && self != Pass::Forward && width > 64 && dtype.size_bytes() == 4;
        if is_tight { 32 } else { 64 }
    }
}

/// Widths that there are kernels for.
const WIDTHS: [usize; 3] = [32, 64, Attention::MAX_WIDTH];

fn push(calls: &mut Calls, request: &Request, pass: Pass, args: Arguments) {
    let (dtype, widest) = (request.inputs[0].view.dtype, args.width.max(args.value_width) as usize);
    let width = WIDTHS.into_iter().find(|&width| width >= widest).expect("kernels for so wide rows");
    let rows = if pass == Pass::OfKeys { args.keys } else { args.queries };
    let tiles = rows.div_ceil(pass.rows(width, dtype, request.threads) as u64);
    let batches = request.inputs[0].view.shape()[0] as u64;
    let args = Arguments { tiles, ..args };
    KernelCall::push(calls, pass.kernel(width, dtype), batches * args.heads * tiles, 1, &args);
}

fn arguments(request: &Request, attention: &Attention, mask: Option<&Placed>) -> Arguments {
    let [query, key, value] = [0, 1, 2].map(|input| &request.inputs[input]);
    let [queries, keys] = [query, key].map(|rows| rows.view.shape()[2] as u64);
    let dropout = attention.dropout.as_ref();
    Arguments {
        query: Operand::read(query),
        key: Operand::read(key),
        value: Operand::read(value),
        mask: mask.map(Operand::read).unwrap_or_default(),
        mask_column: mask.map_or(0, |mask| mask.view.layout.strides()[3] as i64),
        heads: query.view.shape()[1] as u64,
        queries,
        keys,
        width: query.view.shape()[3] as u64,
        value_width: value.view.shape()[3] as u64,
        causal: u64::from(attention.causal),
        scale: attention.scale.as_f64(),
        dropped: dropout.map_or(0, |dropout| if dropout.of_weights { 2 } else { 1 }),
        seed: dropout.map_or(0, |dropout| dropout.seed),
        threshold: dropout.map_or(0, |dropout| words_below(dropout.keep)),
        kept_scale: dropout.map_or(1.0, |dropout| 1.0 / dropout.keep.as_f64()),
        ..Zeroable::zeroed()
    }
}

pub fn forward(request: &Request, attention: &Attention, calls: &mut Calls) {
    let [out, sums] = request.outputs else { unreachable!("attention makes two tensors") };
    let args = arguments(request, attention, request.inputs.get(3));
    let made = [Operand::made(out), Operand::default()];
    push(calls, request, Pass::Forward, Arguments { made, sums: sums.first(), ..args });
}

/// First the queries, which leave what the keys subtract.
pub fn backward(request: &Request, attention: &Attention, calls: &mut Calls) {
    let [_, _, _, out, sums, gradient, ..] = request.inputs else {
        unreachable!("attention's gradient reads six tensors")
    };
    let args = Arguments {
        out: Operand::read(out),
        gradient: Operand::read(gradient),
        sums: sums.first(),
        deltas: request.scratch,
        ..arguments(request, attention, request.inputs.get(6))
    };
    let [of_query, of_key, of_value] = [0, 1, 2].map(|output| Operand::made(&request.outputs[output]));
    push(calls, request, Pass::OfQueries, Arguments { made: [of_query, Operand::default()], ..args });
    push(calls, request, Pass::OfKeys, Arguments { made: [of_key, of_value], ..args });
}

/// A number for each query.
pub fn backward_scratch_bytes(query: &View) -> usize {
    query.shape().dims()[..3].iter().product::<usize>() * size_of::<f32>()
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in Dtype::FLOATS.into_iter().filter(|&dtype| Attention::supports(dtype)) {
        names.extend(Pass::ALL.iter().flat_map(|pass| WIDTHS.map(|width| pass.kernel(width, dtype))));
    }
}
