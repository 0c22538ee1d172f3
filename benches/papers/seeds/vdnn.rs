use super::{Claim, Row, Seed, answer, loss, percent, saved, size, slowdown, times};
use crate::measure::Workload;

pub const SEED: Seed = Seed {
    name: "vdnn",
    title: "Rhu et al., vDNN: Virtualized deep neural networks for scalable, memory-efficient neural network design, \
            MICRO 2016. Titan X of 12 GB. The batches of the first three rows are unverified. The paper averages \
            memory over time; ours is the peak, which is harder, at the loss that the abstract names for VGG-16, since it \
            names none for them.",
    rows,
};

const LOSS: f64 = 0.18;

fn rows() -> Vec<Row> {
    let average = |network: &str, paper: &'static str, wanted: f64| {
        let workload = Workload::new(network, 128, "titan-x");
        Claim::new("average memory saved", paper, "abstract")
            .of(workload, move |workload| saved(workload, slowdown(LOSS), wanted))
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
