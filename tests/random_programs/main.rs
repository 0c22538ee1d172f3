//! Random programs, run over policies and budgets: the same bits as with unlimited memory, or one clean error.
//!
//! `RANDOM_PROGRAMS=10000 RANDOM_SEED=123 cargo test --release --test random_programs -- --nocapture` runs more of
//! them, from another seed on; `RANDOM_PLANNING=at-once` has all of them planned that can be, in the background too. A failure prints
//! the line that replays its program alone.

mod again;
mod check;
mod faults;
mod generate;
mod kept;
mod loops;
mod networks;
mod ops;
mod program;
mod recorded;
mod simulate;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use burn_overcommit::OvercommitDevice;

/// Threads that share the seeds, where each has a device of its own.
const THREADS: usize = 2;

/// How many programs there are unless `RANDOM_PROGRAMS` says so.
const PROGRAMS: u64 = 20;

/// How many programs there are.
fn program_count() -> u64 {
    setting("RANDOM_PROGRAMS", PROGRAMS)
}

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    let parse = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}: \"{text}\" is not a number"));
    std::env::var(name).map_or(default, parse)
}

#[test]
fn every_policy_and_budget_gives_the_bits_of_unlimited_memory() {
    run("every_policy", program_count(), check::check);
}

#[test]
fn pages_and_slabs_give_the_same_bits() {
    run("pages_and_slabs", program_count(), check::check_paged);
}

#[test]
fn a_small_host_tier_with_other_tiers_gives_the_same_bits() {
    run("with_other_tiers", program_count(), check::check_tiers);
}

/// Programs that once found something that is mended.
const MENDED: [u64; 4] = [2329, 2809, 500_674, 501_722];

#[test]
fn programs_that_once_failed_do_not() {
    let device = check::fresh_device();
    MENDED.into_iter().for_each(|seed| check::check(&device, seed));
}

/// A check, of a device and a seed.
type Check = fn(&OvercommitDevice, u64);

/// Checks so many programs; `test` is enough of the test's name to run it alone.
fn run(test: &str, programs: u64, check: Check) {
    let first = setting("RANDOM_SEED", 1);
    println!("{programs} programs from seed {first} on");
    let next = AtomicU64::new(0);
    let threads = if check::named_device().is_some() { 1 } else { THREADS };
    let begin = Instant::now();
    let failed: Vec<u64> = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| work(test, &next, programs, first, check))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("failures are caught")).collect()
    });
    println!("{programs} programs in {:.1} s", begin.elapsed().as_secs_f64());
    assert!(failed.is_empty(), "programs with these seeds fail: {failed:?}");
}

/// Checks programs until there are no more or one fails, and returns the seeds that failed.
fn work(test: &str, next: &AtomicU64, programs: u64, first: u64, check: Check) -> Vec<u64> {
    let mut device = check::fresh_device();
    let mut failed = Vec::new();
    let mut reported = Instant::now();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= programs || failed.len() >= 5 {
            return failed;
        }
        let seed = first.wrapping_add(index);
        if let Err(message) = check::quietly(|| check(&device, seed)) {
            eprintln!("program {seed}: {message}");
            eprintln!(
                "replay: RANDOM_PROGRAMS=1 RANDOM_SEED={seed} cargo test --release --test random_programs {test}"
            );
            failed.push(seed);
            // The failed run may have left something on the old one.
            device = check::fresh_device();
        }
        if reported.elapsed() > Duration::from_secs(5) {
            reported = Instant::now();
            println!("{index} of {programs}");
        }
    }
}
