use bytemuck::{Pod, Zeroable};

use super::call::{RAW, dtypes};
use super::pointwise::bits;
use super::{Calls, KernelCall, KernelName, Request};
use crate::op::{Distribution, Dtype, Scalar, words_below};

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Fill {
    out: u64,
    count: u64,
    chunk: u64,
    value: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Arange {
    out: u64,
    count: u64,
    chunk: u64,
    start: i64,
    step: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Random {
    out: u64,
    count: u64,
    chunk: u64,
    seed: u64,
    first: f64,
    second: f64,
}

/// Random numbers come from groups of four.
const GROUP: u64 = 4;
/// How many times the work of an addition a group takes.
const GROUP_COST: usize = 32;

pub fn fill(request: &Request, value: Scalar, calls: &mut Calls) {
    let (dtype, count) = output(request);
    let args = Fill {
        out: request.outputs[0].first(),
        count,
        chunk: request.chunk as u64,
        value: bits(dtype, value),
    };
    KernelCall::push(calls, KernelName::new("fill", "", dtype.raw()), count, args.chunk, &args);
}

pub fn arange(request: &Request, start: i64, step: i64, calls: &mut Calls) {
    let (dtype, count) = output(request);
    let args = Arange { out: request.outputs[0].first(), count, chunk: request.chunk as u64, start, step };
    KernelCall::push(calls, KernelName::new("arange", "", dtype), count, args.chunk, &args);
}

pub fn random(request: &Request, distribution: Distribution, seed: u64, calls: &mut Calls) {
    let (dtype, count) = output(request);
    let (kind, first, second) = match distribution {
        Distribution::Uniform { low, high } => (UNIFORM, low.as_f64(), high.as_f64()),
        Distribution::Normal { mean, deviation } => (NORMAL, mean.as_f64(), deviation.as_f64()),
        Distribution::Bernoulli { probability } => (BERNOULLI, words_below(probability) as f64, 0.0),
    };
    let args = Random {
        out: request.outputs[0].first(),
        count,
        chunk: request.items_per_block(GROUP_COST),
        seed,
        first,
        second,
    };
    let name = KernelName::new("random", kind, dtype);
    KernelCall::push(calls, name, count.div_ceil(GROUP), args.chunk, &args);
}

fn output(request: &Request) -> (Dtype, u64) {
    let view = &request.outputs[0].view;
    (view.dtype, view.shape().count() as u64)
}

const UNIFORM: &str = "uniform";
const NORMAL: &str = "normal";
const BERNOULLI: &str = "bernoulli";

pub fn names(names: &mut Vec<KernelName>) {
    names.extend(RAW.map(|dtype| KernelName::new("fill", "", dtype)));
    names.extend(Dtype::INTEGERS.map(|dtype| KernelName::new("arange", "", dtype)));
    for dtype in dtypes() {
        names.push(KernelName::new("random", BERNOULLI, dtype));
        if !dtype.is_bool() {
            names.extend([UNIFORM, NORMAL].map(|kind| KernelName::new("random", kind, dtype)));
        }
    }
}

#[cfg(test)]
pub fn args_size(family: &str) -> usize {
    match family {
        "fill" => size_of::<Fill>(),
        "arange" => size_of::<Arange>(),
        _ => size_of::<Random>(),
    }
}
