use burn_overcommit::Policy;

use super::{Claim, Row, Seed, answer, loss, percent, size, slowdown, times};
use crate::measure::{Step, Workload};
use crate::table::{Answer, Verdict};

pub const SEED: Seed = Seed {
    name: "vdnn",
    title: "Rhu et al., vDNN: Virtualized deep neural networks for scalable, memory-efficient neural network design, \
            MICRO 2016. Titan X of 12 GB. The batches of the first three rows are unverified. The paper compares \
            memory, averaged over time, with a network-wide allocation; ours compares the average over the ops' times with \
            the unlimited run's peak, which is less. The abstract names no loss for these rows: ours may lose what it names \
            for VGG-16.",
    rows,
};

/// What the abstract names for VGG-16.
const LOSS: f64 = 0.18;
/// What we ask of ourselves there.
const ASKED_LOSS: f64 = 0.05;

fn rows() -> Vec<Row> {
    let average = |network: &str, paper: &'static str, wanted: f64| {
        let claim = Claim::new("average memory saved", paper, "abstract");
        claim.of(Workload::new(network, 128, "titan-x"), move |workload| average_saved(workload, wanted))
    };
    let fits = Claim::new("trains in 12 GB, needing 28 GB", "18 % loss; asked 5 %", "abstract");
    vec![
        average("alexnet", "up to 89 %", 0.89),
        average("overfeat", "91 %", 0.91),
        average("googlenet", "95 %", 0.95),
        fits.of(Workload::new("vgg-16", 256, "titan-x"), |workload| {
            let unlimited = workload.unlimited();
            let budget_bytes = workload.device_budget_bytes();
            let by_name = match workload.under(Policy::VdnnDyn, budget_bytes) {
                Ok(step) => percent(loss(step.slowdown(&unlimited))),
                Err(error) => error,
            };
            let how = format!(
                "needs {}; auto in {}, nine tenths of the device; vdnn-dyn here: {by_name}",
                size(unlimited.need_bytes()),
                size(budget_bytes)
            );
            answer(workload.within(budget_bytes), &how, |step| {
                let slower = step.slowdown(&unlimited);
                (
                    format!("{} loss ({} the time)", percent(loss(slower)), times(slower)),
                    loss(slower) <= ASKED_LOSS,
                )
            })
        }),
    ]
}

/// The least memory on average at the loss allowed, beside what the paper's own policies make of it here.
fn average_saved(workload: &Workload, wanted: f64) -> Answer {
    let unlimited = workload.unlimited();
    let least = |policy, slowdown| workload.least_average_within(policy, &unlimited, slowdown);
    let say = |step: Option<&Step>| match step {
        Some(step) => format!(
            "{} ({}, {} the time)",
            percent(step.saved_on_average(&unlimited)),
            step.policy,
            times(step.slowdown(&unlimited))
        ),
        None => "nothing".to_string(),
    };
    let ours = least(Policy::Auto, slowdown(LOSS));
    let most = least(Policy::Auto, f64::INFINITY);
    let theirs = [Policy::VdnnAll, Policy::VdnnConv].map(|policy| least(policy, f64::INFINITY));
    let theirs = theirs.map(|step| say(step.as_ref())).join(", ");
    let floor = say(least(Policy::EvictAll, f64::INFINITY).as_ref());
    let reached = ours.as_ref().is_some_and(|step| step.saved_on_average(&unlimited) >= wanted);
    Answer {
        ours: format!("{} at {} loss; at most {}", say(ours.as_ref()), percent(LOSS), say(most.as_ref())),
        how: format!(
            "average over time, beside the {} needed without a limit; by the paper's policies here, however slow: {theirs}; \
             with nothing but what each op reads and makes: {floor}",
            size(unlimited.need_bytes())
        ),
        verdict: Verdict::of(reached),
    }
}
