//! Papers with a headline figure or two each.

use super::{Claim, Seed, answer, percent, saved, size, times};
use crate::measure::Workload;
use crate::table::Answer;

pub const SUBLINEAR: Seed = Seed {
    name: "sublinear",
    title: "Chen et al., Training deep nets with sublinear memory cost, arXiv 1604.06174, 2016. Network, batch and \
            device are unverified.",
    rows: || {
        let row = Claim::new(
            "a residual network of 1,000 layers, for one more forward pass",
            "48 GB to 7 GB",
            "abstract",
        );
        vec![
            row.of(Workload::new("resnet-1001", 16, "titan-x"), |workload| {
                // A forward pass is about a third of a step.
                in_part(workload, 7.0 / 48.0, 4.0 / 3.0)
            })
            .deep(),
        ]
    },
};

pub const OFFLOADING: Seed = Seed {
    name: "cpu-offloading",
    title: "Hascoet et al., Reducing the memory cost of training convolutional neural networks by CPU offloading, \
            JSEA 2019. Titan X; the batch is unverified.",
    rows: || {
        let row = Claim::new("memory saved, 21 % slower", "35 %", "abstract");
        vec![row.of(Workload::new("vgg-19", 32, "titan-x"), |workload| saved(workload, 1.21, 0.35))]
    },
};

pub const SWAPADVISOR: Seed = Seed {
    name: "swapadvisor",
    title: "Huang et al., SwapAdvisor: push deep learning beyond the GPU memory limit via smart swapping, ASPLOS 2020. \
            Networks and device are unverified.",
    rows: || {
        let row =
            Claim::new("trains up to 12 times the memory", "53 % of the speed at the least", "abstract");
        vec![row.of(Workload::new("resnet-152", 64, "v100"), |workload| {
            in_part(workload, 1.0 / 12.0, 1.0 / 0.53)
        })]
    },
};

pub const WINDOWS: Seed = Seed {
    name: "windows",
    title: "Hayakawa and Narihira, Out-of-core training for extremely large-scale neural networks with adaptive \
            window-based scheduling, arXiv 2010.14109, 2020. Device and type of floats are unverified; ours has 32 bits \
            and needs more, so the second row takes the ratio.",
    rows: || {
        let claim = |claim| Claim::new(claim, "55 % of the speed", "abstract");
        let workload = Workload::new("resnet-50", 1440, "v100");
        vec![
            claim("trains batch 1440").of(workload.clone(), |workload| {
                let part = workload.device_budget_bytes() as f64 / workload.unlimited().need_bytes() as f64;
                in_part(workload, part, 1.0 / 0.55)
            }),
            claim("trains 7.5 times the memory")
                .of(workload, |workload| in_part(workload, 1.0 / 7.5, 1.0 / 0.55)),
        ]
    },
};

pub const CAPUCHIN: Seed = Seed {
    name: "capuchin",
    title: "Peng et al., Capuchin: tensor-based GPU memory management for deep learning, ASPLOS 2020.",
    rows: || {
        vec![
            Claim::new("smaller footprint than TensorFlow's", "up to 85 %", "abstract")
                .not_yet("six networks", "measured elsewhere: TensorFlow's footprint cannot be had here"),
            Claim::new("largest batch over TensorFlow's", "7x", "abstract")
                .not_yet("BERT", "measured elsewhere: BERT is not among the networks yet"),
        ]
    },
};

pub const REMATERIALIZATION: Seed = Seed {
    name: "dtr",
    title: "Kirisame et al., Dynamic tensor rematerialization, ICLR 2021.",
    rows: || {
        let row =
            Claim::new("N layers in memory for their root, by recomputing alone", "O(N) ops", "abstract");
        vec![row.not_yet("N linear layers", "such a network is not among those that are measured")]
    },
};

/// Does a part of the memory do at no more than a slowdown?
fn in_part(workload: &Workload, part: f64, slowdown: f64) -> Answer {
    let unlimited = workload.unlimited();
    let budget_bytes = (unlimited.need_bytes() as f64 * part) as usize;
    let how = format!(
        "at most {} the time in {}, {} of the {} needed",
        times(slowdown),
        size(budget_bytes),
        percent(part),
        size(unlimited.need_bytes())
    );
    answer(workload.within(budget_bytes), &how, |step| {
        let slower = step.slowdown(&unlimited);
        (
            format!("{} of the speed ({}, {} the time)", percent(1.0 / slower), step.policy, times(slower)),
            slower <= slowdown,
        )
    })
}
