//! Failures of the engine in programs that repeat themselves, and so are planned: under every policy, of every kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use burn_overcommit::engine::fault::{Call, Fault};
use burn_overcommit::runtime::{configure_with_engine, pinned_storages};
use burn_overcommit::{Error, LaneMode, OvercommitDevice, Planning, Policy, stats};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::check::{Case, PAGE_BYTES, Setting, assert_empty, contents_at, fresh_device, quietly};
use crate::program::{Machine, Program};
use crate::{THREADS, program_count, setting};

/// Enough that a plan is made, and followed for some iterations.
const ITERATIONS: usize = 6;
/// Enough that a plan that is made in the background comes before it ends, mostly.
const ITERATIONS_BESIDE: usize = 150;
/// Of each kind, for each program, policy and way to map.
const FAILURES: usize = 2;

/// What happened in all programs.
#[derive(Debug, Default)]
struct Totals {
    plans: AtomicU64,
    /// Of these, those that came in time in a run with a failure, planned in the background.
    background_plans: AtomicU64,
    /// Failures by kind: those that the program saw as an error, and those that it did not, since what failed was done
    /// before it had to be.
    seen: [AtomicU64; Call::ALL.len()],
    unseen: AtomicU64,
}

fn count(total: &AtomicU64) -> u64 {
    total.load(Ordering::Relaxed)
}

/// Sets a device up with a failure to come, and gives the engine that will fail.
fn prepare(device: OvercommitDevice, setting: &Setting, kind: Call, failing: u64) -> Arc<Fault> {
    let mut fault = None;
    let wrap = |engine| fault.insert(Arc::new(Fault::of(engine, kind, failing))).clone() as _;
    configure_with_engine(&device, setting.config(&device), wrap).expect("an idle host device");
    fault.expect("the runtime was made")
}

/// Runs a program with one failure: it is one error, or none if what failed was done before it had to be; nothing else is lost, the same pool then runs the program to
/// its end while what is left of the first run is still there, and nothing leaks.
fn fails_and_goes_on(
    device: OvercommitDevice,
    case: &Case,
    setting: &Setting,
    (kind, failing): (Call, u64),
    expected: u64,
    totals: &Totals,
) {
    let fault = prepare(device, setting, kind, failing);
    let mut machine = Machine::new(device);
    let result = match case {
        Case::Ops(program) => machine.run(program).map_err(|error| format!("{error}")),
        Case::Network(network) => quietly(|| network.run(&device)),
    };
    // When a plan comes that is made in the background, and so how many calls there are, is luck.
    let in_background = setting.planning == Planning::Background;
    assert!(fault.has_failed() || in_background, "the call was not made");
    assert_eq!(pinned_storages(&device).expect("a device that ran"), 0, "something is still pinned");
    match result {
        Ok(digest) => {
            assert_eq!(digest, expected, "the results differ");
            assert!(setting.policy == Policy::Auto || !fault.has_failed(), "the failure went unnoticed");
            totals.unseen.fetch_add(1, Ordering::Relaxed);
        }
        Err(message) => {
            assert!(message.contains("injected failure"), "{message}");
            totals.seen[kind as usize].fetch_add(1, Ordering::Relaxed);
        }
    }
    if fault.has_failed() {
        assert_eq!(run(device, case), expected, "the results differ after the failure");
    }
    if in_background {
        totals
            .background_plans
            .fetch_add(stats(&device).expect("a device that ran").counters.plans, Ordering::Relaxed);
    }
    let left = machine.contents();
    let position = machine.position;
    drop(machine);
    case.forget();
    assert_empty(&stats(&device).expect("a device that ran"));
    let Case::Ops(program) = case else { return };
    Setting::default().apply(&device);
    let reference = contents_at(&device, program, position);
    for (slot, digest) in left {
        match digest {
            Ok(digest) => assert_eq!(digest, reference[&slot], "slot {slot}"),
            // A view that is read through a copy, which may be too large.
            Err(Error::WorkingSet(_)) => {}
            Err(error) => panic!("slot {slot}: {error}"),
        }
    }
}

/// Runs a program on a device that is set up.
fn run(device: OvercommitDevice, case: &Case) -> u64 {
    match case {
        Case::Ops(program) => Machine::new(device).run(program).expect("enough memory, and no failure"),
        Case::Network(network) => network.run(&device),
    }
}

/// Checks the program of a seed, as a loop.
fn check(device: OvercommitDevice, seed: u64, totals: &Totals) {
    let pages = [Some(PAGE_BYTES), None];
    // Of a network it is the plans that take time, and each run makes its own.
    let (case, pages, failures) = match Case::new(seed) {
        Case::Ops(program) => {
            (Case::Ops(Program { iterations: ITERATIONS, ..program }), &pages[..], FAILURES)
        }
        network => (network, &pages[..1], 1),
    };
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for &page_bytes in pages {
        let free = Setting { page_bytes, planning: Planning::AtOnce, ..Setting::default() };
        let expected = case.run(&device, &free).expect("enough memory");
        case.forget();
        let seen = stats(&device).expect("a device that ran");
        let smallest = seen.smallest_budget_bytes;
        for policy in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()) {
            let most = smallest.max(seen.peak_allocated_bytes / 2);
            // As often as not, what is left of a failed run has to give way for every op.
            let budget_bytes =
                if random.random_bool(0.5) { smallest } else { random.random_range(smallest..=most) };
            let lanes = match random.random_bool(0.5) {
                true => LaneMode::Deferred { seed },
                false => LaneMode::Threads,
            };
            let sparsity = random.random_bool(0.5).then_some(0.9);
            let setting = Setting { budget_bytes, policy, lanes, sparsity, ..free };
            for kind in Call::ALL {
                let clean = prepare(device, &setting, kind, u64::MAX);
                assert_eq!(run(device, &case), expected);
                case.forget();
                let made = stats(&device).expect("a device that ran").counters.plans;
                totals.plans.fetch_add(made, Ordering::Relaxed);
                // Now, since the engine is called again when another takes its place.
                let calls = clean.calls();
                for _ in 0..failures.min(calls as usize) {
                    let failure = (kind, random.random_range(0..calls));
                    let run = || fails_and_goes_on(device, &case, &setting, failure, expected, totals);
                    if let Err(message) = quietly(run) {
                        panic!("{setting:?}, {failure:?}: {message}");
                    }
                }
            }
        }
    }
}

/// Checks the program of a seed, planned in the background.
fn check_in_background(device: OvercommitDevice, seed: u64, totals: &Totals) {
    let Case::Ops(program) = Case::new(seed) else { return };
    let case = Case::Ops(Program { iterations: ITERATIONS_BESIDE, ..program });
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let free = Setting { planning: Planning::Background, ..Setting::default() };
    let expected = case.run(&device, &free).expect("enough memory");
    let seen = stats(&device).expect("a device that ran");
    let budget_bytes = seen.smallest_budget_bytes.max(seen.peak_allocated_bytes / 2);
    let setting = Setting { budget_bytes, ..free };
    for kind in Call::ALL {
        let clean = prepare(device, &setting, kind, u64::MAX);
        assert_eq!(run(device, &case), expected);
        let calls = clean.calls();
        for _ in 0..FAILURES.min(calls as usize) {
            let failure = (kind, random.random_range(0..calls));
            let run = || fails_and_goes_on(device, &case, &setting, failure, expected, totals);
            if let Err(message) = quietly(run) {
                panic!("{setting:?}, {failure:?}: {message}");
            }
        }
    }
}

#[test]
fn failures_during_background_planning_lose_nothing() {
    let (first, programs) = (setting("RANDOM_SEED", 1), program_count().div_ceil(75));
    println!("{programs} programs from seed {first} on");
    let totals = Totals::default();
    let device = fresh_device();
    for seed in first..first + programs {
        if let Err(message) = quietly(|| check_in_background(device, seed, &totals)) {
            panic!("program {seed}: {message}");
        }
    }
    println!("{totals:?}");
    assert!(totals.seen.iter().map(count).sum::<u64>() > programs, "hardly anything fails: {totals:?}");
    assert!(count(&totals.background_plans) > 0, "no plan came in time: {totals:?}");
}

#[test]
fn failures_under_plans_and_every_policy_lose_nothing() {
    let (first, programs) = (setting("RANDOM_SEED", 1), program_count().div_ceil(30));
    println!("{programs} programs from seed {first} on");
    let (next, totals) = (AtomicU64::new(0), Totals::default());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let device = fresh_device();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= programs {
                        return;
                    }
                    let seed = first.wrapping_add(index);
                    if let Err(message) = quietly(|| check(device, seed, &totals)) {
                        panic!("program {seed}: {message}");
                    }
                }
            });
        }
    });
    println!("{totals:?}");
    assert!(totals.seen.iter().all(|seen| count(seen) > programs), "some kind hardly fails: {totals:?}");
    assert!(count(&totals.plans) > programs, "hardly any program is planned: {totals:?}");
}
