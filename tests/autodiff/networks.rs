//! Whole networks on the simulation: what a training step needs, and how long it takes.

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::BalancedCheckpointing;
use burn::optim::SgdConfig;
use burn::tensor::backend::AutodiffBackend;
use burn_overcommit::autodiff::MemorySaving;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, SimProfile, configure, reset_stats, stats};
use burn_overcommit_networks::{by_name, training_step};

/// The most bytes in use and the milliseconds of a step, once the weights are there.
fn step<B: AutodiffBackend<Device = OvercommitDevice>>(
    name: &str,
    batch: usize,
    budget: usize,
) -> (usize, f64) {
    let mut profile = SimProfile::named("h200").and_then(SimProfile::get).unwrap();
    (profile.props.device_bytes, profile.props.host_bytes) = (BOUNDLESS, BOUNDLESS);
    // What is saved is to cost little where kernels are as good as can be.
    profile.props.kernels = None;
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    configure(&device, Config::new().budget_bytes(budget)).unwrap();
    let spec = by_name(name).unwrap();
    let mut optimizer = SgdConfig::new().init();
    let network = spec.network::<B>(&device);
    let (network, _) = training_step(network, &mut optimizer, 1e-4, spec.sample(batch, &device));
    let begin = stats(&device).unwrap().times.unwrap().end_ns;
    reset_stats(&device).unwrap();
    training_step(network, &mut optimizer, 1e-4, spec.sample(batch, &device));
    let stats = stats(&device).unwrap();
    (stats.peak_allocated_bytes, (stats.times.unwrap().end_ns - begin) as f64 / 1e6)
}

/// The networks, their batches, and the share of Burn's peak that is enough.
const NETWORKS: [(&str, usize, f64); 4] =
    [("resnet-50", 32, 0.65), ("densenet-121", 32, 0.65), ("unet", 4, 0.75), ("gpt2-small", 4, 0.75)];

const BOUNDLESS: usize = 1 << 50;

#[test]
fn need_less_memory() {
    for (name, batch, share) in NETWORKS {
        let (burns, burns_ms) = step::<Autodiff<Overcommit>>(name, batch, BOUNDLESS);
        let (balanced, balanced_ms) =
            step::<Autodiff<Overcommit, BalancedCheckpointing>>(name, batch, BOUNDLESS);
        let (ours, ours_ms) = step::<MemorySaving<Overcommit>>(name, batch, BOUNDLESS);
        let mib = |bytes: usize| bytes >> 20;
        println!(
            "{name}, batch {batch}: Burn {} MiB {burns_ms:.1} ms, balanced {} MiB {balanced_ms:.1} ms, \
             memory-saving {} MiB {ours_ms:.1} ms",
            mib(burns),
            mib(balanced),
            mib(ours)
        );
        let half = burns / 2;
        let [(_, burns_half), (_, ours_half)] = [
            step::<Autodiff<Overcommit>>(name, batch, half),
            step::<MemorySaving<Overcommit>>(name, batch, half),
        ];
        println!("  in {} MiB: Burn {burns_half:.1} ms; memory-saving {ours_half:.1} ms", mib(half));
        assert!(ours_half < burns_half, "{name} in half: {ours_half} ms, Burn {burns_half}");
        assert!(ours as f64 <= share * burns as f64, "{name}: {ours} bytes, Burn {burns}");
        assert!(ours <= balanced, "{name}: {ours} bytes, Burn's balanced strategy {balanced}");
        assert!(ours_ms < 1.2 * burns_ms, "{name}: {ours_ms} ms, Burn {burns_ms}");
    }
}
