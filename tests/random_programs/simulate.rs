//! The simulation engine decides as the host engine does.

use burn_overcommit::{Counters, OvercommitDevice, Policy, SimProfile, Stats, stats};

use crate::check::{Case, PAGE_BYTES, Setting, assert_empty, budgets, fresh_device};
use crate::setting;

fn seen(device: &OvercommitDevice, case: &Case, setting: &Setting) -> Stats {
    case.run(device, setting).unwrap_or_else(|failure| panic!("{device}, {setting:?}: {failure}"));
    case.forget();
    let stats = stats(device).expect("a device that ran");
    assert_empty(&stats);
    stats
}

/// What must be the same: peaks of both tiers and of what is mapped, the largest need of an op, and every total.
fn figures(stats: &Stats) -> ([usize; 5], Counters) {
    let sizes = [
        stats.peak_allocated_bytes,
        stats.footprint_bytes,
        stats.peak_reserved_bytes,
        stats.peak_host_bytes,
        stats.smallest_budget_bytes,
    ];
    (sizes, stats.counters)
}

/// Runs programs on both engines under some policies and all budgets; how often something was evicted in each, on average.
fn agree(free: Setting, policies: &[Policy]) -> u64 {
    let mut profile = SimProfile::named("host").and_then(SimProfile::get).expect("a profile of this machine");
    profile.props.page_bytes = free.page_bytes;
    let devices = [fresh_device(), OvercommitDevice::Sim(SimProfile::add(profile))];
    let first = setting("RANDOM_SEED", 1);
    let mut evictions = 0;
    let programs = setting("RANDOM_PROGRAMS", 20).div_ceil(5);
    for seed in first..first + programs {
        let case = Case::new(seed);
        let unlimited = seen(&devices[0], &case, &free);
        for &policy in policies {
            for budget_bytes in budgets(&unlimited) {
                let setting = Setting { budget_bytes, policy, ..free };
                let [host, simulated] = devices.each_ref().map(|device| seen(device, &case, &setting));
                assert_eq!(figures(&host), figures(&simulated), "program {seed}, {setting:?}");
                evictions += host.counters.evictions;
            }
        }
    }
    evictions / programs
}

#[test]
fn a_simulation_evicts_and_moves_what_the_host_engine_does() {
    let evictions = agree(Setting::default(), &Policy::ALL);
    assert!(evictions > 160, "the budgets hardly bind: {evictions} evictions");
}

#[test]
fn a_simulation_maps_the_pages_that_the_host_engine_does() {
    let evictions = agree(Setting { page_bytes: Some(PAGE_BYTES), ..Setting::default() }, &Policy::ALL);
    assert!(evictions > 160, "the budgets hardly bind: {evictions} evictions");
}

#[test]
fn a_simulation_spares_the_host_tier_as_the_host_engine_does() {
    let evictions = agree(Setting { host_limit_bytes: None, ..Setting::default() }, &[Policy::Auto]);
    assert!(evictions > 15, "the budgets hardly bind: {evictions} evictions");
}
