//! What is known of the papers' networks once they have trained for a few steps.

use burn::backend::Autodiff;
use burn::optim::{AdamConfig, Optimizer, SgdConfig};
use burn_overcommit_networks::{Network, by_name, training_step};

use crate::liveness::{Dataflow, LayerKind, Phase};
use crate::op::Reads;
use crate::policy::LayerCounts;
use crate::{
    Config, Counters, Overcommit, OvercommitDevice, Planning, Policy, Profile, SimProfile, VARIABLES,
    Variable, configure, planner, reset_stats, runtime, stats,
};

mod drift;
mod layers;
mod plan_cache;
mod planning;
mod several;
mod threads;

type Training = Autodiff<Overcommit>;

fn profile() -> Profile {
    SimProfile::named("h200").and_then(SimProfile::get).expect("the profile is in the table")
}

fn trained(name: &str, batch: usize, optimizer: impl Optimizer<Network<Training>, Training>) -> Dataflow {
    trained_as(Config::new(), name, batch, optimizer)
}

fn trained_as(
    config: Config,
    name: &str,
    batch: usize,
    mut optimizer: impl Optimizer<Network<Training>, Training>,
) -> Dataflow {
    let device = OvercommitDevice::Sim(SimProfile::add(profile()));
    configure(&device, config.planning(Planning::Off)).unwrap();
    let spec = by_name(name).unwrap();
    let mut network = spec.network::<Training>(&device);
    for _ in 0..5 {
        (network, _) = training_step(network, &mut optimizer, 1e-3, spec.sample(batch, &device));
        if let Some((log, period)) = runtime::learned(&device).unwrap() {
            return planner::dataflow(&log, period, &profile().props).expect("two iterations");
        }
    }
    panic!("{name}: the iteration was not found");
}

fn dataflow(name: &str) -> Dataflow {
    trained(name, 2, AdamConfig::new().init())
}

/// Convolutions, matrix products, pools, concatenations, joins.
fn layers(flow: &Dataflow) -> [usize; 5] {
    let kinds = [
        LayerKind::Convolution,
        LayerKind::Linear,
        LayerKind::Pool,
        LayerKind::Concatenation,
        LayerKind::Join,
    ];
    kinds.map(|kind| flow.layers.iter().filter(|layer| layer.kind == kind).count())
}

#[test]
fn layers_are_those_of_the_papers() {
    // Simonyan and Zisserman 2014: 13 + 3 layers and 5 pools. Krizhevsky et al. 2012: 5 + 3, and 3 pools; local response
    // normalization, which pools over channels, is none.
    assert_eq!(layers(&dataflow("vgg-16")), [13, 3, 5, 0, 0]);
    assert_eq!(layers(&dataflow("alexnet")), [5, 3, 3, 0, 0]);
    // Szegedy et al. 2014: 57 convolutions in 22 weighted layers, 9 inceptions; 4 pools between and 9 inside them. The last
    // pool, over all pixels, is a mean here.
    assert_eq!(layers(&dataflow("googlenet")), [57, 1, 13, 9, 0]);
    // He et al. 2015: 49 + 1 layers, and 4 projections; 16 joins, and the last pool is a mean.
    assert_eq!(layers(&dataflow("resnet-50")), [53, 1, 1, 0, 16]);
    // Ronneberger et al. 2015: 23 convolutional layers.
    assert_eq!(layers(&dataflow("unet")), [23, 0, 4, 4, 0]);
    // Radford et al. 2019: 12 blocks of six products (queries, keys and values as one) and two joins; the scores.
    assert_eq!(layers(&dataflow("gpt2-small")), [0, 73, 0, 0, 24]);
}

#[test]
fn phases_follow_each_other() {
    for name in ["vgg-16", "resnet-50", "unet", "gpt2-small"] {
        for flow in [dataflow(name), trained(name, 2, SgdConfig::new().init())] {
            let phases: Vec<Phase> = flow.ops.iter().map(|op| op.phase).collect();
            let count = |phase| phases.iter().filter(|&&other| other == phase).count();
            let mut changes: Vec<Phase> = phases.clone();
            changes.dedup();
            assert_eq!(changes, [Phase::Forward, Phase::Backward, Phase::Update], "{name}");
            assert!(count(Phase::Forward) < count(Phase::Backward), "{name}");
            // Names that say it.
            for op in &flow.ops {
                let is_backward = op.name.contains("backward_weight") || op.name == "relu_backward";
                assert!(!is_backward || op.phase == Phase::Backward, "{name}: {}", op.name);
                assert!(op.name != "relu" || op.phase == Phase::Forward, "{name}");
                assert!(op.name != "sqrt" || op.phase != Phase::Backward, "{name}");
            }
        }
    }
}

#[test]
fn the_backward_pass_goes_through_the_layers_in_reverse() {
    for name in ["vgg-16", "alexnet", "resnet-50"] {
        let flow = dataflow(name);
        let begins: Vec<usize> = flow.backward_begins().into_iter().flatten().collect();
        // A join passes its gradient on as it is.
        let is_passive = |kind| matches!(kind, LayerKind::Input | LayerKind::Join);
        let active = flow.layers.iter().filter(|layer| !is_passive(layer.kind)).count();
        let in_order = begins.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!(begins.len() >= active, "{name}: {} of {active}", begins.len());
        // But for branches, whose order is free.
        assert!(10 * in_order >= 8 * (begins.len() - 1), "{name}: {in_order} of {}", begins.len());
    }
}

#[test]
fn what_the_backward_pass_reads_of_a_value_is_known() {
    let flow = dataflow("vgg-16");
    let kept = (0..flow.values.len()).filter_map(|value| flow.kept_for_backward(value));
    let reads = kept.filter_map(|(_, interval)| Some((interval.value, interval.until?.1)));
    let (signs, values): (Vec<_>, Vec<_>) = reads.partition(|(_, reads)| *reads == Reads::Signs);
    // Burn's rectifiers keep what they read: of 13 convolutions and 2 of 3 products.
    let maker = |value: usize| flow.values[value].made_by.map(|op| flow.ops[op].name);
    assert_eq!(signs.len(), 15);
    assert!(signs.iter().all(|&(value, _)| matches!(maker(value), Some("conv" | "matmul"))));
    // What convolutions and products read, at least.
    assert!(values.len() >= 16, "{}", values.len());
}

#[test]
fn superneurons_recomputes_as_often_as_its_authors_count() {
    // Wang et al. 2018, table 1: speed-centric, cost-aware, memory-centric.
    // Their framework launches layer by layer.
    let flow = |name| trained_as(Config::new().fusion(false), name, 2, SgdConfig::new().init());
    let counts = |name| LayerCounts::of(&flow(name)).recomputed;
    assert_eq!(counts("alexnet"), [14, 17, 23]);
    assert_eq!(counts("resnet-50"), [84, 85, 118]);
    assert_eq!(counts("resnet-101"), [169, 170, 237]);
}

#[test]
fn every_policy_is_where_users_look_for_its_name() {
    let readme = include_str!("../README.md");
    let (_, _, expected, _) = VARIABLES[Variable::Policy as usize];
    let expected: Vec<&str> = expected.split([',', ' ']).collect();
    for policy in Policy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
        assert!(expected.contains(&policy.name()), "{policy} is not among the settings");
        assert!(readme.contains(&format!("`{policy}`")), "{policy} is not in the readme");
    }
}

/// The last of several steps under a policy, within a part of what the network needs.
fn last_step(name: &str, policy: Policy, part: f64) -> Counters {
    let device = OvercommitDevice::Sim(SimProfile::add(profile()));
    let spec = by_name(name).unwrap();
    let train = |config: Config, steps: usize| {
        configure(&device, config).unwrap();
        let (mut network, mut optimizer) = (spec.network::<Training>(&device), SgdConfig::new().init());
        for _ in 0..steps {
            reset_stats(&device).unwrap();
            (network, _) = training_step(network, &mut optimizer, 1e-3, spec.sample(16, &device));
        }
        stats(&device).unwrap()
    };
    let need_bytes = train(Config::new(), 2).peak_allocated_bytes;
    let budget_bytes = (need_bytes as f64 * part) as usize;
    train(Config::new().policy(policy).budget_bytes(budget_bytes), 6).counters
}

#[test]
fn plans_are_followed() {
    let unplanned = last_step("alexnet", Policy::TensorCache, 0.7);
    assert!(unplanned.offloaded_bytes > 0 && unplanned.prefetched_bytes == 0);
    for policy in [Policy::VdnnAll, Policy::VdnnConv, Policy::Layrub, Policy::AutoSwap, Policy::Capuchin] {
        let planned = last_step("alexnet", policy, 0.7);
        assert!(planned.offloaded_bytes > 0 && planned.prefetched_bytes > 0, "{policy}: {planned:?}");
    }
    let all = last_step("alexnet", Policy::VdnnAll, 0.7).offloaded_bytes;
    assert!(all > last_step("alexnet", Policy::VdnnConv, 0.7).offloaded_bytes);
    let recomputed = last_step("alexnet", Policy::SuperNeurons, 0.7);
    assert!(recomputed.recomputed_ops > 0 && unplanned.recomputed_ops == 0);
    assert!(recomputed.offloaded_bytes < unplanned.offloaded_bytes, "{recomputed:?}");
}
