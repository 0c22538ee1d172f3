//! Elementwise ops that are launched together: the same bits, fewer launches, and nothing lost by an error.

mod deferred;
mod rows;
mod shelf;

use std::sync::atomic::{AtomicU16, Ordering};

use burn_overcommit::op::{
    BINARY_STEPS, Binary, Distribution, Dtype, Op, Reduce, Scalar, Shape, UNARY_STEPS, Unary,
};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::trace::Event;
use burn_overcommit::{Config, Error, LaneMode, OvercommitDevice, Policy, configure, reset_stats, stats};
use half::{bf16, f16};
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

static DEVICES: AtomicU16 = AtomicU16::new(1000);

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
        3 => drawn(device, shape, dtype, random.random()),
        // The last handle, perhaps.
        4..7 if live.len() > 2 => live.swap_remove(random.random_range(0..live.len())),
        _ => live.choose(random).unwrap().clone(),
    }
}

/// A dropout's random numbers.
fn drawn(device: &OvercommitDevice, shape: Shape, dtype: Dtype, seed: u64) -> Tensor {
    let distribution = Distribution::Bernoulli { probability: 0.7.into() };
    runtime::create(device, Op::Random { shape, dtype, distribution, seed }).unwrap()
}

/// A mask of this shape, perhaps one that repeats along an axis.
fn mask(device: &OvercommitDevice, shape: Shape, random: &mut impl Rng) -> Tensor {
    let axis = random.random_range(0..shape.rank());
    let narrow = if random.random_bool(0.5) { shape.with(axis, 1) } else { shape };
    let bytes: Vec<u8> = (0..narrow.count()).map(|_| random.random_range(0..2)).collect();
    let mask = runtime::write(device, &bytes, Dtype::Bool, narrow).unwrap();
    let layout = mask.layout().expand(shape);
    mask.with_layout(layout)
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
            15 => Op::MaskFill(scalar),
            _ => Op::Binary(*BINARY_STEPS.choose(random).unwrap()),
        };
        let inputs = match op {
            Op::Binary(_) => vec![a, operand(&mut live, device, shape, random)],
            Op::MaskFill(_) => {
                let mask = mask(device, shape, random);
                vec![a, mask]
            }
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

/// The state after a step of Adam (Kingma and Ba, "Adam", algorithm 1): the two moments, and the weights.
fn adam(device: &OvercommitDevice, count: usize) -> [Tensor; 3] {
    let random = &mut ChaCha8Rng::seed_from_u64(0);
    let mut parameter = || upload(device, Dtype::F32, Shape::new(&[count]), random);
    let [weights, gradient, first, second] = [parameter(), parameter(), parameter(), parameter()];
    let pair = |kind, a, b| runtime::run(Op::Binary(kind), [a, b]).unwrap();
    let by = |kind, x, scalar: f64| runtime::run(Op::BinaryScalar(kind, scalar.into()), [x]).unwrap();
    let of = |kind, x| runtime::run(Op::Unary(kind), [x]).unwrap();
    let (new, square) = (by(Binary::Mul, gradient.clone(), 0.1), of(Unary::Square, gradient));
    let first = pair(Binary::Add, by(Binary::Mul, first, 0.9), new);
    // What is uploaded may be negative, which no mean of squares is.
    let second = of(Unary::Abs, by(Binary::Mul, second, 0.999));
    let second = pair(Binary::Add, second, by(Binary::Mul, square, 0.001));
    let [mean, spread] = [(&first, 0.1), (&second, 0.001)].map(|(x, part)| by(Binary::Div, x.clone(), part));
    let change = pair(Binary::Div, mean, by(Binary::Add, of(Unary::Sqrt, spread), 1e-5));
    [first, second, pair(Binary::Sub, weights, by(Binary::Mul, change, 0.01))]
}

#[test]
fn a_step_of_adam_is_one_op_that_takes_no_memory() {
    let count = 1 << 18;
    let stepped = |config: Config| {
        let device = device(config);
        let state = adam(&device, count).map(|tensor| runtime::read(tensor).unwrap());
        (state, stats(&device).unwrap())
    };
    let (state, with) = stepped(fusing());
    assert_eq!((with.counters.ops, with.peak_allocated_bytes), (1, 4 * count * size_of::<f32>()));
    assert!(state == stepped(fusing().fusion(false)).0, "the bits are others");
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

fn recorded_ops(device: &OvercommitDevice) -> Vec<String> {
    let events = runtime::recording(device).unwrap().program().events;
    let name = |event| if let Event::Op(op) = event { Some(op.name.to_string()) } else { None };
    events.into_iter().filter_map(name).collect()
}
