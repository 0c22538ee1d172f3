//! Plans that are kept on disk decide nothing about results: whether there are none, those of an earlier run, damaged ones, or those
//! of another program.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use burn_overcommit::{
    OvercommitDevice, PlanCache, Planning, PlanningState, Policy, Stats, configure, stats,
};

use crate::check::{Case, Setting, budgets, fresh_device};
use crate::program::{Machine, Program};
use crate::{generate, program_count, setting};

/// Enough that plans of an earlier run are followed for most of them.
const ITERATIONS: usize = 150;
/// How long a search may take beside other work.
const PATIENCE: Duration = Duration::from_secs(600);
/// The search writes nothing for so long only if it is over.
const QUIET: Duration = Duration::from_millis(300);

/// A program in a budget, with plans in a folder.
struct Kept {
    device: OvercommitDevice,
    program: Program,
    budget_bytes: usize,
    folder: PathBuf,
    /// What the program reads with all memory.
    expected: u64,
}

impl Kept {
    fn new(device: OvercommitDevice, seed: u64, folder: &Path) -> Self {
        let program = Program { iterations: ITERATIONS, ..generate::program(seed) };
        let case = Case::Ops(program.clone());
        let expected = case.run(&device, &Setting::default()).expect("enough memory");
        let budget_bytes = budgets(&stats(&device).expect("a device that ran"))[1];
        Kept { device, program, budget_bytes, folder: folder.join(seed.to_string()), expected }
    }

    /// Runs the program until nothing is searched any more.
    fn run(&self, policy: Policy, which: &str) -> Stats {
        let Kept { device, program, budget_bytes, folder, expected } = self;
        let setting = Setting {
            budget_bytes: *budget_bytes,
            policy,
            planning: Planning::Background,
            ..Setting::default()
        };
        let config = setting.config(device).plan_cache(PlanCache::Folder(folder.clone()));
        configure(device, config).expect("an idle device");
        let result = Machine::new(*device).run(program).expect("enough memory");
        assert_eq!(result, *expected, "program {}, {policy}, {which}", program.seed);
        let (begin, mut seen) = (Instant::now(), stats(device).expect("a device that ran"));
        while is_searched(&seen) {
            assert!(begin.elapsed() < PATIENCE, "the search does not end");
            sleep(Duration::from_millis(10));
            seen = stats(device).expect("a device that ran");
        }
        let mut before = None;
        while before.as_ref() != Some(&self.files()) {
            before = Some(self.files());
            sleep(QUIET);
        }
        seen
    }

    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<_> =
            entries.filter_map(|entry| Some((entry.path(), fs::read(entry.path()).ok()?))).collect();
        files.sort();
        files
    }
}

fn is_searched(stats: &Stats) -> bool {
    matches!(
        stats.planning,
        PlanningState::Planning { .. } | PlanningState::Followed { is_improved: true, .. }
    )
}

#[test]
fn a_program_reads_the_same_whatever_plans_are_kept() {
    let folder = tempfile::tempdir().expect("a folder for plans");
    let (first, count) = (setting("RANDOM_SEED", 1), program_count().div_ceil(25));
    let (mut found, mut kept) = (0, 0);
    let mut foreign: Option<Vec<u8>> = None;
    for seed in first..first + count {
        let program = Kept::new(fresh_device(), seed, folder.path());
        for policy in [Policy::Auto, Policy::Capuchin] {
            assert_eq!(program.run(policy, "no plans").counters.kept_plans, 0);
            found += program.run(policy, "plans of an earlier run").counters.kept_plans;
            for (path, bytes) in program.files() {
                kept += 1;
                let mut damaged = bytes.clone();
                damaged[bytes.len() / 2] ^= 1;
                fs::write(&path, damaged).expect("a file of one's own");
            }
            program.run(policy, "damaged plans");
            for (path, bytes) in program.files() {
                fs::write(&path, foreign.as_ref().unwrap_or(&bytes)).expect("a file of one's own");
                foreign = Some(bytes);
            }
            program.run(policy, "plans of another program");
            fs::remove_dir_all(&program.folder).unwrap_or(());
        }
    }
    println!("{kept} files, {found} plans found");
    assert!(kept == 0 || found > 0, "no plan was found again");
    assert!(kept > 0 || count < 4, "no plan was kept");
}
