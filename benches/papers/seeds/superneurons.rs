use std::cell::LazyCell;
use std::rc::Rc;

use burn_overcommit::Policy;

use super::{Claim, Row, Seed, answer, size, times};
use crate::measure::{Step, Workload};
use crate::table::{Answer, Verdict};

pub const SEED: Seed = Seed {
    name: "superneurons",
    title: "Wang et al., SuperNeurons: dynamic GPU memory management for training deep neural networks, PPoPP 2018. \
            K40c of 12 GB. Residual networks by the authors' rule of depth (`residual_imagenet_max.cpp`); batch 16 \
            of the deep ones is unverified.",
    rows,
};

const DEVICE: &str = "k40c";
const DEEP_BATCH: usize = 16;
/// No deeper one is tried, because Burn's autodiff takes time quadratic in the layers.
const DEEPEST: usize = 2500;

/// Largest batches in 12 GB: recalled, not read.
const BATCHES: [(&str, &str, usize); 6] = [
    ("alexnet", "1792", 1792),
    ("vgg-16", "224", 224),
    ("inception-v4", "240", 240),
    ("resnet-50", "384", 384),
    ("resnet-101", "256", 256),
    ("resnet-152", "176", 176),
];

const RECOMPUTATIONS: [(&str, &str, u64); 3] =
    [("alexnet", "17", 17), ("resnet-50", "85", 85), ("resnet-101", "170", 170)];

fn rows() -> Vec<Row> {
    // Two rows ask for it.
    let deepest: Rc<LazyCell<Result<Step, String>>> = Rc::new(LazyCell::new(|| trained(&residual(DEEPEST))));
    let again = deepest.clone();
    let mut rows = vec![
        Claim::new("deepest in 12 GB, 10^4 basic layers", "ResNet2500", "abstract")
            .of(residual(DEEPEST), move |workload| trains(workload, (*deepest).clone()))
            .deep(),
        Claim::new("deepest in 12 GB at batch 16", "1920", "unverified")
            .of(residual(1922), trains_by_default)
            .deep(),
        Claim::new("deeper than without, at least", "3.2432x", "abstract")
            .of_all("resnet by depth, 16, k40c", move || deeper((*again).clone()))
            .deep(),
    ];
    rows.extend(BATCHES.map(|(network, paper, batch)| {
        Claim::new("largest batch in 12 GB", paper, "unverified")
            .of(Workload::new(network, batch, DEVICE), largest_batch)
    }));
    rows.extend(RECOMPUTATIONS.map(|(network, paper, wanted)| {
        Claim::new("extra recomputations a step", paper, "unverified")
            .of(Workload::new(network, 32, DEVICE), move |workload| recomputed(workload, wanted))
    }));
    rows
}

fn residual(depth: usize) -> Workload {
    Workload::new(&format!("resnet-{depth}"), DEEP_BATCH, DEVICE)
}

fn trained(workload: &Workload) -> Result<Step, String> {
    workload.under(Policy::Auto, workload.device_budget_bytes())
}

/// The default policy within what the device gives.
pub fn trains_by_default(workload: &Workload) -> Answer {
    trains(workload, trained(workload))
}

fn trains(workload: &Workload, step: Result<Step, String>) -> Answer {
    let unlimited = workload.unlimited();
    let how = format!(
        "policy auto in {}; needs {} without a limit",
        size(workload.device_budget_bytes()),
        size(unlimited.need_bytes())
    );
    answer(step, &how, |step| {
        let host = size(step.stats.peak_host_bytes);
        (format!("trains in {} the time, {host} on the host", times(step.slowdown(&unlimited))), true)
    })
}

/// The deepest that we train, capped, over the deepest that needs no more than the device has.
fn deeper(deepest: Result<Step, String>) -> Answer {
    let resident =
        |depth: usize| residual(depth).unlimited().need_bytes() <= residual(depth).device_budget_bytes();
    let (mut fits, mut needs_more) = (137, DEEPEST / 3);
    while needs_more - fits > 3 {
        let middle = fits.midpoint(needs_more);
        if resident(middle) { fits = middle } else { needs_more = middle }
    }
    let how = format!(
        "{DEEPEST} layers, none deeper is tried, over the {fits} that need no eviction here, and over the 592 that \
         1920 and 3.2432 make of the best other framework"
    );
    answer(deepest, &how, |_| {
        let [here, there] = [fits, 592].map(|layers| DEEPEST as f64 / layers as f64);
        (format!("at least {}; {} over the paper's others", times(here), times(there)), there >= 3.2432)
    })
}

fn largest_batch(workload: &Workload) -> Answer {
    let largest = workload.largest_batch(workload.batch);
    let slower = match workload.fastest(workload.device_budget_bytes()) {
        Ok(step) => format!("in {} the time ({})", times(step.slowdown(&workload.unlimited())), step.policy),
        Err(_) => "is refused".to_string(),
    };
    Answer {
        ours: format!("{largest}; the paper's {slower}"),
        how: format!("the largest that trains in {}", size(workload.device_budget_bytes())),
        verdict: Verdict::of(largest >= workload.batch),
    }
}

fn recomputed(workload: &Workload, wanted: u64) -> Answer {
    let least_bytes = workload.unlimited().smallest_bytes;
    let how = format!("ops, not layers, at the least budget, {}; policy recompute", size(least_bytes));
    answer(workload.under(Policy::Recompute, least_bytes), &how, |step| {
        let ops = step.stats.counters.recomputed_ops;
        (format!("{ops} of {} ops", step.stats.counters.ops), ops <= wanted)
    })
}
