//! The simulation engine decides as the host engine does.

use burn_overcommit::{Counters, OvercommitDevice, Policy, SimProfile, stats};

use crate::check::{Case, Setting, UNLIMITED, assert_empty, fresh_device};
use crate::setting;

/// What must be the same: peaks of both tiers, the largest need of an op, and every total.
fn seen(device: &OvercommitDevice, case: &Case, setting: &Setting) -> ([usize; 3], Counters) {
    case.run(device, setting).unwrap_or_else(|failure| panic!("{device}, {setting:?}: {failure:?}"));
    case.forget();
    let stats = stats(device).expect("a device that ran");
    assert_empty(&stats);
    let sizes = [stats.peak_allocated_bytes, stats.peak_host_bytes, stats.smallest_budget_bytes];
    (sizes, stats.counters)
}

#[test]
fn a_simulation_evicts_and_moves_what_the_host_engine_does() {
    let profile = SimProfile::named("host").and_then(SimProfile::get).expect("a profile of this machine");
    let devices = [fresh_device(), OvercommitDevice::Sim(SimProfile::add(profile))];
    let first = setting("RANDOM_SEED", 1);
    let mut evictions = 0;
    for seed in first..first + setting("RANDOM_PROGRAMS", 300) / 5 {
        let case = Case::new(seed);
        let ([peak, _, smallest], _) = seen(&devices[0], &case, &Setting::default());
        for policy in Policy::ALL {
            for budget in [UNLIMITED, peak / 2, peak / 4, smallest] {
                let setting = Setting { budget_bytes: budget.max(smallest), policy, ..Setting::default() };
                let [host, simulated] = devices.each_ref().map(|device| seen(device, &case, &setting));
                assert_eq!(host, simulated, "program {seed}, {setting:?}");
                evictions += host.1.evictions;
            }
        }
    }
    assert!(evictions > 10_000, "the budgets hardly bind: {evictions} evictions");
}
