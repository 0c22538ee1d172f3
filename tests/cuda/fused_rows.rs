//! Programs that reduce rows on their way, as generated kernels, beside their ops one by one.

use burn_overcommit::op::{Binary, Distribution, Dtype, Op, Reduce, Scalar, Shape, Unary};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::{Config, OvercommitDevice, configure, reset_stats, stats};
use burn_overcommit_standin::folder;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serial_test::serial;

use crate::driver;

fn run(op: Op, inputs: &[&Tensor]) -> Tensor {
    runtime::run(op, inputs.iter().map(|&input| input.clone())).expect("enough memory")
}

/// A device that fuses ops, and one that does not.
fn devices(first: u16) -> [OvercommitDevice; 2] {
    [(first, true), (first + 1, false)].map(|(index, fusion)| {
        let device = OvercommitDevice::Cuda(index);
        let config = Config::new().cuda_libraries(folder()).budget("32 MiB").host_limit("8 MiB");
        configure(&device, config.fusion(fusion)).expect("a new device");
        device
    })
}

/// Numbers between minus two and two, each time the same.
fn tensor(device: &OvercommitDevice, shape: Shape, dtype: Dtype, seed: usize) -> Tensor {
    let value = |i: usize| (((i + seed) * 7919 + 104_729) % 1009) as f32 / 252.0 - 2.0;
    let bytes: Vec<u8> = (0..shape.count()).flat_map(|i| value(i).to_ne_bytes()).collect();
    let single = runtime::write(device, &bytes, Dtype::F32, shape).expect("enough memory");
    run(Op::Copy { dtype }, &[&single])
}

fn last(tensor: &Tensor) -> usize {
    tensor.shape().rank() - 1
}

fn reduced(kind: Reduce, x: &Tensor) -> Tensor {
    run(Op::Reduce { kind, axis: last(x) }, &[x])
}

/// A value of each row in the place of each element.
fn repeated(row: &Tensor, like: &Tensor) -> Tensor {
    let layout = row.layout().expand(*like.shape());
    row.clone().with_layout(layout)
}

fn with_rows(kind: Binary, x: &Tensor, row: &Tensor) -> Tensor {
    run(Op::Binary(kind), &[x, &repeated(row, x)])
}

/// As Burn's function does it.
fn softmax(x: &Tensor) -> Tensor {
    let exponentials = run(Op::Unary(Unary::Exp), &[&with_rows(Binary::Sub, x, &reduced(Reduce::Max, x))]);
    with_rows(Binary::Div, &exponentials, &reduced(Reduce::Sum, &exponentials))
}

/// As Burn's module does it; also what its gradient needs.
fn layer_norm(x: &Tensor, [gamma, beta]: [&Tensor; 2]) -> [Tensor; 3] {
    let centred = with_rows(Binary::Sub, x, &reduced(Reduce::Mean, x));
    let variance = reduced(Reduce::Mean, &run(Op::Unary(Unary::Square), &[&centred]));
    let with_epsilon = run(Op::BinaryScalar(Binary::Add, Scalar::from(1e-5)), &[&variance]);
    let deviation = run(Op::Unary(Unary::Sqrt), &[&with_epsilon]);
    let normal = with_rows(Binary::Div, &centred, &deviation);
    let along = |weight: &Tensor| {
        let layout = weight.layout().expand(*x.shape());
        weight.clone().with_layout(layout)
    };
    let scaled = run(Op::Binary(Binary::Mul), &[&normal, &along(gamma)]);
    [run(Op::Binary(Binary::Add), &[&scaled, &along(beta)]), normal, deviation]
}

/// Rows and their length: in registers, of one vector and of several, of which some threads have none; not in vectors; too long to
/// keep.
const SHAPES: [&[usize]; 7] =
    [&[3, 128], &[2, 5, 1024], &[3, 130], &[4, 2, 768], &[2, 2000], &[2, 3001], &[3, 5000]];

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::BF16, Dtype::F64];

/// Some ops on a few tensors, of which some are dropped at once; all that is left is read.
fn random_program(device: &OvercommitDevice, seed: u64) -> Vec<Vec<u8>> {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let (dtype, shape) =
        (DTYPES[seed as usize % 3], Shape::new(SHAPES.choose(random).expect("there are some")));
    let mut live: Vec<Tensor> =
        (0..3).map(|n| tensor(device, shape, dtype, n * 77 + seed as usize)).collect();
    let mut rows: Vec<Tensor> = vec![tensor(device, shape.with(shape.rank() - 1, 1), dtype, seed as usize)];
    let mask = runtime::write(
        device,
        &(0..shape.count()).map(|i| u8::from(i * 31 % 7 == 0)).collect::<Vec<u8>>(),
        Dtype::Bool,
        shape,
    )
    .expect("enough memory");
    for _ in 0..random.random_range(4..24) {
        let x = live.choose(random).expect("there are some").clone();
        let y = live.choose(random).expect("there are some").clone();
        let row = rows.choose(random).expect("there are some").clone();
        let kinds = [Binary::Sub, Binary::Add, Binary::Mul, Binary::Max];
        let kind = *kinds.choose(random).expect("there are some");
        match random.random_range(0..13) {
            0..3 => rows
                .push(reduced(*[Reduce::Sum, Reduce::Mean, Reduce::Max].choose(random).expect("some"), &x)),
            3..5 => live.push(with_rows(kind, &x, &row)),
            5 => rows.push(run(Op::Unary(*[Unary::Abs, Unary::Tanh].choose(random).expect("some")), &[&row])),
            6 => {
                let other = rows.choose(random).expect("there are some").clone();
                rows.push(run(Op::Binary(kind), &[&row, &other]));
            }
            7 => live.push(run(Op::Binary(kind), &[&x, &y])),
            8 => live.push(run(Op::Unary(*[Unary::Tanh, Unary::Neg].choose(random).expect("some")), &[&x])),
            9 => live.push(run(Op::MaskFill(Scalar::from(-0.5)), &[&x, &mask])),
            10 => {
                let distribution = Distribution::Bernoulli { probability: 0.7.into() };
                let draw = Op::Random { shape, dtype, distribution, seed: random.random() };
                let draw = runtime::create(device, draw).expect("enough memory");
                live.push(run(Op::Binary(Binary::Mul), &[&x, &draw]));
            }
            // The first elements in the place of values of rows.
            11 => {
                let row = *rows[0].shape();
                let flat = x.layout().reshape(Shape::new(&[shape.count()])).expect("it is contiguous");
                let some = flat.slice(0, 0, row.count(), 1).reshape(row).expect("it is contiguous");
                rows.push(run(Op::Unary(Unary::Abs), &[&x.clone().with_layout(some)]));
            }
            // Along another axis, which ends a run.
            _ => drop(run(Op::Reduce { kind: Reduce::Sum, axis: 0 }, &[&x])),
        }
        drop((x, y, row));
        if live.len() > 4 && random.random_bool(0.5) {
            live.swap_remove(random.random_range(0..live.len()));
        }
        if rows.len() > 3 && random.random_bool(0.5) {
            rows.swap_remove(random.random_range(0..rows.len()));
        }
    }
    live.extend(rows);
    live.into_iter().map(|tensor| runtime::read(tensor).expect("the ops run")).collect()
}

#[test]
#[serial]
fn random_programs_with_rows_have_the_bits_of_their_ops() {
    let _driver = driver();
    let [fused, alone] = devices(10);
    let ops = |device| stats(device).expect("it is in use").counters.ops;
    for seed in 0..40 {
        let [with, without] = [&fused, &alone].map(|device| random_program(device, seed));
        assert!(with == without, "program {seed}");
    }
    assert!(ops(&fused) * 3 < ops(&alone) * 2, "{} and {} ops", ops(&fused), ops(&alone));
    assert_eq!(stats(&fused).expect("it is in use").fallbacks, [], "no program was interpreted");
}

#[test]
#[serial]
fn a_softmax_and_a_layer_norm_are_an_op_each() {
    let _driver = driver();
    let [fused, alone] = devices(12);
    for (dtype, dims) in DTYPES.into_iter().flat_map(|dtype| SHAPES.map(|dims| (dtype, dims))) {
        let shape = Shape::new(dims);
        let made = [&fused, &alone].map(|device| {
            let x = tensor(device, shape, dtype, 5);
            let weights = [1, 2].map(|seed| tensor(device, Shape::new(&dims[dims.len() - 1..]), dtype, seed));
            runtime::sync(device).expect("the ops run");
            reset_stats(device).expect("it is in use");
            let ops = || stats(device).expect("it is in use").counters.ops;
            let probabilities = softmax(&x);
            let mut read = vec![runtime::read(probabilities).expect("the ops run")];
            let of_softmax = ops();
            let [normal, kept, deviation] = layer_norm(&x, [&weights[0], &weights[1]]);
            read.push(runtime::read(normal).expect("the ops run"));
            let of_norm = ops() - of_softmax;
            read.extend([kept, deviation].map(|tensor| runtime::read(tensor).expect("the ops run")));
            (read, [of_softmax, of_norm])
        });
        let [(with, launches), (without, _)] = made;
        assert!(with == without, "{dtype} {shape:?}");
        assert_eq!(launches, [1, 1], "{dtype} {shape:?}");
    }
}
