//! Whole networks on the simulation: what a training step needs, and how long it takes.

use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::BalancedCheckpointing;
use burn::nn::Dropout;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams, Optimizer, SgdConfig};
use burn::tensor::Tensor;
use burn::tensor::backend::AutodiffBackend;
use burn_overcommit::autodiff::{self, AttentionDropout, AttentionModuleOptions, MemorySaving, SavesLess};
use burn_overcommit::engine::HostTimes;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, SimProfile, configure, reset_stats, stats};
use burn_overcommit_networks::{Network, Sample, SampleInput, by_name, training_step};

/// The most bytes in use and the milliseconds of a step, once the weights are there.
fn step<B: AutodiffBackend<Device = OvercommitDevice>>(
    name: &str,
    batch: usize,
    budget: usize,
) -> (usize, f64) {
    let mut profile = SimProfile::named("h200").and_then(SimProfile::get).unwrap();
    (profile.props.device_bytes, profile.props.host_bytes) = (BOUNDLESS, BOUNDLESS);
    // What is saved is to cost little where kernels are as good as can be.
    (profile.props.kernels, profile.props.host) = (None, HostTimes::default());
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
    [("resnet-50", 32, 0.65), ("densenet-121", 32, 0.65), ("unet", 4, 0.75), ("gpt2-small", 4, 0.95)];

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
        // GPT-2 small takes 8 % longer: its softmax and norms are ops of their own, which fuse with nothing. ResNet-50 takes 12 %
        // longer: in the second iteration storages leave that the first seems to say are not used again.
        assert!(ours_half < 1.15 * burns_half, "{name} in half: {ours_half} ms, Burn {burns_half}");
        assert!(ours as f64 <= share * burns as f64, "{name}: {ours} bytes, Burn {burns}");
        // ResNet-50 takes 4 % more: a longer program computes more of what Burn's strategy recomputes.
        assert!(100 * ours <= 105 * balanced, "{name}: {ours} bytes, Burn's balanced strategy {balanced}");
        assert!(ours_ms < 1.2 * burns_ms, "{name}: {ours_ms} ms, Burn {burns_ms}");
    }
}

/// The weighted values of GPT-2's heads, by this crate's attention.
fn attend<B: SavesLess>([query, key, value]: [Tensor<B, 4>; 3], dropout: &Dropout) -> Tensor<B, 4> {
    let drops = B::ad_enabled(&query.device()) && dropout.prob > 0.0;
    let dropout = drops.then_some(AttentionDropout::Weights(dropout.prob));
    let options = AttentionModuleOptions { is_causal: true, ..Default::default() };
    autodiff::attention(query, key, value, None, None, options, dropout)
}

/// The most bytes in use in a step of GPT-2, and its milliseconds on an H100 by the model; with attention by tiles or not.
fn step_of_gpt<B: AutodiffBackend<Device = OvercommitDevice> + SavesLess>(
    name: &str,
    batch: usize,
    by_tiles: bool,
) -> (usize, f64) {
    let mut profile = SimProfile::named("h100").and_then(SimProfile::get).unwrap();
    (profile.props.device_bytes, profile.props.host_bytes) = (BOUNDLESS, BOUNDLESS);
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    configure(&device, Config::new().budget_bytes(BOUNDLESS)).unwrap();
    let spec = by_name(name).unwrap();
    let mut optimizer = AdamConfig::new().init();
    let mut network = spec.network::<B>(&device);
    let mut begin = 0;
    for _ in 0..2 {
        begin = stats(&device).map_or(0, |stats| stats.times.unwrap().end_ns);
        reset_stats(&device).unwrap();
        let Sample { input, targets } = spec.sample(batch, &device);
        let (Network::Gpt(gpt), SampleInput::Tokens(tokens)) = (&network, input) else { panic!("{name}") };
        let scores = if by_tiles { gpt.forward_by(tokens, &attend) } else { gpt.forward(tokens) };
        let loss = CrossEntropyLossConfig::new().init(&device).forward(scores.flatten(0, 1), targets);
        let gradients = GradientsParams::from_grads(loss.backward(), &network);
        network = optimizer.step(1e-4, network, gradients);
    }
    let stats = stats(&device).unwrap();
    (stats.peak_allocated_bytes, (stats.times.unwrap().end_ns - begin) as f64 / 1e6)
}

#[test]
fn attention_by_tiles_keeps_no_scores() {
    for (name, batch) in [("gpt2-small", 2), ("gpt2-medium", 4)] {
        let (scores, scores_ms) = step_of_gpt::<Autodiff<Overcommit>>(name, batch, false);
        let (tiles, tiles_ms) = step_of_gpt::<Autodiff<Overcommit>>(name, batch, true);
        println!(
            "{name}, batch {batch}: {} MiB {scores_ms:.1} ms by scores, {} MiB {tiles_ms:.1} ms by tiles",
            scores >> 20,
            tiles >> 20
        );
        assert!(5 * tiles < 3 * scores, "{name}: {tiles} bytes, by scores {scores}");
    }
}
