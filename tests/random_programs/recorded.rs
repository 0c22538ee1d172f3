//! Programs on the simulation whose every event is known by its hash: whatever moves, renames or splits code changes none of them.
//!
//! `RECORDED_RUNS=write` makes today's events the expected ones, where a change is meant to change decisions.

use std::fs;
use std::path::Path;

use burn_overcommit::{Config, OvercommitDevice, Planning, Policy, SimProfile, recording, runtime, stats};

use crate::check::{Case, Setting, budgets};

/// The seeds of these programs are the numbers from 1 up to this one.
const PROGRAMS: u64 = 300;

/// FNV-1a (Fowler, Noll, Vo).
fn hash_into(hash: &mut u64, text: &str) {
    for byte in text.bytes() {
        *hash = (*hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
}

/// All events of a program under every policy and budget, as one hash.
fn events(device: &OvercommitDevice, seed: u64) -> u64 {
    let case = Case::new(seed);
    let run = |setting: &Setting| {
        let ran = case.run_with(device, setting, Config::record);
        ran.unwrap_or_else(|failure| panic!("program {seed}, {setting:?}: {failure}"));
        case.forget();
        runtime::sync(device).unwrap();
        recording(device).unwrap().events
    };
    run(&Setting::default());
    let budgets = budgets(&stats(device).expect("a device that ran"));
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for policy in Policy::ALL {
        // A search takes seconds; the published policies plan at once.
        let planning = if policy == Policy::Auto { Planning::Off } else { Planning::AtOnce };
        for &budget_bytes in &budgets[1..] {
            let setting = Setting { budget_bytes, policy, planning, ..Setting::default() };
            for event in run(&setting) {
                hash_into(&mut hash, &serde_json::to_string(&event).expect("an event is text"));
            }
        }
    }
    hash
}

#[test]
fn the_events_of_random_programs_are_known() {
    let profile = SimProfile::named("host").and_then(SimProfile::get).expect("a profile of this machine");
    let device = OvercommitDevice::Sim(SimProfile::add(profile));
    let hashes = (1..=PROGRAMS).map(|seed| format!("{:016x} program {seed}\n", events(&device, seed)));
    let found: String = hashes.collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/recorded_runs/random-programs.txt");
    if std::env::var("RECORDED_RUNS").as_deref() == Ok("write") {
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let changed: Vec<&str> =
        found.lines().zip(expected.lines()).filter(|(a, b)| a != b).map(|(a, _)| a).collect();
    assert!(changed.is_empty(), "{} programs do otherwise:\n{}", changed.len(), changed.join("\n"));
    assert_eq!(found.lines().count(), expected.lines().count(), "programs are missing");
}
