//! The plan cache: plans on disk, for the next run of the same program.
//!
//! A file holds the plans of programs with the same [`Beginning`](crate::schedule::Beginning), the same device and the same
//! settings but for the budget. Its name is a hash of these, so that a file which something else wrote is not found. Measured times
//! do not count, since they differ from run to run; the pool notices where they differ too much from those of a plan.
//!
//! A plan is followed in the budget that it is for. The search for a larger budget begins with it.

use std::sync::{Mutex, PoisonError};

use hashbrown::HashSet;
use serde::{Deserialize, Serialize};

use crate::config::{PlanCache, Planning, Settings};
use crate::disk_cache::DiskCache;
use crate::engine::Props;
use crate::schedule::{BeginningId, Schedule};

/// The most plans in a file, over all budgets. The plan that was kept the longest ago goes first.
const MAX_PLANS: usize = 16;
/// The most bytes of all files. Those go first that were used the longest ago.
const MAX_BYTES: u64 = 256 << 20;
/// The budget and the host limit are rounded down to this many bits, so that a little less free memory than last time leads to
/// the same plans. Plans are made for the rounded budget.
const BUDGET_BITS: u32 = 7;
const HOST_BITS: u32 = 1;
/// Changes when what is written does.
const FORMAT: u32 = 2;

/// A plan of an earlier run.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeptPlan {
    /// Equal for plans of the same iteration, wherever they begin in it.
    iteration: u64,
    memory: PlannedMemory,
    /// Whether the search for it came to its end.
    pub is_final: bool,
    pub schedule: Schedule,
}

/// The memory that a plan is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct PlannedMemory {
    /// The budget, rounded down.
    budget_bytes: usize,
    page_bytes: Option<usize>,
}

/// The plans on disk of one device.
#[derive(Debug)]
pub struct KeptPlans {
    files: DiskCache,
    settings: String,
    memory: PlannedMemory,
    /// Whether the policy may change values.
    may_lose: bool,
    /// The beginnings whose plans were looked for.
    looked_for: Mutex<HashSet<BeginningId>>,
    /// One thread at a time reads a file and writes it anew.
    writing: Mutex<()>,
}

impl KeptPlans {
    /// The cache of a device, if plans are kept. A simulation keeps them only where a folder is named.
    pub fn new(props: &Props, settings: &Settings, runs_in_real_time: bool) -> Option<Self> {
        if settings.planning != Planning::Background {
            return None;
        }
        let files = match &settings.plan_cache {
            PlanCache::User if runs_in_real_time => DiskCache::of_user("plans"),
            PlanCache::User => return None,
            PlanCache::Folder(folder) => DiskCache::at(folder),
            PlanCache::Off => return None,
        };
        Some(KeptPlans {
            files,
            settings: described(props, settings),
            may_lose: !settings.policy.is_lossless(),
            memory: PlannedMemory {
                budget_bytes: rounded_down(settings.budget_bytes, BUDGET_BITS),
                page_bytes: settings.page_bytes(settings.budget_bytes),
            },
            looked_for: Mutex::default(),
            writing: Mutex::default(),
        })
    }

    /// Settings for a plan that is kept: those of the device, with the budget rounded down.
    pub fn settings_of_plans(&self, settings: &Settings) -> Settings {
        settings.with_less(settings.budget_bytes - self.memory.budget_bytes)
    }

    /// Whether the plans of a beginning have not been looked for yet. From then on they have.
    pub fn is_new(&self, beginning: BeginningId) -> bool {
        self.looked_for.lock().unwrap_or_else(PoisonError::into_inner).insert(beginning)
    }

    fn key(&self, beginning: BeginningId) -> String {
        format!("{} begins with {:016x}", self.settings, beginning.0)
    }

    /// The plans for this budget of programs that begin like this one, the newest last, and how many others there are that the pool
    /// may not follow; all of them, if the file cannot be read.
    pub fn plans(&self, beginning: BeginningId) -> (Vec<KeptPlan>, usize) {
        let Some((mut plans, unsound)) = self.read(beginning) else {
            return (Vec::new(), usize::from(self.files.has(self.key(beginning).as_bytes())));
        };
        plans.retain(|plan| plan.memory == self.memory);
        (plans, unsound)
    }

    /// The schedules of programs that begin like this one, for smaller budgets and, with `this_budget`, for this one. They have addresses
    /// if memory has the same pages.
    pub fn known(&self, beginning: BeginningId, this_budget: bool) -> Vec<Schedule> {
        let mut plans = self.plans_of_all_budgets(beginning);
        let limit_bytes = self.memory.budget_bytes + usize::from(this_budget);
        plans.retain(|plan| plan.memory.budget_bytes < limit_bytes);
        let schedule = |KeptPlan { memory, schedule, .. }| {
            let layout = schedule.layout.clone().filter(|_| memory.page_bytes == self.memory.page_bytes);
            Schedule { layout, ..schedule }
        };
        plans.into_iter().map(schedule).collect()
    }

    fn plans_of_all_budgets(&self, beginning: BeginningId) -> Vec<KeptPlan> {
        self.read(beginning).map_or_else(Vec::new, |(plans, _)| plans)
    }

    /// The plans in a file that the pool may follow, and how many it may not. Files may come from anyone.
    fn read(&self, beginning: BeginningId) -> Option<(Vec<KeptPlan>, usize)> {
        let key = self.key(beginning);
        let mut plans = postcard::from_bytes::<Vec<KeptPlan>>(&self.files.read(key.as_bytes())?).ok()?;
        let all = plans.len();
        plans.retain(|plan| plan.schedule.is_sound(self.may_lose));
        self.files.touch(key.as_bytes());
        let unsound = all - plans.len();
        Some((plans, unsound))
    }

    /// Keeps a plan in place of an earlier one for the same iteration.
    ///
    /// # Errors
    /// Why it cannot be kept, in words.
    pub fn keep(&self, beginning: BeginningId, schedule: &Schedule, is_final: bool) -> Result<(), String> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut plans = self.plans_of_all_budgets(beginning);
        let (iteration, memory) = (schedule.iteration(), self.memory);
        plans.retain(|other| (other.iteration, other.memory) != (iteration, memory));
        let plan = KeptPlan { iteration, memory, is_final, schedule: schedule.clone() };
        plans.push(plan);
        plans.drain(..plans.len().saturating_sub(MAX_PLANS));
        let bytes = postcard::to_stdvec(&plans).map_err(|error| error.to_string())?;
        self.files.write(self.key(beginning).as_bytes(), &bytes).map_err(|error| error.to_string())?;
        self.files.trim(MAX_BYTES);
        Ok(())
    }
}

/// A number with all but its first bits cleared.
fn rounded_down(number: usize, bits: u32) -> usize {
    let cleared = (usize::BITS - number.leading_zeros()).saturating_sub(bits);
    number >> cleared << cleared
}

/// What plans depend on besides the program and the budget.
fn described(props: &Props, settings: &Settings) -> String {
    let Settings { policy, exactness, placement, gist_format, fusion, methods, sparsity, packed, .. } =
        settings;
    let host_bytes = rounded_down(settings.host_limit_bytes, HOST_BITS);
    let peers = settings.peers.as_ref();
    let peers = peers.map(|peers| (rounded_down(peers.limit_bytes(), HOST_BITS), peers.rate(props)));
    let disk = settings.disk.as_ref();
    let disk = disk.map(|disk| (rounded_down(disk.limit_bytes, HOST_BITS), disk.bytes_per_second));
    format!(
        "{FORMAT} {} {} {host_bytes} {peers:?} {disk:?} {policy} {exactness:?} {placement:?} {gist_format:?} {fusion} \
         {methods:?} {sparsity:?} {packed:?}",
        env!("CARGO_PKG_VERSION"),
        props.name,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Policy};
    use crate::engine::sim::profiles;
    use crate::op::{Encoding, FloatFormat};
    use crate::schedule::{Eviction, IntervalId, IntervalPlan, ScheduledOp};

    fn kept_plans(folder: &std::path::Path, policy: Policy) -> KeptPlans {
        let props = &profiles()[0].props;
        let config = Config::new().budget_bytes(1 << 20).policy(policy).planning(Planning::Background);
        let settings = config.plan_cache(PlanCache::Folder(folder.into())).resolve(props).unwrap();
        KeptPlans::new(props, &settings, false).unwrap()
    }

    /// Of one op, which evicts one storage so.
    fn schedule(eviction: Eviction) -> Schedule {
        let interval = IntervalPlan {
            next_ops: Some(1),
            method: Some(eviction),
            copied: false,
            order: Default::default(),
            may_move: true,
            persists: false,
        };
        Schedule {
            ops: vec![ScheduledOp { signature: 1, context: 2, launch_ns: 3, first: IntervalId(0) }],
            intervals: vec![interval],
            ..Schedule::default()
        }
    }

    #[test]
    fn plans_that_lose_bits_or_mean_nothing_are_not_followed() {
        let beginning = BeginningId(7);
        let reduced = schedule(Eviction::Encode(Encoding::Reduced(FloatFormat::F16)));
        let endless = Schedule { link_bytes_per_second: f64::NAN, ..schedule(Eviction::Drop) };
        for (policy, schedule, is_sound) in [
            (Policy::Auto, schedule(Eviction::Drop), true),
            (Policy::Auto, reduced.clone(), false),
            (Policy::Gist, reduced, true),
            (Policy::Gist, endless, false),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let plans = kept_plans(folder.path(), policy);
            plans.keep(beginning, &schedule, true).unwrap();
            let (followed, ignored) = plans.plans(beginning);
            assert_eq!((followed.len(), ignored), if is_sound { (1, 0) } else { (0, 1) }, "{policy}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_counts_as_one_plan_that_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let plans = kept_plans(folder.path(), Policy::Auto);
        assert_eq!(plans.plans(BeginningId(7)).1, 0, "there is none");
        plans.keep(BeginningId(7), &schedule(Eviction::Drop), true).unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            std::fs::write(file.unwrap().path(), "damaged").unwrap();
        }
        assert_eq!(plans.plans(BeginningId(7)).1, 1);
    }
}
