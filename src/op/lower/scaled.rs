use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::{Calls, KernelCall, KernelName, Request};
use crate::op::{Dtype, FloatFormat, SCALED, scale_words};

/// Arguments of kernels of scaled floats (`Scaled` in `scaled.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct ScaledArgs {
    x: u64,
    scales: u64,
    codes: u64,
    chunk: u64,
    blocks: u64,
    count: u64,
}

/// Blocks that a team has at once (`BLOCKS_AT_ONCE` in `scaled.cu`).
const AT_ONCE: usize = 4;

/// Of values at `x` and a form, where elements of cheap work are so many.
fn args(chunk: usize, [x, form]: [u64; 2], count: usize) -> ScaledArgs {
    let (blocks, chunk) =
        (count.div_ceil(SCALED) as u64, (chunk / SCALED).max(1).next_multiple_of(AT_ONCE) as u64);
    let codes = form + (scale_words(count) * size_of::<u32>()) as u64;
    ScaledArgs { x, scales: form, codes, chunk, blocks, count: count as u64 }
}

pub fn encode(request: &Request, format: FloatFormat, calls: &mut Calls) {
    let (x, form) = (&request.inputs[0], &request.outputs[0]);
    let args = args(request.chunk, [x.first(), form.first()], x.view.shape().count());
    let name = KernelName::new("scaled", kinds(format)[0], x.view.dtype);
    KernelCall::push(calls, name, args.blocks, args.chunk, &args);
}

pub fn decode(request: &Request, format: FloatFormat, calls: &mut Calls) {
    let (form, x) = (&request.inputs[0], &request.outputs[0]);
    let args = args(request.chunk, [x.first(), form.first()], x.view.shape().count());
    let name = KernelName::new("scaled", kinds(format)[1], x.view.dtype);
    KernelCall::push(calls, name, args.blocks, args.chunk, &args);
}

/// Blocks in which some values of `count` are, by one block of threads.
pub fn decode_some(
    format: FloatFormat,
    dtype: Dtype,
    count: usize,
    some: &Range<usize>,
    [to, form, _]: [u64; 3],
    calls: &mut Calls,
) {
    let (first, end) = (some.start / SCALED, some.end.div_ceil(SCALED));
    let block_bytes = SCALED / (u32::BITS / format.bits()) as usize * size_of::<u32>();
    let whole = args(0, [to, form], count);
    let blocks = (end - first) as u64;
    let args = ScaledArgs {
        scales: whole.scales + first as u64,
        codes: whole.codes + (first * block_bytes) as u64,
        chunk: blocks,
        blocks,
        count: (end * SCALED).min(count).saturating_sub(first * SCALED) as u64,
        ..whole
    };
    KernelCall::push(calls, KernelName::new("scaled", kinds(format)[1], dtype), blocks, blocks, &args);
}

/// Kernels that encode and decode.
fn kinds(format: FloatFormat) -> [&'static str; 2] {
    match format {
        FloatFormat::Fp10Scaled => ["encode_fp10", "decode_fp10"],
        FloatFormat::Fp8E4m3Scaled => ["encode_fp8_e4m3", "decode_fp8_e4m3"],
        FloatFormat::Fp8E5m2Scaled => ["encode_fp8_e5m2", "decode_fp8_e5m2"],
        _ => unreachable!("the others have no scales"),
    }
}

pub fn names(names: &mut Vec<KernelName>) {
    for format in FloatFormat::ALL.iter().filter(|format| format.has_scales()) {
        for dtype in Dtype::FLOATS {
            names.extend(kinds(*format).map(|kind| KernelName::new("scaled", kind, dtype)));
        }
    }
}
