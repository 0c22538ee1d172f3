use burn_overcommit::Policy;

use super::{Claim, Row, Seed, largest, mean, times};
use crate::measure::Workload;
use crate::table::{Answer, Verdict};

pub const SEED: Seed = Seed {
    name: "gist",
    title: "Jain et al., Gist: efficient data encoding for deep neural network training, ISCA 2018. Which five networks, \
            and batch and device, are unverified. `cargo bench --bench gist` has more.",
    rows,
};

const NETWORKS: [&str; 5] = ["alexnet", "nin", "overfeat", "vgg-16", "googlenet"];

fn rows() -> Vec<Row> {
    let row =
        Claim::new("smaller footprint by encodings, 4 % slower", "up to 2x, 1.8x on average", "abstract");
    vec![row.of_all("five networks, 64, titan-x", || {
        let workloads = NETWORKS.map(|network| Workload::new(network, 64, "titan-x"));
        let both = |workload: &Workload| {
            let (all, encoded) = (workload.unlimited(), workload.encoded(Policy::Gist));
            (all.need_bytes() as f64 / encoded.need_bytes() as f64, encoded.slowdown(&all))
        };
        let (factors, slowdowns): (Vec<f64>, Vec<f64>) = workloads.iter().map(both).unzip();
        let (average, slowest) = (mean(&factors), largest(&slowdowns));
        Answer {
            ours: format!(
                "up to {}, {} on average, {slowest:.3}x the time",
                times(largest(&factors)),
                times(average)
            ),
            how: "all device memory, weights and their gradients too, without sparse storage; f16"
                .to_string(),
            verdict: Verdict::of(average >= 1.8 && slowest <= 1.04),
        }
    })]
}
