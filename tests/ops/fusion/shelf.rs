//! What cheap steps make of a large tensor is computed again where it is read.

use burn::backend::Autodiff;
use burn::nn::BatchNormConfig;
use burn::tensor::module::max_pool2d;
use burn::tensor::{Distribution, Tensor as BurnTensor, activation};
use burn_overcommit::op::{Binary, Dtype, Op, Reduce, Scalar, Shape, Unary};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::trace::Event;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Policy, SimProfile, configure, stats};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{device, drawn, fusing, upload};

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
fn functions_of_f32_are_computed_again_on_a_gpu() {
    let shape = Shape::new(&[50_000]);
    let stored = |device: &OvercommitDevice, dtype: Dtype| {
        configure(device, fusing()).unwrap();
        let x = upload(device, dtype, shape, &mut ChaCha8Rng::seed_from_u64(0));
        let exponential = runtime::run(Op::Unary(Unary::Exp), [x.clone()]).unwrap();
        let sum = runtime::run(Op::Reduce { kind: Reduce::Sum, axis: 0 }, [exponential.clone()]).unwrap();
        let made = runtime::run(Op::Binary(Binary::Mul), [exponential.clone(), x.clone()]).unwrap();
        drop((sum, runtime::read(made).unwrap()));
        allocated(device) / (shape.count() * dtype.size_bytes())
    };
    let gpu = OvercommitDevice::Sim(SimProfile::named("h100").expect("it is in the table"));
    assert_eq!(stored(&gpu, Dtype::F32), 1, "the operand");
    assert_eq!(stored(&gpu, Dtype::BF16), 2, "and the result");
    assert_eq!(stored(&device(fusing()), Dtype::F32), 2);
}

#[test]
fn the_random_numbers_of_a_dropout_are_not_stored_on_a_gpu() {
    let shape = Shape::new(&[50_000]);
    let [by_gpu, by_host] = [true, false].map(|is_gpu| {
        let gpu = || OvercommitDevice::Sim(SimProfile::named("h100").expect("it is in the table"));
        let device = if is_gpu { gpu() } else { device(fusing()) };
        configure(&device, fusing()).unwrap();
        let x = upload(&device, Dtype::BF16, shape, &mut ChaCha8Rng::seed_from_u64(0));
        let numbers = drawn(&device, shape, Dtype::BF16, 7);
        let dropped = runtime::run(Op::Binary(Binary::Mul), [x.clone(), numbers.clone()]).unwrap();
        let sum = runtime::run(Op::Reduce { kind: Reduce::Sum, axis: 0 }, [dropped.clone()]).unwrap();
        drop(runtime::read(sum).unwrap());
        let held = allocated(&device) / (shape.count() * 2);
        drop((x, numbers, dropped));
        held
    });
    assert_eq!((by_gpu, by_host), (1, 3), "the operand, and on the host the numbers and the result");
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
    let least = || runtime::run(Op::Reduce { kind: Reduce::Min, axis: 0 }, [twice.clone()]);
    for _ in 0..2 {
        assert!(least().is_err_and(|error| error.is_out_of_memory()));
    }
    drop(other);
    assert_eq!(runtime::read(least().unwrap()).unwrap(), 2f32.to_le_bytes());
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
