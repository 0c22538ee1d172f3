//! What the pool costs: plan and submit of a small op when nothing is evicted, and of one that evicts and fetches, in
//! nanoseconds an op on one core; and what the tracker takes of that, by itself.
//!
//! The lanes are deferred, so that nothing but the submitting thread runs; the queued work is run outside the timing.

#[path = "support/results.rs"]
mod results;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;
use std::time::{Duration, Instant};

use burn_overcommit::liveness::{NextUse, Observed, Signature, Touch, TrackedOperand, Tracker};
use burn_overcommit::op::{Binary, Dtype, Op, Shape, Unary};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::{Config, LaneMode, OvercommitDevice, Policy, SimProfile, configure, stats};
use clap::Parser;
use criterion::Criterion;
use serde_json::{Value, json};

use crate::results::Output;

#[derive(Parser)]
struct Options {
    /// Only benchmarks whose name contains this.
    filter: Option<String>,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The least nanoseconds an op of each benchmark, by group and name: other work on the machine only adds to it.
#[derive(Default)]
struct Least(RefCell<BTreeMap<(&'static str, &'static str), f64>>);

impl Least {
    /// Counts a sample and returns its time. One that is shorter than a millisecond does not count.
    fn count(&self, benchmark: (&'static str, &'static str), ops: u64, spent: Duration) -> Duration {
        if spent >= Duration::from_millis(1) {
            let op_ns = spent.as_nanos() as f64 / ops as f64;
            self.0
                .borrow_mut()
                .entry(benchmark)
                .and_modify(|least| *least = least.min(op_ns))
                .or_insert(op_ns);
        }
        spent
    }

    fn cells(&self) -> Vec<Value> {
        let cell = |(&(group, name), &op_ns): (&(&str, &str), &f64)| json!({ "measured": format!("{group}: {name}"), "op_ns": op_ns });
        self.0.borrow().iter().map(cell).collect()
    }
}

/// Fewer than a deferred lane holds before it runs what it has.
const OPS: u64 = 1000;

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
    spent
}

fn bookkeeping(criterion: &mut Criterion, least: &Least) {
    const GROUP: &str = "bookkeeping, per op";
    let device = OvercommitDevice::Host(0);
    configure(&device, Config::new().budget("64 MiB").lanes(LaneMode::Deferred { seed: 0 })).unwrap();
    let mut group = criterion.benchmark_group(GROUP);
    let negate = |value: Tensor, _: &Tensor| runtime::run(Op::Unary(Unary::Neg), [value]).unwrap();
    let add = |value: Tensor, other: &Tensor| {
        runtime::run(Op::Binary(Binary::Add), [value, other.clone()]).unwrap()
    };
    let keep = |value: Tensor, _: &Tensor| {
        let doubled = runtime::run(Op::Binary(Binary::Add), [value.clone(), value.clone()]).unwrap();
        drop(value);
        doubled
    };
    let mut measure = |name, step: &dyn Fn(Tensor, &Tensor) -> Tensor| {
        let sample = |n| least.count((GROUP, name), n * OPS, submitted(&device, n, step)) / OPS as u32;
        group.bench_function(name, |b| b.iter_custom(sample));
    };
    measure("in place, one input", &negate);
    measure("in place, two inputs", &add);
    measure("new output, two inputs", &keep);
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
    for turn in 0..(iterations * OPS) as usize {
        let (at, other) = (turn % RING, (turn + RING / 2) % RING);
        let sum = runtime::run(Op::Binary(Binary::Add), [ring[at].clone(), ring[other].clone()]).unwrap();
        ring[at] = sum;
    }
    let spent = start.elapsed();
    let counters = stats(device).unwrap().counters;
    let (ops, evictions) = (counters.ops - before.ops, counters.evictions - before.evictions);
    assert!(evictions * 10 > ops, "{evictions} evictions in {ops} ops");
    spent
}

fn eviction(criterion: &mut Criterion, least: &Least) {
    const GROUP: &str = "bookkeeping with eviction, per op on the simulation";
    let mut group = criterion.benchmark_group(GROUP);
    for policy in Policy::ALL {
        let profile = SimProfile::named("h200").and_then(SimProfile::get).expect("a vendor's device");
        let device = OvercommitDevice::Sim(SimProfile::add(profile));
        configure(&device, Config::new().budget("32 MiB").policy(policy)).unwrap();
        let sample = |n| least.count((GROUP, policy.name()), n * OPS, evicted(&device, n)) / OPS as u32;
        group.bench_function(policy.name(), |b| b.iter_custom(sample));
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
        .map(|touch| TrackedOperand { touch, next: NextUse::Unknown });
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

fn tracking(criterion: &mut Criterion, least: &Least) {
    const GROUP: &str = "the tracker, per op";
    let mut group = criterion.benchmark_group(GROUP);
    for (name, repeats) in [("an iteration that repeats", true), ("nothing repeats", false)] {
        let (mut tracker, mut outputs, mut op) = (Tracker::default(), VecDeque::new(), 0);
        for _ in 0..4 * PERIOD {
            tracked(&mut tracker, &mut outputs, op, repeats);
            op += 1;
        }
        assert_eq!(tracker.period(), repeats.then_some(PERIOD));
        group.bench_function(name, |b| {
            b.iter_custom(|n| {
                let start = Instant::now();
                for op in op..op + n {
                    tracked(&mut tracker, &mut outputs, op, repeats);
                }
                op += n;
                least.count((GROUP, name), n, start.elapsed())
            })
        });
    }
    group.finish();
}

fn main() {
    let options = Options::parse();
    let mut criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    if let Some(filter) = options.filter {
        criterion = criterion.with_filter(filter);
    }
    let least = Least::default();
    tracking(&mut criterion, &least);
    bookkeeping(&mut criterion, &least);
    eviction(&mut criterion, &least);
    criterion.final_summary();
    options.output.write(least.cells());
}
