//! What a user can choose for a device.

use std::path::PathBuf;
use std::sync::Arc;

use log::LevelFilter;

use super::amount::{Amount, Given, LEAST_BUDGET_BYTES};
use super::choices::{Exactness, Placement, Planning};
use super::environment::DEFAULT_LOG;
use super::fault::Sabotage;
use super::oracle::Foresight;
use super::policy::Policy;
use super::reads::{Reads, Supply};
use super::settings::{AllowedWays, Fusion, Paging, Settings};
use super::variable::Variable;
use crate::engine::Props;
#[cfg(feature = "cuda")]
use crate::engine::cuda::CudaOptions;
#[cfg(feature = "host")]
use crate::engine::host::{HostOptions, LaneMode};
use crate::error::Error;
use crate::op::FloatFormat;

/// The part of the free memory that is the budget unless one is set.
pub(crate) const BUDGET_SHARE: f64 = 0.9;

/// The part of the free host memory that is the host tier's limit unless one is set.
const HOST_SHARE: f64 = 0.5;

/// Budgets of fewer pages are not mapped by page unless it is asked for: what rounding takes would be a large part of them.
pub(crate) const LEAST_PAGES: usize = 64;

/// Choices for one device. What is not set comes from the environment, else from the default.
///
/// ```
/// use burn_overcommit::{Config, OvercommitDevice, Policy, configure};
///
/// let device = OvercommitDevice::Host(7);
/// configure(&device, Config::new().budget("64 MiB").policy(Policy::Auto))?;
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Config {
    budget: Option<Given>,
    host_limit: Option<Given>,
    policy: Option<Policy>,
    exactness: Option<Exactness>,
    planning: Option<Planning>,
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
    sabotage: Option<Sabotage>,
    portrait_at: Option<u64>,
    record: bool,
    ways: AllowedWays,
    foresight: Option<Arc<Foresight>>,
}

impl Config {
    /// Nothing set.
    pub fn new() -> Self {
        Config::default()
    }

    /// Device memory that may be used: `"8 GiB"`, `"500 MB"`, a number of bytes, or a share of what is free, `"50%"`; at least 256
    /// bytes, and rounded down to a multiple of that, in which memory is given out. [`configure`](crate::configure) reports one
    /// that cannot be understood or had.
    pub fn budget(mut self, amount: &str) -> Self {
        self.budget = Some(Given::text("Config::budget", amount));
        self
    }

    /// Device memory that may be used, in bytes.
    pub fn budget_bytes(mut self, bytes: usize) -> Self {
        self.budget = Some(Given::bytes("Config::budget_bytes", bytes));
        self
    }

    /// Host memory that may be used for offloaded bytes, written as for [`budget`](Config::budget). What a program writes to a
    /// device and reads from it passes through it, so that with none there can be neither. Unless it is set, [`Policy::Auto`] spares
    /// it on the host engine, where it is the memory that device memory is a part of: what can be recomputed is.
    pub fn host_limit(mut self, amount: &str) -> Self {
        self.host_limit = Some(Given::text("Config::host_limit", amount));
        self
    }

    /// Host memory that may be used for offloaded bytes.
    pub fn host_limit_bytes(mut self, bytes: usize) -> Self {
        self.host_limit = Some(Given::bytes("Config::host_limit_bytes", bytes));
        self
    }

    /// The memory policy.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Whether choices may change rounding.
    pub fn exactness(mut self, exactness: Exactness) -> Self {
        self.exactness = Some(exactness);
        self
    }

    /// The most detailed messages that reach the [`log`] facade.
    pub fn log(mut self, level: LevelFilter) -> Self {
        self.log = Some(level);
        self
    }

    /// Whether device memory is mapped by page: storages of a page (2 MiB) and more take whole pages, any that are free, so
    /// that free memory is never in pieces for them; smaller ones share pages. The budget is rounded down to whole pages.
    /// Without effect where the engine cannot, and for budgets of less than a page.
    pub fn page_mapping(mut self, on: bool) -> Self {
        self.page_mapping = Some(on);
        self
    }

    /// How addresses in device memory are chosen.
    pub fn placement(mut self, placement: Placement) -> Self {
        self.placement = Some(placement);
        self
    }

    /// What [`Policy::Gist`] rounds values to that wait for the backward pass; with a scale for each block of values, or without.
    pub fn gist_format(mut self, format: FloatFormat) -> Self {
        self.gist_format = Some(format);
        self
    }

    /// The size of the host engine's pages: for tests.
    #[doc(hidden)]
    #[cfg(feature = "host")]
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = Some(bytes);
        self
    }

    /// Who runs the host engine's lanes, and in what order.
    #[cfg(feature = "host")]
    pub fn lanes(mut self, lanes: LaneMode) -> Self {
        self.lanes = lanes;
        self
    }

    /// Folders, separated as in `PATH`, in which NVIDIA's libraries are looked for before the linker's and the usual ones: the driver
    /// (`libcuda`), the compiler of kernels (`libnvrtc`), `libcublasLt` and `libcudnn`.
    pub fn cuda_libraries(mut self, folders: impl Into<PathBuf>) -> Self {
        self.cuda_libraries = Some(folders.into());
        self
    }

    /// Whether products and convolutions of `f32` on a GPU may read their operands with 10 bits of fraction instead of 23
    /// (TF32), which tensor cores multiply: faster, and no longer exact. Off unless asked for.
    pub fn tf32(mut self, on: bool) -> Self {
        self.tf32 = Some(on);
        self
    }

    /// Whether elementwise ops on floats that follow each other are launched together, so that what is between them is never in
    /// memory; and whether the gradient of a convolution's input waits for those beside it, so that the input is gone by then. The
    /// bits are the same, but for the signs of NaN on the host. Unless this is said, all is, but on a GPU whose memory is fast beside its
    /// arithmetic, such as an H100, only ops on tensors that are whole and in order, and no sums.
    pub fn fusion(mut self, on: bool) -> Self {
        self.fusion = Some(on);
        self
    }

    /// What reads give on an engine without data: zeros, and a warning in the log, unless this says so.
    pub fn reads(mut self, reads: Reads) -> Self {
        self.reads = Some(reads);
        self
    }

    /// The part, 0 to 1, of a mask that is taken to be set where the size of an output depends on it, on an engine
    /// without data.
    pub fn density(mut self, density: f64) -> Self {
        self.density = Some(density);
        self
    }

    /// The parts, 0 to 1, that are taken to be zeros of what rectifiers and max-pools make, instead of being counted: in the order
    /// in which an iteration makes these values, the last for all others. On an engine without data, which cannot count,
    /// nothing is sparse unless this says so.
    pub fn sparsity(mut self, parts: impl Into<Vec<f64>>) -> Self {
        self.sparsity = parts.into();
        self
    }

    /// The parts, 0 to 1, of their memory that floats and integers are taken to need where each byte of them is packed to the bits
    /// that it needs, instead of being counted: in the order in which an iteration makes values (of 1024 and more), the last for all
    /// others. Where this or [`sparsity`](Config::sparsity) is said, nothing is counted; on an engine without data nothing is packed
    /// so unless this says so.
    pub fn packed(mut self, parts: impl Into<Vec<f64>>) -> Self {
        self.packed = parts.into();
        self
    }

    /// Notes all that happens, for [`recording`](crate::recording): some hundred bytes of memory for every op.
    pub fn record(mut self) -> Self {
        self.record = true;
        self
    }

    /// When iterations are planned, under policies that plan.
    pub fn planning(mut self, planning: Planning) -> Self {
        self.planning = Some(planning);
        self
    }

    /// Whether evicted bytes may be kept in host memory. Where not, only what can be recomputed is evicted.
    pub fn offload(mut self, allowed: bool) -> Self {
        self.ways.offload = allowed;
        self
    }

    /// Of what the forward pass of a planned iteration makes, only *checkpoints* may be kept in host memory: what convolutions,
    /// matrix products, joins and concatenations make, and what several layers read, as in Wang et al., *SuperNeurons*, PPoPP 2018,
    /// section 3.3. Everything else that it makes is kept, or recomputed; weights and gradients may be kept there as ever.
    pub fn offload_checkpoints_only(mut self) -> Self {
        self.ways.checkpoints_only = true;
        self
    }

    /// Whether evicted bytes may be forgotten, to be recomputed.
    pub fn recompute(mut self, allowed: bool) -> Self {
        self.ways.recompute = allowed;
        self
    }

    #[doc(hidden)]
    pub fn sabotage(mut self, fault: Sabotage) -> Self {
        self.sabotage = Some(fault);
        self
    }

    /// Notes what is resident after the op of this number, from one.
    pub(crate) fn portrait_at(mut self, op: u64) -> Self {
        self.portrait_at = Some(op);
        self
    }

    /// Tells the policy of the program beforehand.
    pub(crate) fn foresight(mut self, foresight: Arc<Foresight>) -> Self {
        self.foresight = Some(foresight);
        self
    }

    /// Fills what is not set from the environment and the device.
    pub(crate) fn resolve(self, props: &Props) -> Result<Settings, Error> {
        self.check_parts()?;
        let budget = self.budget.or_else(|| Given::read(Variable::Budget));
        let budget_bytes = match &budget {
            Some(given) => given.resolve(props.device_bytes, LEAST_BUDGET_BYTES)?,
            None => Amount::Share(BUDGET_SHARE).of(props.device_bytes),
        };
        let host_limit = self.host_limit.or_else(|| Given::read(Variable::HostLimit));
        let host_limit_bytes = match &host_limit {
            Some(given) => given.resolve(props.host_bytes, 0)?,
            None => Amount::Share(HOST_SHARE).of(props.host_bytes),
        };
        let policy = Variable::Policy.or_read(self.policy)?.unwrap_or_default();
        // Whoever says how much host memory may be used wants it used.
        let spares_host = props.shares_memory && policy == Policy::Auto && host_limit.is_none();
        let page_mapping = Variable::PageMapping.or_read(self.page_mapping)?;
        let paging = props.page_bytes.map(|page_bytes| Paging {
            page_bytes,
            least_bytes: if page_mapping.is_some() { page_bytes } else { LEAST_PAGES * page_bytes },
        });
        let settings = Settings {
            budget_bytes,
            paging: paging.filter(|_| page_mapping != Some(false)),
            host_limit_bytes,
            policy,
            exactness: Variable::Exactness.or_read(self.exactness)?.unwrap_or_default(),
            planning: Variable::Planning.or_read(self.planning)?.unwrap_or_default(),
            fusion: Fusion::of(Variable::Fusion.or_read(self.fusion)?, props),
            log: Variable::Log.or_read(self.log)?.unwrap_or(DEFAULT_LOG),
            sabotage: self.sabotage,
            portrait_at: self.portrait_at,
            record: self.record,
            ways: AllowedWays { spares_host, ..self.ways },
            placement: Variable::Placement.or_read(self.placement)?.unwrap_or_default(),
            gist_format: Variable::GistFormat.or_read(self.gist_format)?.unwrap_or_default(),
            sparsity: self.sparsity.into(),
            packed: self.packed.into(),
            endless: false,
            foresight: self.foresight,
        };
        if let Some(given) = &budget {
            settings.tell_of_rounding(given);
        }
        Ok(settings)
    }

    /// Refuses what is no part of a whole.
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

    #[cfg(feature = "cuda")]
    pub(crate) fn cuda_options(&self, index: u16) -> Result<CudaOptions, Error> {
        let from_environment = || Variable::CudaLibraries.read().and_then(Result::ok);
        Ok(CudaOptions {
            index,
            libraries: self.cuda_libraries.clone().or_else(from_environment),
            tf32: Variable::Tf32.or_read(self.tf32)?.unwrap_or_default(),
        })
    }

    #[cfg(feature = "host")]
    pub(crate) fn host_options(&self) -> HostOptions {
        let free = HostOptions::default();
        HostOptions { mode: self.lanes, page_bytes: self.page_bytes.unwrap_or(free.page_bytes), ..free }
    }
}
