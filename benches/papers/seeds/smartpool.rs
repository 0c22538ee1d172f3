use burn_overcommit::Policy;

use super::{Claim, Row, Seed, each, largest, parts_saved, percent};
use crate::measure::Workload;
use crate::table::{Answer, Verdict};

pub const SEED: Seed = Seed {
    name: "smartpool",
    title: "Zhang et al., Efficient memory management for GPU-based deep learning systems (SmartPool, AutoSwap), \
            arXiv 1903.06631, 2019. Networks, batch and device are unverified.",
    rows,
};

const NETWORKS: [&str; 5] = ["alexnet", "vgg-16", "vgg-19", "resnet-50", "resnet-101"];
/// "Without overhead", rounded as a paper would.
const NO_OVERHEAD: f64 = 1.01;

fn rows() -> Vec<Row> {
    let these = "five networks, 100, titan-x";
    vec![
        Claim::new("SmartPool: less memory than CnMem", "up to 13.3 %", "abstract").of_all(these, pieces),
        Claim::new("AutoSwap: less memory without overhead", "up to 34.2 %", "abstract")
            .of_all(these, without_overhead),
        Claim::new("AutoSwap: less memory, with overhead", "up to 60 %", "unverified")
            .of_all(these, with_overhead),
    ]
}

fn workloads() -> [Workload; NETWORKS.len()] {
    NETWORKS.map(|network| Workload::new(network, 100, "titan-x"))
}

/// How much more than the live bytes the arena has to have before nothing is evicted: what is lost to pieces.
fn lost_to_pieces(workload: &Workload) -> f64 {
    let need_bytes = workload.unlimited().need_bytes();
    let evicts = |budget_bytes| {
        let step = workload.under(Policy::Auto, budget_bytes);
        step.is_ok_and(|step| step.stats.counters.evictions > 0)
    };
    let (mut too_small, mut enough) = (need_bytes, 2 * need_bytes);
    while enough - too_small > need_bytes / 1000 {
        let middle = too_small.midpoint(enough);
        if evicts(middle) { too_small = middle } else { enough = middle }
    }
    enough as f64 / need_bytes as f64 - 1.0
}

fn pieces() -> Answer {
    let workloads = workloads();
    let parts: Vec<f64> = workloads.iter().map(lost_to_pieces).collect();
    Answer {
        ours: format!("not yet; the pool takes up to {} over the live bytes", percent(largest(&parts))),
        how: format!("CnMem is not simulated; over the live bytes: {}", each(&workloads, &parts)),
        verdict: Verdict::NotYet,
    }
}

fn without_overhead() -> Answer {
    let workloads = workloads();
    let parts = parts_saved(&workloads, NO_OVERHEAD);
    Answer {
        ours: percent(largest(&parts)),
        how: format!("smallest budget at most {NO_OVERHEAD}x the time: {}", each(&workloads, &parts)),
        verdict: Verdict::of(largest(&parts) >= 0.342),
    }
}

/// However slow, any of it is saved; the paper's figure means something only beside its overhead.
fn with_overhead() -> Answer {
    let workloads = workloads();
    let parts = parts_saved(&workloads, f64::INFINITY);
    Answer {
        ours: format!("not yet; {} however slow", percent(largest(&parts))),
        how: format!("the paper's overhead was not found; the least budget: {}", each(&workloads, &parts)),
        verdict: Verdict::NotYet,
    }
}
