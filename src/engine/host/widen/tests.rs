use bytemuck::Pod;
use half::{bf16, f16};

use super::super::testing::{Fixture, elements, floats, in_pools};
use super::super::{HostEngine, HostOptions, compute};
use super::*;
use crate::engine::Engine;
use crate::op::{Conv, Shape};

fn narrow(value: f32, dtype: Dtype) -> u16 {
    if dtype == Dtype::F16 { f16::from_f32(value).to_bits() } else { bf16::from_f32(value).to_bits() }
}

fn wide(bits: u16, dtype: Dtype) -> f32 {
    if dtype == Dtype::F16 { f16::from_bits(bits).to_f32() } else { bf16::from_bits(bits).to_f32() }
}

fn run_op<T: Pod + Send + Sync>(op: Op, inputs: &[(Vec<T>, View)]) -> Vec<T> {
    let workers = 4;
    let engine = HostEngine::new(HostOptions { workers, ..HostOptions::default() });
    let scratch = |views: &[View]| engine.scratch(&op, Algorithm(0), views, &op.outputs(views));
    in_pools(|| {
        let fixture = Fixture::new(op, Algorithm(0), inputs, scratch);
        // SAFETY: the fixture owns the memory under the call.
        fixture.run(|call| unsafe { compute(call, workers) })
    })
}

/// Compares with the op in 32 bits on the same numbers, rounded.
fn check(op: Op, layouts: &[Layout]) {
    for dtype in [Dtype::F16, Dtype::BF16] {
        let inputs: Vec<(Vec<u16>, View)> = (layouts.iter().zip(1..))
            .map(|(&layout, seed)| {
                let values = floats(4096, seed).into_iter().map(|value| narrow(value, dtype)).collect();
                (values, View { dtype, layout })
            })
            .collect();
        let widened: Vec<(Vec<f32>, View)> = (inputs.iter())
            .map(|(values, view)| {
                let values = elements(values, &distinct(view).layout);
                (values.into_iter().map(|bits| wide(bits, dtype)).collect(), widened(view))
            })
            .collect();
        let wanted: Vec<u16> = run_op(op, &widened).into_iter().map(|value| narrow(value, dtype)).collect();
        assert_eq!(run_op(op, &inputs), wanted, "{op:?} of {dtype}, {layouts:?}");
    }
}

fn contiguous(sizes: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(sizes))
}

#[test]
fn products_round_once() {
    let shared = contiguous(&[9, 5]).expand(Shape::new(&[6, 9, 5]));
    check(Op::Matmul, &[contiguous(&[6, 7, 9]), shared, contiguous(&[5]).flip(0)]);
    check(Op::Matmul, &[contiguous(&[9, 40]).permute(&[1, 0]), contiguous(&[9, 33])]);
    check(Op::Matmul, &[contiguous(&[3, 0]), contiguous(&[0, 4])]);
    check(Op::Matmul, &[contiguous(&[0, 3]), contiguous(&[3, 4])]);
}

#[test]
fn convolutions_round_once() {
    for groups in [1, 4] {
        let conv = Conv { stride: [1, 2, 1], padding: [0, 1, 1], dilation: [1; 3], groups };
        let (x, weight) = (contiguous(&[2, 6, 1, 7, 4]).permute(&[0, 4, 2, 3, 1]), [4, 4 / groups, 1, 3, 3]);
        let gradient = contiguous(&[2, 4, 1, 4, 1]).expand(Shape::new(&[2, 4, 1, 4, 6]));
        check(Op::Conv(conv), &[x, contiguous(&weight), contiguous(&[4])]);
        check(Op::ConvBackwardInput { conv, size: [1, 7, 6] }, &[contiguous(&weight), gradient]);
        check(Op::ConvBackwardWeight { conv, kernel: [1, 3, 3] }, &[x, gradient]);
    }
}
