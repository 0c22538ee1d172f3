//! Engines: memory, lanes and launches. An engine knows nothing of tensors, Burn or policies.
//!
//! ```
//! use burn_overcommit::engine::{ALIGN_BYTES, in_memory};
//!
//! // What a block of 1000 bytes takes, and one of 3 MiB where memory is mapped by pages of 2 MiB.
//! assert_eq!(in_memory(1000, None), 4 * ALIGN_BYTES);
//! assert_eq!(in_memory(3 << 20, Some(2 << 20)), 4 << 20);
//! ```

mod amounts;
pub mod apart;
pub mod around;
#[cfg(any(feature = "host", feature = "cuda"))]
mod call;
mod capacity;
#[cfg(feature = "cuda")]
pub mod cuda;
mod disk;
pub mod fault;
#[cfg(feature = "host")]
pub mod host;
mod instruction;
mod kernels;
#[cfg(feature = "host")]
mod lanes;
#[cfg(any(feature = "host", feature = "cuda"))]
mod link;
#[cfg(any(feature = "host", feature = "cuda"))]
mod lowered;
#[cfg(test)]
pub mod measuring;
mod pages;
mod peers;
mod process;
mod props;
pub mod sim;
mod waits;

use std::fmt::Debug;
use std::sync::Arc;

pub use disk::{DISK_ALIGN_BYTES, DiskTier};
pub use instruction::{Instruction, Measured};
pub use kernels::{KernelPrice, KernelRates};
pub(crate) use pages::view_addresses;
pub use peers::{PeerMemory, PeerTier};
pub(crate) use process::fail_process;
#[cfg(feature = "cuda")]
pub(crate) use props::MEASURED_HOST;
pub use props::{Flops, HostTimes, Props};
pub(crate) use props::{MIN_PAGES, page_bytes_for};
use serde::{Deserialize, Serialize};
pub use sim::Times;
pub use waits::waits;

use crate::op::{Inputs, Op, Outputs, PerOutput, View};

/// Spans begin at multiples of this on every engine, and sizes are rounded up to it.
pub const ALIGN_BYTES: usize = 256;

/// Rounds a size up to [`ALIGN_BYTES`]; even an empty tensor takes one unit, so that every storage has an address.
pub const fn aligned(bytes: usize) -> usize {
    if bytes == 0 { ALIGN_BYTES } else { bytes.next_multiple_of(ALIGN_BYTES) }
}

/// The bytes that a block takes. If memory is mapped by page, blocks of at least a page take whole pages.
pub fn in_memory(bytes: usize, page_bytes: Option<usize>) -> usize {
    let bytes = aligned(bytes);
    let page_bytes = page_bytes.filter(|&page_bytes| bytes >= page_bytes);
    page_bytes.map_or(bytes, |page_bytes| bytes.next_multiple_of(page_bytes))
}

/// A kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Device memory, which kernels read and write, and which the budget bounds.
    Device,
    /// Host memory for offloaded bytes, pinned if the engine can.
    Host,
    /// Memory of other devices of the machine, for offloaded bytes.
    Peer,
    /// A file for offloaded bytes that host memory has no room for. The address of a span is its place in the file.
    Disk,
}

impl Tier {
    /// Every tier, by index.
    pub const ALL: [Tier; 4] = [Tier::Device, Tier::Host, Tier::Peer, Tier::Disk];

    /// The tiers away from device memory.
    pub(crate) const AWAY: [Tier; 3] = [Tier::Host, Tier::Peer, Tier::Disk];

    /// The lanes of copies into it and out of it.
    pub(crate) const fn lanes(self) -> [Lane; 2] {
        match self {
            Tier::Device => [Lane::Fetch, Lane::Offload],
            Tier::Host => [Lane::Offload, Lane::Fetch],
            Tier::Peer => [Lane::ToPeer, Lane::FromPeer],
            Tier::Disk => [Lane::Spill, Lane::Load],
        }
    }
}

/// An ordered queue of work. Lanes run in parallel; marks order them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// Kernels.
    #[default]
    Compute,
    /// Copies from device to host.
    Offload,
    /// Copies from host to device.
    Fetch,
    /// Copies from device or host memory to other devices.
    ToPeer,
    /// Copies back from them.
    FromPeer,
    /// Writes from host memory to the disk.
    Spill,
    /// Reads from the disk into host memory.
    Load,
}

impl Lane {
    /// Every lane, by index.
    pub const ALL: [Lane; 7] =
        [Lane::Compute, Lane::Offload, Lane::Fetch, Lane::ToPeer, Lane::FromPeer, Lane::Spill, Lane::Load];

    /// Its name, as in traces.
    pub const fn name(self) -> &'static str {
        ["compute", "offload", "fetch", "to_peer", "from_peer", "spill", "load"][self as usize]
    }

    /// Whether its work is reading or writing a file.
    pub const fn is_of_disk(self) -> bool {
        matches!(self, Lane::Spill | Lane::Load)
    }

    /// Whether its copies take storages out of device memory, but for those from host memory to another device.
    pub const fn takes_away(self) -> bool {
        matches!(self, Lane::Offload | Lane::ToPeer)
    }

    /// Whether its copies bring storages back, but for those from another device to host memory.
    pub const fn brings_back(self) -> bool {
        matches!(self, Lane::Fetch | Lane::FromPeer)
    }

    /// Whether its work is copying to or from another device.
    pub const fn is_of_peers(self) -> bool {
        matches!(self, Lane::ToPeer | Lane::FromPeer)
    }
}

/// A point in a lane: all work submitted there up to `sequence`. By default it is before all work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The lane.
    pub lane: Lane,
    /// How many pieces of work were submitted to the lane up to this point.
    pub sequence: u64,
}

/// When a piece of work ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// The mark at its end.
    pub mark: Mark,
    /// When it began, in nanoseconds since recording did.
    pub begin_ns: u64,
    /// When it was done.
    pub end_ns: u64,
}

/// A piece of work that failed after its submission. Its outputs are meaningless.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The mark at its end.
    pub mark: Mark,
    /// What went wrong.
    pub error: EngineError,
}

/// A piece of memory, at the address that kernels are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The tier it lies in.
    pub tier: Tier,
    /// First byte.
    pub address: u64,
    /// Length.
    pub bytes: usize,
}

impl Span {
    /// An empty span.
    pub const fn empty(tier: Tier) -> Self {
        Span { tier, address: 0, bytes: 0 }
    }

    /// The `bytes` bytes that begin at `offset`.
    ///
    /// # Panics
    /// In debug builds, if they reach beyond the end.
    pub fn slice(self, offset: usize, bytes: usize) -> Self {
        debug_assert!(offset + bytes <= self.bytes, "slice beyond the span's end");
        Span { address: self.address + offset as u64, bytes, ..self }
    }
}

/// An instruction and the memory that it works on.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The instruction.
    pub instruction: Arc<Instruction>,
    /// The storages of its inputs.
    pub inputs: Inputs<Span>,
    /// The memory of its outputs.
    pub outputs: PerOutput<Span>,
    /// Workspace of at least [`Instruction::scratch_bytes`]; its contents are undefined.
    pub scratch: Span,
}

/// One of an engine's algorithms for an op. Algorithms may round differently, so a recipe keeps the one that it was
/// made with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Algorithm(pub u8);

/// Ops of a kind that slower kernels of this crate computed in place of NVIDIA's library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The op's name.
    pub op: &'static str,
    /// The reason.
    pub reason: &'static str,
    /// Number of these ops.
    pub count: u64,
}

/// An error of an engine.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum EngineError {
    /// Memory could not be mapped.
    #[error("could not map {bytes} bytes of {tier:?} memory: {reason}")]
    Map {
        /// The tier asked for.
        tier: Tier,
        /// The size asked for.
        bytes: usize,
        /// The reason.
        reason: MapError,
    },
    /// A kernel failed, at submission or later.
    #[error("{op}: {reason}")]
    Kernel {
        /// The op's name.
        op: &'static str,
        /// What went wrong.
        reason: String,
    },
    /// An index was out of range. That is known when the kernel has run, and reported when its outputs are read.
    #[error("{op}: {reason}")]
    Index {
        /// The op's name.
        op: &'static str,
        /// The index, and its range.
        reason: String,
    },
    /// A copy failed.
    #[error("copy of {bytes} bytes: {reason}")]
    Copy {
        /// Size of the copy.
        bytes: usize,
        /// What went wrong.
        reason: String,
    },
}

/// The reason why memory could not be mapped.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum MapError {
    /// The system has no more, or the engine may map no more.
    #[error("{0}")]
    Exhausted(String),
    /// No other device has so much left, though all have together.
    #[error("no other device has so much left of what may be used")]
    TooLargeForOne,
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<String> for MapError {
    fn from(reason: String) -> Self {
        MapError::Other(reason)
    }
}

impl From<&str> for MapError {
    fn from(reason: &str) -> Self {
        MapError::Other(reason.into())
    }
}

impl From<std::io::Error> for MapError {
    fn from(error: std::io::Error) -> Self {
        use std::io::ErrorKind::{OutOfMemory, QuotaExceeded, StorageFull};
        match error.kind() {
            OutOfMemory | QuotaExceeded | StorageFull => MapError::Exhausted(error.to_string()),
            _ => MapError::Other(error.to_string()),
        }
    }
}

impl EngineError {
    /// Whether memory could not be mapped because the system has no more, as when another program uses the device.
    pub fn is_exhausted(&self) -> bool {
        matches!(self, EngineError::Map { reason: MapError::Exhausted(_), .. })
    }
}

fn no_pages(bytes: usize) -> EngineError {
    EngineError::Map { tier: Tier::Device, bytes, reason: "this engine does not map by page".into() }
}

/// Memory, lanes and launches of one device.
///
/// Submissions to a lane run in order. Lanes are not ordered with each other except by [`wait`](Engine::wait). No
/// method waits for the device but [`sync`](Engine::sync) and, for old work, [`map_pages`](Engine::map_pages).
pub trait Engine: Send + Sync + Debug {
    /// The device's profile.
    fn props(&self) -> &Props;

    /// Promises that [`map`](Engine::map) is asked for no more than this many bytes of a tier altogether. An engine
    /// that prepares memory ahead of its use does so only after this call, and within that limit.
    fn bound(&self, tier: Tier, bytes: usize) {
        let _ = (tier, bytes);
    }

    /// Opens the file of the disk tier, before memory of that tier is mapped. The error is what the system says, and
    /// about which folder.
    fn open_disk(&self, disk: &DiskTier) -> Result<(), String> {
        let _ = disk;
        Err("this engine has no disk tier".into())
    }

    /// Begins to use memory of other devices, before memory of that tier is mapped. The error is what the system says.
    fn open_peers(&self, peers: &PeerTier) -> Result<(), String> {
        let _ = peers;
        Err("this engine has no other devices".into())
    }

    /// A slab of memory, aligned to [`ALIGN_BYTES`]; of the disk tier, to [`DISK_ALIGN_BYTES`]. The pool carves it.
    fn map(&self, tier: Tier, bytes: usize) -> Result<Span, EngineError>;

    /// The program's thread has taken so long for its own work. Clocks that are not virtual know.
    fn spend(&self, ns: u64) {
        let _ = ns;
    }

    /// Returns a slab that [`map`](Engine::map) gave, when no submitted work uses it.
    fn unmap(&self, span: Span);

    /// Reserves addresses for a whole number of [pages](Props::page_bytes) of device memory, without mapping memory.
    /// They stay reserved as long as the engine exists.
    fn reserve(&self, bytes: usize) -> Result<Span, EngineError> {
        Err(no_pages(bytes))
    }

    /// Maps physical pages of device memory to reserved addresses, one after the other, in place of earlier mappings.
    /// Pages are identified by small numbers. A page is allocated when it is first mapped, and may be mapped at
    /// several addresses. The call waits for the marks of `after`, earlier work through these addresses.
    ///
    /// After an error, nothing is mapped at the addresses.
    ///
    /// # Safety
    /// The span begins at a page of one reserved range, lies in it, and is as long as the pages together. Work that was
    /// submitted on these addresses is done when all marks of `after` are reached.
    unsafe fn map_pages(&self, at: Span, physical: &[u32], after: &[Mark]) -> Result<(), EngineError> {
        let _ = (physical, after);
        Err(no_pages(at.bytes))
    }

    /// Frees physical pages that no submitted work uses. Addresses where they were mapped are used again only after a
    /// new mapping.
    fn release_pages(&self, physical: &[u32]) {
        let _ = physical;
    }

    /// The engine's algorithm for `op`: a function of shapes and profile, never of free memory.
    fn algorithm(&self, op: &Op, inputs: &[View]) -> Algorithm {
        let _ = (op, inputs);
        Algorithm::default()
    }

    /// Other algorithms for `op`, of which one may be chosen if results need not have the same bits under every
    /// budget. By default there are none.
    fn alternatives(&self, op: &Op, inputs: &[View]) -> Vec<Algorithm> {
        let _ = (op, inputs);
        Vec::new()
    }

    /// Predicted time of `op`, in nanoseconds: by the roofline, unless the engine knows its algorithm better.
    fn launch_ns(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> u64 {
        let _ = algorithm;
        self.props().op_ns(op, inputs, outputs)
    }

    /// Workspace that `op` needs: a function of shapes, algorithm and profile, never of free memory.
    fn scratch(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> usize;

    /// Whether [`prepare`](Engine::prepare) does anything.
    fn prepares(&self) -> bool {
        false
    }

    /// Announces that an op with these inputs will be launched. Without holding a lock, the engine does what takes
    /// long the first time, such as compiling a kernel, as far as it is known beforehand.
    fn prepare(&self, op: &Op, inputs: &mut dyn Iterator<Item = &View>) {
        let _ = (op, inputs);
    }

    /// Submits an op.
    ///
    /// # Safety
    /// Every span of `launch` was mapped by this engine, is as large as its view needs, and stays mapped and, apart from
    /// this lane's order, unwritten (inputs) or untouched (outputs, scratch) until the lane has passed this. An
    /// output may share its span with an input that [`Op::in_place`] allows.
    unsafe fn launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError>;

    /// Submits a copy between spans of equal size. A copy from or to the disk tier is one to or from host memory, on the
    /// lane [`Spill`](Lane::Spill) or [`Load`](Lane::Load), of spans that are multiples of [`DISK_ALIGN_BYTES`].
    ///
    /// # Safety
    /// As for [`launch`](Engine::launch); the spans do not overlap.
    unsafe fn copy(&self, lane: Lane, from: Span, to: Span) -> Result<(), EngineError>;

    /// The lane's end as it is now.
    fn mark(&self, lane: Lane) -> Mark;

    /// Work submitted to `lane` after this begins only when `mark` is reached.
    fn wait(&self, lane: Lane, mark: Mark) -> Result<(), EngineError>;

    /// Whether all work up to `mark` is done.
    fn reached(&self, mark: Mark) -> bool;

    /// Blocks until `mark` is reached. An error concerns the device; work that failed by itself is among the
    /// [`failures`](Engine::failures).
    fn sync(&self, mark: Mark) -> Result<(), EngineError>;

    /// Work that failed after its submission, of the work that is [reached](Engine::reached) by now: each piece once,
    /// those of a lane in order. Does not wait.
    fn failures(&self) -> Vec<Failure> {
        Vec::new()
    }

    /// The host's pointer to a span of the host tier, or of any tier if the device is the host; `None` on an engine
    /// without data.
    fn bytes(&self, span: Span) -> Option<*mut u8>;

    /// Times by the engine's virtual clock; `None` on engines that run in real time.
    fn times(&self) -> Option<Times> {
        None
    }

    /// Ops that slower kernels computed in place of libraries since the engine began.
    fn fallbacks(&self) -> Vec<Fallback> {
        Vec::new()
    }

    /// The bandwidth that a copy lane reached lately between tiers, in bytes per second; `None` if nothing is
    /// measured, such as on a simulation. An engine that measures also notes the time of each launch in its
    /// [instruction](Instruction::measured). Only plans that are made in the background use these figures.
    fn measured_link(&self) -> Option<f64> {
        None
    }

    /// The bandwidth that copies to and from other devices reached lately, in bytes per second; `None` if nothing was measured.
    fn measured_peers(&self) -> Option<f64> {
        None
    }

    /// The bandwidth that the disk reached lately, in bytes per second; `None` if nothing was measured.
    fn measured_disk(&self) -> Option<f64> {
        None
    }

    /// How many writes the disk has not taken. Their bytes are kept in memory, so that nothing is lost.
    fn failed_writes(&self) -> u64 {
        0
    }

    /// Records from now on when each launch and copy runs.
    fn record(&self) {}

    /// The times of all pieces since [`record`](Engine::record) or the last call of this, those of a lane in order.
    /// All work must be done.
    fn recorded(&self) -> Vec<Ran> {
        Vec::new()
    }
}
