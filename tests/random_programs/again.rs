//! What ran before in a pool decides nothing once all of it is gone.

use burn_overcommit::{Counters, OvercommitDevice, Planning, Policy, Stats, reset_stats, stats};

use crate::check::{Case, PAGE_BYTES, Setting, UNLIMITED, assert_empty, budgets, fresh_device};
use crate::program::{Machine, Program};
use crate::{generate, program_count, setting};

/// Enough for a plan to be followed.
const ITERATIONS: usize = 6;

/// What came of a program, and all that was done for it.
#[derive(Debug, PartialEq)]
struct Course {
    result: Result<u64, String>,
    peak_bytes: [usize; 2],
    smallest_budget_bytes: usize,
    counters: Counters,
}

/// Runs a program in the pool that is there.
fn run(device: &OvercommitDevice, program: &Program) -> Course {
    reset_stats(device).expect("a host device");
    let result = Machine::new(*device).run(program).map_err(|error| error.to_string());
    let seen = stats(device).expect("a device that ran");
    assert_empty(&seen);
    Course {
        result,
        peak_bytes: [seen.peak_allocated_bytes, seen.peak_host_bytes],
        smallest_budget_bytes: seen.smallest_budget_bytes,
        // Pages stay mapped from one program to the next.
        counters: Counters { mapped_pages: 0, ..seen.counters },
    }
}

/// Runs a program in a new pool, and again after others; what came of it. Where the host tier never fills, only what was read has to
/// be the same.
fn check(device: &OvercommitDevice, program: &Program, before: &Program, setting: Setting) -> Course {
    setting.apply(device);
    let first = run(device, program);
    let between = [before, program, before].map(|program| run(device, program));
    let again = run(device, program);
    let fills = |course: &Course| {
        setting.host_limit_bytes.is_some_and(|limit| course.peak_bytes[1] + setting.budget_bytes > limit)
    };
    if fills(&first) || between.iter().any(fills) {
        assert_eq!(first, again, "program {}, {setting:?}", program.seed);
    }
    assert_eq!(first.result, again.result, "program {}, {setting:?}", program.seed);
    first
}

/// The program of a seed, another, and what the first takes without a limit.
fn programs(device: &OvercommitDevice, seed: u64, iterations: Option<usize>) -> ([Program; 2], Stats) {
    let programs = [seed, seed + 1].map(|seed| {
        let program = generate::program(seed);
        Program { iterations: iterations.unwrap_or(program.iterations), ..program }
    });
    Case::Ops(programs[0].clone()).run(device, &Setting::default()).expect("enough memory");
    let seen = stats(device).expect("a device that ran");
    (programs, seen)
}

#[test]
fn a_program_does_in_a_pool_that_others_were_in_what_it_does_in_a_new_one() {
    let device = fresh_device();
    let (first, count) = (setting("RANDOM_SEED", 1), program_count().div_ceil(10));
    let (mut runs, mut too_small) = (0, 0);
    for seed in first..first + count {
        let ([program, before], seen) = programs(&device, seed, None);
        let [_, half, _, smallest] = budgets(&seen);
        for policy in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()) {
            for (budget_bytes, parts) in [(smallest, 4), (smallest, 1), (half, 2)] {
                let host_limit_bytes = Some(seen.peak_allocated_bytes / parts);
                let setting = Setting { budget_bytes, policy, host_limit_bytes, ..Setting::default() };
                too_small += u32::from(check(&device, &program, &before, setting).result.is_err());
                runs += 1;
            }
        }
    }
    println!("{too_small} of {runs} did not fit");
    assert!(too_small > 0 && too_small < runs, "{too_small} of {runs} did not fit");
}

#[test]
fn it_does_so_where_iterations_are_planned() {
    let device = fresh_device();
    let first = setting("RANDOM_SEED", 1);
    let mut plans = 0;
    for seed in first..first + program_count().div_ceil(100) {
        let ([program, before], seen) = programs(&device, seed, Some(ITERATIONS));
        let budget_bytes = budgets(&seen)[1];
        for policy in [Policy::Auto, Policy::AutoSwap, Policy::Capuchin, Policy::VdnnAll] {
            for host_limit_bytes in [seen.peak_allocated_bytes, UNLIMITED].map(Some) {
                let planning = Planning::AtOnce;
                let setting =
                    Setting { budget_bytes, policy, host_limit_bytes, planning, ..Setting::default() };
                plans += check(&device, &program, &before, setting).counters.plans;
            }
        }
    }
    println!("{plans} plans");
    assert!(plans > 0, "nothing is planned");
}

#[test]
fn it_does_so_where_memory_is_mapped_by_page() {
    let device = fresh_device();
    let first = setting("RANDOM_SEED", 1);
    let (mut runs, mut too_small) = (0, 0);
    // The last began its runs of elementwise ops in the shape of the program before.
    for seed in (first..first + program_count().div_ceil(5)).chain([750_091]) {
        let ([program, before], seen) = programs(&device, seed, None);
        let budget_bytes = seen.smallest_budget_bytes.next_multiple_of(PAGE_BYTES);
        for policy in [Policy::Auto, Policy::EvictAll, Policy::Dtr] {
            for part in [4, 8] {
                let host_limit_bytes = Some(seen.peak_allocated_bytes / part);
                let page_bytes = Some(PAGE_BYTES);
                let setting =
                    Setting { budget_bytes, policy, host_limit_bytes, page_bytes, ..Setting::default() };
                too_small += u32::from(check(&device, &program, &before, setting).result.is_err());
                runs += 1;
            }
        }
    }
    println!("{too_small} of {runs} did not fit");
    assert!(too_small > 0 && too_small < runs, "{too_small} of {runs} did not fit");
}
