//! Kept plans from anyone: a program finds them in its folder, with the right checksum. Whatever they ask for, its results are those of
//! a run without plans. Inputs are changes of a plan that the planner made, or whole files.

#![no_main]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use arbitrary::{Result, Unstructured};
use burn_overcommit::op::{Binary, Dtype, Op, Shape, Unary};
use burn_overcommit::runtime::{self, SEAL_BYTES, Tensor, assert_invariants, sealed};
use burn_overcommit::{
    Config, LaneMode, OvercommitDevice, PlanCache, Planning, Policy, Tunables, configure, stats,
};
use burn_overcommit_fuzz::let_refusals_pass;
use libfuzzer_sys::fuzz_target;

const DEVICE: OvercommitDevice = OvercommitDevice::Host(0);
const ELEMENTS: usize = 256;
const TENSOR_BYTES: usize = 4 * ELEMENTS;
const LAYERS: usize = 10;
/// Iterations until a plan is kept, and those of a run that finds it, which ends before it would be searched anew.
const PLANNED: usize = 5;
const FOLLOWED: usize = 3;
/// With this seed, the first plan arrives after a few ops.
const ARRIVALS: u64 = 17;

/// The program's results, and a plan of it.
struct Known {
    folder: PathBuf,
    file: PathBuf,
    plan: Vec<u8>,
    results: Vec<u8>,
}

static KNOWN: OnceLock<Known> = OnceLock::new();

fuzz_target!(
    init: {
        let_refusals_pass(|_| false);
        let known = known();
        println!("a plan of {} bytes", known.plan.len());
        let _ = KNOWN.set(known);
    },
    |data: &[u8]| {
        let Known { folder, file, plan, results } = KNOWN.get().expect("it is made first");
        fs::write(file, sealed(&changed(plan, data).unwrap_or_default())).expect("the folder can be written");
        assert!(*results == train(folder, FOLLOWED), "the plan changed the results");
        assert_invariants(&DEVICE).expect("a device");
    }
);

fn known() -> Known {
    // Memory, so that files cost no time.
    let folder = PathBuf::from(format!("/dev/shm/burn-overcommit-fuzz-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let results = train(&folder, FOLLOWED);
    train(&folder, PLANNED);
    let file = fs::read_dir(&folder).expect("a folder").flatten().next().expect("a plan was kept").path();
    let plan = as_final(fs::read(&file).expect("a file")[SEAL_BYTES..].to_vec());
    fs::write(&file, sealed(&plan)).expect("the folder can be written");
    assert!(results == train(&folder, FOLLOWED), "a plan that was not changed");
    assert!(stats(&DEVICE).expect("a device").counters.kept_plans > 0, "the file is found");
    Known { folder, file, plan, results }
}

/// The plan, of which the file says that its search is over: no run searches again while it follows it.
fn as_final(mut plan: Vec<u8>) -> Vec<u8> {
    let mut numbers = (0..plan.len()).filter(|&at| plan[at] < 0x80);
    // A count, the iteration, the budget, and that there are no pages.
    let at = numbers.nth(3).expect("it is long") + 1;
    plan[at] = 1;
    plan
}

/// The plan with some bytes changed, or other bytes.
fn changed(plan: &[u8], data: &[u8]) -> Result<Vec<u8>> {
    let Some((0, changes)) = data.split_first() else {
        return Ok(data.get(1..).unwrap_or_default().to_vec());
    };
    let (mut u, mut plan) = (Unstructured::new(changes), plan.to_vec());
    while !u.is_empty() && !plan.is_empty() {
        let at = u.choose_index(plan.len())?;
        match u.int_in_range(0..=5)? {
            0 => plan[at] = u.arbitrary()?,
            1 => plan[at] ^= 1 << u.int_in_range(0..=7)?,
            2 => plan.insert(at, u.arbitrary()?),
            3 => drop(plan.remove(at)),
            // A number of as many bits as it has: postcard writes seven to a byte.
            4 => {
                let number: u64 = u.arbitrary::<u64>()? >> u.int_in_range(0..=63)?;
                plan.splice(at..at + 1, varint(number));
            }
            _ => plan.truncate(at),
        }
    }
    Ok(plan)
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Trains layers of a weight each, and reads what becomes of them.
fn train(folder: &Path, iterations: usize) -> Vec<u8> {
    let tunables = Tunables {
        rungs: 1,
        trial_ops: 4_000,
        annealing_steps: 500,
        annealing_work: 50_000,
        restarts: 1,
        finalists: 1,
        placement_steps: 50,
        ..Tunables::default()
    };
    let config = Config::new()
        .budget_bytes(14 * TENSOR_BYTES)
        .host_limit_bytes(1 << 20)
        .lanes(LaneMode::Deferred { seed: 1 })
        .policy(Policy::Auto)
        .planning(Planning::Background)
        .plan_arrivals(ARRIVALS)
        .plan_cache(PlanCache::Folder(folder.into()))
        .tunables(tunables)
        .fusion(false);
    configure(&DEVICE, config).expect("no tensor is alive");
    let mut weights: Vec<Tensor> = (0..LAYERS).map(|layer| tensor(layer as f32 / 8.0)).collect();
    for iteration in 0..iterations {
        let mut kept = vec![tensor(1.0 + iteration as f32)];
        for (layer, weight) in weights.iter().enumerate() {
            let product = run(Op::Binary(Binary::Add), [kept[layer].clone(), weight.clone()]);
            kept.push(run(Op::Unary(Unary::Sin), [product]));
        }
        let mut gradient = kept.pop().expect("the last");
        for weight in weights.iter_mut().rev() {
            let input = kept.pop().expect("what the layer read");
            let change = run(Op::Binary(Binary::Mul), [gradient.clone(), input]);
            gradient = run(Op::Binary(Binary::Mul), [gradient, weight.clone()]);
            *weight = run(Op::Binary(Binary::Sub), [weight.clone(), change]);
        }
    }
    weights.into_iter().flat_map(|weight| runtime::read(weight).expect("it can be read")).collect()
}

fn tensor(first: f32) -> Tensor {
    let bytes: Vec<u8> = (0..ELEMENTS).flat_map(|at| (first + at as f32 / 64.0).to_ne_bytes()).collect();
    runtime::write(&DEVICE, &bytes, Dtype::F32, Shape::new(&[ELEMENTS])).expect("there is room")
}

fn run<const N: usize>(op: Op, inputs: [Tensor; N]) -> Tensor {
    runtime::run(op, inputs).expect("it fits")
}
