//! Plans that an earlier run kept.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::layers::{Layers, bytes_of, device, upload};
use crate::engine::measuring::Measuring;
use crate::runtime::{configure_with_engine, is_planning};
use crate::{Config, OvercommitDevice, PlanCache, PlanningState, Stats, stats};

const LAYERS: usize = 15;
const ITERATION_OPS: usize = 5 * LAYERS;
/// Enough to be planned.
const MANY: usize = 10;
/// Planning has the lowest priority: beside other work, it takes minutes.
const PATIENCE: Duration = Duration::from_secs(1800);

/// A program on a device that keeps plans.
struct Training {
    device: OvercommitDevice,
    layers: Layers,
}

impl Training {
    fn new(folder: &Path, budget_bytes: usize) -> Self {
        let device = device(Config::new());
        let cache = PlanCache::Folder(folder.into());
        let config = Config::new().budget_bytes(budget_bytes).plan_cache(cache).fusion(false);
        configure_with_engine(&device, config, |sim| Arc::new(Measuring::new(sim, "tanh"))).unwrap();
        Training { device, layers: Layers::new(&device, LAYERS) }
    }

    fn train(&mut self, iterations: usize) {
        (0..iterations).for_each(|_| self.layers.train(upload(&self.device), || {}));
    }

    fn stats(&self) -> Stats {
        stats(&self.device).unwrap()
    }

    fn wait_until(&self, is_so: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(begin.elapsed() < PATIENCE, "it takes too long");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Trains until everything is planned and kept.
    fn train_until_planned(&mut self, folder: &Path) {
        self.train(MANY);
        self.wait_until(|it| !is_planning(&it.device));
        self.train(1);
        assert!(self.stats().counters.plans > 0, "{}", self.stats());
        // The last to be written is that the search is over; what is read then is whole.
        let is_quiet = || {
            let before = contents(folder);
            std::thread::sleep(Duration::from_secs(1));
            !before.is_empty() && contents(folder) == before
        };
        self.wait_until(|_| is_quiet());
    }
}

/// The files of a folder, by name.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let file = |entry: fs::DirEntry| {
        Some((entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).ok()?))
    };
    let mut files: Vec<_> = entries.filter_map(file).collect();
    files.sort();
    files
}

#[test]
#[ignore = "long: the continuous integration runs it by name"]
fn a_plan_of_an_earlier_run_is_followed_in_the_second_iteration() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Training::new(folder.path(), bytes_of(12));
    first.train_until_planned(folder.path());
    assert_eq!(first.stats().counters.kept_plans, 0);

    let mut again = Training::new(folder.path(), bytes_of(12));
    again.train(1);
    again.wait_until(|it| it.stats().counters.kept_plans > 0);
    again.train(1);
    let Stats { planning, counters, .. } = again.stats();
    let PlanningState::Followed { iteration_ops, is_kept: true, .. } = planning else {
        panic!("{}", again.stats())
    };
    assert_eq!((iteration_ops, counters.kept_plans, counters.plannings), (ITERATION_OPS, 1, 0));
    assert!(planning.to_string().contains("the plan of an earlier run"), "{planning}");
    again.train(MANY);
    assert_eq!(again.stats().counters.plannings, 0, "the plan is final");
}

#[test]
#[ignore = "long: the continuous integration runs it by name"]
fn neither_another_budget_nor_a_damaged_file_has_a_plan() {
    let folder = tempfile::tempdir().unwrap();
    let mut first = Training::new(folder.path(), bytes_of(12));
    first.train_until_planned(folder.path());
    let mut again = Training::new(folder.path(), bytes_of(12) + 4096);
    again.train(2);
    // The rung of this budget is the same.
    again.wait_until(|it| it.stats().counters.kept_plans > 0);
    let kept_plans = |budget_bytes: usize| {
        let mut again = Training::new(folder.path(), budget_bytes);
        again.train(2);
        std::thread::sleep(Duration::from_millis(300));
        again.train(MANY);
        again.stats().counters.kept_plans
    };
    assert_eq!(kept_plans(bytes_of(13)), 0);
    for (name, mut bytes) in contents(folder.path()) {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    assert_eq!(kept_plans(bytes_of(12)), 0);
}

/// Trains on a simulated device that keeps plans, and then on the device itself, which follows its plan from the second iteration.
fn a_plan_is_followed_elsewhere(simulated: OvercommitDevice, real: OvercommitDevice, in_real_time: bool) {
    let folder = tempfile::tempdir().unwrap();
    let training = |device: OvercommitDevice, is_measured: bool| {
        let cache = PlanCache::Folder(folder.path().into());
        let config = Config::new().budget_bytes(bytes_of(12)).host_limit_bytes(1 << 30);
        let config = config.plan_cache(cache).fusion(false);
        configure_with_engine(&device, config, |engine| match is_measured {
            true => Arc::new(Measuring::new(engine, "tanh")),
            false => engine,
        })
        .unwrap();
        Training { device, layers: Layers::new(&device, LAYERS) }
    };
    let mut first = training(simulated, false);
    first.train(4);
    assert_eq!(first.stats().counters.plans, 1, "{}", first.stats());
    drop(first);
    let mut again = training(simulated, false);
    again.train(2);
    assert_eq!(again.stats().counters.kept_plans, 0, "a simulation makes its own plans");

    let mut real = training(real, !in_real_time);
    real.train(1);
    real.wait_until(|it| it.stats().counters.kept_plans > 0);
    real.train(1);
    let is_kept = matches!(real.stats().planning, PlanningState::Followed { is_kept: true, .. });
    assert!(is_kept, "{}", real.stats());
}

#[test]
fn a_device_follows_the_plan_that_its_simulation_made() {
    a_plan_is_followed_elsewhere(device(Config::new()), device(Config::new()), false);
}

/// A simulation of this machine that no other test uses.
#[cfg(feature = "host")]
fn simulated_host() -> OvercommitDevice {
    let host = crate::SimProfile::named("host").and_then(crate::SimProfile::get).expect("this machine");
    OvercommitDevice::Sim(crate::SimProfile::add_unnamed(host))
}

#[cfg(feature = "host")]
#[test]
fn the_host_engine_follows_the_plan_that_its_simulation_made() {
    a_plan_is_followed_elsewhere(simulated_host(), OvercommitDevice::Host(91), true);
}

/// What a file of plans consists of: iteration, budget and pages, whether the search is over, and the schedule.
#[cfg(feature = "host")]
type Kept = (u64, (usize, Option<usize>), bool, crate::schedule::Schedule);

/// Has the plans in a folder ask for memory that there is not and for encodings that lose bits, under the right checksum.
#[cfg(feature = "host")]
fn make_hostile(folder: &Path) {
    use crate::op::{Encoding, FloatFormat};
    use crate::schedule::{BlockPlacement, Eviction, Layout, PlannedBlock};

    for (name, bytes) in contents(folder) {
        let mut plans: Vec<Kept> =
            postcard::from_bytes(&bytes[crate::disk_cache::SEAL_BYTES..]).expect("a plan");
        for (_, _, is_final, schedule) in &mut plans {
            *is_final = true;
            let lossy = Eviction::Encode(Encoding::Reduced(FloatFormat::F16));
            schedule
                .evictions
                .iter_mut()
                .chain(&mut schedule.releases)
                .for_each(|(.., eviction)| *eviction = lossy);
            let placement = BlockPlacement::At(usize::MAX - 255);
            let blocks = vec![PlannedBlock { op: 0, bytes: bytes_of(1), placement: placement.clone() }];
            let residents = vec![(Default::default(), placement)];
            schedule.layout = Some(Arc::new(Layout { blocks, residents, limit_bytes: usize::MAX }));
        }
        let changed = postcard::to_stdvec(&plans).expect("plans are data");
        fs::write(folder.join(name), crate::disk_cache::sealed(&changed)).expect("the folder can be written");
    }
}

/// What becomes of the weights on the host engine, and how many plans of earlier runs were followed.
#[cfg(feature = "host")]
fn train_on_host(index: u16, budget_bytes: usize, plan_cache: PlanCache) -> (Vec<u8>, u64) {
    let device = OvercommitDevice::Host(index);
    let config = Config::new().budget_bytes(budget_bytes).host_limit_bytes(1 << 30);
    crate::configure(&device, config.plan_cache(plan_cache).fusion(false)).unwrap();
    let mut training = Training { device, layers: Layers::new(&device, LAYERS) };
    training.train(2);
    // The plans come meanwhile, if any come.
    std::thread::sleep(Duration::from_millis(500));
    training.train(2);
    let followed = training.stats().counters.kept_plans;
    (training.layers.read(), followed)
}

#[cfg(feature = "host")]
#[test]
fn a_hostile_plan_is_ignored_with_one_warning_and_changes_no_result() {
    const CHILD: &str = "HOSTILE_PLANS_ARE_IN";
    let Some(folder) = std::env::var_os(CHILD) else {
        let folder = tempfile::tempdir().unwrap();
        let device = simulated_host();
        let config = Config::new().budget_bytes(bytes_of(12)).host_limit_bytes(1 << 30).fusion(false);
        crate::configure(&device, config.plan_cache(PlanCache::Folder(folder.path().into()))).unwrap();
        Training { device, layers: Layers::new(&device, LAYERS) }.train(4);
        make_hostile(folder.path());
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let name = "tests::plan_cache::a_hostile_plan_is_ignored_with_one_warning_and_changes_no_result";
        let output = child.args([name, "--exact", "--nocapture"]).env(CHILD, folder.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let warnings = said
            .lines()
            .filter(|line| line.contains("plans of earlier runs are damaged or not for this pool"));
        assert_eq!(warnings.count(), 1, "{said}");
        return;
    };
    let (expected, _) = train_on_host(93, bytes_of(200), PlanCache::Off);
    let (found, followed) = train_on_host(92, bytes_of(12), PlanCache::Folder(folder.into()));
    assert_eq!(followed, 0);
    assert!(found == expected, "the results are those without a plan");
}
