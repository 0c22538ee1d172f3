use super::{Claim, Row, Seed, answer, loss, percent, size, slowdown, times};
use crate::measure::{Step, Workload};
use crate::table::{Answer, Verdict};

pub const SEED: Seed = Seed {
    name: "vdnn",
    title: "Rhu et al., vDNN: Virtualized deep neural networks for scalable, memory-efficient neural network design, \
            MICRO 2016. Titan X of 12 GB. The batches of the first three rows are unverified. The paper compares \
            memory, averaged over time, with a network-wide allocation; ours compares the average over the ops' times with \
            the unlimited run's peak. The abstract names no loss for them: a row counts as reached whatever the loss, and \
            what the loss named for VGG-16 allows is printed beside it.",
    rows,
};

const LOSS: f64 = 0.18;

fn rows() -> Vec<Row> {
    let average = |network: &str, paper: &'static str, wanted: f64| {
        let workload = Workload::new(network, 128, "titan-x");
        Claim::new("average memory saved", paper, "abstract").of(workload, move |workload| {
            let unlimited = workload.unlimited();
            let saving = |step: &Step| {
                format!(
                    "{} ({}, {} the time)",
                    percent(step.saved_on_average(&unlimited)),
                    step.policy,
                    times(step.slowdown(&unlimited))
                )
            };
            let most = workload.least_average_within(&unlimited, f64::INFINITY);
            let within = workload.least_average_within(&unlimited, slowdown(LOSS));
            let [within, at_most] =
                [&within, &most].map(|step| step.as_ref().map_or("nothing".to_string(), saving));
            let reached = most.is_some_and(|step| step.saved_on_average(&unlimited) >= wanted);
            Answer {
                ours: format!("{at_most}; {within} at {} loss", percent(LOSS)),
                how: format!(
                    "average over time, beside the {} needed without a limit",
                    size(unlimited.need_bytes())
                ),
                verdict: Verdict::of(reached),
            }
        })
    };
    let fits = Claim::new("trains in 12 GB, needing 28 GB", "18 % loss", "abstract");
    vec![
        average("alexnet", "up to 89 %", 0.89),
        average("overfeat", "91 %", 0.91),
        average("googlenet", "95 %", 0.95),
        fits.of(Workload::new("vgg-16", 256, "titan-x"), |workload| {
            let unlimited = workload.unlimited();
            let how = format!(
                "needs {}; the fastest policy in {}",
                size(unlimited.need_bytes()),
                size(workload.device_budget_bytes())
            );
            answer(workload.fastest(workload.device_budget_bytes()), &how, |step| {
                let slower = step.slowdown(&unlimited);
                let lost = loss(slower);
                (
                    format!("{} loss ({}, {} the time)", percent(lost), step.policy, times(slower)),
                    lost <= LOSS,
                )
            })
        }),
    ]
}
