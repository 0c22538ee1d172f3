//! One op on one set of inputs: run, compared with the reference, run again in place.

use half::{bf16, f16};

use super::data::{Data, numbers};
use super::reference;
use crate::engine::call::{Call, Operand};
use crate::engine::host::kernels::run;
use crate::engine::{Algorithm, EngineError, Span, Tier};
use crate::op::{Dtype, Layout, Op, Scalar, View, lower};

/// Memory for a storage, on an 8-byte boundary.
fn encode(dtype: Dtype, values: &[f64]) -> Vec<u64> {
    let mut words = vec![0u64; (values.len() * dtype.size_bytes()).div_ceil(8).max(1)];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    for (to, &value) in bytes.chunks_exact_mut(dtype.size_bytes()).zip(values) {
        to.copy_from_slice(&lower::bits(dtype, Scalar::from(value)).to_ne_bytes()[..to.len()]);
    }
    words
}

fn span(words: &mut [u64]) -> Span {
    Span { tier: Tier::Device, address: words.as_mut_ptr() as u64, bytes: size_of_val(words) }
}

/// Runs an op on fresh memory; output 0 takes the memory of input `in_place`, if one is named.
pub fn run_on(op: Op, inputs: &[Data], in_place: Option<usize>) -> Result<Vec<Vec<f64>>, EngineError> {
    let views: Vec<View> = inputs.iter().map(|input| input.view).collect();
    let made = op.outputs(&views);
    let mut memory: Vec<Vec<u64>> = inputs.iter().map(|x| encode(x.view.dtype, &x.storage)).collect();
    let mut fresh: Vec<Vec<u64>> =
        made.iter().map(|view| vec![0xabab_abab_abab_abab; view.size_bytes().div_ceil(8) + 1]).collect();
    let mut scratch = vec![u64::MAX; lower::scratch_bytes(&op, &views, &made).div_ceil(8) + 1];
    let input_spans: Vec<Span> = memory.iter_mut().map(|words| span(words)).collect();
    let mut output_spans: Vec<Span> = fresh.iter_mut().map(|words| span(words)).collect();
    if let Some(input) = in_place {
        output_spans[0] = input_spans[input];
    }
    let operand = |(&view, &span): (&View, &Span)| Operand { span, view };
    let call = Call {
        op,
        algorithm: Algorithm::default(),
        inputs: views.iter().zip(&input_spans).map(operand).collect(),
        outputs: made.iter().zip(&output_spans).map(operand).collect(),
        scratch: span(&mut scratch),
    };
    // SAFETY: every span is a vector above, as large as its view needs and alive until after the run.
    unsafe { run(&call) }?;
    assert_eq!(scratch.last(), Some(&u64::MAX), "{op:?} wrote beyond its scratch");
    Ok((made.iter().enumerate())
        .map(|(n, view)| {
            let words = if n == 0 { in_place.map_or(&fresh[0], |input| &memory[input]) } else { &fresh[n] };
            let bytes: &[u8] = bytemuck::cast_slice(words);
            numbers(view.dtype, &bytes[..view.size_bytes()])
        })
        .collect())
}

/// The first output of an op.
pub fn values(op: Op, inputs: &[Data]) -> Vec<f64> {
    run_on(op, inputs, None).expect("the op runs").swap_remove(0)
}

/// How far apart neighbours near one are, and the largest number.
fn precision(dtype: Dtype) -> (f64, f64) {
    match dtype {
        Dtype::F32 => (2e-6, f32::MAX.into()),
        Dtype::F16 => (1e-3, f16::MAX.into()),
        Dtype::BF16 => (8e-3, bf16::MAX.into()),
        _ => (1e-13, f64::MAX),
    }
}

/// Whether two results agree, where terms of about `size` were added up.
fn near(dtype: Dtype, found: f64, expected: f64, size: f64) -> bool {
    let (epsilon, largest) = precision(dtype);
    found == expected
        || (found.is_nan() && expected.is_nan())
        || (found - expected).abs() <= epsilon * (size + expected.abs())
        || (found.is_infinite() && expected.abs() > largest)
}

/// Compares an op with the reference, and in place with out of place.
pub fn check(op: Op, inputs: &[Data]) {
    let views: Vec<&View> = inputs.iter().map(|input| &input.view).collect();
    let found = run_on(op, inputs, None).unwrap_or_else(|error| panic!("{error} for {op:?} of {views:?}"));
    let expected = reference::outputs(op, inputs);
    assert_eq!(found.len(), expected.len());
    let size = match op {
        Op::Reduce { axis, .. } => 4.0 * (1.0 + views[0].shape()[axis] as f64).sqrt(),
        Op::RealFft { length, .. } => 4.0 * (1.0 + length as f64).sqrt(),
        Op::Norm { .. } | Op::Attention(_) => 8.0,
        Op::AttentionBackward(_) => 16.0 * (1.0 + views[0].shape()[2].max(views[1].shape()[2]) as f64).sqrt(),
        Op::SoftmaxBackward { axis, .. } => 4.0 * (1.0 + views[0].shape()[axis] as f64).sqrt(),
        Op::NormBackward { .. } => 32.0 * (1.0 + views[0].shape()[0] as f64).sqrt(),
        Op::Interpolate { .. } | Op::InterpolateBackward { .. } | Op::GridSample(_) => 16.0,
        Op::DeformColumns(_) | Op::DeformBackwardOffset(_) | Op::DeformBackwardImage { .. } => 64.0,
        _ => 1.0,
    };
    let made = op.outputs(&inputs.iter().map(|input| input.view).collect::<Vec<_>>());
    for ((found, expected), view) in found.iter().zip(&expected).zip(&made) {
        assert_eq!(found.len(), expected.len(), "{op:?} of {views:?}");
        for (i, (&found, &expected)) in found.iter().zip(expected).enumerate() {
            assert!(
                near(view.dtype, found, expected, size),
                "{op:?} of {views:?}: element {i} is {found}, not {expected}"
            );
        }
    }
    for (n, input) in inputs.iter().enumerate().filter(|&(n, _)| op.in_place(n)) {
        let whole = input.view.layout == Layout::contiguous(*input.view.shape());
        if whole && input.view.size_bytes() == made[0].size_bytes() {
            let taken = run_on(op, inputs, Some(n)).expect("the op runs in place");
            let same = taken[0].iter().zip(&found[0]).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{op:?} of {views:?} differs in place of input {n}");
        }
    }
}

/// Checks that an op reports an error.
pub fn check_fails(op: Op, inputs: &[Data], message: &str) {
    let error = run_on(op, inputs, None).expect_err("the op fails").to_string();
    assert!(error.contains(message), "{error}");
}
