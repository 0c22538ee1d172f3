//! Gist: the same bits in less memory, or nearly the same numbers in still less.

use std::sync::atomic::{AtomicU16, Ordering};

use burn::backend::Autodiff;
use burn::module::{Module, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::optim::{GradientsParams, Optimizer, SgdConfig};
use burn::tensor::activation::relu;
use burn::tensor::backend::Backend;
use burn::tensor::{Distribution, Tensor};
use burn_overcommit::engine::Tier;
use burn_overcommit::op::{Conv, Dtype, Encoding, Op, Planes, Shape, Sparse, Unary, View};
use burn_overcommit::trace::Event;
use burn_overcommit::{
    Config, Counters, FloatFormat, LaneMode, Overcommit, OvercommitDevice, Planning, Policy, SimProfile,
    Stats, configure, recording, reset_stats, runtime, stats,
};
use burn_overcommit_networks::{by_name, training_step};

type Training = Autodiff<Overcommit>;

const STEPS: usize = 6;
const SIDE: usize = 32;
/// Enough that sparse forms take a small part of the time.
const WIDTH: usize = 64;

/// Convolutions with rectifiers, of which one is read by a convolution and two by pools.
#[derive(Module, Debug)]
struct Model<B: Backend> {
    convolutions: Vec<Conv2d<B>>,
    pool: MaxPool2d,
    linear: Linear<B>,
}

impl<B: Backend> Model<B> {
    fn new(device: &B::Device) -> Self {
        let convolution = |[from, to]: [usize; 2]| {
            Conv2dConfig::new([from, to], [3, 3]).with_padding(PaddingConfig2d::Same).init(device)
        };
        Model {
            convolutions: [[3, WIDTH], [WIDTH, WIDTH], [WIDTH, WIDTH]].map(convolution).into(),
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            linear: LinearConfig::new(WIDTH * (SIDE / 4).pow(2), 10).init(device),
        }
    }

    /// The scores, and what the first pool reads.
    fn forward(&self, images: Tensor<B, 4>) -> (Tensor<B, 2>, Tensor<B, 4>) {
        let [first, second, third] = &self.convolutions[..] else { unreachable!("there are three") };
        let rectified = relu(second.forward(relu(first.forward(images))));
        let features = self.pool.forward(relu(third.forward(self.pool.forward(rectified.clone()))));
        (self.linear.forward(features.flatten(1, 3)), rectified)
    }
}

/// All weights.
struct Weights(Vec<f32>);

impl<B: Backend> ModuleVisitor<B> for Weights {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.0.extend(param.val().into_data().iter::<f32>());
    }
}

/// What a run leaves: losses and weights, the peak of the last step, and its totals.
#[derive(Debug)]
struct Run {
    losses: Vec<f32>,
    weights: Vec<f32>,
    /// What the first pool read in the last step, where the program asked for that.
    looked_at: Vec<f32>,
    peak_bytes: usize,
    smallest_budget_bytes: usize,
    counters: Counters,
}

impl Run {
    /// What a training ends with.
    fn of(device: &OvercommitDevice, model: &Model<Training>, losses: Vec<f32>, looked_at: Vec<f32>) -> Self {
        let seen = stats(device).unwrap();
        let mut weights = Weights(Vec::new());
        model.visit(&mut weights);
        Run {
            losses,
            weights: weights.0,
            looked_at,
            peak_bytes: seen.peak_allocated_bytes,
            smallest_budget_bytes: seen.smallest_budget_bytes,
            counters: seen.counters,
        }
    }

    /// Whether the same bits were computed.
    fn is_as(&self, other: &Run) -> bool {
        let bits = |run: &Run| -> Vec<u32> {
            run.losses.iter().chain(&run.weights).map(|value| value.to_bits()).collect()
        };
        bits(self) == bits(other)
    }
}

fn device() -> OvercommitDevice {
    static NEXT: AtomicU16 = AtomicU16::new(300);
    OvercommitDevice::Host(NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Trains; in the last step the program looks at an activation between the passes if `looks`.
fn train(device: &OvercommitDevice, config: Config, looks: bool) -> Run {
    configure(device, config.planning(Planning::AtOnce)).unwrap();
    Training::seed(device, 5);
    let (mut model, mut optimizer) = (Model::<Training>::new(device), SgdConfig::new().init());
    let (mut losses, mut looked_at) = (Vec::new(), Vec::new());
    for step in 0..STEPS {
        reset_stats(device).unwrap();
        let images = Tensor::random([4, 3, SIDE, SIDE], Distribution::Default, device);
        let (scores, rectified) = model.forward(images);
        let loss = scores.powf_scalar(2.0).mean();
        if looks && step == STEPS - 1 {
            looked_at = rectified.clone().into_data().iter::<f32>().collect();
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        losses.push(loss.into_scalar());
        model = optimizer.step(0.05, model, gradients);
    }
    Run::of(device, &model, losses, looked_at)
}

fn free(looks: bool) -> Run {
    train(&device(), Config::new(), looks)
}

#[test]
fn lossless_encodings_leave_every_bit_and_take_less_memory() {
    let expected = free(false);
    for lanes in [LaneMode::Threads, LaneMode::Deferred { seed: 3 }] {
        let run = train(&device(), Config::new().policy(Policy::GistLossless).lanes(lanes), false);
        assert!(run.is_as(&expected));
        let Counters { encodings, drops, encoded_bytes, encoded_into_bytes, .. } = run.counters;
        // What three rectifiers read, the indices of two pools and what convolutions read of a rectifier and a pool; the random
        // images, and what a pool reads and nothing after it.
        assert_eq!((encodings, drops), (7, 2));
        assert!(encoded_into_bytes * 4 < encoded_bytes, "{encoded_into_bytes} of {encoded_bytes}");
        assert!(run.peak_bytes < expected.peak_bytes, "{} of {}", run.peak_bytes, expected.peak_bytes);
    }
}

#[test]
fn gradients_read_encoded_forms_and_only_a_product_decodes() {
    let device = device();
    train(&device, Config::new().policy(Policy::GistLossless).record(), false);
    let recording = recording(&device).unwrap();
    let names: Vec<&str> = (recording.events.iter())
        .filter_map(|event| match event {
            Event::Recompute(ran) => Some(ran.name.as_ref()),
            _ => None,
        })
        .collect();
    for encoding in ["encode_signs", "encode_taps", "encode_sparse"] {
        assert!(names.contains(&encoding), "{names:?}");
    }
    // The images are drawn again.
    let is_expected =
        |name: &&str| name.starts_with("encode_") || ["random", "tally", "decode_sparse"].contains(name);
    assert!(names.iter().all(is_expected), "{names:?}");
    // What the second convolution reads, and the linear layer.
    let times = |wanted: &str| names.iter().filter(|&&name| name == wanted).count();
    assert_eq!(2 * times("decode_sparse"), times("encode_sparse"), "{names:?}");
}

#[test]
fn a_rectifier_takes_the_memory_of_what_it_has_encoded() {
    let device = device();
    let run = train(&device, Config::new().policy(Policy::GistLossless).record(), false);
    assert!(run.is_as(&free(false)));
    let events = recording(&device).unwrap().events;
    // Of the last step: since the op before, what was allocated.
    let begin = events.iter().rposition(|event| matches!(event, Event::Op(op) if op.name == "random"));
    let (mut most_bytes, mut rectifiers) = (0, 0);
    for event in &events[begin.expect("there are steps")..] {
        match event {
            Event::Allocate { tier: Tier::Device, bytes, .. } => most_bytes = most_bytes.max(*bytes),
            Event::Op(op) => {
                if op.name == "relu" {
                    // An encoded form, of it or of what the op before read, is smaller.
                    assert!(most_bytes < op.outputs[0].bytes, "{most_bytes} {op:?}");
                    rectifiers += 1;
                }
                most_bytes = 0;
            }
            _ => {}
        }
    }
    assert_eq!(rectifiers, 3);
}

#[test]
fn values_that_are_asked_for_after_all_are_the_same() {
    let expected = free(true);
    let run = train(&device(), Config::new().policy(Policy::GistLossless), true);
    assert!(run.counters.encodings > 0);
    assert!(!run.looked_at.is_empty() && run.looked_at == expected.looked_at);
    assert!(run.is_as(&expected));
}

#[test]
fn fewer_bits_take_less_memory_and_train_nearly_alike() {
    let expected = free(false);
    let mut before_bytes = train(&device(), Config::new().policy(Policy::GistLossless), false).peak_bytes;
    for (format, error) in [(FloatFormat::F16, 1e-3), (FloatFormat::Fp10, 0.05), (FloatFormat::Fp8E4m3, 0.1)]
    {
        let run = train(&device(), Config::new().policy(Policy::Gist).gist_format(format), false);
        assert!(run.peak_bytes <= before_bytes, "{format:?}: {} after {before_bytes}", run.peak_bytes);
        // What is sparse may take less than in 16 bits.
        let rounds = run.weights != expected.weights;
        assert!(rounds || format == FloatFormat::F16, "{format:?} is to round");
        for (loss, exact) in run.losses.iter().zip(&expected.losses) {
            assert!((loss - exact).abs() <= error * exact.abs(), "{format:?}: {loss}, not {exact}");
        }
        before_bytes = run.peak_bytes;
    }
}

#[test]
fn a_simulation_encodes_as_the_host_engine_does() {
    let profile = SimProfile::named("host").and_then(SimProfile::get).expect("a profile of this machine");
    let simulated = OvercommitDevice::Sim(SimProfile::add(profile));
    for policy in [Policy::GistLossless, Policy::Gist] {
        let budget_bytes = 16 << 20;
        let config = || {
            let config = Config::new().policy(policy).budget_bytes(budget_bytes).page_mapping(false);
            config.sparsity([0.5, 0.5, 0.1, 0.6, 0.0]).packed([0.9, 0.5, 0.95, 1.0])
        };
        let [host, simulated] = [device(), simulated].map(|device| train(&device, config(), false));
        assert!(host.counters.encodings > 0);
        assert_eq!((host.peak_bytes, host.counters), (simulated.peak_bytes, simulated.counters), "{policy}");
    }
}

#[test]
fn what_is_encoded_travels_so() {
    // Little enough that encoded forms are moved too.
    let expected = free(false);
    let budget_bytes = expected.smallest_budget_bytes;
    let config = |policy| Config::new().policy(policy).budget_bytes(budget_bytes);
    let encoded = train(&device(), config(Policy::GistLossless), false);
    assert!(encoded.is_as(&expected));
    let moved = train(&device(), config(Policy::TensorCache), false);
    assert!(encoded.counters.encodings > 0);
    assert!(encoded.counters.offloaded_bytes < moved.counters.offloaded_bytes);
}

/// Trains a convolution, a rectifier and a convolution on images that are dark at first and then bright: hardly anything that the
/// rectifier makes is zero any more.
fn brighten(device: &OvercommitDevice, config: Config) -> Run {
    const DARK_STEPS: usize = 8;
    configure(device, config.planning(Planning::AtOnce)).unwrap();
    Training::seed(device, 9);
    let (mut model, mut optimizer) = (Model::<Training>::new(device), SgdConfig::new().init());
    let mut losses = Vec::new();
    for step in 0..2 * DARK_STEPS {
        reset_stats(device).unwrap();
        let images = Tensor::random([4, 3, SIDE, SIDE], Distribution::Default, device);
        let light = if step < DARK_STEPS { -1.0 } else { 2.0 };
        let light = Tensor::<Training, 4>::full([1, 1, 1, 1], light, device);
        let made = relu(model.convolutions[0].forward(images) + light);
        let loss = model.convolutions[1].forward(made).powf_scalar(2.0).mean();
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        losses.push(loss.into_scalar());
        model = optimizer.step(0.01, model, gradients);
    }
    Run::of(device, &model, losses, Vec::new())
}

#[test]
fn what_a_sparse_form_has_no_room_for_is_not_lost() {
    let expected = brighten(&device(), Config::new());
    for lanes in [LaneMode::Threads, LaneMode::Deferred { seed: 4 }] {
        let device = device();
        let run = brighten(&device, Config::new().policy(Policy::GistLossless).lanes(lanes));
        assert!(run.is_as(&expected));
        // Less than a bit a value, though hardly any is zero now: the form has room for next to none.
        let Counters { encodings, encoded_bytes, encoded_into_bytes, .. } = run.counters;
        assert!(encodings > 0 && encoded_into_bytes * 32 < encoded_bytes, "{encoded_into_bytes}");
        let left = stats(&device).unwrap();
        assert_eq!((left.allocated_bytes, left.host_bytes, left.storages), (0, 0, 0));
    }
}

#[test]
fn what_is_taken_to_be_sparse_and_is_not_is_not_lost() {
    let expected = free(false);
    for part in [0.5, 0.9, 0.99] {
        let run = train(&device(), Config::new().policy(Policy::GistLossless).sparsity([part]), false);
        assert!(run.is_as(&expected), "{part}");
        assert!(run.counters.encodings > 5, "{part}");
        // Also where encoded forms are moved.
        let short = Config::new().policy(Policy::GistLossless).budget_bytes(expected.smallest_budget_bytes);
        assert!(train(&device(), short.sparsity([part]), false).is_as(&expected), "{part}");
    }
}

#[test]
fn planes_have_room_for_whatever_they_are_said_to_take() {
    let expected = free(false);
    for part in [0.02, 0.5, 0.85] {
        let device = device();
        let config = Config::new().policy(Policy::GistLossless).packed([part]).record();
        let run = train(&device, config, false);
        assert!(run.is_as(&expected), "{part}");
        let recording = recording(&device).unwrap();
        let is_packed =
            |event: &&Event| matches!(event, Event::Recompute(ran) if ran.name == "encode_planes");
        assert!(recording.events.iter().any(|event| is_packed(&event)), "{part}");
        // Also where forms are moved.
        let short = Config::new().policy(Policy::GistLossless).budget_bytes(expected.smallest_budget_bytes);
        assert!(train(&self::device(), short.packed([part]), false).is_as(&expected), "{part}");
    }
}

/// The time of a step of a network on a simulated GPU, and its figures.
fn simulated_step(config: Config) -> (u64, Stats) {
    let profile = SimProfile::named("titan-x").and_then(SimProfile::get).expect("a profile");
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    configure(&device, config).unwrap();
    let spec = by_name("nin").expect("a network of this name");
    let (mut network, mut optimizer) = (spec.network::<Training>(&device), SgdConfig::new().init());
    let end_ns = || stats(&device).unwrap().times.expect("a simulation has a clock").end_ns;
    let mut begin_ns = 0;
    for _ in 0..STEPS {
        Training::sync(&device).unwrap();
        begin_ns = end_ns();
        reset_stats(&device).unwrap();
        (network, _) = training_step(network, &mut optimizer, 1e-3, spec.sample(64, &device));
    }
    Training::sync(&device).unwrap();
    (end_ns() - begin_ns, stats(&device).unwrap())
}

#[test]
fn the_default_policy_encodes_where_that_is_faster() {
    let (free_ns, free) = simulated_step(Config::new());
    assert_eq!(free.counters.encodings, 0, "nothing is encoded where memory suffices");
    let short = || Config::new().budget_bytes(free.peak_allocated_bytes / 2);
    let (step_ns, seen) = simulated_step(short());
    assert!(seen.counters.encodings > 0);
    assert!(step_ns < free_ns + free_ns / 50, "{step_ns} of {free_ns}");
}

/// Convolutions for which weights' gradients go different ways, and the images.
fn convolutions() -> Vec<(Conv, [usize; 3], usize, [usize; 5])> {
    let conv = |stride, padding: usize, dilation, groups| Conv {
        stride: [1, stride, stride],
        padding: [0, padding, padding],
        dilation: [1, dilation, 1],
        groups,
    };
    vec![
        (conv(1, 1, 1, 1), [1, 3, 3], 8, [2, 48, 1, 30, 31]),
        (conv(1, 0, 1, 1), [1, 1, 1], 7, [3, 40, 1, 9, 20]),
        // Several images together.
        (conv(1, 1, 1, 1), [1, 3, 3], 5, [23, 37, 1, 5, 4]),
        (conv(2, 2, 3, 2), [1, 3, 2], 6, [2, 6, 1, 17, 19]),
        // Groups of a channel.
        (conv(1, 1, 1, 6), [1, 3, 3], 12, [3, 6, 1, 13, 11]),
        (conv(2, 0, 1, 1), [2, 3, 3], 4, [2, 5, 3, 9, 8]),
        (conv(1, 0, 1, 1), [1, 3, 3], 4, [2, 3, 1, 2, 2]),
    ]
}

#[test]
fn gradients_of_weights_are_the_same_of_encoded_images() {
    let device = &device();
    configure(device, Config::new()).unwrap();
    let normal = |shape: &[usize], dtype, seed| {
        let distribution =
            burn_overcommit::op::Distribution::Normal { mean: 0.0.into(), deviation: 1.0.into() };
        runtime::create(device, Op::Random { shape: Shape::new(shape), dtype, distribution, seed }).unwrap()
    };
    let run = |op, inputs: &[&runtime::Tensor]| {
        runtime::run(op, inputs.iter().map(|&input| input.clone())).unwrap()
    };
    for (seed, (conv, kernel, filters, sizes)) in convolutions().into_iter().enumerate() {
        for dtype in [Dtype::F32, Dtype::F64] {
            let images = run(Op::Unary(Unary::Relu), &[&normal(&sizes, dtype, seed as u64)]);
            let count = images.shape().count();
            let row = images.clone().with_layout(View::contiguous(dtype, Shape::new(&[count])).layout);
            let [z, y, x] = conv.output_size([sizes[2], sizes[3], sizes[4]], kernel);
            let gradient = normal(&[sizes[0], filters, z, y, x], dtype, 99);
            let width = dtype.size_bytes() as u8;
            // By columns and by bits, with too little room for most rows and with enough.
            let sparse = [3, 20, 60, 200].map(|per_row| Encoding::Sparse(Sparse { per_row, width }));
            let planes = [100, 2000, 8000].map(|per_piece| Encoding::Planes(Planes { per_piece, width }));
            let reduced = FloatFormat::ALL.iter().map(|&format| Encoding::Reduced(format));
            for encoding in sparse.into_iter().chain(planes).chain(reduced) {
                let overflow = encoding.overflow(dtype, count).map(|view| {
                    let unset = Op::Unset { shape: *view.shape(), dtype };
                    runtime::create(device, unset).unwrap()
                });
                let with = |first| [first].into_iter().chain(&overflow).collect::<Vec<_>>();
                let form = run(Op::Encode(encoding), &with(&row));
                let decoded = run(Op::Decode { encoding, dtype, count }, &with(&form));
                let decoded = decoded.with_layout(View::contiguous(dtype, Shape::new(&sizes)).layout);
                let plain = Op::ConvBackwardWeight { conv, kernel };
                let op = plain.on_encoded(0, &encoding, &View::contiguous(dtype, Shape::new(&sizes)));
                let mut inputs = with(&form);
                inputs.insert(1, &gradient);
                let found = run(op.expect("there is one"), &inputs);
                let expected = run(plain, &[&decoded, &gradient]);
                let [found, expected] = [found, expected].map(|made| runtime::read(made).unwrap());
                assert!(found == expected, "{conv:?} {kernel:?} {encoding:?} {dtype}");
            }
        }
    }
}
