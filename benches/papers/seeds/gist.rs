use super::{Claim, Row, Seed, largest, mean, parts_saved, times};
use crate::measure::Workload;
use crate::table::{Answer, Verdict};

pub const SEED: Seed = Seed {
    name: "gist",
    title: "Jain et al., Gist: efficient data encoding for deep neural network training, ISCA 2018. Which five networks, \
            and batch and device, are unverified.",
    rows,
};

const NETWORKS: [&str; 5] = ["alexnet", "overfeat", "vgg-16", "inception-v4", "resnet-50"];

fn rows() -> Vec<Row> {
    let row =
        Claim::new("smaller footprint by encodings, 4 % slower", "up to 2x, 1.8x on average", "abstract");
    vec![row.of_all("five networks, 64, titan-x", || {
        let parts = parts_saved(&NETWORKS.map(|network| Workload::new(network, 64, "titan-x")), 1.04);
        let factor = |part: f64| times(1.0 / (1.0 - part));
        let factors: Vec<f64> = parts.iter().map(|part| 1.0 / (1.0 - part)).collect();
        Answer {
            ours: format!(
                "not yet; eviction alone up to {}, {} on average",
                factor(largest(&parts)),
                times(mean(&factors))
            ),
            how: "activations are not encoded yet; need over the smallest budget at most 1.04x the time"
                .to_string(),
            verdict: Verdict::NotYet,
        }
    })]
}
