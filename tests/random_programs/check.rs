//! What must hold for a program: the same bits under every policy and budget, nothing beyond the budget, nothing left
//! behind, and one clean error where the budget cannot do.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::{AtomicU16, Ordering};

use burn_overcommit::{
    Config, Error, LaneMode, OvercommitDevice, Planning, PlantedFault, Policy, Stats, configure, runtime,
    stats,
};

use crate::generate;
use crate::networks::{Network, forget_abandoned};
use crate::program::{Machine, Program, Slot};

/// More than any program needs.
pub const UNLIMITED: usize = 256 << 20;
/// Of pages that device memory is mapped by: tensors of a program take up to sixteen.
pub const PAGE_BYTES: usize = 4 << 10;
/// Of this many programs one is a network.
const NETWORK_EVERY: u64 = 10;
/// And of this many, one is a network that the default policy plans.
const SEARCHED_EVERY: u64 = 30;

/// A program of either kind.
#[derive(Debug)]
pub enum Case {
    Ops(Program),
    Network(Network),
}

/// How a program is run.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub budget_bytes: usize,
    pub policy: Policy,
    pub lanes: LaneMode,
    /// What the device chooses, if nothing is said.
    pub host_limit_bytes: Option<usize>,
    /// Memory of another device, if some may be used: bytes, and bytes per second.
    pub peer: Option<(usize, u64)>,
    /// Whether there is a disk tier.
    pub has_disk: bool,
    /// The size of pages that device memory is mapped by, if it is.
    pub page_bytes: Option<usize>,
    pub planted_fault: Option<PlantedFault>,
    /// Whether iterations are planned, which takes time.
    pub planning: Planning,
    /// How many zeros what may be sparse is taken to have, whatever it has; otherwise they are counted.
    pub sparsity: Option<f64>,
}

impl Default for Setting {
    fn default() -> Self {
        Setting {
            budget_bytes: UNLIMITED,
            policy: Policy::Auto,
            lanes: LaneMode::Threads,
            host_limit_bytes: Some(UNLIMITED),
            peer: None,
            has_disk: false,
            page_bytes: None,
            planted_fault: None,
            planning: Planning::Off,
            sparsity: None,
        }
    }
}

/// Why a program stopped.
#[derive(Debug)]
pub enum Failure {
    /// An error that was returned.
    Error(Error),
    /// A panic's message: how Burn's ops fail, and bugs.
    Panic(String),
}

/// The one device that the environment names, such as `cuda:0`, if it does.
pub fn named_device() -> Option<OvercommitDevice> {
    let name = std::env::var("OVERCOMMIT_DEVICE").ok().filter(|name| name.starts_with("cuda:"))?;
    Some(name.parse().unwrap_or_else(|error| panic!("OVERCOMMIT_DEVICE: {error}")))
}

/// A device that nobody else uses: of the host engine, or a GPU where the environment says `cuda`; or the one that it names.
pub fn fresh_device() -> OvercommitDevice {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let of_kind = || match std::env::var("OVERCOMMIT_DEVICE") {
        Ok(name) if name == "cuda" => OvercommitDevice::Cuda(next),
        _ => OvercommitDevice::Host(100 + next),
    };
    named_device().unwrap_or_else(of_kind)
}

impl Setting {
    /// The configuration of a device.
    pub fn config(&self, device: &OvercommitDevice) -> Config {
        let config = Config::new()
            .budget_bytes(self.budget_bytes)
            .policy(self.policy)
            .lanes(self.lanes)
            .planning(self.planning)
            .page_mapping(self.page_bytes.is_some())
            .sparsity(self.sparsity.as_slice());
        let config = self.host_limit_bytes.into_iter().fold(config, Config::host_limit_bytes);
        let peer = self.peer.zip(other_device(device));
        let peer = peer.map(|((bytes, rate), index)| format!("{index}:{bytes}@{rate}B/s"));
        let config = peer.iter().fold(config, |config, peer| config.peers(peer));
        let config = if self.has_disk { config.disk(&disk()) } else { config };
        let config = self.page_bytes.into_iter().fold(config, Config::page_bytes);
        self.planted_fault.into_iter().fold(config, Config::plant_fault)
    }

    /// Sets an idle device up.
    pub fn apply(&self, device: &OvercommitDevice) {
        self.apply_with(device, |config| config);
    }

    /// The same, where more is set.
    fn apply_with(&self, device: &OvercommitDevice, more: impl FnOnce(Config) -> Config) {
        configure(device, more(self.config(device))).unwrap_or_else(|error| panic!("{error}"));
    }
}

impl Case {
    /// The program of a seed.
    pub fn new(seed: u64) -> Self {
        match seed.is_multiple_of(NETWORK_EVERY) {
            true => Case::Network(Network::new(seed)),
            false => Case::Ops(generate::program(seed)),
        }
    }

    /// Runs the program on an idle device and drops all it made. The digest is of all it read.
    pub fn run(&self, device: &OvercommitDevice, setting: &Setting) -> Result<u64, Failure> {
        self.run_with(device, setting, |config| config)
    }

    /// The same on a device of which more is set.
    pub fn run_with(
        &self,
        device: &OvercommitDevice,
        setting: &Setting,
        more: impl FnOnce(Config) -> Config,
    ) -> Result<u64, Failure> {
        setting.apply_with(device, more);
        let run = || match self {
            Case::Ops(program) => Machine::new(*device).run(program).map_err(Failure::Error),
            Case::Network(network) => Ok(network.run(device)),
        };
        quietly(run).unwrap_or_else(|message| Err(Failure::Panic(message)))
    }

    /// Lets go of what Burn keeps of it.
    pub fn forget(&self) {
        if let Case::Network(_) = self {
            forget_abandoned();
        }
    }
}

thread_local! {
    /// How many panics around this point are caught.
    static CAUGHT: Cell<u32> = const { Cell::new(0) };
}

/// What `run` returns, or the message of its panic, which is not printed.
pub fn quietly<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if CAUGHT.get() == 0 {
                print(panic);
            }
        }));
    });
    CAUGHT.set(CAUGHT.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(run));
    CAUGHT.set(CAUGHT.get() - 1);
    result.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default()
    })
}

/// What a device may not hold when no tensor is alive.
pub fn assert_empty(stats: &Stats) {
    let left_bytes = [stats.allocated_bytes, stats.host_bytes, stats.peer_bytes, stats.disk_bytes];
    assert_eq!(left_bytes, [0; 4], "left behind: bytes of the device, the host, other devices, the disk");
    assert_eq!([stats.storages, stats.recipes], [0; 2], "left behind: storages, recipes");
}

/// Checks the program of a seed; panics with the setting and what was wrong.
pub fn check(device: &OvercommitDevice, seed: u64) {
    let case = Case::new(seed);
    let free = Setting::default();
    let expected = case.run(device, &free).unwrap_or_else(|failure| panic!("unlimited: {failure:?}"));
    let seen = stats(device).expect("a device that ran");
    assert_empty(&seen);
    let smallest = seen.smallest_budget_bytes;
    let budgets = budgets(&seen);
    for policy in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()) {
        for (index, budget) in budgets.into_iter().enumerate() {
            // Either order at every budget, by turns.
            let deferred = (seed + index as u64 + policy as u64).is_multiple_of(2);
            let lanes = if deferred { LaneMode::Deferred { seed } } else { LaneMode::Threads };
            // One search takes as long as all else that a network is run for.
            let searched = policy != Policy::Auto || seed.is_multiple_of(SEARCHED_EVERY);
            let plans = seed.is_multiple_of(NETWORK_EVERY) && searched && index == 2;
            let planning = if plans { Planning::AtOnce } else { asked_planning() };
            let setting = Setting { budget_bytes: budget, policy, lanes, planning, ..free };
            within(&setting, || check_feasible(device, &case, &setting, expected));
            if policy == Policy::Auto {
                let setting = Setting { host_limit_bytes: None, planning: asked_planning(), ..setting };
                within(&setting, || check_feasible(device, &case, &setting, expected));
            }
        }
        let setting = Setting { budget_bytes: smallest - 256, policy, ..free };
        within(&setting, || check_too_small(device, &case, &setting, smallest));
    }
    for policy in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()) {
        let host_limit_bytes = Some(seen.peak_allocated_bytes / 4);
        let planning = asked_planning();
        let setting = Setting { budget_bytes: smallest, policy, host_limit_bytes, planning, ..free };
        within(&setting, || check_full_host(device, &case, &setting, expected));
    }
}

/// When iterations are planned that need not be: `RANDOM_PLANNING` is `off`, `background` or `at-once`.
fn asked_planning() -> Planning {
    let asked = std::env::var("RANDOM_PLANNING").ok();
    asked.map_or(Planning::Off, |asked| {
        asked.parse().unwrap_or_else(|()| panic!("RANDOM_PLANNING: \"{asked}\" is no planning"))
    })
}

/// What a program is run with: all it wants, parts of that, and the least.
pub fn budgets(unlimited: &Stats) -> [usize; 4] {
    let (peak, smallest) = (unlimited.peak_allocated_bytes, unlimited.smallest_budget_bytes);
    [UNLIMITED, (peak / 2).max(smallest), (peak / 4).max(smallest), smallest]
}

/// As [`check`], with device memory mapped by page.
pub fn check_paged(device: &OvercommitDevice, seed: u64) {
    let case = Case::new(seed);
    let expected =
        case.run(device, &Setting::default()).unwrap_or_else(|failure| panic!("unlimited: {failure:?}"));
    case.forget();
    let free = Setting { page_bytes: Some(PAGE_BYTES), ..Setting::default() };
    within(&free, || check_feasible(device, &case, &free, expected));
    let seen = stats(device).expect("a device that ran");
    // A budget of less than a page is not mapped by page.
    let smallest = seen.smallest_budget_bytes.max(PAGE_BYTES);
    assert!(smallest.is_multiple_of(PAGE_BYTES) && seen.counters.mapped_pages > 0);
    for policy in [Policy::Auto, Policy::EvictAll] {
        for (index, budget_bytes) in budgets(&seen).into_iter().enumerate() {
            // Some budgets are no multiple of the page.
            let budget_bytes = budget_bytes.max(smallest) + seed as usize % PAGE_BYTES;
            let deferred = !(seed + index as u64 + policy as u64).is_multiple_of(3);
            let lanes = if deferred { LaneMode::Deferred { seed } } else { LaneMode::Threads };
            let setting = Setting { budget_bytes, policy, lanes, ..free };
            within(&setting, || check_feasible(device, &case, &setting, expected));
        }
        let setting = Setting { budget_bytes: smallest - 1, policy, ..free };
        if smallest > PAGE_BYTES {
            within(&setting, || check_too_small(device, &case, &setting, smallest));
        }
        let setting = Setting {
            budget_bytes: smallest,
            host_limit_bytes: Some(seen.peak_allocated_bytes / 4),
            ..setting
        };
        within(&setting, || check_full_host(device, &case, &setting, expected));
    }
}

/// The parts of storages that the host tier has no room for pass through blocks of a page of it, and so do counts of values.
pub const MIN_HOST_BYTES: usize = 16 << 10;

/// Whether the host tier was too small for what a program writes or reads.
fn is_of_transfer(failure: &Failure) -> bool {
    match failure {
        Failure::Error(Error::HostTierFull { op, .. }) => ["read", "write"].contains(op),
        Failure::Panic(message) => ["full: read", "full: write"].iter().any(|part| message.contains(part)),
        Failure::Error(_) => false,
    }
}

/// A disk tier that no program fills.
fn disk() -> String {
    format!("{}:{UNLIMITED}", std::env::temp_dir().display())
}

/// A device of the same kind as another, if there is one.
fn other_device(device: &OvercommitDevice) -> Option<u16> {
    match *device {
        OvercommitDevice::Cuda(index) => {
            (OvercommitDevice::count(0) > 1).then_some(if index == 0 { 1 } else { 0 })
        }
        _ => Some(u16::MAX),
    }
}

/// As [`check`], with a host tier of a twentieth of what the program needs, and by turns a disk tier, memory of another device that
/// is slower or faster than the host, and both.
pub fn check_tiers(device: &OvercommitDevice, seed: u64) {
    let case = Case::new(seed);
    let free = Setting::default();
    let expected = case.run(device, &free).unwrap_or_else(|failure| panic!("unlimited: {failure:?}"));
    case.forget();
    let seen = stats(device).expect("a device that ran");
    let (peak, smallest) = (seen.peak_allocated_bytes, seen.smallest_budget_bytes);
    for policy in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()) {
        for (index, budget_bytes) in [smallest, (peak / 4).max(smallest)].into_iter().enumerate() {
            let deferred = (seed + index as u64 + policy as u64).is_multiple_of(2);
            let lanes = if deferred { LaneMode::Deferred { seed } } else { LaneMode::Threads };
            let plans = seed.is_multiple_of(SEARCHED_EVERY) && index == 1;
            let planning = if plans { Planning::AtOnce } else { asked_planning() };
            let host_limit_bytes = Some((peak / 20).max(MIN_HOST_BYTES));
            let turn = (seed + index as u64 + policy as u64) % 4;
            let (some_bytes, [slow, fast]) =
                ((peak / 8).next_multiple_of(256), [100_000_000, 100_000_000_000]);
            let peer = [None, Some((some_bytes, fast)), Some((some_bytes, slow)), Some((UNLIMITED, fast))];
            let (peer, has_disk) = (peer[turn as usize], turn < 3);
            let tiers = Setting { host_limit_bytes, peer, has_disk, ..free };
            let setting = Setting { budget_bytes, policy, lanes, planning, ..tiers };
            // Data that the program writes and reads has to be in host memory as a whole.
            let setting = match case.run(device, &setting) {
                Err(failure) if is_of_transfer(&failure) => {
                    Setting { host_limit_bytes: Some(smallest + MIN_HOST_BYTES), ..setting }
                }
                _ => setting,
            };
            case.forget();
            within(&setting, || check_feasible(device, &case, &setting, expected));
        }
    }
}

/// Names the setting in a panic's message.
fn within(setting: &Setting, run: impl FnOnce()) {
    if let Err(message) = quietly(run) {
        panic!("{setting:?}: {message}");
    }
}

fn check_feasible(device: &OvercommitDevice, case: &Case, setting: &Setting, expected: u64) {
    match case.run(device, setting) {
        Ok(digest) if digest == expected => {}
        Ok(_) => panic!("the results differ{}", explain(device, case, setting)),
        Err(failure) => panic!("{failure:?}"),
    }
    case.forget();
    let seen = stats(device).expect("a device that ran");
    assert!(seen.peak_allocated_bytes <= setting.budget_bytes, "more than the budget was in use");
    assert_empty(&seen);
}

fn check_too_small(device: &OvercommitDevice, case: &Case, setting: &Setting, smallest: usize) {
    match case.run(device, setting) {
        Err(Failure::Error(Error::WorkingSet(error))) => assert_eq!(error.needed_bytes, smallest),
        Err(Failure::Panic(message)) if message.contains("smallest budget") => {
            assert!(message.contains(&format!("{smallest} bytes")), "{message}");
        }
        other => panic!("one error about the working set was expected: {other:?}"),
    }
    case.forget();
    let seen = stats(device).expect("a device that ran");
    assert_eq!(seen.counters.out_of_memory, 1);
    assert_empty(&seen);
    check_right_after_error(device, case, setting);
}

/// A host tier that fills: either it was enough, or there is one clean error.
fn check_full_host(device: &OvercommitDevice, case: &Case, setting: &Setting, expected: u64) {
    match case.run(device, setting) {
        Ok(digest) => assert_eq!(digest, expected, "the results differ"),
        Err(Failure::Error(Error::HostTierFull { .. })) => check_right_after_error(device, case, setting),
        Err(Failure::Panic(message)) if message.contains("the host tier is full") => {}
        other => panic!("a full host tier, or none, was expected: {other:?}"),
    }
    case.forget();
    assert_empty(&stats(device).expect("a device that ran"));
}

/// Runs to the first error: all that is still held must read as it would have without it, and so must the smaller
/// program that ends before the error, run afterwards in the same pool.
fn check_right_after_error(device: &OvercommitDevice, case: &Case, setting: &Setting) {
    let Case::Ops(program) = case else { return };
    setting.apply(device);
    let mut machine = Machine::new(*device);
    machine.run(program).expect_err("the program fails as before");
    let mut read: Vec<_> = machine.contents().into_iter().collect();
    let position = machine.position;
    drop(machine);
    assert_empty(&stats(device).expect("a device that ran"));
    let mut smaller = Machine::new(*device);
    runtime::seed(device, program.seed).expect("a host device");
    program.steps().take(position).for_each(|step| smaller.step(step).expect("it fitted before"));
    read.extend(smaller.contents());
    drop(smaller);
    assert_empty(&stats(device).expect("a device that ran"));
    Setting::default().apply(device);
    let reference = contents_at(device, program, position);
    for (slot, digest) in read {
        match digest {
            Ok(digest) => assert_eq!(digest, reference[&slot], "after the error, slot {slot}"),
            Err(Error::WorkingSet(_) | Error::HostTierFull { .. }) => {}
            Err(error) => panic!("after the error, slot {slot}: {error}"),
        }
    }
}

/// A digest of each tensor before the step at `position`.
pub fn contents_at(device: &OvercommitDevice, program: &Program, position: usize) -> BTreeMap<Slot, u64> {
    let mut machine = Machine::new(*device);
    runtime::seed(device, program.seed).expect("a host device");
    program.steps().take(position).for_each(|step| machine.step(step).expect("enough memory"));
    machine.contents().into_iter().map(|(slot, digest)| (slot, digest.expect("enough memory"))).collect()
}

/// Where the difference begins, if it shows when everything is read after each step.
fn explain(device: &OvercommitDevice, case: &Case, setting: &Setting) -> String {
    let Case::Ops(program) = case else {
        return String::new();
    };
    first_difference(device, program, setting).map_or_else(String::new, |place| format!(", from {place}"))
}

/// Names the first step at which `setting` gives other bits, reading everything after each step.
fn first_difference(device: &OvercommitDevice, program: &Program, setting: &Setting) -> Option<String> {
    let trace = |setting: &Setting| {
        setting.apply(device);
        let mut machine = Machine::new(*device);
        runtime::seed(device, program.seed).expect("a host device");
        let mut contents = Vec::new();
        for step in program.steps() {
            if machine.step(step).is_err() {
                break;
            }
            contents.push(machine.contents());
        }
        contents
    };
    let (expected, found) = (trace(&Setting::default()), trace(setting));
    let steps = program.steps().zip(expected.into_iter().zip(found)).enumerate();
    for (position, (step, (expected, found))) in steps {
        for (slot, digest) in &expected {
            if digest.as_ref().ok() != found[slot].as_ref().ok() {
                return Some(format!("step {position}, slot {slot}: {step:?}"));
            }
        }
    }
    None
}
