//! The table of environment variables.

use crate::messages::LEVEL_VARIABLE;

/// An environment variable. Most set the default of one field of [`Config`](crate::Config), which `configure` overrides.
///
/// ```
/// use burn_overcommit::Variable;
///
/// assert_eq!(Variable::Budget.name(), "OVERCOMMIT_BUDGET");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// The default device.
    Device,
    /// Device memory that may be used.
    Budget,
    /// Host memory that may be used for offloaded bytes.
    HostLimit,
    /// Memory of other devices for offloaded bytes.
    Peers,
    /// The folder for offloaded bytes that host memory has no room for, and how many.
    Disk,
    /// Whether these bytes are compared with a checksum.
    DiskChecksums,
    /// The memory policy.
    Policy,
    /// Whether the choice of algorithms may change rounding.
    Exactness,
    /// When iterations are planned.
    Planning,
    /// The log level.
    Log,
    /// The file for a recording of the process.
    Trace,
    /// Whether device memory is mapped by page.
    PageMapping,
    /// How addresses are chosen.
    Placement,
    /// The format to which the policy `gist` rounds.
    GistFormat,
    /// The folders of NVIDIA's libraries.
    CudaLibraries,
    /// Whether products of `f32` may read fewer bits.
    Tf32,
    /// Whether elementwise ops are launched together.
    Fusion,
    /// Where plans are kept.
    PlanCache,
    /// How many seconds devices that train together wait for one that does nothing.
    CollectiveTimeout,
}

/// Every variable with its name, the values that it takes, and its meaning if it is not set.
///
/// ```
/// for (_, name, values, otherwise) in burn_overcommit::VARIABLES {
///     println!("{name}: {values}; if it is not set: {otherwise}");
/// }
/// ```
pub const VARIABLES: [(Variable, &str, &str, &str); 19] = [
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
        Variable::Peers,
        "OVERCOMMIT_PEERS",
        "INDEX:BYTES of other devices of its kind, such as 1:40GiB,2:40GiB, with @RATE such as @200GB/s if that is known",
        "no memory of other devices",
    ),
    (
        Variable::Disk,
        "OVERCOMMIT_DISK",
        "FOLDER:BYTES such as /fast/spill:200GiB, with @RATE such as @7GB/s if that is known",
        "no disk tier",
    ),
    (Variable::DiskChecksums, "OVERCOMMIT_DISK_CHECKSUMS", "true or false", "true"),
    (
        Variable::Policy,
        "OVERCOMMIT_POLICY",
        "auto, tensor-cache, recompute, evict-all, dtr, dtr-eq, vdnn-all, vdnn-conv, vdnn-dyn, superneurons, layrub, \
         autoswap, autoswap-no-overhead, capuchin, gist-lossless or gist",
        "auto",
    ),
    (Variable::Exactness, "OVERCOMMIT_EXACTNESS", "exact or fast", "exact"),
    (Variable::Planning, "OVERCOMMIT_PLANNING", "background, at-once or off", "background"),
    (Variable::Log, LEVEL_VARIABLE, "off, error, warn, info, debug or trace", "warn"),
    (Variable::Trace, "OVERCOMMIT_TRACE", "a file", "nothing is recorded"),
    (
        Variable::PageMapping,
        "OVERCOMMIT_PAGE_MAPPING",
        "true or false",
        "true where the engine can and the budget holds 48 pages",
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
    (Variable::Fusion, "OVERCOMMIT_FUSION", "true or false", "true"),
    (
        Variable::PlanCache,
        "OVERCOMMIT_PLAN_CACHE",
        "off or a folder",
        "burn-overcommit/plans in the user's cache folder",
    ),
    (Variable::CollectiveTimeout, "OVERCOMMIT_COLLECTIVE_TIMEOUT", "seconds such as 1800", "600"),
];

impl Variable {
    /// The variable's name.
    pub fn name(self) -> &'static str {
        VARIABLES[self as usize].1
    }

    /// The values that it takes.
    pub(super) fn expected(self) -> &'static str {
        VARIABLES[self as usize].2
    }
}
