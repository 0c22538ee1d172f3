//! Every op against a reference in `f64`, on views of all kinds, in place and not.

mod attention;
mod case;
mod coded;
mod data;
mod forms;
mod indexing;
mod norms;
mod ordering;
mod pooling;
mod programs;
mod reductions;
mod reference;
mod vision;

use std::collections::HashSet;

use super::*;
use crate::engine::{Algorithm, Span, Tier};
use crate::op::*;
use case::{check, check_fails, run_on, values};
use data::Data;

/// Shapes to try on an element type: all where loops are written for it, a few where they are instances.
fn shapes_for(dtype: Dtype) -> Vec<Shape> {
    let every = if [Dtype::F32, Dtype::I64, Dtype::Bool].contains(&dtype) { 1 } else { 5 };
    shapes().into_iter().step_by(every).collect()
}

/// Shapes of every rank, with sizes of zero and one among them.
fn shapes() -> Vec<Shape> {
    let sizes: [&[usize]; 12] = [
        &[],
        &[1],
        &[7],
        &[0],
        &[3, 5],
        &[4, 0, 2],
        &[2, 3, 4],
        &[2, 3, 4, 5],
        &[1, 17, 1, 20],
        &[2, 1, 3, 2, 2],
        &[2, 2, 1, 2, 2, 3],
        &[2, 1, 2, 2, 1, 2, 2, 2],
    ];
    sizes.map(Shape::new).to_vec()
}

#[test]
fn lowering_and_tables_agree() {
    let names = KernelName::all();
    let unique: HashSet<String> = names.iter().map(|name| name.to_string()).collect();
    assert_eq!(unique.len(), names.len(), "a kernel is listed twice");
    for name in &unique {
        assert!(KERNELS.contains_key(name.as_str()), "lowering asks for `{name}`, which no file has");
    }
    // The convolution kernels are called by their own module.
    let convolves =
        |name: &&&str| name.starts_with("depthwise") || name.contains("2col") || name.contains("2im");
    for name in KERNELS.keys().filter(|name| !convolves(name)) {
        assert!(unique.contains(*name), "nothing asks for `{name}`");
    }
    for (name, bytes) in lower::args_sizes() {
        let kernel = find(&name.to_string());
        assert_eq!((kernel.args_bytes, kernel.args_align), (bytes as u64, 8), "arguments of `{name}`");
    }
}

#[test]
fn a_launch_of_more_blocks_than_a_grid_has_is_refused() {
    let view = View::contiguous(Dtype::F32, Shape::new(&[MAX_ELEMENTS]));
    let span = Span { tier: Tier::Device, address: 256, bytes: 0 };
    let operand = || [Operand { span, view }].into_iter();
    let call = Call {
        op: Op::Unary(Unary::Exp),
        algorithm: Algorithm::default(),
        inputs: operand().collect(),
        outputs: operand().collect(),
        scratch: span,
    };
    // SAFETY: nothing is launched.
    let error = unsafe { run(&call) }.unwrap_err();
    assert!(error.to_string().contains("more than 2147483647 blocks"), "{error}");
}

#[test]
fn unary() {
    for kind in Unary::ALL {
        for dtype in Dtype::ALL.iter().copied().filter(|&dtype| kind.supports(dtype)) {
            for (seed, shape) in shapes_for(dtype).into_iter().enumerate() {
                for x in Data::views(dtype, shape, seed as u64) {
                    check(Op::Unary(*kind), &[x]);
                }
            }
        }
    }
}

#[test]
fn binary() {
    for kind in Binary::ALL {
        for dtype in Dtype::ALL.iter().copied().filter(|&dtype| kind.supports(dtype)) {
            for (seed, shape) in shapes_for(dtype).into_iter().enumerate() {
                let (a, b) =
                    (Data::views(dtype, shape, seed as u64), Data::views(dtype, shape, seed as u64 + 50));
                for (i, a) in a.iter().enumerate() {
                    check(Op::Binary(*kind), &[a.clone(), b[0].clone()]);
                    check(Op::Binary(*kind), &[a.clone(), b[(i + seed) % b.len()].clone()]);
                    for value in [-3.0, 0.0, 2.0] {
                        check(Op::BinaryScalar(*kind, Scalar::from(value)), std::slice::from_ref(a));
                    }
                }
            }
        }
    }
}

#[test]
fn compare_and_choose() {
    for &dtype in Dtype::ALL {
        for (seed, shape) in shapes_for(dtype).into_iter().enumerate() {
            let seed = seed as u64;
            let (a, b) = (Data::views(dtype, shape, seed), Data::views(dtype, shape, seed + 50));
            let masks = Data::views(Dtype::Bool, shape, seed + 100);
            for (i, a) in a.iter().enumerate() {
                let b = &b[(i + seed as usize) % b.len()];
                for kind in Compare::ALL {
                    check(Op::Compare(*kind), &[a.clone(), b.clone()]);
                    check(Op::CompareScalar(*kind, Scalar::from(1i64)), std::slice::from_ref(a));
                }
                for mask in &masks {
                    check(Op::Where, &[mask.clone(), a.clone(), b.clone()]);
                    check(Op::MaskFill(Scalar::from(1i64)), &[a.clone(), mask.clone()]);
                }
                for &to in Dtype::ALL {
                    check(Op::Copy { dtype: to }, std::slice::from_ref(a));
                }
            }
        }
    }
}

#[test]
fn transposing_copies() {
    for sizes in [[16, 4], [33, 7], [70, 130], [16, 16], [5, 40]] {
        let x = Data::new(Dtype::F32, Shape::new(&sizes), 1);
        check(Op::Copy { dtype: Dtype::F32 }, &[x.with_layout(|layout| layout.permute(&[1, 0]))]);
        check(Op::Copy { dtype: Dtype::I64 }, &[x.with_layout(|layout| layout.permute(&[1, 0]).flip(1))]);
    }
    let x = Data::new(Dtype::F32, Shape::new(&[3, 19, 4, 5]), 2);
    check(Op::Copy { dtype: Dtype::F32 }, &[x.with_layout(|layout| layout.permute(&[0, 2, 3, 1]))]);
    check(Op::Copy { dtype: Dtype::F32 }, &[x.with_layout(|layout| layout.permute(&[3, 1, 0, 2]))]);
}

#[test]
fn blocks_meet() {
    // More elements than a block takes, in one dimension and in several.
    for sizes in [&[3 * CHUNK_BYTES / 4 + 17][..], &[5, 1000, 41]] {
        let shape = Shape::new(sizes);
        for x in Data::views(Dtype::F32, shape, 3) {
            check(Op::Binary(Binary::Add), &[x.clone(), Data::new(Dtype::F32, shape, 4)]);
            check(Op::Unary(Unary::Exp), &[x]);
        }
    }
}

#[test]
fn fill_and_arange() {
    for &dtype in Dtype::ALL {
        for shape in shapes() {
            check(Op::Fill { shape, dtype, value: Scalar::from(1i64) }, &[]);
        }
    }
    for dtype in Dtype::INTEGERS {
        check(Op::Arange { count: 100, dtype, start: -7, step: 3 }, &[]);
        check(Op::Arange { count: 0, dtype, start: -7, step: 3 }, &[]);
    }
}

fn random(count: usize, dtype: Dtype, distribution: Distribution, seed: u64) -> Vec<f64> {
    let shape = Shape::new(&[count]);
    values(Op::Random { shape, dtype, distribution, seed }, &[])
}

#[test]
fn philox_known_answer() {
    // Random123's vector for key 0 and counter 0, read through integers uniform in the 32-bit range.
    let words = Distribution::Uniform { low: 0.0.into(), high: 4294967296.0.into() };
    let expected = [0x6627e8d5u32, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8];
    assert_eq!(random(4, Dtype::I64, words, 0), expected.map(f64::from));
}

#[test]
fn random_numbers_follow_their_distribution() {
    let count = 400_000;
    let moments = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        (mean, (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64).sqrt())
    };
    let uniform = Distribution::Uniform { low: (-2.0).into(), high: 4.0.into() };
    let x = random(count, Dtype::F32, uniform, 1);
    assert!(x.iter().all(|x| (-2.0..4.0).contains(x)));
    let (mean, deviation) = moments(&x);
    assert!((mean - 1.0).abs() < 0.02 && (deviation - 12f64.sqrt() / 2.0).abs() < 0.02);
    let normal = Distribution::Normal { mean: 3.0.into(), deviation: 0.5.into() };
    let (mean, deviation) = moments(&random(count, Dtype::F32, normal, 2));
    assert!((mean - 3.0).abs() < 0.01 && (deviation - 0.5).abs() < 0.01);
    for &dtype in Dtype::ALL {
        let (mean, _) =
            moments(&random(count, dtype, Distribution::Bernoulli { probability: 0.3.into() }, 3));
        assert!((mean - 0.3).abs() < 0.01);
    }
    // A number depends on its position alone, and seeds differ.
    assert_eq!(x[..1001], random(1001, Dtype::F32, uniform, 1));
    assert_ne!(x[..1001], random(1001, Dtype::F32, uniform, 2));
}
