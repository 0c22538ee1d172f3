//! How many instructions the submitting thread takes, on the simulation, whose kernels take none: for a training step of small ops and for
//! single ops. Valgrind counts them, so that other work on the machine does not change them and a run can be held
//! against the baseline: `scripts/check-benches`.

#[path = "support/recurrent.rs"]
mod recurrent;
#[path = "support/results.rs"]
mod results;

use std::process::Command;

use burn::backend::Autodiff;
use burn_overcommit::op::{Binary, Dtype, Op, Shape, Unary};
use burn_overcommit::runtime::{self, Tensor};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, Planning, SimProfile, configure};
use clap::Parser;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

use crate::results::Output;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

type B = Autodiff<Overcommit>;

#[derive(Parser)]
struct Options {
    /// The place of the only case that runs, for a profiler or Valgrind.
    #[arg(long)]
    case: Option<usize>,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A measured case: its name, its number of units, and a function that prepares and then counts.
struct Case {
    measured: &'static str,
    units: usize,
    run: fn(OvercommitDevice, usize),
}

const CASES: [Case; 4] = [
    Case { measured: "a training step of small ops", units: 4, run: small_ops },
    Case { measured: "an op in place, one input", units: OPS, run: in_place },
    Case { measured: "an op with a new output, two inputs", units: OPS, run: new_output },
    Case { measured: "an op that evicts and fetches", units: OPS, run: evicting },
];

const OPS: usize = 2000;

/// The function whose instructions Valgrind counts, by its name.
#[inline(never)]
fn counted(work: impl FnOnce()) {
    work();
}

fn small_ops(device: OvercommitDevice, count: usize) {
    let mut step = recurrent::steps::<B>(device);
    let mut work = || (0..count).for_each(|_| assert!(step().is_finite()));
    work();
    counted(work);
}

fn fill(device: &OvercommitDevice, side: usize) -> Tensor {
    let op = Op::Fill { shape: Shape::new(&[side, side]), dtype: Dtype::F32, value: 0.5.into() };
    runtime::create(device, op).expect("enough memory")
}

fn run<const N: usize>(op: Op, inputs: [Tensor; N]) -> Tensor {
    runtime::run(op, inputs).expect("enough memory")
}

fn in_place(device: OvercommitDevice, count: usize) {
    let mut value = fill(&device, 16);
    let mut work = || (0..count).for_each(|_| value = run(Op::Unary(Unary::Neg), [value.clone()]));
    work();
    counted(work);
}

fn new_output(device: OvercommitDevice, count: usize) {
    let mut value = fill(&device, 16);
    let mut work = || {
        (0..count).for_each(|_| value = run(Op::Binary(Binary::Add), [value.clone(), value.clone()]));
    };
    work();
    counted(work);
}

/// Tensors of a mebibyte take turns; memory holds half of them, so that about every op evicts and fetches.
fn evicting(device: OvercommitDevice, count: usize) {
    const RING: usize = 64;
    configure(&device, Config::new().budget("32 MiB").planning(Planning::Off))
        .expect("a device that nothing uses");
    let mut ring: Vec<Tensor> = (0..RING).map(|_| fill(&device, 512)).collect();
    let mut work = || {
        for turn in 0..count {
            let (at, other) = (turn % RING, (turn + RING / 2) % RING);
            ring[at] = run(Op::Binary(Binary::Add), [ring[at].clone(), ring[other].clone()]);
        }
    };
    work();
    counted(work);
}

/// Storages that are alive together.
const MANY: usize = 1 << 18;

/// What the heap holds for each live storage, its recipe and its handle: for layers of a product, a sum and a relu, all kept.
fn bytes_a_storage(device: OvercommitDevice) -> f64 {
    let (weight, mut x) = (fill(&device, 64), fill(&device, 64));
    let mut kept: Vec<Tensor> = Vec::with_capacity(MANY);
    let region = Region::new(ALLOCATOR);
    while kept.len() + 3 <= MANY {
        let product = run(Op::Matmul, [x.clone(), weight.clone()]);
        let sum = run(Op::Binary(Binary::Add), [product.clone(), x]);
        x = run(Op::Unary(Unary::Relu), [sum.clone()]);
        kept.extend([product, sum, x.clone()]);
    }
    let change = region.change();
    (change.bytes_allocated - change.bytes_deallocated) as f64 / kept.len() as f64
}

/// The instructions of a case, by this program under Valgrind.
fn instructions(case: usize) -> f64 {
    let program = std::env::current_exe().expect("the program is a file");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=instructions::counted*")
        .arg(program)
        .args(["--case", &case.to_string()])
        .output()
        .expect("valgrind is installed");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let count = told.lines().find_map(|line| line.split_once("Collected : "));
    count.and_then(|(_, count)| count.trim().parse().ok()).unwrap_or_else(|| panic!("no count in: {told}"))
}

fn main() {
    let options = Options::parse();
    let profile = SimProfile::named("h200").and_then(SimProfile::get).expect("a vendor's device");
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    if let Some(case) = options.case {
        return (CASES[case].run)(device, CASES[case].units);
    }
    let storage_bytes = bytes_a_storage(device);
    println!("a live storage: {storage_bytes:.0} bytes");
    let mut cells = vec![json!({ "measured": "a live storage", "storage_bytes": storage_bytes })];
    cells.extend(CASES.iter().enumerate().map(|(place, &Case { measured, units, .. })| -> Value {
        let thousands = instructions(place) / units as f64 / 1e3;
        println!("{measured}: {thousands:.3} thousand instructions");
        json!({ "measured": measured, "thousand_instructions": thousands })
    }));
    options.output.write(cells);
}
