//! Plans that the simulation of a GPU made, followed on that GPU.

use burn::backend::Autodiff;
use burn::optim::AdamConfig;
use burn_overcommit::engine::Engine;
use burn_overcommit::engine::sim::Workspace;
use burn_overcommit::{
    Config, Counters, Overcommit, OvercommitDevice, PlanCache, PlanningState, Profile, SimProfile, configure,
    stats,
};
use burn_overcommit_networks::{by_name, training_step};
use serial_test::serial;

use crate::{driver, engine, training};

type B = Autodiff<Overcommit>;

/// The counters at the end of each step of a small language model.
fn train(device: &OvercommitDevice, steps: usize) -> Vec<Counters> {
    let spec = by_name("gpt-2x64").expect("a network").with_length(64).with_classes(256);
    let mut network = spec.network::<B>(device);
    let mut optimizer = AdamConfig::new().init();
    let step = |_| {
        let (next, loss) = training_step(network.clone(), &mut optimizer, 1e-3, spec.sample(8, device));
        network = next;
        let _ = loss.into_data();
        stats(device).expect("a device").counters
    };
    (0..steps).map(step).collect()
}

#[test]
#[serial]
fn a_plan_that_is_shipped_is_followed_from_the_second_iteration_on() {
    let _driver = driver();
    let shipped = tempfile::tempdir().expect("there is a folder for temporary files");
    let planned = |config: Config, budget_bytes: usize| {
        let cache = PlanCache::Folder(shipped.path().into());
        config.budget_bytes(budget_bytes).host_limit_bytes(1 << 30).plan_cache(cache)
    };
    let profile =
        Profile { key: "of-the-gpu".into(), props: engine().props().clone(), workspace: Workspace::Gpu };
    let simulated = OvercommitDevice::Sim(SimProfile::add(profile));
    configure(&simulated, Config::new()).expect("a configuration");
    train(&simulated, 3);
    let budget_bytes = stats(&simulated).expect("a device").peak_allocated_bytes / 2;
    configure(&simulated, planned(Config::new(), budget_bytes)).expect("a configuration");
    let plans = train(&simulated, 8).last().map(|counters| counters.plans);
    assert_eq!(plans, Some(1), "{}", stats(&simulated).expect("a device"));

    let device = training::DEVICE;
    configure(&device, planned(training::config(), budget_bytes)).expect("a configuration");
    let counters = train(&device, 4);
    let found = stats(&device).expect("a device");
    assert!(matches!(found.planning, PlanningState::Followed { is_kept: true, .. }), "{found}");
    let guided = |step: usize| {
        let ops = counters[step].ops - counters[step - 1].ops;
        100 * (counters[step].guided_ops - counters[step - 1].guided_ops) / ops
    };
    assert!(guided(1) >= 90 && guided(3) >= 95, "{} and {} % of the ops", guided(1), guided(3));
    assert!(found.counters.offloaded_bytes > 0, "{found}");
}
