//! The dry run: what a program will need on a device, before there is such a device.

mod steps;

use std::fmt;

use bytesize::ByteSize;

use crate::config::{BUDGET_SHARE, Config, MIN_BUDGET_BYTES};
use crate::engine::MIN_PAGES;
use crate::engine::sim::Profile;
use crate::error::Error;
use crate::runtime::{configure, peak_snapshot};
use crate::{OvercommitDevice, Policy, SimProfile};
use steps::Measured;
pub use steps::Steps;

/// A size of memory that no program fills.
pub(crate) const BOUNDLESS_BYTES: usize = 1 << 50;
/// Fractions of the need that are tried as budgets.
const PARTS: [f64; 9] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1];
/// The most rows of the list of storages.
const MAX_LISTED: usize = 8;
/// Width of the chart's longest bar.
const BAR: usize = 30;

/// What a program needs on a device, and how long its steps take there under which budget. `Display` prints tables and a chart.
/// See [`dry_run`] for an example.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DryRun {
    /// The simulated device.
    pub profile: Profile,
    /// The most device memory in use at once if nothing is evicted, in whole pages where such a budget is mapped by page.
    pub need_bytes: usize,
    /// The smallest budget that is not refused: what the largest op reads, makes and takes as workspace.
    pub smallest_budget_bytes: usize,
    /// The number of steps that it took, in each run; 0 if it is no loop.
    pub steps: usize,
    /// Whether the last step needed what the one before needed. A program that needs more with each step is stopped after eight.
    pub is_steady: bool,
    /// The time of its last step if nothing is evicted, or of the whole program if it is no loop.
    pub base_ns: u64,
    /// The peak snapshot: storages in memory when the most is in use, grouped by size and by the op that made them,
    /// the most bytes first.
    pub largest: Vec<Held>,
    /// The program under one budget after another, the largest first; the first is the need.
    pub runs: Vec<BudgetedRun>,
    /// Ops that came after the program read a tensor. Since a dry run reads zeros, a real run may submit other ops.
    pub ops_after_read: u64,
}

/// Storages of one size that one kind of op made.
/// [`DryRun::largest`] has them; see [`dry_run`] for an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The op.
    pub made_by: &'static str,
    /// Size of one storage.
    pub size_bytes: usize,
    /// Number of storages.
    pub count: usize,
}

/// The last step of a program under a budget, or the whole program if it is no loop.
/// [`DryRun::runs`] has them; see [`dry_run`] for an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetedRun {
    /// Device memory that it may use.
    pub budget_bytes: usize,
    /// Predicted time.
    pub time_ns: u64,
    /// Bytes copied to the host.
    pub offloaded_bytes: u64,
    /// Bytes copied back.
    pub fetched_bytes: u64,
    /// Bytes that were recomputed.
    pub recomputed_bytes: u64,
    /// The most host memory in use since the program began.
    pub host_bytes: usize,
}

/// Runs a program without data on a device's profile, with all the memory it asks for and then under smaller and
/// smaller budgets. The rest of `config`, such as the policy or the density of masks, applies to every run.
///
/// Usually the program makes a model and trains it in a loop over [`Steps`]. The first steps need less than later ones: Adam
/// has all of its state after two. So the loop goes on until a step needs what the one before needed, and that step is
/// timed. Without a loop the whole program is. No plans are made, unless `config` says when: an iteration
/// that follows a plan is faster.
///
/// ```
/// use burn::tensor::{Distribution, Tensor};
/// use burn_overcommit::{Config, Overcommit, SimProfile, dry_run};
///
/// let profile = SimProfile::named("rtx4090").and_then(SimProfile::get).unwrap();
/// let outcome = dry_run(&profile, Config::new(), |device, steps| {
///     let weight = Tensor::<Overcommit, 2>::random([4096, 4096], Distribution::Default, device);
///     for _ in steps {
///         weight.clone().matmul(weight.clone()).exp();
///     }
/// })?;
/// assert_eq!((outcome.steps, outcome.need_bytes), (2, 2 * 4096 * 4096 * 4));
/// println!("{outcome}");
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
///
/// # Errors
/// If tensors outlive the program, which runs several times on one device.
///
/// # Panics
/// If the program panics.
pub fn dry_run(
    profile: &Profile,
    config: Config,
    program: impl Fn(&OvercommitDevice, &mut Steps),
) -> Result<DryRun, Error> {
    let mut boundless = profile.clone();
    (boundless.props.device_bytes, boundless.props.host_bytes) = (BOUNDLESS_BYTES, BOUNDLESS_BYTES);
    let device = OvercommitDevice::Sim(SimProfile::add_unnamed(boundless));
    let config = |budget_bytes: usize| {
        let budget_bytes = budget_bytes.max(MIN_BUDGET_BYTES);
        config.clone().for_dry_run().host_limit_bytes(BOUNDLESS_BYTES).budget_bytes(budget_bytes)
    };
    let run = |config: Config, count: Option<usize>| {
        configure(&device, config)?;
        let mut steps = Steps::new(&device, count);
        program(&device, &mut steps);
        steps.end()
    };
    let free = run(config(BOUNDLESS_BYTES).policy(Policy::Auto), None)?;
    let (peak_bytes, peak_op) = free.peak;
    run(config(BOUNDLESS_BYTES).policy(Policy::Auto).snapshot_at(peak_op), Some(free.steps))?;
    let peak_snapshot = peak_snapshot(&device)?;
    // A budget that is mapped by page is rounded down to whole pages.
    let paged = |page_bytes: &usize| peak_bytes >= MIN_PAGES * page_bytes;
    let page_bytes = profile.props.simulated_page_bytes(peak_bytes).filter(paged).unwrap_or(1);
    let need_bytes = peak_bytes.next_multiple_of(page_bytes);
    let runs = budgets(need_bytes, free.smallest_budget_bytes, usable_bytes(profile))
        .into_iter()
        .map(|bytes| Ok(BudgetedRun::new(bytes, &run(config(bytes), Some(free.steps))?)))
        .collect::<Result<_, Error>>()?;
    Ok(DryRun {
        profile: profile.clone(),
        need_bytes,
        smallest_budget_bytes: free.smallest_budget_bytes,
        steps: free.steps,
        is_steady: free.is_steady,
        base_ns: free.time_ns,
        largest: grouped(&peak_snapshot),
        runs,
        ops_after_read: free.ops_after_read,
    })
}

/// The default budget of the device.
fn usable_bytes(profile: &Profile) -> usize {
    (profile.props.device_bytes as f64 * BUDGET_SHARE) as usize
}

/// Budgets to try, the largest first: the need, fractions of it, the device's default if that is less, and the
/// smallest that works.
fn budgets(need_bytes: usize, smallest_bytes: usize, usable_bytes: usize) -> Vec<usize> {
    let parts = PARTS.map(|part| (need_bytes as f64 * part) as usize);
    let mut budgets: Vec<usize> =
        parts.into_iter().chain([need_bytes, usable_bytes.min(need_bytes), smallest_bytes]).collect();
    budgets.retain(|&budget| budget >= smallest_bytes);
    budgets.sort_unstable_by(|a, b| b.cmp(a));
    budgets.dedup();
    budgets
}

/// Groups storages by op and size.
fn grouped(residents: &[(usize, &'static str)]) -> Vec<Held> {
    let mut groups: Vec<Held> = Vec::new();
    for &(size_bytes, made_by) in residents {
        match groups.iter_mut().find(|held| (held.size_bytes, held.made_by) == (size_bytes, made_by)) {
            Some(held) => held.count += 1,
            None => groups.push(Held { made_by, size_bytes, count: 1 }),
        }
    }
    groups.sort_by_key(|held| std::cmp::Reverse(held.size_bytes * held.count));
    groups
}

impl BudgetedRun {
    fn new(budget_bytes: usize, measured: &Measured) -> Self {
        let counters = measured.last.as_ref().map(|stats| stats.counters).unwrap_or_default();
        BudgetedRun {
            budget_bytes,
            time_ns: measured.time_ns,
            offloaded_bytes: counters.offloaded_bytes,
            fetched_bytes: counters.fetched_bytes,
            recomputed_bytes: counters.recomputed_bytes,
            host_bytes: measured.host_bytes,
        }
    }
}

impl DryRun {
    /// The run with the largest budget within the device's default, nine tenths of its memory; `None` if even the
    /// smallest budget exceeds that.
    pub fn on_device(&self) -> Option<&BudgetedRun> {
        self.runs.iter().find(|run| run.budget_bytes <= usable_bytes(&self.profile))
    }

    /// The time of a run as a multiple of the time with all memory.
    pub fn slowdown(&self, run: &BudgetedRun) -> f64 {
        run.time_ns as f64 / self.base_ns.max(1) as f64
    }
}

fn size(bytes: usize) -> String {
    ByteSize(bytes as u64).to_string()
}

fn time(ns: u64) -> String {
    let seconds = ns as f64 / 1e9;
    if seconds < 1.0 { format!("{:.1} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

impl fmt::Display for DryRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let props = &self.profile.props;
        writeln!(f, "{}, {} of device memory", props.name, size(props.device_bytes))?;
        writeln!(f, "{}", props.pricing())?;
        writeln!(
            f,
            "needs {} if nothing is evicted, {} at the least; {} takes {} then",
            size(self.need_bytes),
            size(self.smallest_budget_bytes),
            if self.steps == 0 { "it".to_string() } else { format!("step {}", self.steps) },
            time(self.base_ns)
        )?;
        if self.steps > 0 && !self.is_steady {
            writeln!(
                f,
                "Step {} did not need what the one before needed: later ones may need more.",
                self.steps
            )?;
        }
        match self.on_device() {
            Some(run) if run.budget_bytes >= self.need_bytes => writeln!(f, "It fits.")?,
            Some(run) => writeln!(
                f,
                "It fits by overcommitting, {:.2} times as slow, with {} of host memory.",
                self.slowdown(run),
                size(run.host_bytes)
            )?,
            None => writeln!(f, "It does not fit: one op alone needs more than the device has.")?,
        }
        writeln!(
            f,
            "\n{:>10} {:>10} {:>7} {:>10} {:>10} {:>10}",
            "budget", "time", "slower", "offloaded", "fetched", "recomputed"
        )?;
        let longest_ns = self.runs.iter().map(|run| run.time_ns).max().unwrap_or(1).max(1);
        for run in &self.runs {
            let bar = (BAR as f64 * run.time_ns as f64 / longest_ns as f64).round() as usize;
            writeln!(
                f,
                "{:>10} {:>10} {:>6.2}x {:>10} {:>10} {:>10}  {}{}",
                size(run.budget_bytes),
                time(run.time_ns),
                self.slowdown(run),
                size(run.offloaded_bytes as usize),
                size(run.fetched_bytes as usize),
                size(run.recomputed_bytes as usize),
                "█".repeat(bar.max(1)),
                if Some(run) == self.on_device() { " this device" } else { "" }
            )?;
        }
        writeln!(f, "\nin memory when the most is in use:")?;
        for held in self.largest.iter().take(MAX_LISTED) {
            let all = size(held.size_bytes * held.count);
            writeln!(f, "{all:>10}  {} x {} by {}", held.count, size(held.size_bytes), held.made_by)?;
        }
        if self.ops_after_read > 0 {
            writeln!(
                f,
                "\n{} ops came after the program had read a tensor; with zeros for data they may not be those of a real run.",
                self.ops_after_read
            )?;
        }
        Ok(())
    }
}
