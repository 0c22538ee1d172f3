//! One seed decides everything: the programs, the device's settings, and the calls that fail. Programs must read the values of the plain
//! [interpreter](crate::interpreter), or end in one justified error.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use burn_overcommit::engine::Tier;
use burn_overcommit::engine::fault::{Call, DiskFaults, Fault, FaultyDisk};
use burn_overcommit::runtime::{self, configure_with_engine};
use burn_overcommit::{
    Counters, Error, LaneMode, OvercommitDevice, PlanCache, Planning, PlantedFault, Policy, Stats,
    reset_stats, stats,
};

use crate::check::{self, MIN_HOST_BYTES, PAGE_BYTES, Setting, UNLIMITED, assert_empty};
use crate::interpreter::{self, Expected};
use crate::kept::{damage, is_to_be_killed, run_killed};
use crate::ledger::Ledger;
use crate::program::{Machine, Program, Slot, Step};
use crate::sizes::most_alive_bytes;
use crate::totals::{Totals, keep, report};
use crate::turns::interleaved;
use crate::world::{Trouble, World, smaller};
use crate::{generate, setting};

/// An error's advice is followed so many times at the most: each may be of an op further on.
const MOST_ADVICE: usize = 100;

/// Threads that share the seeds, where each has devices of its own.
const THREADS: usize = 2;

/// A planted fault must be found within this many worlds.
const MOST_WORLDS: u64 = 3000;

/// The reads of a program: slots and bytes.
type Reads = Vec<(Slot, Vec<u8>)>;

/// A program's reads and needs with unlimited memory.
#[derive(Debug)]
struct Base {
    reads: Reads,
    stats: Stats,
}

/// The setting of a world, for what its programs take.
fn sized(world: &World, bases: &[Base]) -> Setting {
    let most = |figure: fn(&Stats) -> usize| bases.iter().map(|base| figure(&base.stats)).max().unwrap_or(0);
    let (peak, least) =
        (most(|stats| stats.peak_allocated_bytes), most(|stats| stats.smallest_budget_bytes).max(512));
    let least = world.setting.page_bytes.map_or(least, |page_bytes| least.next_multiple_of(page_bytes));
    let between = (world.budget.max(0.0) * peak.saturating_sub(least) as f64) as usize / 256 * 256;
    let budget_bytes = if world.budget < 0.0 { least - 256 } else { least + between };
    // Bytes pass through host memory on their way to a disk.
    let least_limit_bytes = if world.setting.has_disk { MIN_HOST_BYTES } else { 512 };
    let limit_bytes = |part: f64| ((part * peak as f64) as usize).max(least_limit_bytes);
    Setting {
        budget_bytes,
        // A budget of less than a page is not mapped by page.
        page_bytes: world.setting.page_bytes.filter(|&bytes| budget_bytes >= bytes),
        host_limit_bytes: Some(world.host.map_or(UNLIMITED, limit_bytes)),
        ..world.setting
    }
}

/// Runs a program with all memory, and holds what it reads against the interpreter.
fn base(devices: [OvercommitDevice; 2], world: &World, program: &Program, totals: &mut Totals) -> Base {
    let [device, scratch] = devices;
    let Setting { fusion, page_bytes, .. } = world.setting;
    let lanes = LaneMode::Deferred { seed: 0 };
    Setting { fusion, page_bytes, lanes, ..Setting::default() }.apply(&device);
    let mut machine = Machine::new(device);
    machine.run(program).unwrap_or_else(|error| panic!("unlimited: {error}"));
    let reads = std::mem::take(&mut machine.reads);
    drop(machine);
    let seen = stats(&device).expect("a device that ran");
    assert_empty(&seen);
    let expected = interpreter::reads(program, usize::MAX, scratch);
    assert_eq!(reads.len(), expected.len(), "as many reads");
    for (expected, (slot, bytes)) in expected.iter().zip(&reads) {
        expected.check(*slot, bytes);
        totals.add(certainty(expected), bytes.len() as u64);
    }
    totals.add("program runs", 1);
    let most_bytes = most_alive_bytes(program) + seen.smallest_budget_bytes;
    let peak_bytes = seen.peak_allocated_bytes;
    assert!(peak_bytes <= most_bytes, "{peak_bytes} bytes in use, by shapes at most {most_bytes}");
    totals.add("ops", seen.counters.ops);
    Base { reads, stats: seen }
}

/// How much is known of a read.
fn certainty(expected: &Expected) -> &'static str {
    match expected.slack {
        0.0 => "bytes known to the bit",
        slack if slack.is_finite() => "bytes known about",
        _ => "bytes not known",
    }
}

/// Runs the world; panics if a program or the device does wrong.
pub fn run(devices: [OvercommitDevice; 2], world: &World, totals: &mut Totals) {
    let bases: Vec<Base> =
        world.programs.iter().map(|program| base(devices, world, program, totals)).collect();
    let place = Place { world, bases: &bases, setting: sized(world, &bases), devices };
    if let Some(Trouble::Panics(kind, at)) = world.trouble {
        place.run_to_panic(kind, at);
    }
    let folder = world.keeps_plans.then(|| tempfile::tempdir().expect("a temporary folder"));
    let folder = folder.as_ref().map(tempfile::TempDir::path);
    if let (Some(Trouble::Kills(..)), Some(folder)) = (world.trouble, folder) {
        totals.add("that are killed", u64::from(run_killed(world, folder)));
    }
    let outcomes = place.run_twice(&place.setting, folder, totals);
    if let Some(folder) = folder {
        world.damage.into_iter().for_each(|seed| damage(folder, seed));
        let again = place.run_twice(&place.setting, Some(folder), totals);
        let kept: u64 = again.iter().map(|outcome| outcome.stats.counters.kept_plans).sum();
        totals.add("with plans of an earlier run", u64::from(kept > 0));
    }
    let refusal = outcomes.iter().find_map(|outcome| outcome.result.as_ref().err());
    let plans = world.setting.planning != Planning::Off;
    if let Some(refusal) = refusal.filter(|_| plans && place.is_calm()) {
        let without = Setting { planning: Planning::Off, ..place.setting };
        let without = place.run_twice(&without, None, totals);
        let fits = without.iter().all(|outcome| outcome.result.is_ok());
        assert!(!fits || place.plans_may_decide(), "it fits without plans, but not with them: {refusal}");
        totals.add("that fit without plans alone", u64::from(fits));
    }
    if place.is_calm() {
        outcomes.iter().enumerate().for_each(|(index, outcome)| place.follow_advice(index, outcome));
    }
    count_settings(&place, &outcomes, totals);
}

/// Runs the world until it is killed.
fn run_to_death(world: &World, folder: &Path) {
    let Some(Trouble::Kills(kind, at)) = world.trouble else { panic!("nothing kills this world") };
    let devices = fresh_devices();
    let mut totals = Totals::default();
    let bases: Vec<Base> =
        world.programs.iter().map(|program| base(devices, world, program, &mut totals)).collect();
    let config = sized(world, &bases).config(&devices[0]).plan_cache(PlanCache::Folder(folder.into()));
    let wrap = |engine| Arc::new(Fault::of(engine, kind, at).aborting()) as _;
    configure_with_engine(&devices[0], config, wrap).unwrap_or_else(|error| panic!("{error}"));
    for program in &world.programs {
        outcome(devices[0], program);
    }
}

/// Where the programs of a world run.
struct Place<'a> {
    world: &'a World,
    bases: &'a [Base],
    setting: Setting,
    /// For the programs, and for random numbers.
    devices: [OvercommitDevice; 2],
}

/// The planted failure, as the engine has it.
enum Failing {
    Nothing,
    Call(Arc<Fault>),
    Disk(Arc<DiskFaults>),
}

impl Place<'_> {
    /// Whether nothing goes wrong but for want of memory.
    fn is_calm(&self) -> bool {
        matches!(self.world.trouble, None | Some(Trouble::Panics(..) | Trouble::Kills(..)))
    }

    /// Whether a program may fit without a plan and not with one: only where host memory cannot hold all that is alive.
    fn plans_may_decide(&self) -> bool {
        self.setting.planning != Planning::Off && self.world.host.is_some_and(|part| part < 1.0)
    }

    /// Runs the programs until a call of the engine panics: then the device says so, until it is configured.
    fn run_to_panic(&self, kind: Call, at: u64) {
        let mut failing = None;
        let wrap = |engine| {
            let fault = Arc::new(Fault::of(engine, kind, at).panicking());
            failing.insert(fault).clone() as _
        };
        let config = self.setting.config(&self.devices[0]);
        configure_with_engine(&self.devices[0], config, wrap).unwrap_or_else(|error| panic!("{error}"));
        for (program, base) in self.world.programs.iter().zip(self.bases) {
            let mut machine = Machine::new(self.devices[0]);
            match check::quietly(|| machine.run(program)) {
                Ok(Ok(_)) => assert!(machine.reads == base.reads, "other bits are read before a panic"),
                Ok(Err(error)) => assert!(
                    error.is_out_of_memory() || matches!(error, Error::Panicked { .. }),
                    "neither refused nor panicked: {error}"
                ),
                Err(message) => assert!(message.contains("injected panic"), "{message}"),
            }
            drop(check::quietly(|| drop(machine)));
        }
        let has_panicked = matches!(stats(&self.devices[0]), Err(Error::Panicked { .. }));
        let fault = failing.expect("the runtime was made");
        let reached = fault.has_failed();
        fault.stop();
        assert!(has_panicked || !reached || kind == Call::Wait, "a panic is forgotten");
    }

    /// Runs all programs twice in a new pool; what came of them the first time.
    fn run_twice(&self, setting: &Setting, plans: Option<&Path>, totals: &mut Totals) -> Vec<Outcome> {
        let (failing, ledger) = self.configured(setting, plans);
        let first = self.run_all(setting, &failing);
        let again = self.run_all(setting, &failing);
        let limit_bytes = setting.host_limit_bytes.unwrap_or(usize::MAX);
        for (tier, limit_bytes) in [(Tier::Device, setting.budget_bytes), (Tier::Host, limit_bytes)] {
            let most_bytes = ledger.most_bytes(tier);
            assert!(
                most_bytes <= limit_bytes,
                "{most_bytes} bytes of {tier:?} were mapped, not {limit_bytes}"
            );
        }
        // Where the host tier fills, a pool forgets what it learned once it is empty.
        let limit_bytes = setting.host_limit_bytes.unwrap_or(usize::MAX);
        let budget_bytes =
            setting.page_bytes.map_or(setting.budget_bytes, |bytes| setting.budget_bytes / bytes * bytes);
        let fills = |outcome: &Outcome| outcome.stats.peak_host_bytes + budget_bytes > limit_bytes;
        let may_differ = setting.peer.is_some() || setting.has_disk;
        let forgets = setting.planning == Planning::Off && !may_differ && first.iter().all(fills);
        for (index, outcomes) in first.iter().zip(&again).enumerate() {
            if forgets && self.is_calm() && !self.world.interleaved {
                let [first, again] = <[&Outcome; 2]>::from(outcomes).map(Outcome::course);
                assert_eq!(first, again, "program {index} runs otherwise in a pool that others were in");
            }
            let [first, again] = <[&Outcome; 2]>::from(outcomes).map(Outcome::refusal);
            let is_same = first.is_some() == again.is_some();
            let is_same = is_same || self.plans_may_decide() || !self.is_calm() || self.world.interleaved;
            assert!(is_same, "program {index} fits once, but not always: {first:?}, {again:?}");
        }
        for outcome in first.iter().chain(&again) {
            totals.add("program runs", 1);
            totals.add("refusals", u64::from(outcome.result.is_err()));
        }
        first
    }

    /// Sets the device up, and has something fail. The ledger counts its memory.
    fn configured(&self, setting: &Setting, plans: Option<&Path>) -> (Failing, Arc<Ledger>) {
        let cache = plans.map_or(PlanCache::Off, |folder| PlanCache::Folder(folder.into()));
        let config = setting.config(&self.devices[0]).plan_cache(cache);
        let (mut failing, mut counts) = (Failing::Nothing, None);
        let mut wrap_failing = |engine| match self.world.trouble {
            Some(Trouble::Fails(kind, at)) => {
                let fault = Arc::new(Fault::of(engine, kind, at));
                failing = Failing::Call(fault.clone());
                fault as _
            }
            Some(Trouble::Disk(fault)) => {
                let faults = Arc::new(DiskFaults::new(fault));
                failing = Failing::Disk(faults.clone());
                Arc::new(FaultyDisk::new(engine, faults)) as _
            }
            Some(Trouble::Panics(..) | Trouble::Kills(..)) | None => engine,
        };
        let wrap = |engine| {
            let ledger = Arc::new(Ledger::new(engine));
            counts = Some(ledger.clone());
            wrap_failing(ledger)
        };
        configure_with_engine(&self.devices[0], config, wrap).unwrap_or_else(|error| panic!("{error}"));
        (failing, counts.expect("the runtime was made"))
    }

    /// Runs all programs, and checks what comes of each.
    fn run_all(&self, setting: &Setting, failing: &Failing) -> Vec<Outcome> {
        let programs = &self.world.programs;
        let outcomes: Vec<Outcome> = match self.world.interleaved {
            true => interleaved(self.devices[0], programs, self.world.seed),
            false => programs.iter().map(|program| outcome(self.devices[0], program)).collect(),
        };
        for (outcome, base) in outcomes.iter().zip(self.bases) {
            let seen = &outcome.stats;
            assert!(seen.peak_allocated_bytes <= setting.budget_bytes, "more than the budget was in use");
            let limit = setting.host_limit_bytes.unwrap_or(usize::MAX);
            assert!(seen.peak_host_bytes <= limit, "more than the host limit was in use");
            self.check(outcome, base, setting, failing);
        }
        for (outcome, program) in outcomes.iter().zip(programs).filter(|(outcome, _)| outcome.result.is_err())
        {
            self.check_left(outcome, program);
        }
        let seen = stats(&self.devices[0]).expect("a device that ran");
        assert_empty(&seen);
        runtime::assert_invariants(&self.devices[0]).expect("a device that ran");
        outcomes
    }

    /// Panics unless the reads are right, or the error is.
    fn check(&self, outcome: &Outcome, base: &Base, setting: &Setting, failing: &Failing) {
        let error = match &outcome.result {
            Ok(reads) => return assert!(*reads == base.reads, "other bits are read"),
            Err(error) => error,
        };
        let has_failed = match failing {
            Failing::Nothing => false,
            Failing::Call(fault) => fault.has_failed(),
            Failing::Disk(faults) => faults.has_happened(),
        };
        match error {
            Error::WorkingSet(need) => {
                let is_small = self.world.budget < 0.0 && setting.budget_bytes < need.needed_bytes;
                assert!(is_small, "refused in enough: {error}");
            }
            Error::HostTierFull { .. } => {
                assert!(self.world.host.is_some(), "refused without a limit: {error}")
            }
            // A policy that offloads nothing has nowhere to go.
            Error::NothingToEvict { .. } => {}
            Error::Engine { .. } => assert!(has_failed, "nothing failed: {error}"),
            _ => panic!("an error of another kind: {error}"),
        }
    }

    /// Panics unless all that was held at an error is as it was before the step that failed.
    fn check_left(&self, outcome: &Outcome, program: &Program) {
        let expected = interpreter::reads(program, outcome.position, self.devices[1]);
        let held: BTreeMap<Slot, &Expected> = expected.iter().map(|held| (held.slot, held)).collect();
        let fails_later = match self.world.trouble {
            Some(Trouble::Disk(_)) => true,
            Some(Trouble::Fails(..)) => !matches!(outcome.result, Err(Error::Engine { .. })),
            _ => false,
        };
        for (slot, bytes) in &outcome.left {
            match bytes {
                Ok(bytes) => held[slot].check(*slot, bytes),
                // A view that is read through a copy, which may be too large.
                Err(error) if error.is_out_of_memory() => {}
                // The planted failure may come only now.
                Err(error) => assert!(
                    fails_later && matches!(error, Error::Engine { .. }),
                    "slot {slot} is lost: {error}"
                ),
            }
        }
    }

    /// An error names a remedy, and with it the op runs: then another op is refused, or none.
    fn follow_advice(&self, index: usize, outcome: &Outcome) {
        let Err(mut error) = outcome.result.as_ref().map_err(Clone::clone) else { return };
        let mut setting = self.setting;
        for _ in 0..MOST_ADVICE {
            match &error {
                Error::WorkingSet(need) => {
                    assert!(need.needed_bytes > setting.budget_bytes, "no advice: {error}");
                    setting.budget_bytes = need.needed_bytes;
                }
                Error::HostTierFull { least_limit_bytes, .. } => {
                    assert!(Some(*least_limit_bytes) > setting.host_limit_bytes, "no advice: {error}");
                    setting.host_limit_bytes = Some(*least_limit_bytes);
                }
                _ => return,
            }
            setting.apply(&self.devices[0]);
            match self::outcome(self.devices[0], &self.world.programs[index]).result {
                Ok(reads) => return assert!(reads == self.bases[index].reads, "other bits are read"),
                Err(next) => error = next,
            }
        }
        panic!("advice that does not end: {error}");
    }
}

/// How a program ended in a pool.
#[derive(Debug)]
pub struct Outcome {
    result: Result<Reads, Error>,
    /// After an error, the bytes of all that was held, and how many steps were done.
    left: BTreeMap<Slot, Result<Vec<u8>, Error>>,
    position: usize,
    stats: Stats,
}

impl Outcome {
    /// A program's end, or its error, and then all that it still holds.
    pub fn new(device: OvercommitDevice, mut machine: Machine, result: Result<(), Error>) -> Self {
        let left = if result.is_err() { machine.contents() } else { BTreeMap::new() };
        let result = result.map(|()| std::mem::take(&mut machine.reads));
        let position = machine.position;
        drop(machine);
        Outcome { result, left, position, stats: stats(&device).expect("a device that ran") }
    }

    /// All that was done, but for pages, which stay mapped from one program to the next.
    fn course(&self) -> (Counters, [usize; 3]) {
        let Stats { peak_allocated_bytes, peak_host_bytes, smallest_budget_bytes, .. } = self.stats;
        let counters = Counters { mapped_pages: 0, ..self.stats.counters };
        (counters, [peak_allocated_bytes, peak_host_bytes, smallest_budget_bytes])
    }

    /// The first line of the error: the rest lists residents, which may differ.
    fn refusal(&self) -> Option<String> {
        self.result.as_ref().err().and_then(|error| error.to_string().lines().next().map(String::from))
    }
}

/// Runs a program alone.
fn outcome(device: OvercommitDevice, program: &Program) -> Outcome {
    reset_stats(&device).expect("a host device");
    let mut machine = Machine::new(device);
    let result = machine.run(program).map(drop);
    Outcome::new(device, machine, result)
}

fn count_settings(place: &Place<'_>, outcomes: &[Outcome], totals: &mut Totals) {
    let (world, setting) = (place.world, &place.setting);
    let mut with = |name: String, holds: bool| totals.add(name, u64::from(holds));
    let counted = |figure: fn(&Stats) -> u64| outcomes.iter().any(|outcome| figure(&outcome.stats) > 0);
    with("worlds".into(), true);
    with(format!("policy {}", setting.policy), true);
    for program in &world.programs {
        let palette = generate::small_palette(program.seed);
        with(format!("programs of {}", palette.float), true);
        palette.integers.iter().for_each(|integer| with(format!("programs of {integer}"), true));
        with("programs of whole numbers".into(), palette.is_whole);
    }
    with("that train".into(), world.form.trains);
    with("with pages".into(), setting.page_bytes.is_some());
    with("with a host limit".into(), world.host.is_some());
    with("with a peer".into(), setting.peer.is_some());
    with("with a disk".into(), setting.has_disk);
    with("without fusion".into(), !setting.fusion);
    with("with lanes of threads".into(), setting.lanes == LaneMode::Threads);
    let too_large = |program: &Program| program.steps().any(|step| matches!(step, Step::TooLarge(_)));
    with("with tensors beyond all memory".into(), world.programs.iter().any(too_large));
    with("with several programs".into(), world.programs.len() > 1);
    with("with several threads".into(), world.interleaved);
    with("with a failing call".into(), matches!(world.trouble, Some(Trouble::Fails(..))));
    with("with a panic".into(), matches!(world.trouble, Some(Trouble::Panics(..))));
    with("with a failing disk".into(), matches!(world.trouble, Some(Trouble::Disk(_))));
    with("with too small a budget".into(), world.budget < 0.0);
    with("with planning".into(), setting.planning != Planning::Off);
    with("with kept plans".into(), world.keeps_plans);
    with("with damaged plans".into(), world.damage.is_some());
    with("that follow a plan".into(), counted(|stats| stats.counters.plans));
    with("that evict".into(), counted(|stats| stats.counters.evictions));
    with("that recompute".into(), counted(|stats| stats.counters.recomputed_ops));
    with("that encode".into(), counted(|stats| stats.counters.encodings));
    with("that spill to disk".into(), counted(|stats| stats.counters.spilled_bytes));
    with("that use a peer".into(), counted(|stats| stats.counters.to_peers_bytes));
    with("that move storages".into(), counted(|stats| stats.counters.relocated_bytes));
}

/// Devices that nobody else uses: for the programs, and for random numbers.
fn fresh_devices() -> [OvercommitDevice; 2] {
    let other =
        if check::named_device().is_some() { OvercommitDevice::Host(99) } else { check::fresh_device() };
    let devices = [check::fresh_device(), other];
    Setting::default().apply(&devices[1]);
    devices
}

/// Runs a world on new devices; the message of its failure, if it fails.
fn wrong(world: &World, totals: &mut Totals) -> Option<String> {
    check::quietly(|| run(fresh_devices(), world, totals)).err()
}

/// A world that is wrong in the same way, as small as it is found.
fn shrunk(world: World, message: &str) -> (World, String) {
    // Numbers may differ.
    let kind =
        |message: &str| message.chars().filter(|letter| letter.is_alphabetic()).take(24).collect::<String>();
    let (mut world, mut message) = (world, message.to_string());
    let begin = Instant::now();
    'smaller: while begin.elapsed() < Duration::from_secs(60) {
        for candidate in smaller(&world) {
            let found = wrong(&candidate, &mut Totals::default());
            if let Some(found) = found.filter(|found| kind(found) == kind(&message)) {
                (world, message) = (candidate, found);
                continue 'smaller;
            }
        }
        break;
    }
    (world, message)
}

/// Runs the worlds of seeds on some threads, for a time or up to a number.
fn run_many(first: u64, count: u64, limit: Duration) -> Totals {
    let begin = Instant::now();
    let state = Mutex::new((first, Totals::default(), Vec::new()));
    let work = || {
        let mut devices = fresh_devices();
        let mut own = Totals::default();
        loop {
            let seed = {
                let mut state = state.lock().expect("no thread panics with it");
                if state.0 >= first.saturating_add(count) || begin.elapsed() > limit || state.2.len() >= 5 {
                    return state.1.merge(own);
                }
                state.0 += 1;
                state.0 - 1
            };
            let world = World::new(seed);
            if std::env::var_os("RANDOM_SHOW").is_some() {
                println!("{world:?}");
            }
            if let Err(message) = check::quietly(|| run(devices, &world, &mut own)) {
                eprintln!("world {seed}: {message}");
                eprintln!(
                    "replay: RANDOM_PROGRAMS=1 RANDOM_SEED={seed} cargo test --release --all-features --test random_programs worlds"
                );
                state.lock().expect("no thread panics with it").2.push((seed, message));
                devices = fresh_devices();
            }
        }
    };
    let threads = if check::named_device().is_some() { 1 } else { THREADS };
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let (_, totals, failed) = state.into_inner().expect("no thread panics with it");
    report(&totals, first, begin.elapsed());
    if let Ok(path) = std::env::var("RANDOM_JSON") {
        keep(&path, totals.clone(), first);
    }
    if let Some((seed, message)) = failed.first() {
        let (world, message) = shrunk(World::new(*seed), message);
        let seeds: Vec<u64> = failed.iter().map(|(seed, _)| *seed).collect();
        let test = format!(
            "#[test]\nfn world_{seed}() {{\n    let world = World::reduced({seed}, &{:?});\n    \
             assert_eq!(wrong(&world, &mut Totals::default()), None);\n}}",
            world.path
        );
        panic!(
            "worlds with these seeds fail: {seeds:?}. The first, made smaller: {message}\n{world:?}\n{test}"
        );
    }
    totals
}

#[test]
fn worlds_of_every_setting_are_right() {
    if let Some((world, folder)) = is_to_be_killed() {
        return run_to_death(&world, &folder);
    }
    let (first, count) = (setting("RANDOM_SEED", 1), setting("RANDOM_PROGRAMS", u64::MAX));
    let seconds = setting("RANDOM_SECONDS", if count == u64::MAX { 20 } else { 24 * 3600 });
    run_many(first, count, Duration::from_secs(seconds));
}

/// How many worlds it takes to notice a planted fault, and by what.
fn worlds_to_find(fault: PlantedFault) -> Option<(u64, String)> {
    (1..=MOST_WORLDS).find_map(|seed| {
        let mut world = World { trouble: None, ..World::new(seed) };
        world.setting.planted_fault = Some(fault);
        // Few settings show some of them, which would take minutes.
        match fault {
            PlantedFault::ChangedAlgorithm => world.setting.policy = Policy::Recompute,
            PlantedFault::EarlyMapping => {
                world.setting.page_bytes = Some(PAGE_BYTES);
                world.setting.lanes = LaneMode::Deferred { seed };
            }
            _ => {}
        }
        // The fault may change what an op needs; that alone would prove nothing.
        let found = wrong(&world, &mut Totals::default());
        found.filter(|found| !found.contains("refused")).map(|found| (seed, found))
    })
}

#[test]
fn planted_faults_are_found() {
    // The last two change no values, and are found by counting.
    for fault in &PlantedFault::ALL[..7] {
        let found = worlds_to_find(*fault);
        println!("{fault:?}: {found:?}");
        assert!(found.is_some(), "{fault:?} is not found by {MOST_WORLDS} worlds");
    }
}

/// Worlds that once found something that is mended: seeds, and how they are made smaller.
const MENDED: [(u64, &[usize]); 3] = [(2952, &[]), (5922, &[]), (10039, &[])];

#[test]
fn worlds_that_once_failed_do_not() {
    for (seed, path) in MENDED {
        let found = wrong(&World::reduced(seed, path), &mut Totals::default());
        assert_eq!(found, None, "world {seed}, {path:?}");
    }
}
