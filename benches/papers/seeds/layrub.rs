use super::{Claim, Row, Seed, answer, each, largest, mean, parts_saved, percent, size, times};
use crate::measure::Workload;
use crate::table::{Answer, Verdict};

pub const SEED: Seed = Seed {
    name: "layrub",
    title: "Jin et al., Layer-centric memory reuse and data migration for extreme-scale deep learning on many-core \
            architectures, ACM TACO 2018. A GPU of 12 GB, here the K40c; which networks at which batches is \
            unverified.",
    rows,
};

const NETWORKS: [&str; 6] = ["alexnet", "vgg-16", "googlenet", "resnet-50", "resnet-101", "resnet-152"];
const BATCH: usize = 32;

fn rows() -> Vec<Row> {
    let deep = |depth: usize| Workload::new(&format!("resnet-{depth}"), 16, "k40c");
    vec![
        Claim::new("memory saved on average, 24.1 % slower on average", "58.2 %", "abstract")
            .of_all("six networks, 32, k40c", average),
        Claim::new("memory saved at the most", "98.9 %", "abstract")
            .of(deep(1001), |workload| {
                let unlimited = workload.unlimited();
                let how = format!(
                    "the least budget, of the {} needed; loss not asked",
                    size(unlimited.need_bytes())
                );
                answer(workload.within(unlimited.smallest_bytes), &how, |step| {
                    let saved = step.saved(&unlimited);
                    let slower = times(step.slowdown(&unlimited));
                    (format!("{} ({}, {slower} the time)", percent(saved), step.policy), saved >= 0.989)
                })
            })
            .deep(),
        Claim::new("deepest in 12 GB", "ResNet of 1,517 layers", "abstract")
            .of(deep(1517), super::superneurons::trains_by_default)
            .deep(),
    ]
}

fn average() -> Answer {
    let workloads = NETWORKS.map(|network| Workload::new(network, BATCH, "k40c"));
    let parts = parts_saved(&workloads, 1.241);
    Answer {
        ours: format!("{}, at the most {}", percent(mean(&parts)), percent(largest(&parts))),
        how: format!("smallest budget at most 1.241x the time: {}", each(&workloads, &parts)),
        verdict: Verdict::of(mean(&parts) >= 0.582),
    }
}
