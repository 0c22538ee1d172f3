//! The configuration that a user chooses for a device.

use std::path::PathBuf;
use std::sync::Arc;

use log::LevelFilter;

use super::amount::{Amount, Given, MIN_BUDGET_BYTES};
use super::choices::{Exactness, Placement, PlanCache, Planning};
use super::environment;
use super::fault::PlantedFault;
use super::oracle::Oracle;
use super::policy::Policy;
use super::reads::{Reads, Supply};
use super::settings::{EvictionMethods, Paging, Settings};
use super::tunables::Tunables;
use super::variable::Variable;
#[cfg(feature = "cuda")]
use crate::engine::cuda::CudaOptions;
#[cfg(feature = "host")]
use crate::engine::host::{HostOptions, LaneMode};
use crate::engine::{DiskTier, MIN_PAGES, PeerTier, Props};
use crate::error::Error;
use crate::messages::DEFAULT_LEVEL;
use crate::op::FloatFormat;

/// The budget unless one is set, as a fraction of the free device memory.
pub(crate) const BUDGET_SHARE: f64 = 0.9;

/// The limit of the host tier unless one is set, as a fraction of the free host memory.
const HOST_SHARE: f64 = 0.5;

/// Choices for one device. What is not set comes from the environment, else from the default.
///
/// ```
/// use burn_overcommit::{Config, OvercommitDevice, Policy, configure};
///
/// let device = OvercommitDevice::Host(7);
/// configure(&device, Config::new().budget("64 MiB").policy(Policy::Auto))?;
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Config {
    budget: Option<Given>,
    host_limit: Option<Given>,
    peers: Option<String>,
    disk: Option<String>,
    disk_checksums: Option<bool>,
    policy: Option<Policy>,
    exactness: Option<Exactness>,
    planning: Option<Planning>,
    plan_arrivals: Option<u64>,
    plan_cache: Option<PlanCache>,
    log: Option<LevelFilter>,
    page_mapping: Option<bool>,
    placement: Option<Placement>,
    #[cfg(feature = "host")]
    lanes: LaneMode,
    #[cfg(feature = "host")]
    page_bytes: Option<usize>,
    gist_format: Option<FloatFormat>,
    cuda_libraries: Option<PathBuf>,
    tf32: Option<bool>,
    fusion: Option<bool>,
    reads: Option<Reads>,
    density: Option<f64>,
    sparsity: Vec<f64>,
    packed: Vec<f64>,
    planted_fault: Option<PlantedFault>,
    snapshot_at: Option<u64>,
    record: bool,
    methods: EvictionMethods,
    tunables: Tunables,
    oracle: Option<Arc<Oracle>>,
}

fn tier_error(setting: &'static str, value: &str, expected: String) -> Error {
    Error::Setting { setting, value: value.into(), expected }
}

impl Config {
    /// A configuration that sets nothing.
    pub fn new() -> Self {
        Config::default()
    }

    /// The device memory that may be used: `"8 GiB"`, `"500 MB"`, a number of bytes, or a share of the free memory such as
    /// `"50%"`. The budget is at least 256 bytes and is rounded down to a multiple of 256 bytes, the unit of allocation.
    /// [`configure`](crate::configure) reports a budget that it cannot understand or that is not available.
    pub fn budget(mut self, amount: &str) -> Self {
        self.budget = Some(Given::text("Config::budget", amount));
        self
    }

    /// The device memory that may be used, in bytes.
    pub fn budget_bytes(mut self, bytes: usize) -> Self {
        self.budget = Some(Given::bytes("Config::budget_bytes", bytes));
        self
    }

    /// The host memory that may be used for offloaded bytes, written as for [`budget`](Config::budget). All data that a program
    /// writes to a device or reads from it passes through this memory. With a limit of 0 and no other tier, nothing is offloaded, as
    /// with [`offload(false)`](Config::offload), and what is written and read passes through memory that is not limited. On the host
    /// engine, device memory is a part of host memory. Unless this limit is set, [`Policy::Auto`] saves host memory there: it
    /// recomputes rather than offloads.
    pub fn host_limit(mut self, amount: &str) -> Self {
        self.host_limit = Some(Given::text("Config::host_limit", amount));
        self
    }

    /// The host memory that may be used for offloaded bytes, in bytes.
    pub fn host_limit_bytes(mut self, bytes: usize) -> Self {
        self.host_limit = Some(Given::bytes("Config::host_limit_bytes", bytes));
        self
    }

    /// Memory of other devices of the machine that the program does not use, for offloaded bytes: the index of each, of the same kind
    /// as this one, and the most bytes of it that may be used, as in `"1:40GiB,2:40GiB"`. It is taken before host memory where it is
    /// faster, and when host memory is full where it is not. On simulations its bandwidth is the profile's; elsewhere that of the
    /// link to the host is assumed until it is measured, or what is said after an `@`, as in `"1:40GiB@200GB/s"`.
    /// [`configure`](crate::configure) reports a device that is not there.
    pub fn peers(mut self, indexes_and_amounts: &str) -> Self {
        self.peers = Some(indexes_and_amounts.into());
        self
    }

    /// A disk tier, for offloaded bytes that the host tier has no room for: a folder and the most bytes of it that may be used,
    /// as in `"/fast/spill:200GiB"`. The device's file there has no name, cannot be read by other users, and is gone with the
    /// process. Plans go by the bandwidth that is measured; until then 3 GB/s are assumed, or what is said after an `@`, as in
    /// `"/fast/spill:200GiB@7GB/s"`. A simulation has no use for the folder, which may be left out there. [`configure`](crate::configure) reports a folder that is not there, that cannot be
    /// written or that has less room.
    pub fn disk(mut self, folder_and_amount: &str) -> Self {
        self.disk = Some(folder_and_amount.into());
        self
    }

    /// Whether bytes that are read from the disk tier are compared with a checksum of those that were written. Others are an error. By
    /// default they are compared.
    pub fn disk_checksums(mut self, on: bool) -> Self {
        self.disk_checksums = Some(on);
        self
    }

    /// The memory policy.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Whether the choice of algorithms may change rounding.
    pub fn exactness(mut self, exactness: Exactness) -> Self {
        self.exactness = Some(exactness);
        self
    }

    /// The most detailed messages that reach the logger of the crate [`log`], or standard error where no logger is set.
    pub fn log(mut self, level: LevelFilter) -> Self {
        self.log = Some(level);
        self
    }

    /// Whether device memory is mapped by page. Storages of at least one page (2 MiB) then take whole pages. Any free pages
    /// will do, so that free memory is never fragmented for them. Smaller storages share pages. The budget is rounded down to
    /// whole pages. This has no effect if the engine cannot map pages, or if the budget is less than one.
    pub fn page_mapping(mut self, on: bool) -> Self {
        self.page_mapping = Some(on);
        self
    }

    /// How addresses in device memory are chosen.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// The format to which [`Policy::Gist`] rounds values that wait for the backward pass, with or without a scale for each
    /// block of values.
    pub fn gist_format(mut self, format: FloatFormat) -> Self {
        self.gist_format = Some(format);
        self
    }

    /// Searches plans in the background at once, and has each arrive after as many ops as a seed says, for tests.
    #[doc(hidden)]
    pub fn plan_arrivals(mut self, seed: u64) -> Self {
        self.plan_arrivals = Some(seed);
        self
    }

    /// The size of the host engine's pages, for tests.
    #[doc(hidden)]
    #[cfg(feature = "host")]
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = Some(bytes);
        self
    }

    /// Which threads run the host engine's lanes, and in what order.
    #[cfg(feature = "host")]
    pub fn lanes(mut self, lanes: LaneMode) -> Self {
        self.lanes = lanes;
        self
    }

    /// Folders, separated as in `PATH`, that are searched for NVIDIA's libraries before the folders of the linker and the usual
    /// ones. These libraries are the driver (`libcuda`), the kernel compiler (`libnvrtc`), `libcublasLt` and `libcudnn`.
    pub fn cuda_libraries(mut self, folders: impl Into<PathBuf>) -> Self {
        self.cuda_libraries = Some(folders.into());
        self
    }

    /// Whether products and convolutions of `f32` on a GPU may read their operands with 10 instead of 23 bits of fraction
    /// (TF32), which tensor cores multiply. This is faster and not exact. The default is off.
    pub fn tf32(mut self, on: bool) -> Self {
        self.tf32 = Some(on);
        self
    }

    /// Whether consecutive elementwise ops on floats are launched together, so that the values between them never take memory;
    /// and whether the gradient of a convolution's input is computed after the convolution's other gradients, when the input is
    /// gone. The result has the same bits, except for the signs of NaN on the host. An op that waits may fail in a later call.
    /// The default is on.
    pub fn fusion(mut self, on: bool) -> Self {
        self.fusion = Some(on);
        self
    }

    /// The data that reads give on an engine without data. The default is zeros, and a warning in the log.
    pub fn reads(mut self, reads: Reads) -> Self {
        self.reads = Some(reads);
        self
    }

    /// The fraction, 0 to 1, of a mask that counts as set if the size of an output depends on it, on an engine without data.
    pub fn density(mut self, density: f64) -> Self {
        self.density = Some(density);
        self
    }

    /// The fraction of zeros, 0 to 1, in each output of a rectifier or max-pool, in the order in which an iteration makes them.
    /// The last fraction holds for all others. These fractions replace counting. An engine without data cannot count, so
    /// nothing is sparse there unless this says so.
    pub fn sparsity(mut self, parts: impl Into<Vec<f64>>) -> Self {
        self.sparsity = parts.into();
        self
    }

    /// The fraction, 0 to 1, of its memory that each value needs when every byte of it is packed to the bits that it needs, in
    /// the order in which an iteration makes values of at least 1024 elements. The last fraction holds for all others. If this
    /// or [`sparsity`](Config::sparsity) is set, nothing is counted. An engine without data packs nothing unless this says so.
    pub fn packed(mut self, parts: impl Into<Vec<f64>>) -> Self {
        self.packed = parts.into();
        self
    }

    /// Records all events, for [`recording`](crate::recording). This takes some hundred bytes of memory for every op.
    pub fn record(mut self) -> Self {
        self.record = true;
        self
    }

    /// Whether all events are recorded for the program.
    pub(crate) fn records(&self) -> bool {
        self.record
    }

    /// When iterations are planned, under policies that plan.
    pub fn planning(mut self, planning: Planning) -> Self {
        self.planning = Some(planning);
        self
    }

    /// Where plans are kept for the next run of the same program. Plans are kept where they are made in the background. On a
    /// simulated device they are kept if a folder is named, for the device that is simulated, and not followed: a program that
    /// ran on `sim:rtx4090` finds them on an RTX 4090 with the same budget, and has a plan from its second iteration on.
    pub fn plan_cache(mut self, cache: PlanCache) -> Self {
        self.plan_cache = Some(cache);
        self
    }

    /// Whether evicted bytes may be kept in host memory. If not, only storages that can be recomputed are evicted.
    pub fn offload(mut self, allowed: bool) -> Self {
        self.methods.offload = allowed;
        self
    }

    /// Of the values that the forward pass of a planned iteration makes, only *checkpoints* may be kept in host memory, as in
    /// Wang et al., *SuperNeurons*, PPoPP 2018, section 3.3. Checkpoints are the outputs of convolutions, matrix products,
    /// joins and concatenations, and values that several layers read. The other values stay on the device or are recomputed.
    /// Weights and gradients may be offloaded as before.
    pub fn offload_checkpoints_only(mut self) -> Self {
        self.methods.checkpoints_only = true;
        self
    }

    /// Whether evicted bytes may be dropped, to be recomputed.
    pub fn recompute(mut self, allowed: bool) -> Self {
        self.methods.recompute = allowed;
        self
    }

    #[doc(hidden)]
    pub fn plant_fault(mut self, fault: PlantedFault) -> Self {
        self.planted_fault = Some(fault);
        self
    }

    /// The constants of the planner's search, for benches.
    #[doc(hidden)]
    pub fn tunables(mut self, tunables: Tunables) -> Self {
        self.tunables = tunables;
        self
    }

    /// Plans nothing and reads zeros without a warning, unless the user chose otherwise.
    pub(crate) fn for_dry_run(mut self) -> Self {
        self.planning.get_or_insert(Planning::Off);
        self.reads.get_or_insert_default();
        self
    }

    /// Takes a snapshot of the resident storages after the op with this number, counted from one.
    pub(crate) fn snapshot_at(mut self, op: u64) -> Self {
        self.snapshot_at = Some(op);
        self
    }

    /// Tells the policy the program's future.
    pub(crate) fn oracle(mut self, oracle: Arc<Oracle>) -> Self {
        self.oracle = Some(oracle);
        self
    }

    /// Fills the settings that are not set from the environment and the device.
    pub(crate) fn resolve(self, props: &Props) -> Result<Settings, Error> {
        environment::check_names(environment::names())?;
        self.check_parts()?;
        let budget = self.budget.or_else(|| Given::read(Variable::Budget));
        let budget_bytes = match &budget {
            Some(given) => given.resolve(props.device_bytes, MIN_BUDGET_BYTES)?,
            None => Amount::Share(BUDGET_SHARE).of(props.device_bytes),
        };
        let host_limit = self.host_limit.or_else(|| Given::read(Variable::HostLimit));
        let host_limit_bytes =
            host_limit.as_ref().map(|given| given.resolve(props.host_bytes, 0)).transpose()?;
        let policy = Variable::Policy.or_read(self.policy)?.unwrap_or_default();
        // A user who limits host memory wants it used.
        let saves_host_memory = props.shares_memory && policy == Policy::Auto && host_limit.is_none();
        let page_mapping = Variable::PageMapping.or_read(self.page_mapping)?;
        let paging = props.page_bytes.map(|page_bytes| Paging {
            page_bytes,
            least_bytes: if page_mapping.is_some() { page_bytes } else { MIN_PAGES * page_bytes },
        });
        let peers = match &self.peers {
            Some(text) => Some(text.parse().map_err(|expected| tier_error("Config::peers", text, expected))?),
            None => Variable::Peers.read::<PeerTier>().transpose()?,
        };
        let disk = match &self.disk {
            Some(text) => Some(text.parse().map_err(|expected| tier_error("Config::disk", text, expected))?),
            None => Variable::Disk.read::<DiskTier>().transpose()?,
        };
        // Then it is for what the program writes and reads alone.
        let offloads_nothing = host_limit_bytes == Some(0) && peers.is_none() && disk.is_none();
        let host_limit_bytes = host_limit_bytes.filter(|_| !offloads_nothing);
        let offload = self.methods.offload && !offloads_nothing;
        let has_checksums = Variable::DiskChecksums.or_read(self.disk_checksums)?.unwrap_or(true);
        let settings = Settings {
            budget_bytes,
            paging: paging.filter(|_| page_mapping != Some(false)),
            host_limit_bytes: host_limit_bytes
                .unwrap_or_else(|| Amount::Share(HOST_SHARE).of(props.host_bytes)),
            peers,
            disk: disk.map(|disk| DiskTier { has_checksums, ..disk }),
            policy,
            exactness: Variable::Exactness.or_read(self.exactness)?.unwrap_or_default(),
            plan_arrivals: self.plan_arrivals,
            planning: Variable::Planning.or_read(self.planning)?.unwrap_or_default(),
            plan_cache: Variable::PlanCache.or_read(self.plan_cache)?.unwrap_or_default(),
            fusion: Variable::Fusion.or_read(self.fusion)?.unwrap_or(true),
            log: Variable::Log.or_read(self.log)?.unwrap_or(DEFAULT_LEVEL),
            planted_fault: self.planted_fault,
            snapshot_at: self.snapshot_at,
            record: self.record,
            methods: EvictionMethods { saves_host_memory, offload, ..self.methods },
            placement: Variable::Placement.or_read(self.placement)?.unwrap_or_default(),
            gist_format: Variable::GistFormat.or_read(self.gist_format)?.unwrap_or_default(),
            sparsity: self.sparsity.into(),
            packed: self.packed.into(),
            unbounded_addresses: false,
            tunables: self.tunables,
            oracle: self.oracle,
        };
        if let Some(given) = &budget {
            settings.tell_of_rounding(given);
        }
        Ok(settings)
    }

    /// The error if the disk tier that is set cannot be opened for a reason.
    pub(crate) fn refuse_disk(&self, reason: &str) -> Error {
        let expected = format!("a folder that can be used, and it cannot: {reason}");
        match &self.disk {
            Some(text) => tier_error("Config::disk", text, expected),
            None => Variable::Disk.refuse(Variable::Disk.text().unwrap_or_default(), expected),
        }
    }

    /// The error if memory of other devices that is set cannot be used for a reason.
    pub(crate) fn refuse_peers(&self, reason: &str) -> Error {
        let expected = format!("other devices that can be used, and they cannot: {reason}");
        match &self.peers {
            Some(text) => tier_error("Config::peers", text, expected),
            None => Variable::Peers.refuse(Variable::Peers.text().unwrap_or_default(), expected),
        }
    }

    /// Reports fractions outside 0 to 1.
    fn check_parts(&self) -> Result<(), Error> {
        let named = |setting, part: f64| {
            let error =
                || Error::Setting { setting, value: part.to_string(), expected: "a part, 0 to 1".into() };
            if (0.0..=1.0).contains(&part) { Ok(()) } else { Err(error()) }
        };
        self.density.map_or(Ok(()), |part| named("Config::density", part))?;
        self.sparsity.iter().try_for_each(|&part| named("Config::sparsity", part))?;
        self.packed.iter().try_for_each(|&part| named("Config::packed", part))
    }

    pub(crate) fn supply(&self) -> Supply {
        Supply::new(self.reads.clone(), self.density)
    }

    /// Whether plans are kept in a folder.
    pub(crate) fn keeps_plans(&self) -> bool {
        let cache = Variable::PlanCache.or_read(self.plan_cache.clone()).ok().flatten();
        matches!(cache, Some(PlanCache::Folder(_)))
    }

    /// Gives a simulated device as much memory as is asked for, so that a program can ask for all that it needs.
    pub(crate) fn make_room(&self, props: &mut Props) {
        let host_limit = self.host_limit.clone().or_else(|| Given::read(Variable::HostLimit));
        let asked = [self.budget_bytes_asked_for(), host_limit.and_then(|given| given.as_bytes())];
        for (bytes, asked_bytes) in [&mut props.device_bytes, &mut props.host_bytes].into_iter().zip(asked) {
            *bytes = (*bytes).max(asked_bytes.unwrap_or(0));
        }
    }

    /// The budget, where it is set in bytes.
    pub(crate) fn budget_bytes_asked_for(&self) -> Option<usize> {
        let given = self.budget.clone().or_else(|| Given::read(Variable::Budget))?;
        given.as_bytes()
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn cuda_options(&self, index: u16) -> Result<CudaOptions, Error> {
        let from_environment = || Variable::CudaLibraries.read().and_then(Result::ok);
        Ok(CudaOptions {
            index,
            libraries: self.cuda_libraries.clone().or_else(from_environment),
            tf32: Variable::Tf32.or_read(self.tf32)?.unwrap_or_default(),
            page_bytes: self.budget_bytes_asked_for().map(crate::engine::page_bytes_for),
        })
    }

    #[cfg(feature = "host")]
    pub(crate) fn host_options(&self) -> HostOptions {
        let free = HostOptions::default();
        HostOptions { mode: self.lanes, page_bytes: self.page_bytes.unwrap_or(free.page_bytes), ..free }
    }
}
