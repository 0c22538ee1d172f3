//! What the pool costs: plan and submit of a small op when nothing is evicted, and of one that evicts and fetches, in
//! nanoseconds an op on one core; and what the tracker takes of that, by itself.
//!
//! The lanes are deferred, so that nothing but the submitting thread runs; the queued work is run outside the timing.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use burn_overcommit::liveness::{NextUse, Observed, Operand, Signature, Touch, Tracker};
use burn_overcommit::op::{Binary, Dtype, Op, Shape, Unary};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::{Config, LaneMode, OvercommitDevice, Policy, SimProfile, configure, stats};
use criterion::Criterion;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Fewer than a deferred lane holds before it runs what it has.
const OPS: usize = 1000;

fn submitted(
    device: &OvercommitDevice,
    iterations: u64,
    step: impl Fn(Tensor, &Tensor) -> Tensor,
) -> Duration {
    let fill = || {
        let op = Op::Fill { shape: Shape::new(&[16, 16]), dtype: Dtype::F32, value: 0.5.into() };
        runtime::create(device, op).unwrap()
    };
    let mut spent = Duration::ZERO;
    for _ in 0..iterations {
        let (mut value, other) = (fill(), fill());
        let start = Instant::now();
        for _ in 0..OPS {
            value = step(value, &other);
        }
        spent += start.elapsed();
        drop((value, other));
        runtime::sync(device).unwrap();
    }
    spent / OPS as u32
}

fn bookkeeping(criterion: &mut Criterion) {
    let device = OvercommitDevice::Host(0);
    configure(&device, Config::new().budget("64 MiB").lanes(LaneMode::Deferred { seed: 0 })).unwrap();
    let mut group = criterion.benchmark_group("bookkeeping, per op");
    let negate = |value: Tensor, _: &Tensor| runtime::run(Op::Unary(Unary::Neg), [value]).unwrap();
    let add = |value: Tensor, other: &Tensor| {
        runtime::run(Op::Binary(Binary::Add), [value, other.clone()]).unwrap()
    };
    let keep = |value: Tensor, _: &Tensor| {
        let doubled = runtime::run(Op::Binary(Binary::Add), [value.clone(), value.clone()]).unwrap();
        drop(value);
        doubled
    };
    group.bench_function("in place, one input", |b| b.iter_custom(|n| submitted(&device, n, negate)));
    group.bench_function("in place, two inputs", |b| b.iter_custom(|n| submitted(&device, n, add)));
    group.bench_function("new output, two inputs", |b| b.iter_custom(|n| submitted(&device, n, keep)));
    group.finish();
}

/// Tensors of a mebibyte that take turns; memory holds half of them, so that about every op evicts and fetches.
const RING: usize = 64;

fn evicted(device: &OvercommitDevice, iterations: u64) -> Duration {
    let fill = || {
        let op = Op::Fill { shape: Shape::new(&[512, 512]), dtype: Dtype::F32, value: 0.5.into() };
        runtime::create(device, op).unwrap()
    };
    let mut ring: Vec<Tensor> = (0..RING).map(|_| fill()).collect();
    let before = stats(device).unwrap().counters;
    let start = Instant::now();
    for turn in 0..iterations as usize * OPS {
        let (at, other) = (turn % RING, (turn + RING / 2) % RING);
        let sum = runtime::run(Op::Binary(Binary::Add), [ring[at].clone(), ring[other].clone()]).unwrap();
        ring[at] = sum;
    }
    let spent = start.elapsed() / OPS as u32;
    let counters = stats(device).unwrap().counters;
    let (ops, evictions) = (counters.ops - before.ops, counters.evictions - before.evictions);
    assert!(evictions * 10 > ops, "{evictions} evictions in {ops} ops");
    spent
}

fn eviction(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bookkeeping with eviction, per op on the simulation");
    for policy in Policy::ALL {
        let profile = SimProfile::named("h200").and_then(SimProfile::get).expect("a vendor's device");
        let device = OvercommitDevice::Sim(SimProfile::add(profile));
        configure(&device, Config::new().budget("32 MiB").policy(policy)).unwrap();
        group.bench_function(policy.name(), |b| b.iter_custom(|n| evicted(&device, n)));
    }
    group.finish();
}

/// Ops of an iteration.
const PERIOD: u64 = 3000;

/// The tracker follows ops of two inputs and an output: what the op before made, and what another did, half an iteration ago. That is
/// dropped. An iteration repeats, or nothing does.
fn tracked(tracker: &mut Tracker, outputs: &mut VecDeque<Touch>, op: u64, repeats: bool) {
    let kind = if repeats { op % PERIOD } else { op };
    let observed = Observed {
        signature: Signature(kind.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
        live_bytes: kind as usize,
        scratch_bytes: 0,
        launch_ns: 1000,
    };
    let touch = |touch: Option<&Touch>| touch.copied().unwrap_or_default();
    let mut operands = [touch(outputs.back()), touch(outputs.front()), Touch::default()]
        .map(|touch| Operand { touch, next: NextUse::Unknown });
    black_box(tracker.op(observed, &mut operands));
    let [before, old, made] = operands.map(|operand| operand.touch);
    if let Some(last) = outputs.back_mut() {
        *last = before;
    }
    if outputs.len() as u64 == PERIOD / 2 {
        outputs.pop_front();
        tracker.dropped(old);
    }
    outputs.push_back(made);
}

fn tracking(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("the tracker, per op");
    for (name, repeats) in [("an iteration that repeats", true), ("nothing repeats", false)] {
        let (mut tracker, mut outputs, mut op) = (Tracker::default(), VecDeque::new(), 0);
        for _ in 0..4 * PERIOD {
            tracked(&mut tracker, &mut outputs, op, repeats);
            op += 1;
        }
        assert_eq!(tracker.period(), repeats.then_some(PERIOD));
        group.bench_function(name, |b| {
            b.iter(|| {
                tracked(&mut tracker, &mut outputs, op, repeats);
                op += 1;
            })
        });
    }
    group.finish();
}

/// Storages that are alive together, a quarter of a million.
const MANY: usize = 1 << 18;

/// What the heap holds for each live storage, its recipe and its handle: for layers of a product, a sum and a relu, all kept.
fn bytes_a_storage() -> f64 {
    let profile = SimProfile::named("h200").and_then(SimProfile::get).expect("a vendor's device");
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    let fill = || {
        let op = Op::Fill { shape: Shape::new(&[64, 64]), dtype: Dtype::F32, value: 0.5.into() };
        runtime::create(&device, op).unwrap()
    };
    let (weight, mut x) = (fill(), fill());
    let mut kept: Vec<Tensor> = Vec::with_capacity(MANY);
    let region = Region::new(ALLOCATOR);
    while kept.len() + 3 <= MANY {
        let product = runtime::run(Op::Matmul, [x.clone(), weight.clone()]).unwrap();
        let sum = runtime::run(Op::Binary(Binary::Add), [product.clone(), x]).unwrap();
        x = runtime::run(Op::Unary(Unary::Relu), [sum.clone()]).unwrap();
        kept.extend([product, sum, x.clone()]);
    }
    let change = region.change();
    (change.bytes_allocated - change.bytes_deallocated) as f64 / kept.len() as f64
}

fn main() {
    println!("bookkeeping: {:.0} bytes a storage", bytes_a_storage());
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args();
    tracking(&mut criterion);
    bookkeeping(&mut criterion);
    eviction(&mut criterion);
    criterion.final_summary();
}
