//! Programs on devices: how one is set up, runs, and is left.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::{AtomicU16, Ordering};

use burn_overcommit::{
    Config, LaneMode, OvercommitDevice, Planning, PlantedFault, Policy, Stats, configure, stats,
};

use crate::generate;
use crate::networks::{Network, forget_abandoned};
use crate::program::{Machine, Program};

/// More than any program needs.
pub const UNLIMITED: usize = 256 << 20;
/// Of pages that device memory is mapped by: tensors of a program take up to sixteen.
pub const PAGE_BYTES: usize = 4 << 10;
/// Of this many programs one is a network.
const NETWORK_EVERY: u64 = 10;

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
    /// Whether elementwise ops become one.
    pub fusion: bool,
    /// The seed of when plans arrive, if it decides.
    pub plan_arrivals: Option<u64>,
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
            fusion: true,
            plan_arrivals: None,
        }
    }
}

/// The one device that the environment names, such as `cuda:0`, if it does.
pub fn named_device() -> Option<OvercommitDevice> {
    let name = std::env::var("OVERCOMMIT_DEVICE").ok().filter(|name| name.starts_with("cuda:"))?;
    Some(name.parse().unwrap_or_else(|error| panic!("OVERCOMMIT_DEVICE: {error}")))
}

/// Whether programs run on a GPU, or on the stand-in of one.
pub fn is_on_gpu() -> bool {
    std::env::var("OVERCOMMIT_DEVICE").is_ok_and(|name| name.starts_with("cuda"))
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
            .sparsity(self.sparsity.as_slice())
            .fusion(self.fusion);
        let config = self.plan_arrivals.into_iter().fold(config, Config::plan_arrivals);
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
    pub fn run(&self, device: &OvercommitDevice, setting: &Setting) -> Result<u64, String> {
        self.run_with(device, setting, |config| config)
    }

    /// The same on a device of which more is set.
    pub fn run_with(
        &self,
        device: &OvercommitDevice,
        setting: &Setting,
        more: impl FnOnce(Config) -> Config,
    ) -> Result<u64, String> {
        setting.apply_with(device, more);
        let run = || match self {
            Case::Ops(program) => Machine::new(*device).run(program).map_err(|error| error.to_string()),
            Case::Network(network) => Ok(network.run(device)),
        };
        quietly(run).flatten()
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
            if CAUGHT.get() == 0 || std::env::var_os("RANDOM_PANICS").is_some() {
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

/// What a program is run with: all it wants, parts of that, and the least.
pub fn budgets(unlimited: &Stats) -> [usize; 4] {
    let (peak, smallest) = (unlimited.peak_allocated_bytes, unlimited.smallest_budget_bytes);
    [UNLIMITED, (peak / 2).max(smallest), (peak / 4).max(smallest), smallest]
}

/// The parts of storages that the host tier has no room for pass through blocks of a page of it, and so do counts of values.
pub const MIN_HOST_BYTES: usize = 16 << 10;

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

/// A network under every policy, with all memory, parts of it and the least, planned where it has a part.
#[test]
fn networks_train_to_the_same_weights_under_every_policy() {
    let device = fresh_device();
    for seed in 1..=crate::setting("RANDOM_NETWORKS", 3) {
        let network = Case::Network(Network::new(seed));
        let run = |setting: &Setting| {
            let digest = network.run(&device, setting);
            network.forget();
            let seen = stats(&device).expect("a device that ran");
            assert_empty(&seen);
            (digest.unwrap_or_else(|failure| panic!("network {seed}, {setting:?}: {failure}")), seen)
        };
        let (expected, seen) = run(&Setting::default());
        for policy in Policy::ALL.into_iter().filter(|policy| policy.is_lossless()) {
            for (index, budget_bytes) in budgets(&seen).into_iter().enumerate() {
                let planned = index == 2 && (policy != Policy::Auto || seed == 1);
                let planning = if planned { Planning::AtOnce } else { Planning::Off };
                let setting = Setting { budget_bytes, policy, planning, ..Setting::default() };
                let (found, seen) = run(&setting);
                assert_eq!(found, expected, "network {seed}, {setting:?}");
                assert!(
                    seen.peak_allocated_bytes <= budget_bytes,
                    "network {seed}: more than the budget was in use"
                );
            }
        }
    }
}
