//! Training steps of whole networks in less memory than they need, on the model of a GPU, with and without a plan.

use std::sync::atomic::{AtomicUsize, Ordering};

use burn::backend::Autodiff;
use burn::optim::AdamConfig;
use burn::tensor::backend::AutodiffBackend;
use burn::tensor::bf16;
use burn_overcommit::{
    Config, Counters, Overcommit, OvercommitDevice, Planning, SimProfile, configure, stats,
};
use burn_overcommit_networks::{by_name, training_step};

/// A network, its batch, and whether its numbers have 16 bits.
type Cell = (&'static str, usize, bool);

const CELLS: [Cell; 6] = [
    ("resnet-50", 64, false),
    ("resnet-50", 64, true),
    ("gpt2-medium", 4, false),
    ("gpt2-medium", 4, true),
    ("unet", 4, false),
    ("unet", 4, true),
];

/// A step: its time, and what was counted in it.
struct Step {
    ns: u64,
    counters: [u64; 3],
}

/// Steps on a simulated H100, and the most bytes that they had in use.
fn steps((name, batch, halves): Cell, config: Config, count: usize) -> (Vec<Step>, usize) {
    match halves {
        true => steps_of::<Autodiff<Overcommit<bf16>>>((name, batch), config, count),
        false => steps_of::<Autodiff<Overcommit>>((name, batch), config, count),
    }
}

fn steps_of<B: AutodiffBackend<Device = OvercommitDevice>>(
    (name, batch): (&str, usize),
    config: Config,
    count: usize,
) -> (Vec<Step>, usize) {
    let mut profile = SimProfile::named("h100").and_then(SimProfile::get).expect("a device of the table");
    // Runs have devices of their own: a device has one element type by default, whatever asks for it first.
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    profile.key = format!("h100-of-run-{}", RUNS.fetch_add(1, Ordering::Relaxed));
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    configure(&device, config).expect("a configuration");
    let spec = by_name(name).expect("a network");
    let mut network = spec.network::<B>(&device);
    let mut optimizer = AdamConfig::new().init();
    let (mut before_ns, mut before, mut steps) = (0, Counters::default(), Vec::new());
    for _ in 0..count {
        let (next, loss) = training_step(network, &mut optimizer, 1e-4, spec.sample(batch, &device));
        network = next;
        let _ = loss.into_data();
        let found = stats(&device).expect("a device");
        let (end_ns, now) = (found.times.expect("a clock").end_ns, found.counters);
        let counters = [
            now.ops - before.ops,
            now.guided_ops - before.guided_ops,
            now.mapped_pages - before.mapped_pages,
        ];
        steps.push(Step { ns: end_ns - before_ns, counters });
        (before_ns, before) = (end_ns, now);
    }
    (steps, stats(&device).expect("a device").peak_allocated_bytes)
}

fn need_bytes(cell: Cell) -> usize {
    steps(cell, Config::new().planning(Planning::Off), 3).1
}

fn budget(need_bytes: usize, percent: usize) -> Config {
    Config::new().budget_bytes(need_bytes * percent / 100)
}

#[test]
#[ignore = "long: the continuous integration runs it by name"]
fn a_plan_that_is_followed_maps_hardly_a_page() {
    let mut followed = 0;
    for cell in [CELLS[0], CELLS[2]] {
        let need_bytes = need_bytes(cell);
        for percent in [50, 30] {
            let (steps, _) = steps(cell, budget(need_bytes, percent), 16);
            let last = &steps[12..];
            let mapped_pages = last.iter().map(|step| step.counters[2]).sum::<u64>() / last.len() as u64;
            assert!(mapped_pages <= 5, "{cell:?} at {percent} %: {mapped_pages} pages a step");
            followed += usize::from(last.iter().all(|step| 100 * step.counters[1] >= 95 * step.counters[0]));
        }
    }
    // A plan is offered where it is faster than the rule alone.
    assert!(followed >= 3, "{followed} of the four follow a plan");
}

/// A search takes longer than the first steps of a run, which have no plan.
#[test]
#[ignore = "long: the continuous integration runs it by name"]
fn the_first_steps_in_half_of_the_memory_are_nearly_as_fast_as_planned_ones() {
    let ratio = |cell: Cell| {
        let need_bytes = need_bytes(cell);
        let (planned, _) = steps(cell, budget(need_bytes, 50), 16);
        let (first, _) = steps(cell, budget(need_bytes, 50).planning(Planning::Off), 8);
        // The first step makes the weights, too.
        let mean_ns = first[1..].iter().map(|step| step.ns).sum::<u64>() as f64 / 7.0;
        let ratio = mean_ns / planned[15].ns as f64;
        println!("{cell:?}: {ratio:.3}");
        ratio
    };
    let mean = CELLS.map(ratio).iter().map(|ratio| ratio.ln()).sum::<f64>() / CELLS.len() as f64;
    assert!(mean.exp() <= 1.15, "{:.3} times as long", mean.exp());
}
