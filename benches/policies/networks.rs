//! Networks trained on the simulation: the time of a step once policies have learned, and `auto` beside the best of the
//! others.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use burn::backend::Autodiff;
use burn::optim::AdamConfig;
use burn_overcommit::{
    Config, Overcommit, OvercommitDevice, Planning, Policy, SimProfile, configure, reset_stats, stats,
};
use burn_overcommit_networks::{by_name, training_step};
use indicatif::ProgressBar;

use crate::known::{Known, PERCENTS};
use crate::score::Score;
use crate::{BOTH, head, profile, row};

type Training = Autodiff<Overcommit>;

/// Networks, and how many samples a step learns from.
pub const NETWORKS: [(&str, usize); 4] = [("resnet-50", 32), ("vgg-16", 64), ("unet", 4), ("gpt2-small", 4)];
/// Memory that none of them fills.
pub const BOUNDLESS_BYTES: usize = 1 << 50;
/// The last one is timed. A plan is followed from the fifth on, and memory is as it has it from the seventh on.
const STEPS: usize = 8;

/// The time of each step and the most memory in use; nothing if the budget does not suffice.
pub fn train(
    network: &str,
    batch: usize,
    policy: Policy,
    planning: Planning,
    budget_bytes: usize,
) -> Option<(Vec<u64>, usize)> {
    let mut profile = profile();
    (profile.props.device_bytes, profile.props.host_bytes) = (BOUNDLESS_BYTES, BOUNDLESS_BYTES);
    // What policies are compared by: kernels as good as can be.
    profile.props.kernels = None;
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    let config = Config::new().budget_bytes(budget_bytes).host_limit_bytes(BOUNDLESS_BYTES);
    let config = config.policy(policy).planning(planning);
    configure(&device, config).expect("the device is new");
    let spec = by_name(network).expect("a network of the papers");
    let end_ns = || stats(&device).expect("it is configured").times.expect("it is simulated").end_ns;
    let run = || {
        let mut model = spec.network::<Training>(&device);
        let mut optimizer = AdamConfig::new().init();
        let mut steps_ns = Vec::new();
        for _ in 0..STEPS {
            let begin_ns = end_ns();
            reset_stats(&device).expect("it is configured");
            let sample = spec.sample(batch, &device);
            (model, _) = training_step(model, &mut optimizer, 1e-3, sample);
            steps_ns.push(end_ns() - begin_ns);
        }
        (steps_ns, stats(&device).expect("it is configured").peak_allocated_bytes)
    };
    // A budget that does not suffice is an answer, not a reason to print where it was refused.
    let hook = take_hook();
    set_hook(Box::new(|_| ()));
    let outcome = catch_unwind(AssertUnwindSafe(run)).ok();
    set_hook(hook);
    outcome
}

pub fn run(only: &str, score: &mut Score, progress: &ProgressBar) {
    for (network, batch) in NETWORKS.into_iter().filter(|(network, _)| network.contains(only)) {
        progress.set_message(format!("{network}, all memory"));
        let train = |policy, budget_bytes| train(network, batch, policy, Planning::Background, budget_bytes);
        let (base_ns, need_bytes) = train(Policy::Auto, BOUNDLESS_BYTES).expect("all memory suffices");
        let last_ns = |steps_ns: &[u64]| steps_ns[STEPS - 1] as f64;
        progress.suspend(|| head(&format!("{network}, batch {batch}, Adam, rtx4090")));
        let overhead = |policy: Policy, percent: u32| {
            progress.set_message(format!("{network}, {policy}, {percent} %"));
            let budget_bytes = (need_bytes as f64 * f64::from(percent) / 100.0) as usize;
            train(policy, budget_bytes).map(|(steps_ns, _)| last_ns(&steps_ns) / last_ns(&base_ns))
        };
        let all = Policy::ALL.map(|policy| (policy, PERCENTS.map(|percent| overhead(policy, percent))));
        let program = format!("{network}, batch {batch}");
        for (policy, overheads) in &all {
            progress.suspend(|| row(policy.name(), *overheads));
            score.row(["Networks", &program, BOTH, policy.name()], *overheads);
        }
        let mut others = [None; PERCENTS.len()];
        for (column, best) in others.iter_mut().enumerate() {
            let of = |wanted: bool| {
                all.iter()
                    .filter(move |(policy, _)| policy.is_lossless() && (*policy == Policy::Auto) == wanted)
                    .filter_map(move |(_, row)| row[column])
            };
            *best = of(false).reduce(f64::min);
            score.count(of(true).next(), Some(best.map_or(Known::Infeasible, Known::Overhead)));
        }
        score.row(["Networks", &program, BOTH, "best other, lossless"], others);
    }
}
