//! Elementwise ops that are launched together: the same bits, fewer launches, and nothing lost by an error.
#![cfg(feature = "host")]

use std::sync::atomic::{AtomicU16, Ordering};

use burn::backend::Autodiff;
use burn::nn::BatchNormConfig;
use burn::tensor::module::max_pool2d;
use burn::tensor::{Distribution, Tensor as BurnTensor, activation};
use burn_overcommit::op::{
    BINARY_STEPS, Binary, Conv, Dtype, Op, Reduce, Scalar, Shape, UNARY_STEPS, Unary, View,
};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::trace::Event;
use burn_overcommit::{
    Config, Error, LaneMode, Overcommit, OvercommitDevice, Policy, configure, reset_stats, stats,
};
use half::{bf16, f16};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

static DEVICES: AtomicU16 = AtomicU16::new(0);

/// Whatever the default and the environment say.
fn fusing() -> Config {
    Config::new().fusion(true)
}

/// A device of its own.
fn device(config: Config) -> OvercommitDevice {
    let device = OvercommitDevice::Host(DEVICES.fetch_add(1, Ordering::Relaxed));
    configure(&device, config).unwrap();
    device
}

fn elements(dtype: Dtype, values: impl Iterator<Item = f64>) -> Vec<u8> {
    values
        .flat_map(|value| match dtype {
            Dtype::F64 => value.to_ne_bytes().to_vec(),
            Dtype::F32 => (value as f32).to_ne_bytes().to_vec(),
            Dtype::F16 => f16::from_f64(value).to_ne_bytes().to_vec(),
            _ => bf16::from_f64(value).to_ne_bytes().to_vec(),
        })
        .collect()
}

fn upload(device: &OvercommitDevice, dtype: Dtype, shape: Shape, random: &mut impl Rng) -> Tensor {
    let values = (0..shape.count()).map(|_| random.random_range(-3.0..3.0));
    runtime::write(device, &elements(dtype, values), dtype, shape).unwrap()
}

/// A tensor of this shape: one of the live ones, a view that repeats or flips elements, or a new one.
fn operand(live: &mut Vec<Tensor>, device: &OvercommitDevice, shape: Shape, random: &mut impl Rng) -> Tensor {
    let dtype = live[0].dtype();
    let axis = random.random_range(0..shape.rank());
    match random.random_range(0..12) {
        0 => {
            let narrow = upload(device, dtype, shape.with(axis, 1), random);
            let layout = narrow.layout().expand(shape);
            narrow.with_layout(layout)
        }
        1 => {
            let tensor = live.choose(random).unwrap().clone();
            let layout = tensor.layout().slice(axis, shape[axis] - 1, shape[axis], -1);
            tensor.with_layout(layout)
        }
        2 => {
            let value = Scalar::from(random.random_range(-2.0..2.0));
            runtime::create(device, Op::Fill { shape, dtype, value }).unwrap()
        }
        // The last handle, perhaps.
        3..6 if live.len() > 2 => live.swap_remove(random.random_range(0..live.len())),
        _ => live.choose(random).unwrap().clone(),
    }
}

/// A sum or mean along an axis, perhaps of a copy in another order, expanded to the tensor's shape.
fn reduced(a: Tensor, random: &mut impl Rng) -> Tensor {
    let kind = *[Reduce::Sum, Reduce::Mean].choose(random).unwrap();
    let (dtype, shape) = (a.dtype(), *a.shape());
    if shape.rank() == 1 || random.random_bool(0.5) {
        let axis = random.random_range(0..shape.rank());
        let made = runtime::run(Op::Reduce { kind, axis }, [a]).unwrap();
        let layout = made.layout().expand(shape);
        return made.with_layout(layout);
    }
    // As Burn's batch norm has it: of each channel what all images have.
    let mut axes: Vec<usize> = (0..shape.rank()).collect();
    axes.swap(0, 1);
    let layout = a.layout().permute(&axes);
    let copy = runtime::run(Op::Copy { dtype }, [a.with_layout(layout)]).unwrap();
    let rows = Shape::new(&[shape[1], shape.count() / shape[1]]);
    let layout = copy.layout().reshape(rows).unwrap();
    let kept = random.random_bool(0.2).then(|| copy.clone());
    let made = runtime::run(Op::Reduce { kind, axis: 1 }, [copy.with_layout(layout)]).unwrap();
    drop(kept);
    let mut sizes = vec![1; shape.rank()];
    sizes[1] = shape[1];
    let layout = made.layout().reshape(Shape::new(&sizes)).unwrap().expand(shape);
    made.with_layout(layout)
}

/// What a norm or an optimizer does beside large tensors: ops on a few values, in one shape or another of as many elements,
/// one of which is then read by an op on the large ones.
fn beside(device: &OvercommitDevice, a: &Tensor, random: &mut impl Rng) -> Tensor {
    let (dtype, shape) = (a.dtype(), *a.shape());
    let axis = shape.rank() - 1;
    let count = shape[axis];
    let line = Shape::new(&[count]);
    let row = (0..axis).fold(shape, |row, other| row.with(other, 1));
    let fill = Op::Fill { shape: line, dtype, value: Scalar::from(random.random_range(-2.0..2.0)) };
    let mut small = runtime::create(device, fill).unwrap();
    for _ in 0..random.random_range(1..6) {
        let shape = if random.random_bool(0.5) { line } else { row };
        let layout = small.layout().reshape(shape).unwrap();
        let seen = small.with_layout(layout);
        small = match random.random_range(0..3) {
            0 => runtime::run(Op::Unary(Unary::Square), [seen]).unwrap(),
            1 => runtime::run(Op::BinaryScalar(Binary::Sub, Scalar::from(0.5)), [seen]).unwrap(),
            _ => runtime::run(Op::Binary(Binary::Add), [seen.clone(), seen]).unwrap(),
        };
    }
    let layout = small.layout().reshape(row).unwrap().expand(shape);
    small.with_layout(layout)
}

/// What was read of a tensor.
#[derive(Debug, PartialEq)]
struct Values {
    dtype: Dtype,
    bytes: Vec<u8>,
}

impl Values {
    fn of(tensor: Tensor) -> Self {
        Values { dtype: tensor.dtype(), bytes: runtime::read(tensor).unwrap() }
    }

    fn bits(&self) -> impl Iterator<Item = u64> {
        let dtype = self.dtype;
        self.bytes.chunks(dtype.size_bytes()).map(move |element| {
            let mut bits = [0; 8];
            bits[..element.len()].copy_from_slice(element);
            let bits = u64::from_le_bytes(bits);
            let is_nan = match dtype {
                Dtype::F64 => f64::from_bits(bits).is_nan(),
                Dtype::F32 => f32::from_bits(bits as u32).is_nan(),
                Dtype::F16 => f16::from_bits(bits as u16).is_nan(),
                _ => bf16::from_bits(bits as u16).is_nan(),
            };
            if is_nan { u64::MAX } else { bits }
        })
    }

    /// The same bits, but for the signs of NaN: on this processor, that of a sum of two NaN is that of the first, and which
    /// one is the first is the compiler's choice.
    fn is_as(&self, other: &Values) -> bool {
        self.dtype == other.dtype && self.bits().eq(other.bits())
    }
}

/// What a random program reads, which depends on the seed alone.
fn program(device: &OvercommitDevice, seed: u64) -> Vec<Values> {
    let random = &mut ChaCha8Rng::seed_from_u64(seed);
    let dtype = *Dtype::FLOATS.choose(random).unwrap();
    // Some tensors are so large that cheap results are not stored.
    let shape = match random.random_range(0..16) {
        0 => Shape::new(&[2, 8, 2100]),
        1..6 => Shape::new(&[700]),
        6..11 => Shape::new(&[5, 60]),
        _ => Shape::new(&[3, 4, 37]),
    };
    let mut live: Vec<Tensor> = (0..3).map(|_| upload(device, dtype, shape, random)).collect();
    let mut read = Vec::new();
    for _ in 0..80 {
        let a = operand(&mut live, device, shape, random);
        if random.random_bool(0.15) {
            live.push(reduced(a, random));
            continue;
        }
        if random.random_bool(0.15) {
            let small = beside(device, &a, random);
            live.push(runtime::run(Op::Binary(Binary::Mul), [a, small]).unwrap());
            continue;
        }
        let scalar = Scalar::from(random.random_range(-2.0..2.0));
        let op = match random.random_range(0..20) {
            0..8 => Op::Unary(*UNARY_STEPS.choose(random).unwrap()),
            8..12 => Op::BinaryScalar(*BINARY_STEPS.choose(random).unwrap(), scalar),
            12 => Op::BinaryScalar(Binary::Pow, 2.0.into()),
            // Ops that can be no steps.
            13 => Op::Unary(Unary::Sin),
            14 => Op::Clamp(Scalar::from(-1.0), Scalar::from(1.0)),
            _ => Op::Binary(*BINARY_STEPS.choose(random).unwrap()),
        };
        let inputs = match op {
            Op::Binary(_) => vec![a, operand(&mut live, device, shape, random)],
            _ => vec![a],
        };
        live.push(runtime::run(op, inputs).unwrap());
        while live.len() > 6 || (live.len() > 3 && random.random_bool(0.2)) {
            live.swap_remove(random.random_range(0..live.len()));
        }
        if random.random_bool(0.04) {
            read.push(Values::of(live.choose(random).unwrap().clone()));
        }
    }
    read.extend(live.into_iter().map(Values::of));
    read
}

/// How many programs there are: `FUSED_PROGRAMS`, or a few.
fn programs() -> u64 {
    std::env::var("FUSED_PROGRAMS").map_or(300, |text| text.parse().unwrap())
}

#[test]
fn random_programs_compute_the_same_bits_in_fewer_launches() {
    let (fused, plain) = (device(fusing()), device(Config::new().fusion(false)));
    for seed in 0..programs() {
        let [fused, plain] = [&fused, &plain].map(|device| program(device, seed));
        assert_eq!(fused.len(), plain.len());
        for (n, (a, b)) in fused.iter().zip(&plain).enumerate() {
            let differ = || a.bits().zip(b.bits()).enumerate().find(|(_, (a, b))| a != b);
            assert!(a.is_as(b), "program {seed}, tensor {n} of {:?}: {:x?}", a.dtype, differ());
        }
    }
    let ops = |device| stats(device).unwrap().counters.ops;
    assert!(ops(&fused) * 10 < ops(&plain) * 8, "{} of {}", ops(&fused), ops(&plain));
    let left = |device| stats(device).unwrap().storages;
    assert_eq!((left(&fused), left(&plain)), (0, 0));
}

#[test]
fn they_do_under_every_budget_and_policy() {
    let fused = device(fusing());
    for seed in 0..programs() / 4 {
        reset_stats(&fused).unwrap();
        let expected = program(&fused, seed);
        let least_bytes = stats(&fused).unwrap().smallest_budget_bytes;
        for policy in [Policy::Auto, Policy::EvictAll, Policy::Recompute, Policy::Dtr, Policy::Gist] {
            // What Gist rounds, it rounds in the backward pass of an iteration; there is none.
            let lanes = LaneMode::Deferred { seed };
            let config = fusing().policy(policy).budget_bytes(least_bytes).lanes(lanes);
            configure(&fused, config).unwrap();
            let made = program(&fused, seed);
            let is_same = made.len() == expected.len() && made.iter().zip(&expected).all(|(a, b)| a.is_as(b));
            assert!(is_same, "program {seed}, {policy}, {least_bytes} bytes");
        }
        configure(&fused, fusing()).unwrap();
    }
}

/// The passes of a batch norm's forward and backward pass in training over tensors as large as its input: the names of the ops
/// that read or make one.
fn passes_of_batch_norm(config: Config) -> [Vec<String>; 2] {
    type B = Autodiff<Overcommit>;
    let device = device(config.record());
    let norm = BatchNormConfig::new(8).init::<B>(&device);
    let image = || BurnTensor::<B, 4>::random([4, 8, 16, 16], Distribution::Default, &device).require_grad();
    let (x, weights) = (image(), image().inner());
    let made = norm.forward(x.clone());
    runtime::note(&device, "backward").unwrap();
    let gradients = (made * BurnTensor::from_inner(weights)).sum().backward();
    assert!(x.grad(&gradients).is_some());
    let large = (x.shape().num_elements() * size_of::<f32>()) as u64;
    let mut passes = [Vec::new(), Vec::new()];
    let mut is_backward = false;
    for event in runtime::recording(&device).unwrap().program().events {
        match event {
            Event::Note(_) => is_backward = true,
            Event::Op(op)
                if op.name != "random" && op.work.read_bytes.max(op.work.written_bytes) >= large =>
            {
                passes[usize::from(is_backward)].push(op.name.to_string());
            }
            _ => {}
        }
    }
    passes
}

#[test]
fn a_batch_norm_takes_fewer_passes() {
    let plain = passes_of_batch_norm(Config::new().fusion(false));
    let fused = passes_of_batch_norm(fusing());
    println!("passes of a batch norm, forward and backward: {plain:?}, fused {fused:?}");
    let counts = |passes: &[Vec<String>; 2]| [passes[0].len(), passes[1].len()];
    println!("{:?}, fused {:?}", counts(&plain), counts(&fused));
    // The mean, the mean square of what is left, and what is made of both.
    assert_eq!(counts(&fused)[0], 3);
    assert!(counts(&fused)[1] * 2 < counts(&plain)[1]);
}

/// Bytes in storages.
fn allocated(device: &OvercommitDevice) -> usize {
    stats(device).unwrap().allocated_bytes
}

#[test]
fn what_cheap_steps_make_of_a_large_tensor_is_stored_once_something_else_reads_it() {
    let device = device(fusing());
    let shape = Shape::new(&[50_000]);
    let x = upload(&device, Dtype::F32, shape, &mut ChaCha8Rng::seed_from_u64(0));
    let floats = |bytes: Vec<u8>| -> Vec<f32> { bytemuck::pod_collect_to_vec(&bytes) };
    let values = floats(runtime::read(x.clone()).unwrap());
    let tensors = || allocated(&device) / (50_000 * size_of::<f32>());
    let scalar = |kind, value: f64, of: &Tensor| {
        runtime::run(Op::BinaryScalar(kind, Scalar::from(value)), [of.clone()]).unwrap()
    };
    let twice = scalar(Binary::Mul, 2.0, &x);
    let more = scalar(Binary::Add, 1.0, &twice);
    let total = runtime::run(Op::Reduce { kind: Reduce::Sum, axis: 0 }, [scalar(Binary::Sub, 3.0, &more)]);
    assert_eq!(stats(&device).unwrap().counters.ops, 1, "the sum computes them again");
    assert_eq!(tensors(), 1, "neither is stored");
    let again = scalar(Binary::Mul, 2.0, &x);
    drop((total, again, x));
    let read = std::thread::scope(|scope| {
        let more = more.clone();
        scope.spawn(move || runtime::read(more).unwrap()).join().unwrap()
    });
    assert_eq!(floats(read), values.iter().map(|x| x * 2.0 + 1.0).collect::<Vec<_>>());
    assert_eq!(tensors(), 2, "what was read, and what the other is computed from");
    drop(more);
    assert_eq!(floats(runtime::read(twice).unwrap()), values.iter().map(|x| x * 2.0).collect::<Vec<_>>());
    assert_eq!(tensors(), 0);
}

#[test]
fn what_finds_no_memory_to_be_stored_in_is_stored_once_there_is() {
    // Room for two tensors, of which none can leave.
    let config = fusing().budget_bytes(500_000).host_limit("4 KiB").policy(Policy::TensorCache);
    let device = device(config.page_mapping(false));
    let zeros = Op::Fill { shape: Shape::new(&[50_000]), dtype: Dtype::F32, value: Scalar::from(0.0) };
    let exponential = |of: Tensor| runtime::run(Op::Unary(Unary::Exp), [of]).unwrap();
    let x = exponential(runtime::create(&device, zeros).unwrap());
    let other = exponential(x.clone());
    let twice = runtime::run(Op::BinaryScalar(Binary::Mul, Scalar::from(2.0)), [x.clone()]).unwrap();
    let largest = || runtime::run(Op::Reduce { kind: Reduce::Max, axis: 0 }, [twice.clone()]);
    for _ in 0..2 {
        assert!(largest().is_err_and(|error| error.is_out_of_memory()));
    }
    drop(other);
    assert_eq!(runtime::read(largest().unwrap()).unwrap(), 2f32.to_le_bytes());
    drop(x);
}

#[test]
fn a_batch_norm_stores_its_input_and_its_result() {
    type B = Autodiff<Overcommit>;
    let device = device(fusing());
    let norm = BatchNormConfig::new(8).init::<B>(&device);
    let x = BurnTensor::<B, 4>::random([4, 8, 32, 32], Distribution::Default, &device).require_grad();
    let one = 4 * 8 * 32 * 32 * size_of::<f32>();
    let made = activation::relu(norm.forward(x));
    // A pool is no step, and so reads what is stored.
    let pooled = max_pool2d(made, [2, 2], [2, 2], [0, 0], [1, 1], false);
    let held = allocated(&device);
    assert!((2 * one..3 * one + one / 4).contains(&held), "{held} bytes, of which the input takes {one}");
    drop(pooled);
}

#[test]
fn what_repeats_is_computed_once() {
    let device = device(fusing().record());
    let (full, row) = (Shape::new(&[64, 1000]), Shape::new(&[64, 1]));
    let rows = upload(&device, Dtype::F32, row, &mut ChaCha8Rng::seed_from_u64(0));
    let expanded = rows.clone().with_layout(rows.layout().expand(full));
    let ones = Op::Fill { shape: full, dtype: Dtype::F32, value: Scalar::from(1.0) };
    let ones = runtime::create(&device, ones).unwrap();
    let share = runtime::run(Op::BinaryScalar(Binary::Mul, Scalar::from(0.25)), [ones]).unwrap();
    let made = runtime::run(Op::Binary(Binary::Mul), [share, expanded]).unwrap();
    assert_eq!(*made.shape(), full);
    let read: Vec<f32> = bytemuck::pod_collect_to_vec(&runtime::read(made).unwrap());
    let values: Vec<f32> = bytemuck::pod_collect_to_vec(&runtime::read(rows).unwrap());
    let expected = values.iter().flat_map(|x| std::iter::repeat_n(0.25 * x, 1000));
    assert!(read.iter().copied().eq(expected));
    let ops = runtime::recording(&device).unwrap().program().events;
    let largest = ops.iter().filter_map(|event| match event {
        Event::Op(op) if op.name != "copy" => Some(op.work.written_bytes),
        _ => None,
    });
    assert_eq!(largest.max(), Some((64 * size_of::<f32>()) as u64));
}

#[test]
fn what_is_never_asked_for_is_never_made() {
    let device = device(fusing());
    let x = upload(&device, Dtype::F32, Shape::new(&[1000]), &mut ChaCha8Rng::seed_from_u64(0));
    drop(runtime::run(Op::Unary(Unary::Exp), [x.clone()]).unwrap());
    let counters = stats(&device).unwrap().counters;
    assert_eq!(counters.ops, 0);
    let sum = runtime::run(Op::Binary(Binary::Add), [x.clone(), x.clone()]).unwrap();
    let square = runtime::run(Op::Unary(Unary::Square), [sum.clone()]).unwrap();
    assert_eq!(stats(&device).unwrap().counters.ops, 1, "both in one");
    let [sum, square] = [sum, square].map(|tensor| runtime::read(tensor).unwrap());
    let floats = |bytes: Vec<u8>| -> Vec<f32> { bytemuck::pod_collect_to_vec(&bytes) };
    let expected: Vec<f32> = floats(runtime::read(x).unwrap()).into_iter().map(|x| x + x).collect();
    assert_eq!(floats(sum), expected);
    assert_eq!(floats(square), expected.iter().map(|sum| sum * sum).collect::<Vec<_>>());
}

/// How many ops were submitted for what this makes.
fn submitted(make: impl FnOnce(&OvercommitDevice) -> Vec<Tensor>) -> u64 {
    let device = device(fusing());
    let made = make(&device);
    made.into_iter().for_each(|tensor| drop(runtime::read(tensor).unwrap()));
    stats(&device).unwrap().counters.ops
}

#[test]
fn an_optimizers_step_is_one_op_for_each_small_parameter() {
    let run = |op, inputs: Vec<Tensor>| runtime::run(op, inputs).unwrap();
    let scaled = |x: &Tensor, by: f64| run(Op::BinaryScalar(Binary::Mul, by.into()), vec![x.clone()]);
    let ops = submitted(|device| {
        let random = &mut ChaCha8Rng::seed_from_u64(0);
        let step = |count| {
            let mut parameter = || upload(device, Dtype::F32, Shape::new(&[count]), random);
            let [weights, gradient, momentum] = [parameter(), parameter(), parameter()];
            let momentum = run(Op::Binary(Binary::Add), vec![scaled(&momentum, 0.9), scaled(&gradient, 0.1)]);
            let change = scaled(&momentum, 0.01);
            [run(Op::Binary(Binary::Sub), vec![weights, change]), momentum]
        };
        // Those of a few values overtake the first, which waits for more of its size.
        [1 << 14, 64, 128, 1 << 14].into_iter().flat_map(step).collect()
    });
    assert_eq!(ops, 4);
}

#[test]
fn small_ops_of_as_many_elements_are_one_op() {
    let ops = submitted(|device| {
        let line = Shape::new(&[64]);
        let upload = || upload(device, Dtype::F32, line, &mut ChaCha8Rng::seed_from_u64(0));
        let (mean, average) = (upload(), upload());
        let channels = mean.layout().reshape(Shape::new(&[1, 64, 1, 1])).unwrap();
        let exp = runtime::run(Op::Unary(Unary::Exp), [mean.with_layout(channels)]).unwrap();
        vec![exp, runtime::run(Op::Unary(Unary::Square), [average]).unwrap()]
    });
    assert_eq!(ops, 1);
}

#[test]
fn a_constant_that_only_steps_read_is_never_in_memory() {
    let shape = Shape::new(&[1 << 16]);
    let device = device(fusing().record());
    let x = upload(&device, Dtype::F32, shape, &mut ChaCha8Rng::seed_from_u64(0));
    let expected = runtime::read(x.clone()).unwrap();
    let filled = |value: f64| {
        let op = Op::Fill { shape, dtype: Dtype::F32, value: value.into() };
        runtime::create(&device, op).unwrap()
    };
    let product = runtime::run(Op::Binary(Binary::Mul), [filled(1.0), x]).unwrap();
    assert_eq!(runtime::read(product).unwrap(), expected);
    assert_eq!(recorded_ops(&device), ["fused"]);
    runtime::read(filled(2.0)).unwrap();
    assert_eq!(recorded_ops(&device), ["fill"], "by itself it is the op that it was");
}

#[test]
fn what_a_thread_makes_another_can_read() {
    let device = device(fusing());
    let x = upload(&device, Dtype::F32, Shape::new(&[64]), &mut ChaCha8Rng::seed_from_u64(0));
    let made = std::thread::scope(|scope| {
        let negate = || runtime::run(Op::Unary(Unary::Neg), [x.clone()]).unwrap();
        scope.spawn(negate).join().unwrap()
    });
    let back = runtime::run(Op::Unary(Unary::Neg), [made]).unwrap();
    assert_eq!(runtime::read(back).unwrap(), runtime::read(x).unwrap());
}

#[test]
fn what_cannot_fit_is_refused_at_once_and_what_fits_one_by_one_runs() {
    let mebibyte = 1 << 20;
    let shape = Shape::new(&[mebibyte / 4]);
    let random = &mut ChaCha8Rng::seed_from_u64(0);
    // Room for two inputs and an output.
    let device = device(fusing().budget_bytes(3 * mebibyte));
    let given: Vec<Tensor> = (0..5).map(|_| upload(&device, Dtype::F32, shape, random)).collect();
    let sum = given.iter().skip(1).fold(given[0].clone(), |sum, next| {
        runtime::run(Op::Binary(Binary::Add), [sum, next.clone()]).unwrap()
    });
    let floats =
        |tensor: Tensor| -> Vec<f32> { bytemuck::pod_collect_to_vec(&runtime::read(tensor).unwrap()) };
    let given: Vec<Vec<f32>> = given.into_iter().map(floats).collect();
    let expected =
        (0..shape.count()).map(|at| given.iter().skip(1).fold(given[0][at], |sum, next| sum + next[at]));
    assert_eq!(floats(sum), expected.collect::<Vec<_>>());

    let tight = self::device(fusing().budget_bytes(mebibyte + mebibyte / 2));
    let x = upload(&tight, Dtype::F32, shape, random);
    let kept = x.clone();
    let error = runtime::run(Op::Unary(Unary::Exp), [x]).expect_err("two mebibytes are needed").to_string();
    assert!(error.contains("exp"), "{error}");
    assert!(runtime::run(Op::Reduce { kind: Reduce::Sum, axis: 0 }, [kept]).is_ok());
}

/// A program runs within the smallest budget that is said to be enough, and not within less. What that is.
fn assert_smallest_budget(program: impl Fn(&OvercommitDevice) -> Result<Vec<u8>, Error>) -> usize {
    let device = device(fusing());
    let expected = program(&device).unwrap();
    let smallest_bytes = stats(&device).unwrap().smallest_budget_bytes;
    configure(&device, fusing().budget_bytes(smallest_bytes)).unwrap();
    assert_eq!(program(&device).unwrap(), expected);
    configure(&device, fusing().budget_bytes(smallest_bytes - 256)).unwrap();
    match program(&device) {
        Err(Error::WorkingSet(error)) => assert_eq!(error.needed_bytes, smallest_bytes),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("less than {smallest_bytes} bytes are enough"),
    }
    smallest_bytes
}

#[test]
fn an_op_takes_the_memory_of_what_only_ops_before_it_read_through_another_view() {
    let shape = Shape::new(&[1024]);
    let smallest_bytes = assert_smallest_budget(|device| {
        let random = &mut ChaCha8Rng::seed_from_u64(2);
        let x = upload(device, Dtype::F32, shape, random);
        let large = upload(device, Dtype::F32, shape.with(0, 8 * 1024), random);
        let backwards = x.clone().with_layout(x.layout().slice(0, 1023, 1024, -1));
        let part = large.layout().slice(0, 0, 1024, 1);
        let one = runtime::run(Op::Unary(Unary::Exp), [backwards])?;
        let other = runtime::run(Op::Binary(Binary::Add), [x, large.with_layout(part)])?;
        runtime::read(runtime::run(Op::Binary(Binary::Mul), [one, other])?)
    });
    assert_eq!(smallest_bytes, 9 * shape.count() * size_of::<f32>(), "what is read of it");
}

#[test]
fn an_op_takes_no_memory_that_it_reads_through_two_views() {
    let shape = Shape::new(&[32, 32]);
    let smallest_bytes = assert_smallest_budget(|device| {
        let x = upload(device, Dtype::F32, shape, &mut ChaCha8Rng::seed_from_u64(3));
        let transposed = x.clone().with_layout(x.layout().permute(&[1, 0]));
        let sum = runtime::run(Op::Binary(Binary::Add), [x, transposed])?;
        runtime::read(runtime::run(Op::Unary(Unary::Exp), [sum])?)
    });
    assert_eq!(smallest_bytes, 2 * shape.count() * size_of::<f32>());
}

/// What a convolution reads, and a gradient of its output.
struct Convolved {
    x: Tensor,
    weight: Tensor,
    gradient: Tensor,
}

/// So many that a workspace for one is small beside them.
const IMAGES: usize = 64;
const IMAGE_BYTES: usize = IMAGES * 4 * 32 * 32 * size_of::<f32>();
const CONV: Conv = Conv { stride: [1; 3], padding: [0, 1, 1], dilation: [1; 3], groups: 1 };

impl Convolved {
    fn new(device: &OvercommitDevice) -> Self {
        let random = &mut ChaCha8Rng::seed_from_u64(1);
        let mut upload = |sizes: [usize; 5]| upload(device, Dtype::F32, Shape::new(&sizes), random);
        let image = [IMAGES, 4, 1, 32, 32];
        Convolved { x: upload(image), weight: upload([4, 4, 1, 3, 3]), gradient: upload(image) }
    }

    /// The gradients of input, weights and bias, asked for in this order as Burn does.
    fn gradients(self) -> [Tensor; 3] {
        let Convolved { x, weight, gradient } = self;
        let run = |op, inputs: Vec<Tensor>| runtime::run(op, inputs).unwrap();
        let of_x = Op::ConvBackwardInput { conv: CONV, size: [1, 32, 32] };
        let of_x = run(of_x, vec![weight, gradient.clone()]);
        let of_weight = Op::ConvBackwardWeight { conv: CONV, kernel: [1, 3, 3] };
        let of_weight = run(of_weight, vec![x, gradient.clone()]);
        let flat = View::contiguous(Dtype::F32, Shape::new(&[IMAGES, 4, 32 * 32])).layout;
        let sum = |x, axis| run(Op::Reduce { kind: Reduce::Sum, axis }, vec![x]);
        [of_x, of_weight, sum(sum(gradient.with_layout(flat), 2), 0)]
    }
}

fn recorded_ops(device: &OvercommitDevice) -> Vec<String> {
    let events = runtime::recording(device).unwrap().program().events;
    let name = |event| if let Event::Op(op) = event { Some(op.name.to_string()) } else { None };
    events.into_iter().filter_map(name).collect()
}

#[test]
fn the_gradient_of_an_input_waits_for_those_beside_it() {
    let in_order = ["conv_backward_input", "conv_backward_weight", "sum", "sum"];
    let runs = [false, true].map(|fusion| {
        let device = device(Config::new().fusion(fusion).record());
        let gradients = Convolved::new(&device).gradients().map(|made| runtime::read(made).unwrap());
        (recorded_ops(&device), gradients, stats(&device).unwrap().peak_allocated_bytes)
    });
    let [(plain, expected, plain_peak_bytes), (waiting, gradients, peak_bytes)] = runs;
    assert_eq!(plain, in_order);
    assert_eq!(waiting, [&in_order[1..], &in_order[..1]].concat());
    assert_eq!(gradients, expected);
    // The input and its gradient are not there together.
    assert!(peak_bytes + IMAGE_BYTES / 2 <= plain_peak_bytes, "{peak_bytes} {plain_peak_bytes}");
}

#[test]
fn what_waits_for_others_is_made_once_it_is_read_and_not_if_it_never_is() {
    let device = device(fusing().record());
    let Convolved { x, weight, gradient } = Convolved::new(&device);
    let of_x = |weight: &Tensor, gradient: &Tensor| {
        let op = Op::ConvBackwardInput { conv: CONV, size: [1, 32, 32] };
        runtime::run(op, [weight.clone(), gradient.clone()]).unwrap()
    };
    drop(of_x(&weight, &gradient));
    let again = of_x(&weight, &gradient);
    let sum = runtime::run(Op::Binary(Binary::Add), [again, x]).unwrap();
    runtime::read(sum).unwrap();
    assert_eq!(recorded_ops(&device), ["conv_backward_input", "add"]);
    // Another thread's op finds it too.
    let made = of_x(&weight, &gradient);
    let negate = || runtime::run(Op::Unary(Unary::Neg), [made]).unwrap();
    let negative = std::thread::scope(|scope| scope.spawn(negate).join().unwrap());
    runtime::read(negative).unwrap();
    assert_eq!(recorded_ops(&device), ["conv_backward_input", "neg"]);
}

#[test]
fn what_waits_for_others_and_cannot_fit_is_refused_at_once() {
    let device = device(fusing().budget_bytes(IMAGE_BYTES + IMAGE_BYTES / 2));
    let Convolved { weight, gradient, .. } = Convolved::new(&device);
    let op = Op::ConvBackwardInput { conv: CONV, size: [1, 32, 32] };
    let error = runtime::run(op, [weight, gradient]).expect_err("two images are needed").to_string();
    assert!(error.contains("conv_backward_input"), "{error}");
}
