use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::image::pair;
use super::{Calls, KernelCall, KernelName, Request, pointwise};
use crate::op::{Dtype, Encoding, FloatFormat};

/// Arguments of kernels that encode and decode (`Coded` in `coded.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Coded {
    out: u64,
    x: u64,
    chunk: u64,
    words: u64,
    count: u64,
    inverse_width: f64,
    inverse_kernel: f64,
    width: i32,
    outside: i32,
    pooled: [i32; 2],
    kernel: [i32; 2],
    stride: [i32; 2],
    padding: [i32; 2],
    dilation: [i32; 2],
}

pub fn encode(request: &Request, encoding: Encoding, calls: &mut Calls) {
    push(request, kind(encoding, ENCODE), encoding, request.inputs[0].view.dtype, calls);
}

pub fn decode(request: &Request, encoding: Encoding, calls: &mut Calls) {
    push(request, kind(encoding, DECODE), encoding, request.outputs[0].view.dtype, calls);
}

fn push(request: &Request, (family, kind): Kind, encoding: Encoding, dtype: Dtype, calls: &mut Calls) {
    let (x, out) = (&request.inputs[0], &request.outputs[0]);
    let count = if kind.starts_with("encode") { x.view.shape().count() } else { out.view.shape().count() };
    let mut args = Coded {
        out: out.first(),
        x: x.first(),
        chunk: request.items_per_block(encoding.per_word().unwrap_or(1)),
        words: encoding.words(count) as u64,
        count: count as u64,
        ..Coded::zeroed()
    };
    if let Encoding::Taps(taps) = encoding {
        args.inverse_width = 1.0 / taps.width as f64;
        args.inverse_kernel = 1.0 / taps.pool.kernel[1] as f64;
        (args.width, args.outside) = (taps.width as i32, taps.window() as i32);
        args.pooled = pair(taps.pooled);
        let pool = taps.pool;
        (args.kernel, args.stride) = (pair(pool.kernel), pair(pool.stride));
        (args.padding, args.dilation) = (pair(pool.padding), pair(pool.dilation));
    }
    KernelCall::push(calls, KernelName::new(family, kind, dtype), args.words, args.chunk, &args);
}

/// Words in which some values of `count` are, by one block; values that all take as much.
pub fn decode_some(
    encoding: Encoding,
    dtype: Dtype,
    count: usize,
    some: &Range<usize>,
    [to, form, _]: [u64; 3],
    calls: &mut Calls,
) {
    let per_word = encoding.per_word().unwrap_or(1);
    let (first, end) = (some.start / per_word, some.end.div_ceil(per_word));
    let words = (end - first) as u64;
    let args = Coded {
        out: to,
        x: form + (first * size_of::<u32>()) as u64,
        chunk: words,
        words,
        count: (end * per_word).min(count).saturating_sub(first * per_word) as u64,
        ..Coded::zeroed()
    };
    let (family, kind) = kind(encoding, DECODE);
    KernelCall::push(calls, KernelName::new(family, kind, dtype), words, words, &args);
}

/// Family and kind of a kernel.
type Kind = (&'static str, &'static str);

const ENCODE: usize = 0;
const DECODE: usize = 1;

/// Kernels for taps of 32 bits and less, by how many there are to a word.
const TAPS: [(usize, [&str; 2]); 6] = [
    (1, ["encode_1", "decode_1"]),
    (2, ["encode_2", "decode_2"]),
    (4, ["encode_4", "decode_4"]),
    (8, ["encode_8", "decode_8"]),
    (16, ["encode_16", "decode_16"]),
    (32, ["encode_32", "decode_32"]),
];

/// Of integers, which have kernels for as many to a word as taps.
fn integers(bits: u8, way: usize) -> Kind {
    let row = TAPS.iter().find(|row| row.0 == u32::BITS as usize / usize::from(bits));
    ("integers", row.expect("bits are a power of two").1[way])
}

const REDUCED: [(FloatFormat, [&str; 2]); 5] = [
    (FloatFormat::F16, ["encode_f16", "decode_f16"]),
    (FloatFormat::Bf16, ["encode_bf16", "decode_bf16"]),
    (FloatFormat::Fp10, ["encode_fp10", "decode_fp10"]),
    (FloatFormat::Fp8E4m3, ["encode_fp8_e4m3", "decode_fp8_e4m3"]),
    (FloatFormat::Fp8E5m2, ["encode_fp8_e5m2", "decode_fp8_e5m2"]),
];

fn kind(encoding: Encoding, way: usize) -> Kind {
    match encoding {
        Encoding::Signs => ("signs", "encode"),
        Encoding::Bools => ("bools", ["encode", "decode"][way]),
        Encoding::Taps(taps) => {
            let row = TAPS.iter().find(|row| row.0 == (u32::BITS / taps.bits()) as usize);
            ("taps", row.expect("bits are a power of two").1[way])
        }
        Encoding::Integers { bits } => integers(bits, way),
        Encoding::Sparse(_) | Encoding::Planes(_) => {
            unreachable!("what is counted has a lowering of its own")
        }
        Encoding::Reduced(format) => ("reduced", REDUCED[format as usize].1[way]),
    }
}

pub fn names(names: &mut Vec<KernelName>) {
    let mut add = |family, kinds: &[&'static str], dtypes: &[Dtype]| {
        for &dtype in dtypes {
            names.extend(kinds.iter().map(|&kind| KernelName::new(family, kind, dtype)));
        }
    };
    add("signs", &["encode", pointwise::RELU_BACKWARD], &Dtype::FLOATS);
    add("bools", &["encode", "decode"], &[Dtype::Bool, Dtype::Bool32]);
    TAPS.iter().for_each(|(_, kinds)| add("taps", kinds, &Dtype::INDICES));
    TAPS.iter().for_each(|(_, kinds)| add("integers", kinds, &Dtype::INDICES));
    REDUCED.iter().for_each(|(_, kinds)| add("reduced", kinds, &Dtype::FLOATS));
}
