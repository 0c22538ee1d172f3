//! Faults planted in the pool are noticed, and failures of the engine lose nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use burn_overcommit::engine::fault::{DiskFault, DiskFaults, Fault, FaultyDisk};
use burn_overcommit::runtime::{configure_with_engine, pinned_storages};
use burn_overcommit::{Error, LaneMode, OvercommitDevice, PlantedFault, Policy, stats};

use crate::check::{
    Case, Failure, MIN_HOST_BYTES, PAGE_BYTES, Setting, UNLIMITED, assert_empty, contents_at, fresh_device,
    quietly,
};
use crate::generate;
use crate::program::{Machine, Program, Slot};

/// A planted fault must be found within this many programs.
const MOST_PROGRAMS: u64 = 300;

/// The setting in which a fault can show: little memory, and for some a certain policy or order of lanes.
fn revealing(fault: PlantedFault, seed: u64, budget_bytes: usize) -> Setting {
    let replayed = [PlantedFault::ReusedSeed, PlantedFault::WrongLayout, PlantedFault::ChangedAlgorithm]
        .contains(&fault);
    let unordered = [PlantedFault::MissingWait, PlantedFault::EarlyMapping].contains(&fault);
    Setting {
        budget_bytes,
        policy: if replayed { Policy::Recompute } else { Policy::Auto },
        lanes: if unordered { LaneMode::Deferred { seed } } else { LaneMode::Threads },
        page_bytes: (fault == PlantedFault::EarlyMapping).then_some(PAGE_BYTES),
        planted_fault: Some(fault),
        ..Setting::default()
    }
}

/// How many programs it takes to notice the fault, and by what.
fn programs_to_find(fault: PlantedFault) -> Option<(u64, String)> {
    let device = fresh_device();
    (1..=MOST_PROGRAMS).find_map(|seed| {
        let case = Case::new(seed);
        let free = Setting { planted_fault: None, ..revealing(fault, seed, UNLIMITED) };
        let expected = case.run(&device, &free).expect("enough memory");
        case.forget();
        let seen = stats(&device).expect("a device that ran");
        let budgets = [
            seen.smallest_budget_bytes,
            seen.smallest_budget_bytes.max(seen.peak_allocated_bytes / 2),
            2 * seen.smallest_budget_bytes,
        ];
        budgets.into_iter().find_map(|budget| {
            let found = case.run(&device, &revealing(fault, seed, budget));
            let left = quietly(|| case.forget());
            let by = match (found, left) {
                (Ok(digest), Ok(_)) if digest == expected => return None,
                // The fault may change what an op needs; that alone would prove nothing.
                (Err(Failure::Error(Error::WorkingSet(_) | Error::HostTierFull { .. })), _) => return None,
                (Ok(_), Ok(_)) => "other bits".to_string(),
                (Err(error), _) => format!("an error: {error:?}"),
                (_, Err(panic)) => format!("a panic: {panic}"),
            };
            Some((seed, by))
        })
    })
}

fn assert_found(fault: PlantedFault) {
    match programs_to_find(fault) {
        Some((program, by)) => println!("{fault:?} is found by program {program}, by {by}"),
        None => panic!("{fault:?} is not found by {MOST_PROGRAMS} programs"),
    }
}

#[test]
fn a_missing_wait_is_found() {
    assert_found(PlantedFault::MissingWait);
}

#[test]
fn a_stale_clean_copy_is_found() {
    assert_found(PlantedFault::StaleCleanCopy);
}

#[test]
fn an_overwritten_shared_input_is_found() {
    assert_found(PlantedFault::InPlaceShared);
}

#[test]
fn a_reused_seed_is_found() {
    assert_found(PlantedFault::ReusedSeed);
}

#[test]
fn a_wrong_layout_is_found() {
    assert_found(PlantedFault::WrongLayout);
}

#[test]
fn a_changed_algorithm_is_found() {
    assert_found(PlantedFault::ChangedAlgorithm);
}

#[test]
fn an_early_mapping_is_found() {
    assert_found(PlantedFault::EarlyMapping);
}

/// Runs a program with one call of the engine failing. `false`: it made fewer calls.
fn fails_cleanly(
    device: OvercommitDevice,
    program: &Program,
    setting: &Setting,
    call: u64,
    reference: &[BTreeMap<Slot, u64>],
) -> bool {
    let mut fault = None;
    let failing = |engine| fault.insert(Arc::new(Fault::new(engine, call))).clone() as _;
    configure_with_engine(&device, setting.config(&device), failing).expect("a host device");
    let mut machine = Machine::new(device);
    let result = machine.run(program);
    let failed = fault.expect("the runtime was made").has_failed();
    match result {
        Ok(_) => {
            assert!(!failed, "call {call} failed unnoticed");
            return false;
        }
        Err(Error::Engine { .. }) => assert!(failed, "call {call} was not made"),
        Err(error) => panic!("call {call}: {error}"),
    }
    assert_eq!(pinned_storages(&device).expect("a device that ran"), 0, "call {call}");
    for (slot, digest) in machine.contents() {
        match digest {
            Ok(digest) => assert_eq!(digest, reference[machine.position][&slot], "call {call}, slot {slot}"),
            // A view that is read through a copy, which may be too large.
            Err(Error::WorkingSet(_)) => {}
            Err(error) => panic!("call {call}, slot {slot}: {error}"),
        }
    }
    drop(machine);
    assert_empty(&stats(&device).expect("a device that ran"));
    true
}

#[test]
fn every_failure_of_the_engine_is_one_error_and_loses_nothing() {
    let small = |seed: &u64| generate::program(*seed).steps().count() < 60;
    let seeds: Vec<u64> = (0..).filter(small).take(9).collect();
    let mut calls = 0;
    for (index, (seed, policy)) in seeds
        .into_iter()
        .zip(Policy::ALL.into_iter().filter(|policy| policy.is_lossless()).cycle())
        .enumerate()
    {
        let program = generate::program(seed);
        let device = fresh_device();
        let free = Setting { page_bytes: (index % 2 == 1).then_some(PAGE_BYTES), ..Setting::default() };
        Case::Ops(program.clone()).run(&device, &free).expect("enough memory");
        let budget_bytes = stats(&device).expect("a device that ran").smallest_budget_bytes;
        let reference: Vec<_> =
            (0..=program.steps().count()).map(|end| contents_at(&device, &program, end)).collect();
        // Of every three programs two have hardly any host memory, and one of them a disk, the other memory of another device.
        let (has_disk, has_peer) = (index % 3 == 2, index % 3 == 1);
        let host_limit_bytes =
            if has_disk || has_peer { Some(budget_bytes + MIN_HOST_BYTES) } else { free.host_limit_bytes };
        let peer = has_peer.then_some((UNLIMITED, 1_000_000_000 << (index % 8)));
        let setting = Setting { budget_bytes, policy, peer, has_disk, host_limit_bytes, ..free };
        calls +=
            (0..).take_while(|&call| fails_cleanly(device, &program, &setting, call, &reference)).count();
    }
    println!("{calls} failures, each one clean error");
}

/// Runs a program on a disk with a fault, and checks what it may do. `false`: the disk did not come so far.
fn survives(
    device: OvercommitDevice,
    program: &Program,
    setting: &Setting,
    fault: DiskFault,
    reference: &[BTreeMap<Slot, u64>],
) -> bool {
    let faults = Arc::new(DiskFaults::new(fault));
    let faulty = |engine| Arc::new(FaultyDisk::new(engine, faults.clone())) as _;
    configure_with_engine(&device, setting.config(&device), faulty).expect("a host device");
    let mut machine = Machine::new(device);
    let result = machine.run(program);
    // After a write that failed, nothing more is written.
    let ends_disk = !matches!(fault, DiskFault::ShortRequest(_));
    let is_full = |error: &Error| error.is_out_of_memory() && ends_disk;
    let is_lost = |error: &Error| {
        matches!(error, Error::Engine { .. }) && matches!(fault, DiskFault::FailedRequests(_))
    };
    if let Err(error) = result {
        assert!(faults.has_happened() && (is_full(&error) || is_lost(&error)), "{fault:?}: {error}");
    }
    // Ops that wait are submitted by this, and may be refused.
    match pinned_storages(&device) {
        Ok(pinned) => assert_eq!(pinned, 0, "{fault:?}"),
        Err(error) => assert!(is_full(&error) || is_lost(&error), "{fault:?}: {error}"),
    }
    for (slot, digest) in machine.contents() {
        match digest {
            Ok(digest) => assert_eq!(digest, reference[machine.position][&slot], "{fault:?}, slot {slot}"),
            // A view that is read through a copy, which may be too large.
            Err(Error::WorkingSet(_)) => {}
            Err(error) => assert!(is_full(&error) || is_lost(&error), "{fault:?}, slot {slot}: {error}"),
        }
    }
    drop(machine);
    assert_empty(&stats(&device).expect("a device that ran"));
    faults.has_happened()
}

#[test]
fn a_failing_disk_loses_only_what_it_cannot_read() {
    let small = |seed: &u64| generate::program(*seed).steps().count() < 60;
    let mut happened = 0;
    for (index, seed) in (100..).filter(small).take(6).enumerate() {
        let program = generate::program(seed);
        let device = fresh_device();
        let free = Setting::default();
        Case::Ops(program.clone()).run(&device, &free).expect("enough memory");
        let budget_bytes = stats(&device).expect("a device that ran").smallest_budget_bytes;
        let reference: Vec<_> =
            (0..=program.steps().count()).map(|end| contents_at(&device, &program, end)).collect();
        let setting = Setting {
            budget_bytes,
            policy: [Policy::Auto, Policy::TensorCache, Policy::VdnnAll][index % 3],
            lanes: if index % 2 == 0 { LaneMode::Threads } else { LaneMode::Deferred { seed } },
            host_limit_bytes: Some(budget_bytes + MIN_HOST_BYTES),
            has_disk: true,
            ..free
        };
        let kinds =
            [DiskFault::ShortRequest, DiskFault::FailedRequest, DiskFault::FailedRequests, DiskFault::Full];
        for kind in kinds {
            happened +=
                (0..).take_while(|&at| survives(device, &program, &setting, kind(at), &reference)).count();
        }
    }
    println!("{happened} faults of a disk");
    assert!(happened > 100);
}
