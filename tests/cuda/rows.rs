//! Rows that a block's threads share, and those that each thread takes by itself, beside the host engine.

use burn_overcommit::op::{Dtype, Norm, Op, Reduce, Shape, Softmax, View};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::{Config, OvercommitDevice, configure};
use burn_overcommit_standin::folder;
use serial_test::serial;

use crate::driver;

/// Rows and their length: shorter than a block has threads, as long, longer by one, and much longer, in one piece or several.
const SIZES: [[usize; 2]; 7] = [[3, 100], [2, 128], [5, 129], [70, 1000], [1, 5000], [2, 70_000], [40, 300]];

fn run(op: Op, inputs: &[&Tensor]) -> Tensor {
    runtime::run(op, inputs.iter().map(|&input| input.clone())).expect("enough memory")
}

/// Numbers between a half and one and a half, each time the same.
fn tensor(device: &OvercommitDevice, sizes: &[usize], seed: usize, dtype: Dtype) -> Tensor {
    let shape = Shape::new(sizes);
    let value = |i: usize| 0.5 + (((i + seed) * 7919 + 104_729) % 1009) as f32 / 1009.0;
    let bytes: Vec<u8> = (0..shape.count()).flat_map(|i| value(i).to_ne_bytes()).collect();
    let single = runtime::write(device, &bytes, Dtype::F32, shape).expect("enough memory");
    run(Op::Copy { dtype }, &[&single])
}

/// All that rows are for, of rows that lie one after the other, or side by side.
fn answers(
    device: &OvercommitDevice,
    [rows, size]: [usize; 2],
    dtype: Dtype,
    is_turned: bool,
) -> Vec<Tensor> {
    let matrix = |seed| match is_turned {
        false => tensor(device, &[rows, size], seed, dtype),
        true => {
            let other = tensor(device, &[size, rows], seed, dtype);
            let turned = View::contiguous(dtype, Shape::new(&[size, rows])).layout.permute(&[1, 0]);
            other.with_layout(turned)
        }
    };
    let (x, gradient) = (matrix(1), matrix(2));
    let weight = |seed| tensor(device, &[size], seed, dtype);
    let (gamma, beta, axis) = (weight(3), weight(4), 1);
    let mut made = Vec::new();
    for &kind in Reduce::ALL.iter().filter(|kind| kind.supports(dtype)) {
        made.push(run(Op::Reduce { kind, axis }, &[&x]));
    }
    for kind in [Softmax::Plain, Softmax::Log] {
        let y = run(Op::Softmax { kind, axis }, &[&x]);
        made.push(run(Op::SoftmaxBackward { kind, axis, scale: 0.5.into() }, &[&y, &gradient]));
        made.push(y);
    }
    for causal in [false, true] {
        made.push(run(Op::AttentionWeights { scale: 0.25.into(), causal }, &[&x]));
    }
    for kind in [Norm::Layer, Norm::Rms] {
        let epsilon = 1e-5.into();
        let inputs = [&x, &gamma, &beta];
        made.push(run(Op::Norm { kind, epsilon }, &inputs[..if kind == Norm::Layer { 3 } else { 2 }]));
        let op = Op::NormBackward { kind, epsilon, weights: true };
        made.extend(
            runtime::run_pair(op, [&x, &gamma, &gradient].map(Tensor::clone)).expect("enough memory"),
        );
    }
    made
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    let bytes = runtime::read(run(Op::Copy { dtype: Dtype::F32 }, &[tensor])).expect("the ops run");
    bytes.chunks_exact(4).map(|bytes| f32::from_ne_bytes(bytes.try_into().expect("four bytes"))).collect()
}

#[test]
#[serial]
fn rows_of_all_lengths_are_the_host_engines_to_rounding() {
    let _driver = driver();
    let (device, host) = (OvercommitDevice::Cuda(6), OvercommitDevice::Host(42));
    configure(&device, Config::new().cuda_libraries(folder()).budget("64 MiB").host_limit("8 MiB")).unwrap();
    configure(&host, Config::new().budget("64 MiB")).unwrap();
    for (dtype, tolerance) in [(Dtype::F32, 2e-4), (Dtype::BF16, 0.02)] {
        for (sizes, is_turned) in SIZES.iter().flat_map(|&sizes| [(sizes, false), (sizes, true)]) {
            let (made, expected) =
                (answers(&device, sizes, dtype, is_turned), answers(&host, sizes, dtype, is_turned));
            for (number, (made, expected)) in made.iter().zip(&expected).enumerate() {
                let (made, expected) = (floats(made), floats(expected));
                assert_eq!(made.len(), expected.len());
                let largest = expected.iter().fold(0.0, |most: f32, value| most.max(value.abs()));
                for (made, expected) in made.iter().zip(&expected) {
                    let place = format!("answer {number} of {sizes:?}, turned: {is_turned}, {dtype}");
                    assert!(
                        (made - expected).abs() <= tolerance * largest,
                        "{made}, not {expected}: {place}"
                    );
                }
            }
        }
    }
}
