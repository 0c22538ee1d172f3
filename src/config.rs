//! What a user can choose, and the environment variables for it: one table.

mod amount;
mod settings;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use log::LevelFilter;

pub use self::amount::Amount;
use self::amount::Given;
pub(crate) use self::amount::LEAST_BUDGET_BYTES;
use self::settings::Paging;
pub(crate) use self::settings::{AllowedWays, Fusion, Settings};
use crate::OvercommitDevice;
use crate::engine::Props;
#[cfg(feature = "cuda")]
use crate::engine::cuda::CudaOptions;
#[cfg(feature = "host")]
use crate::engine::host::{HostOptions, LaneMode};
use crate::error::Error;
use crate::op::FloatFormat;
use crate::policy::Policy;
use crate::pool::{Foresight, Sabotage};
use crate::runtime::{Reads, Supply};

/// The part of the free memory that is the budget unless one is set.
pub(crate) const BUDGET_SHARE: f64 = 0.9;

/// The part of the free host memory that is the host tier's limit unless one is set.
const HOST_SHARE: f64 = 0.5;

/// Budgets of fewer pages are not mapped by page unless it is asked for: what rounding takes would be a large part of them.
pub(crate) const LEAST_PAGES: usize = 64;

/// What is logged unless something is set.
const DEFAULT_LOG: LevelFilter = LevelFilter::Warn;

/// The environment variables. Each sets the default of one field of [`Config`]; `configure` overrides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// The default device.
    Device,
    /// Device memory that may be used.
    Budget,
    /// Host memory that may be used for offloaded bytes.
    HostLimit,
    /// The memory policy.
    Policy,
    /// Whether choices may change rounding.
    Exactness,
    /// When iterations are planned.
    Planning,
    /// How much is logged.
    Log,
    /// Where a recording of the process goes.
    Trace,
    /// Whether device memory is mapped by page.
    PageMapping,
    /// How addresses are chosen.
    Placement,
    /// What the policy `gist` rounds to.
    GistFormat,
    /// Where NVIDIA's libraries are.
    CudaLibraries,
    /// Whether products of `f32` may have fewer bits.
    Tf32,
    /// Whether elementwise ops are launched together.
    Fusion,
}

/// Every variable: its name, what it takes, what it does if unset.
pub const VARIABLES: [(Variable, &str, &str, &str); 14] = [
    (
        Variable::Device,
        "OVERCOMMIT_DEVICE",
        "cuda:N, host:N, sim:KEY or sim:FILE.json",
        "cuda:0 where it can be used, else host:0",
    ),
    (
        Variable::Budget,
        "OVERCOMMIT_BUDGET",
        "bytes such as 8 GiB, at least 256, or a share such as 50%",
        "what is free, less a tenth",
    ),
    (
        Variable::HostLimit,
        "OVERCOMMIT_HOST_LIMIT",
        "bytes such as 16 GiB, or a share such as 25%",
        "half of free memory; on the host engine auto then recomputes what it can",
    ),
    (
        Variable::Policy,
        "OVERCOMMIT_POLICY",
        "auto, tensor-cache, recompute, evict-all, dtr, dtr-eq, vdnn-all, vdnn-conv, vdnn-dyn, superneurons, layrub, \
         autoswap, autoswap-no-overhead, capuchin, gist-lossless or gist",
        "auto",
    ),
    (Variable::Exactness, "OVERCOMMIT_EXACTNESS", "exact or fast", "exact"),
    (Variable::Planning, "OVERCOMMIT_PLANNING", "beside, at-once or off", "beside"),
    (Variable::Log, "OVERCOMMIT_LOG", "off, error, warn, info, debug or trace", "warn"),
    (Variable::Trace, "OVERCOMMIT_TRACE", "a file", "nothing is recorded"),
    (
        Variable::PageMapping,
        "OVERCOMMIT_PAGE_MAPPING",
        "true or false",
        "true where the engine can and the budget holds 64 pages",
    ),
    (Variable::Placement, "OVERCOMMIT_PLACEMENT", "best-fit or smartpool", "smartpool"),
    (
        Variable::GistFormat,
        "OVERCOMMIT_GIST_FORMAT",
        "f16, bf16, fp10, fp8_e4m3 or fp8_e5m2; the last three with _scaled too",
        "f16",
    ),
    (
        Variable::CudaLibraries,
        "OVERCOMMIT_CUDA_LIBRARIES",
        "folders, separated as in PATH",
        "the linker's, the usual and Python's folders",
    ),
    (Variable::Tf32, "OVERCOMMIT_TF32", "true or false", "false"),
    (
        Variable::Fusion,
        "OVERCOMMIT_FUSION",
        "true or false",
        "true; on GPUs such as an H100 of ops on whole tensors in order alone",
    ),
];

impl Variable {
    fn row(self) -> (&'static str, &'static str) {
        let (_, name, expected, _) = VARIABLES[self as usize];
        (name, expected)
    }

    /// The variable's name.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// What was set, else what the environment says.
    fn or_read<T: FromStr>(self, set: Option<T>) -> Result<Option<T>, Error> {
        set.map_or_else(|| self.read().transpose(), |value| Ok(Some(value)))
    }

    /// What the environment says, if anything; what is no text has signs in it that no value has.
    fn text(self) -> Option<String> {
        let value = std::env::var_os(self.name()).filter(|value| !value.is_empty())?;
        Some(value.to_string_lossy().trim().into())
    }

    pub(crate) fn read<T: FromStr>(self) -> Option<Result<T, Error>> {
        let value = self.text()?;
        Some(value.parse().map_err(|_| self.refuse(value, self.row().1)))
    }

    /// The error that a value of it is.
    pub(crate) fn refuse(self, value: impl Into<String>, expected: impl Into<String>) -> Error {
        Error::Setting { setting: self.name(), value: value.into(), expected: expected.into() }
    }
}

/// The device named by the environment.
pub(crate) fn device_from_environment() -> Option<Result<OvercommitDevice, Error>> {
    let value = Variable::Device.text()?;
    Some(OvercommitDevice::named(&value).map_err(|expected| Variable::Device.refuse(value, expected)))
}

/// Hands a message of no device's to the [`log`] facade, if the environment asks for such detail.
#[cfg(feature = "cuda")]
pub(crate) fn log_by_environment(level: log::Level, message: std::fmt::Arguments) {
    let most = Variable::Log.read().and_then(Result::ok).unwrap_or(DEFAULT_LOG);
    if level <= most {
        log::log!(target: "burn_overcommit", level, "{message}");
    }
}

/// Whether results are the same bits whatever memory is free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Exactness {
    /// One algorithm per shape: the same bits under every budget.
    #[default]
    Exact,
    /// Of the engine's algorithms for a convolution, the fastest whose workspace fits what is free, unless a policy's plan says
    /// otherwise. What is recomputed is so by the algorithm that made it.
    Fast,
}

/// When an iteration is planned, once the program has shown that it repeats. What is computed never depends on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Planning {
    /// By a thread beside the program, which goes on as before until the plan is there. On a simulation, whose clock stands
    /// still meanwhile, at once.
    #[default]
    Beside,
    /// While the program waits: every run then decides alike.
    AtOnce,
    /// Never.
    Off,
}

impl FromStr for Planning {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "beside" => Ok(Planning::Beside),
            "at-once" => Ok(Planning::AtOnce),
            "off" => Ok(Planning::Off),
            _ => Err(()),
        }
    }
}

/// How addresses in device memory are chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Placement {
    /// The smallest free range that is large enough.
    BestFit,
    /// Where a plan is followed, as it says, if it has addresses: those of SmartPool (Zhang et al., arXiv:1903.06631, section
    /// 3). Else by best fit.
    #[default]
    SmartPool,
}

impl FromStr for Placement {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "best-fit" => Ok(Placement::BestFit),
            "smartpool" => Ok(Placement::SmartPool),
            _ => Err(()),
        }
    }
}

impl FromStr for Exactness {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "exact" => Ok(Exactness::Exact),
            "fast" => Ok(Exactness::Fast),
            _ => Err(()),
        }
    }
}

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
