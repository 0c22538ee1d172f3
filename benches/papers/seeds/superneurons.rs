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
/// The authors' deepest.
const DEEP: usize = 2500;
/// No deeper one is tried, because Burn's autodiff takes time quadratic in the layers.
const DEEPEST: usize = 3002;
/// With as much host memory, and no slower than this.
const HOST_BYTES: usize = 64 << 30;
const SLOWDOWN: f64 = 1.3;
/// Counted as in the paper, 10^4 basic layers: convolutions, norms, activations and joins are one each, ten in three.
const BASIC_LAYERS: usize = 3002;

/// Largest batches in 12 GB: recalled, not read.
const BATCHES: [(&str, &str, usize); 6] = [
    ("alexnet", "1792", 1792),
    ("vgg-16", "224", 224),
    ("inception-v4", "240", 240),
    ("resnet-50", "384", 384),
    ("resnet-101", "256", 256),
    ("resnet-152", "176", 176),
];

/// Table 1: recalled, not read, as are the batches.
const RECOMPUTATIONS: [(&str, usize, &str, usize); 3] =
    [("alexnet", 200, "17", 17), ("resnet-50", 16, "85", 85), ("resnet-101", 16, "170", 170)];

fn rows() -> Vec<Row> {
    // Two rows ask for it.
    let deepest: Rc<LazyCell<Result<Step, String>>> = Rc::new(LazyCell::new(|| trained(&residual(DEEP))));
    let again = deepest.clone();
    let mut rows = vec![
        Claim::new("deepest in 12 GB at batch 16", "1920; asked 2500, 1.3x", "unverified")
            .of(residual(DEEP), move |workload| trains_within(workload, (*deepest).clone(), SLOWDOWN))
            .deep(),
        Claim::new("deeper than that", "1920", "unverified")
            .of(residual(DEEPEST), |workload| trains_within(workload, trained(workload), SLOWDOWN))
            .deep(),
        Claim::new("deepest in 12 GB, 10^4 basic layers", "ResNet2500", "abstract")
            .of(Workload::new(&format!("resnet-{BASIC_LAYERS}"), 1, DEVICE), trains_by_default)
            .deep(),
        Claim::new("deeper than without, at least", "3.2432x", "abstract")
            .of_all("resnet by depth, 16, k40c", move || deeper((*again).clone()))
            .deep(),
    ];
    rows.extend(BATCHES.map(|(network, paper, batch)| {
        Claim::new("largest batch in 12 GB", paper, "unverified")
            .of(Workload::new(network, batch, DEVICE), largest_batch)
    }));
    rows.extend(RECOMPUTATIONS.map(|(network, batch, paper, wanted)| {
        Claim::new("extra recomputations a step, peak of the largest layer", paper, "unverified")
            .of(Workload::new(network, batch, DEVICE), move |workload| recomputed(workload, wanted))
    }));
    rows.extend(RECOMPUTATIONS.map(|(network, batch, ..)| {
        Claim::new("auto recomputes no more, checkpoints alone offloaded", "its own policy", "measured here")
            .of(Workload::new(network, batch, DEVICE), no_more_recomputed)
    }));
    rows.push(
        Claim::new("dynamic workspace, by its own policy", "faster", "abstract")
            .of(Workload::new("vgg-16", 32, DEVICE), dynamic_workspace),
    );
    rows
}

fn residual(depth: usize) -> Workload {
    Workload::new(&format!("resnet-{depth}"), DEEP_BATCH, DEVICE).with_host_limit(HOST_BYTES)
}

fn trained(workload: &Workload) -> Result<Step, String> {
    workload.within(workload.device_budget_bytes())
}

/// The default policy within what the device gives.
pub fn trains_by_default(workload: &Workload) -> Answer {
    trains_within(workload, trained(workload), f64::INFINITY)
}

fn trains_within(workload: &Workload, step: Result<Step, String>, slowdown: f64) -> Answer {
    let unlimited = workload.unlimited();
    let how = format!(
        "policy auto in {}; needs {} without a limit",
        size(workload.device_budget_bytes()),
        size(unlimited.need_bytes())
    );
    answer(step, &how, |step| {
        let (host, slower) = (size(step.stats.peak_host_bytes), step.slowdown(&unlimited));
        (format!("trains in {} the time, {host} on the host", times(slower)), slower <= slowdown)
    })
}

/// The deepest that we train, capped, over the deepest that needs no more than the device has.
fn deeper(deepest: Result<Step, String>) -> Answer {
    let resident =
        |depth: usize| residual(depth).unlimited().need_bytes() <= residual(depth).device_budget_bytes();
    let (mut fits, mut needs_more) = (137, DEEP / 3);
    while needs_more - fits > 3 {
        let middle = fits.midpoint(needs_more);
        if resident(middle) { fits = middle } else { needs_more = middle }
    }
    let how = format!(
        "{DEEP} layers over the {fits} that need no eviction here, and over the 592 that \
         1920 and 3.2432 make of the best other framework"
    );
    answer(deepest, &how, |_| {
        let [here, there] = [fits, 592].map(|layers| DEEP as f64 / layers as f64);
        (format!("at least {}; {} over the paper's others", times(here), times(there)), there >= 3.2432)
    })
}

fn largest_batch(workload: &Workload) -> Answer {
    let largest = workload.largest_batch(workload.batch);
    let slower = match workload.within(workload.device_budget_bytes()) {
        Ok(step) => format!("in {} the time", times(step.slowdown(&workload.unlimited()))),
        Err(_) => "is refused".to_string(),
    };
    Answer {
        ours: format!("{largest}; the paper's {slower}"),
        how: format!("the largest that trains in {}", size(workload.device_budget_bytes())),
        verdict: Verdict::of(largest >= workload.batch),
    }
}

/// The policy's plan, counted as in the paper, and what it takes: no more memory than the largest layer.
fn recomputed(workload: &Workload, wanted: usize) -> Answer {
    let counts = workload.layer_counts();
    let [_, layers, _] = counts.recomputed;
    let unlimited = workload.unlimited();
    let largest_bytes = counts.largest_bytes;
    let how = format!(
        "layers, by policy superneurons; its largest layer takes {}, and {} are needed without a limit",
        size(largest_bytes),
        size(unlimited.need_bytes())
    );
    let restricted = workload.with_checkpoints_only();
    answer(restricted.under(Policy::SuperNeurons, largest_bytes), &how, |step| {
        let ops = step.stats.counters.recomputed_ops;
        let slower = times(step.slowdown(&unlimited));
        let peak = size(step.need_bytes());
        (format!("{layers}, {ops} ops; a peak of {peak}, {slower} the time"), layers == wanted)
    })
}

/// Ops that are run again, beside those of the paper's policy, in the memory that its largest layer takes.
fn no_more_recomputed(workload: &Workload) -> Answer {
    let unlimited = workload.unlimited();
    let restricted = workload.with_checkpoints_only();
    let budget_bytes = workload.layer_counts().largest_bytes;
    let say = |step: &Step| {
        let slower = times(step.slowdown(&unlimited));
        format!("{} {} ({slower} the time)", step.policy, step.stats.counters.recomputed_ops)
    };
    let how = format!("ops run again in {}, what its largest layer takes", size(budget_bytes));
    answer(restricted.under(Policy::SuperNeurons, budget_bytes), &how, |theirs| {
        match restricted.within(budget_bytes) {
            Ok(ours) => {
                let [ours_ops, theirs_ops] = [&ours, theirs].map(|step| step.stats.counters.recomputed_ops);
                (format!("{}, {}", say(&ours), say(theirs)), ours_ops <= theirs_ops)
            }
            Err(error) => (format!("refused: {error}"), false),
        }
    })
}

/// The fastest algorithm whose workspace fits what is free, beside the one that is taken for exact results.
fn dynamic_workspace(workload: &Workload) -> Answer {
    let budget_bytes = workload.unlimited().need_bytes() / 2;
    let how = format!("a step in {}, half of what is needed, beside the exact one", size(budget_bytes));
    let exact = workload.under(Policy::SuperNeurons, budget_bytes);
    let fast = workload.fast().under(Policy::SuperNeurons, budget_bytes);
    answer(fast, &how, |fast| match &exact {
        Ok(exact) => {
            let faster = exact.time_ns as f64 / fast.time_ns as f64;
            (format!("{} faster", times(faster)), faster > 1.0)
        }
        Err(error) => (format!("the exact one is refused: {error}"), false),
    })
}
