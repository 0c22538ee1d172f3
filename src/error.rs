use crate::OvercommitDevice;
use crate::op::Dtype;
use std::fmt;

use bytesize::ByteSize;

use crate::engine::EngineError;

/// What to do where the system has less memory than the budget.
const OF_OTHERS: &str = "; another program may use the device: end it, or make the budget smaller (Config::budget or OVERCOMMIT_BUDGET)";

/// An error of this backend. Its message also says what to do about it.
///
/// ```
/// use burn_overcommit::{Config, Error, OvercommitDevice, configure};
///
/// let error = configure(&OvercommitDevice::Host(0), Config::new().budget("lots")).unwrap_err();
/// assert!(matches!(error, Error::Setting { .. }) && !error.is_out_of_memory());
/// assert!(error.to_string().starts_with("Config::budget: \"lots\" was given; expected bytes such as 8 GiB"));
/// ```
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// One op needs more device memory at once than the budget allows.
    #[error(transparent)]
    WorkingSet(Box<WorkingSet>),

    /// The host tier has no room for bytes that must go there.
    #[error(
        "the host tier is full: {op}{} needs {needed_bytes} bytes of it, and {used_bytes} of its {limit_bytes} are in use{}{}; raise \
         the limit (Config::host_limit or {}) to at least {least_limit_bytes} bytes{}{}{}. What comes later may need more: \
         Stats::peak_host_bytes of a run with enough says how much",
        of_module(*.module), lowered(*.limit_bytes, *.allowed_bytes), and_disk(*.disk_bytes), crate::config::Variable::HostLimit.name(), or_budget(*.least_budget_bytes), or_recompute(*.least_budget_bytes),
        or_disk(.least_budget_bytes.is_some() || needed_bytes <= limit_bytes, *.failed_writes)
    )]
    HostTierFull {
        /// The op or operation that needed the memory.
        op: &'static str,
        /// The [module](crate::module) that the op belongs to, if the program names it.
        module: Option<&'static str>,
        /// Bytes that had to go there.
        needed_bytes: usize,
        /// Bytes in the host tier.
        used_bytes: usize,
        /// The host tier's limit: the one that was allowed, or less if the system had less memory.
        limit_bytes: usize,
        /// The limit that was allowed.
        allowed_bytes: usize,
        /// Bytes in use on the disk, and its limit, if there is a disk tier.
        disk_bytes: Option<[usize; 2]>,
        /// A limit that has room for this operation; later ones may need more.
        least_limit_bytes: usize,
        /// A budget with which this operation takes no room in the host tier; later ones may need more. `None` if no
        /// budget helps, because the data that a program writes and reads passes through the host tier.
        least_budget_bytes: Option<usize>,
        /// How many writes the disk has not taken. After the first, nothing more is written there.
        failed_writes: u64,
    },

    /// Device memory is short, and no storage is left that may be evicted.
    #[error(
        "{op}{}: {} more of device memory are needed, {} of {} are in use, and nothing that can be recomputed is left; \
         raise the budget (Config::budget or {}) or allow offloading (Config::offload, and Config::host_limit above 0)",
        of_module(*.module), ByteSize(*.needed_bytes as u64), ByteSize(*.used_bytes as u64),
        ByteSize(*.budget_bytes as u64), crate::config::Variable::Budget.name()
    )]
    NothingToEvict {
        /// The op or operation that needed the memory.
        op: &'static str,
        /// The [module](crate::module) that the op belongs to, if the program names it.
        module: Option<&'static str>,
        /// Size of the block that found no place.
        needed_bytes: usize,
        /// Device memory in use.
        used_bytes: usize,
        /// The budget.
        budget_bytes: usize,
    },

    /// The engine failed.
    #[error("{device}: {source}{}", if .source.is_exhausted() { OF_OTHERS } else { "" })]
    Engine {
        /// The device.
        device: crate::OvercommitDevice,
        /// The engine's error.
        source: EngineError,
    },

    /// A call on the device panicked before its end. Only [`configure`](crate::configure) helps.
    #[error(
        "{device}: an earlier panic left it half-changed, so that its tensors are lost and it does nothing more; configure makes it new"
    )]
    Panicked {
        /// The device.
        device: crate::OvercommitDevice,
    },

    /// The data does not fit its shape.
    #[error(
        "data of the wrong size: a {dtype} tensor of shape {shape:?} takes {needed_bytes} bytes, and {had_bytes} were given"
    )]
    DataSize {
        /// Element type.
        dtype: crate::op::Dtype,
        /// Shape.
        shape: crate::op::Shape,
        /// Bytes the shape takes.
        needed_bytes: usize,
        /// Bytes given.
        had_bytes: usize,
    },

    /// The inputs are on different devices.
    #[error("{op}: its inputs live on {} and {}; move them to one device first (Tensor::to_device)", .devices[0], .devices[1])]
    MixedDevices {
        /// The op's name.
        op: &'static str,
        /// Two devices that differ.
        devices: [crate::OvercommitDevice; 2],
    },

    /// The element types of the inputs do not fit the op or each other.
    #[error("{op}: it does not work on inputs of {}; cast them to one type that it is for (Tensor::cast)", listed(.dtypes))]
    Dtypes {
        /// The op's name.
        op: &'static str,
        /// The element types, in the op's order.
        dtypes: Vec<Dtype>,
    },

    /// The op takes other inputs.
    #[error("{op}: inputs of shapes {shapes:?} were given; expected {expected}")]
    Shapes {
        /// The op's name.
        op: &'static str,
        /// The inputs' shapes, in the op's order.
        shapes: Vec<crate::op::Shape>,
        /// The inputs that it takes.
        expected: &'static str,
    },

    /// The op would make a tensor of more elements than there can be.
    #[error(
        "{op} of inputs of shapes {shapes:?} makes more than {} elements, the most that a tensor can have; compute it in parts",
        crate::op::MAX_ELEMENTS
    )]
    TooLarge {
        /// The op's name.
        op: &'static str,
        /// The inputs' shapes, in the op's order.
        shapes: Vec<crate::op::Shape>,
    },

    /// The size of the op's output depends on values, and the engine has no data.
    #[error(
        "{op}: how much it makes depends on values, and {device} has none; say how much with Config::density"
    )]
    NeedsValues {
        /// The op's name.
        op: &'static str,
        /// The device.
        device: crate::OvercommitDevice,
    },

    /// The recorded reads are not those of this program.
    #[error("read {read} of {device}: {reason}; record the reads of this very program, or use Reads::Zeros")]
    Reads {
        /// The device.
        device: crate::OvercommitDevice,
        /// The number of the read, from one.
        read: usize,
        /// The difference.
        reason: String,
    },

    /// A setting has a value that cannot be understood.
    #[error("{setting}: \"{value}\" was given; expected {expected}")]
    Setting {
        /// The setting or environment variable.
        setting: &'static str,
        /// The value that was given.
        value: String,
        /// Values that would be accepted.
        expected: String,
    },

    /// An environment variable has a name that begins like the settings' names, and is none of them.
    #[error("{name}: no setting has this name; the nearest is {nearest}")]
    UnknownVariable {
        /// The variable.
        name: String,
        /// The setting whose name is most like it.
        nearest: &'static str,
    },

    /// The device does not record.
    #[error("{device} records nothing: configure it with Config::record before its first use")]
    NotRecording {
        /// The device.
        device: crate::OvercommitDevice,
    },

    /// This build cannot run the device.
    #[error("device {device} is not available: {reason}; {}", instead(*.device, cfg!(feature = "host"), cfg!(feature = "cuda")))]
    Device {
        /// The device.
        device: crate::OvercommitDevice,
        /// The reason.
        reason: String,
    },

    /// Others wait for a tensor of the device, to reduce it with theirs, and no thread is left that brings it.
    #[error(
        "{device} no longer takes part in what other devices reduce with it: its thread has ended. If that failed, its error came \
         before this one; if not, give every device as many batches, and let none stop before the others"
    )]
    DeviceEnded {
        /// The device.
        device: crate::OvercommitDevice,
    },

    /// Others wait for a tensor of the device, to reduce it with theirs, and it does nothing.
    #[error(
        "{device} has run no op for {seconds} s, and other devices wait for its tensors. If its thread hangs, look for what it waits \
         for; if it only takes so long, allow more seconds by {}", crate::config::Variable::CollectiveTimeout.name()
    )]
    DeviceSilent {
        /// The device.
        device: crate::OvercommitDevice,
        /// How long it has done nothing, in seconds.
        seconds: u64,
    },

    /// The device already holds tensors.
    #[error(
        "device {device} cannot be configured while {storages} of its tensors are alive: call configure before the \
         first use, or drop them first (Burn keeps an abandoned forward until the next backward)"
    )]
    InUse {
        /// The device.
        device: crate::OvercommitDevice,
        /// How many storages are alive.
        storages: usize,
    },
}

impl Error {
    /// Whether memory is too small: with more of it, the same call would work.
    pub fn is_out_of_memory(&self) -> bool {
        match self {
            Error::WorkingSet(_) | Error::HostTierFull { .. } | Error::NothingToEvict { .. } => true,
            Error::Engine { source, .. } => source.is_exhausted(),
            _ => false,
        }
    }

    /// The error of an op that belongs to a module.
    pub(crate) fn of_module(mut self, path: Option<&'static str>) -> Self {
        match &mut self {
            Error::WorkingSet(need) => need.module = path,
            Error::HostTierFull { module, .. } | Error::NothingToEvict { module, .. } => *module = path,
            _ => {}
        }
        self
    }
}

/// An op whose inputs, outputs and workspace do not fit the budget together.
///
/// ```
/// use burn_overcommit::op::{Dtype, Op, Shape};
/// use burn_overcommit::{Config, Error, OvercommitDevice, configure, runtime};
///
/// let device = OvercommitDevice::Host(0);
/// configure(&device, Config::new().budget("1 KiB"))?;
/// let ones = Op::Fill { shape: Shape::new(&[1024]), dtype: Dtype::F32, value: 1.0.into() };
/// match runtime::create(&device, ones).and_then(runtime::read) {
///     Err(Error::WorkingSet(need)) => assert_eq!(need.needed_bytes, 4096),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct WorkingSet {
    /// The op's name.
    pub op: &'static str,
    /// The [module](crate::module) that it belongs to, if the program names it.
    pub module: Option<&'static str>,
    /// Its inputs, outputs and workspace.
    pub parts: Vec<String>,
    /// Bytes of the parts together: the smallest budget this op can run in.
    pub needed_bytes: usize,
    /// The budget.
    pub budget_bytes: usize,
    /// The largest storages that were resident then: their bytes, and the ops that made them.
    pub residents: Vec<(usize, &'static str)>,
}

impl std::error::Error for WorkingSet {}

impl fmt::Display for WorkingSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: usize| ByteSize(bytes as u64);
        writeln!(
            f,
            "out of device memory: {}{} needs {} at once ({} bytes), and the budget is {} ({} bytes)",
            self.op,
            of_module(self.module),
            size(self.needed_bytes),
            self.needed_bytes,
            size(self.budget_bytes),
            self.budget_bytes
        )?;
        for part in &self.parts {
            writeln!(f, "  {part}")?;
        }
        if !self.residents.is_empty() {
            let largest: Vec<_> = self
                .residents
                .iter()
                .map(|&(bytes, made_by)| format!("{} by {made_by}", size(bytes)))
                .collect();
            writeln!(f, "  largest residents: {}", largest.join(", "))?;
        }
        write!(
            f,
            "  the smallest budget for this op is {} bytes: raise it (Config::budget or {}), or make the batch smaller",
            self.needed_bytes,
            crate::config::Variable::Budget.name()
        )
    }
}

fn of_module(module: Option<&'static str>) -> String {
    module.map_or_else(String::new, |module| format!(" of {module}"))
}

fn lowered(limit_bytes: usize, allowed_bytes: usize) -> String {
    match limit_bytes < allowed_bytes {
        true => format!(" ({allowed_bytes} were allowed, and the system has no more)"),
        false => String::new(),
    }
}

fn and_disk(disk_bytes: Option<[usize; 2]>) -> String {
    let told = |[used, limit]: [usize; 2]| format!(", and {used} of the disk's {limit}");
    disk_bytes.map_or_else(String::new, told)
}

fn or_budget(least_bytes: Option<usize>) -> String {
    let name = crate::config::Variable::Budget.name();
    least_bytes.map_or_else(String::new, |bytes| {
        format!(", or the budget (Config::budget or {name}) to at least {bytes}, to do without")
    })
}

/// What the program writes and reads passes through the host tier whatever is recomputed.
fn or_recompute(least_budget_bytes: Option<usize>) -> &'static str {
    let advice = ", or recompute rather than offload (Config::offload(false))";
    if least_budget_bytes.is_some() { advice } else { "" }
}

/// No disk helps where the program reads or writes more at once than the host tier holds.
fn or_disk(helps: bool, failed_writes: u64) -> String {
    let name = crate::config::Variable::Disk.name();
    if failed_writes > 0 {
        return format!(
            ", or make room on the disk ({name}), which takes no more since a write to it failed"
        );
    }
    let advice = || format!(", or give it a disk, or a larger one (Config::disk or {name})");
    if helps { advice() } else { String::new() }
}

/// Advice for a build with these engines and no device.
fn instead(device: OvercommitDevice, has_host: bool, has_cuda: bool) -> &'static str {
    match device {
        OvercommitDevice::Host(_) if !has_host && has_cuda => "use cuda:0, or build with the feature `host`",
        _ if has_host => "use host:0",
        _ => "build with the feature `host` to use host:0, or simulate it (sim:h200)",
    }
}

fn listed(dtypes: &[Dtype]) -> String {
    dtypes.iter().map(Dtype::to_string).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_device_is_advised_that_the_build_has_no_engine_for() {
        let (cuda, host) = (OvercommitDevice::Cuda(0), OvercommitDevice::Host(1));
        assert_eq!(instead(cuda, true, true), "use host:0");
        assert!(instead(cuda, false, true).starts_with("build with the feature `host`"));
        assert!(instead(host, false, true).starts_with("use cuda:0"));
        assert!(instead(host, false, false).starts_with("build with the feature `host`"));
    }
}
