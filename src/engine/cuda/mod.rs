//! The CUDA engine: kernels compiled by NVRTC, NVIDIA's libraries opened while the program runs.
//!
//! Every test run executes it on `standin/`, a driver, NVRTC, cuBLASLt and cuDNN for a CPU
//! (`docs/decisions/045-cuda-runs-on-a-stand-in.md`); what a GPU has confirmed is in ARCHITECTURE.md and
//! `benches/results/gpu`. Alternatives that were rejected are in
//! `docs/decisions/046-choices-of-the-cuda-engine.md`.
//!
//! - *The default device* is `cuda:0` where an engine could be made ([`check_device`]: driver, its version, the device,
//!   NVRTC). That is asked once, without a context or memory; otherwise the default is `host:0`, with a warning.
//! - *Libraries* (`libraries`, `folders`, `python`, `symbols`) are opened by their paths where the linker does not find them, and
//!   kept open, so that others find the same ones by name. The driver's version is checked before a context is made.
//! - *Kernels* are compiled by file and element type, and cached on disk (`compile`, `cache`, `modules`). Before the
//!   pool's lock is taken, [`Engine::prepare`] compiles or loads what the first op of a kind and its types takes, and
//!   the libraries load their own code. cuDNN makes the plans of every convolution then too, and the choice of an engine that its
//!   heuristics do not name is cached on disk. Kernels that cannot be foreseen (of a square that is asked for as a power, of a
//!   copy that a product needs) are compiled at the launch, under the lock.
//! - *A launch* writes addresses into arguments that exist already, since an instruction is lowered once (`kept`).
//!   Library calls, and images that are decoded first, are put together at each launch. An op takes two to four driver
//!   calls (`tests/cuda/calls.rs`): whether the context is current, the launch, perhaps an event, and of some the
//!   events that time it.
//! - *Memory* is pages by the driver's virtual-memory calls, or slabs by plain allocation for budgets that are not
//!   mapped by page and devices that cannot. Host slabs are pinned, one ahead of its use (`memory`, `spare`). Where a machine
//!   has less than its driver says (pages, addresses, pinned memory), a probe at the start shows it and a message says so
//!   (`device`, `staging`).
//! - *Lanes* are streams, and marks are events, which not every piece of work has (`lanes`, `marks`). If a part of an
//!   op cannot be submitted, what was submitted of it has no mark and is waited for before the error is returned. Some
//!   pieces are timed by events (`samples`).
//! - *Failures* of kernels, indices out of range, are words in pinned memory (`faults`). They are read when the pool
//!   asks, of the launches whose events state that they are done.
//! - *Products and convolutions* of floats are cuBLASLt's and cuDNN's (`products`, `convolutions`). Where a library is
//!   missing or has no algorithm, `matmul.cu` and `direct.cu` take its place, an output element for each thread, with a
//!   warning. Whatever a library answers for a shape is kept for the engine's life, also a failure: an op's workspace
//!   and bits must not change.
//! - *Workspace* is what the chosen algorithm takes, so it follows from shapes and the library, and is the pool's. The
//!   libraries' own code in device memory, like modules, is outside of the budget, in the tenth of free memory that the
//!   budget leaves.
//! - *Fused programs* have kernels of their own, generated as text (`op/lower/generated.rs`), compiled when they are first launched and
//!   kept like the others. One that NVRTC does not compile is interpreted, by the same arguments, and gives the same bits.
//! - *Rounding*: `--fmad=false`, so that floats round after each operation as on the host engine; elementary functions
//!   are CUDA's own. `f32` products and convolutions use `f32` unless `Config::tf32`.
//! - *Props* are computed from clocks, units and bus width; the link is assumed by architecture. Nothing in them is
//!   measured, so that decisions are the same in every run.
//!
//! `op/lower/gpu.rs` describes how work is cut for blocks and threads. Without a GPU, `scripts/check-cuda`,
//! `check-kernels`, `check-sass`, `check-libraries` and `check-sanitizers` check the engine; with one,
//! `scripts/gpu-check` does.

#[cfg(feature = "host")]
mod check;
mod compile;
mod convolutions;
mod device;
mod disk;
mod driver;
mod factor;
mod fallbacks;
mod faults;
mod folders;
mod found;
mod kept;
mod lanes;
mod launches;
mod libraries;
mod library;
mod marks;
mod memory;
mod modules;
mod peers;
mod preparation;
mod products;
mod python;
mod samples;
#[cfg(feature = "host")]
#[doc(hidden)]
pub mod sass;
mod scratch;
mod spare;
mod staging;
mod symbols;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use log::Level;

use super::call::Call;
use super::capacity::Capacity;
use super::lowered::addresses;
use super::{
    Algorithm, DiskTier, Engine, EngineError, Failure, Fallback, Lane, Launch, Mark, PeerTier, Props, Ran,
    Span, Tier, aligned,
};
use crate::disk_cache::DiskCache;
use crate::messages;
use crate::op::lower;
use crate::op::{Inputs, Op, Outputs, View};
#[cfg(feature = "host")]
#[doc(hidden)]
pub use check::{Cubin, Report, Selection, cache_generated, check_kernels, cubins, fill_cache};
use convolutions::{Convolutions, is_convolution};
use disk::Disk;
use driver::{Context, Device, Stream};
use fallbacks::Fallbacks;
use faults::Faults;
pub use found::{FoundLibrary, found_libraries};
use lanes::{Lanes, lock};
use libraries::{Library, Missing};
use memory::{Pages, Slab};
use modules::Modules;
use peers::Peers;
use preparation::Preparation;
use products::Products;
use samples::Timed;
use spare::Spare;
use staging::Staging;

/// Which device, and where its libraries are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CudaOptions {
    /// Which of the driver's devices.
    pub index: u16,
    /// Folders to look for NVIDIA's libraries in before all others, separated as in `PATH`.
    pub libraries: Option<PathBuf>,
    /// Whether products and convolutions of `f32` may read their operands in 19 bits (TF32).
    pub tf32: bool,
    /// The least size of pages, where memory is mapped by page; otherwise what suits all free memory.
    pub page_bytes: Option<usize>,
}

/// The engine of an NVIDIA GPU.
#[derive(Debug)]
pub struct CudaEngine {
    // In the order in which they are given back, once `Drop` has waited for all work.
    modules: Modules,
    faults: Mutex<Faults>,
    memory: Mutex<Memory>,
    /// Where host memory cannot be pinned.
    staging: Option<Staging>,
    lanes: Lanes,
    disk: Disk,
    peers: Peers,
    /// By libraries, where they are there.
    products: Option<Products>,
    convolutions: Option<Convolutions>,
    preparation: Preparation,
    fallbacks: Fallbacks,
    props: Props,
    context: Arc<Context>,
}

#[derive(Debug)]
struct Memory {
    slabs: HashMap<u64, Slab>,
    pages: Option<Pages>,
    spare: Spare,
    capacity: Capacity,
}

/// How many devices NVIDIA's driver has: none where there is no driver.
///
/// # Errors
/// No driver, one too old, or what it says.
pub fn device_count(libraries: Option<&Path>) -> Result<usize, String> {
    Library::Driver.open(libraries).map_err(|missing| missing.to_string())?;
    let count = driver::device_count()?;
    device::check_version(driver::version()?)?;
    Ok(count)
}

/// Whether an engine can be made: driver, device and NVRTC are there, and new enough. Takes nothing of the device's memory.
///
/// # Errors
/// What is missing, in words, and where it was looked for; or what the driver says.
pub fn check_device(options: &CudaOptions) -> Result<(), String> {
    let architecture = device::architecture(open(options)?)?;
    compile::target(architecture).map(|_| ())
}

/// The device, with driver and NVRTC open.
fn open(options: &CudaOptions) -> Result<Device, String> {
    let folder = options.libraries.as_deref();
    let count = device_count(folder)?;
    if usize::from(options.index) >= count {
        return Err(format!("NVIDIA's driver has {count} devices, numbered from 0"));
    }
    Library::Nvrtc.open(folder).map_err(|missing| missing.to_string())?;
    Device::new(options.index)
}

impl CudaEngine {
    /// An engine with nothing mapped.
    ///
    /// # Errors
    /// What is missing, in words: driver, device, or NVRTC; or what the driver says.
    pub fn new(options: &CudaOptions) -> Result<Self, String> {
        let device = open(options)?;
        let folder = options.libraries.as_deref();
        let architecture = device::architecture(device)?;
        let context = Context::new(device)?;
        let modules = Modules::new(&context, architecture, DiskCache::of_user("kernels"))?;
        let products = or_kernels(Products::new(&context, folder, architecture, options.tf32)?);
        let convolutions = or_kernels(Convolutions::new(&context, folder, options.tf32)?);
        let (lanes, faults) = (Lanes::new(&context)?, Faults::new(&context)?);
        let staging = Staging::if_needed(&context).map_err(|error| error.to_string())?;
        // Last, so that what the others took is not counted.
        let props = device::props(&context, options.page_bytes)?;
        let pages = props.page_bytes.map(|page_bytes| Pages::new(&context, page_bytes));
        tell(&props, folder);
        let memory =
            Memory { slabs: HashMap::new(), pages, spare: Spare::default(), capacity: Capacity::default() };
        Ok(CudaEngine {
            modules,
            faults: Mutex::new(faults),
            memory: Mutex::new(memory),
            staging,
            lanes,
            disk: Disk::default(),
            peers: Peers::default(),
            products,
            convolutions,
            preparation: Preparation::default(),
            fallbacks: Fallbacks::default(),
            props,
            context,
        })
    }
}

/// Says in the log what the engine runs on.
fn tell(props: &Props, folder: Option<&Path>) {
    if !messages::is_wanted(Level::Info) {
        return;
    }
    let [memory, link] =
        [props.memory_bytes_per_second, props.link_bytes_per_second()].map(|bytes| bytes / 1e9);
    let Props { name, device_bytes, .. } = props;
    messages::tell(
        Level::Info,
        format_args!("{name}: {device_bytes} bytes free, {memory:.0} GB/s, link {link:.1} GB/s"),
    );
    for (library, found) in found_libraries(folder) {
        match found {
            Ok(found) => messages::tell(Level::Info, format_args!("{library} {found}")),
            Err(reason) => messages::tell(Level::Info, format_args!("{library}: {reason}")),
        }
    }
}

/// What a library is for, or a warning that kernels do it.
fn or_kernels<T>(opened: Result<T, Missing>) -> Option<T> {
    opened
        .inspect_err(|missing| {
            messages::tell(Level::Warn, format_args!("slower kernels take its place: {missing}"))
        })
        .ok()
}

fn wait_error(reason: String) -> EngineError {
    EngineError::Kernel { op: "wait", reason }
}

impl Drop for CudaEngine {
    fn drop(&mut self) {
        // Work may still use the memory that is given back next.
        let _ = self.context.synchronize();
    }
}

impl Engine for CudaEngine {
    fn props(&self) -> &Props {
        &self.props
    }

    fn bound(&self, tier: Tier, bytes: usize) {
        if tier == Tier::Host {
            lock(&self.memory).spare.bound(bytes);
        }
    }

    fn open_disk(&self, disk: &DiskTier) -> Result<(), String> {
        self.disk.open(disk)
    }

    fn open_peers(&self, peers: &PeerTier) -> Result<(), String> {
        self.peers.open(&self.context, peers)
    }

    fn map(&self, tier: Tier, bytes: usize) -> Result<Span, EngineError> {
        let error = |reason| EngineError::Map { tier, bytes, reason };
        match tier {
            Tier::Disk => return self.disk.map(bytes).map_err(error),
            Tier::Peer => return self.peers.map(bytes).map_err(error),
            Tier::Device | Tier::Host => {}
        }
        let mut memory = lock(&self.memory);
        memory.capacity.take(&self.props, tier, bytes).map_err(error)?;
        let made = match tier {
            Tier::Device => Slab::new(&self.context, tier, bytes),
            _ if self.staging.is_some() => Slab::pageable(&self.context, bytes),
            _ => memory.spare.take(&self.context, bytes),
        };
        let slab = made.map_err(|reason| {
            memory.capacity.give(tier, bytes);
            error(reason)
        })?;
        let span = slab.span();
        memory.slabs.insert(span.address, slab);
        Ok(span)
    }

    fn unmap(&self, span: Span) {
        match span.tier {
            Tier::Disk => return self.disk.unmap(span),
            Tier::Peer => return self.peers.unmap(span),
            Tier::Device | Tier::Host => {}
        }
        let mut memory = lock(&self.memory);
        let slab = memory.slabs.remove(&span.address);
        debug_assert!(slab.is_some(), "unmapped what was not mapped");
        if slab.is_some() {
            memory.capacity.give(span.tier, span.bytes);
        }
        if span.tier == Tier::Host {
            memory.spare.give(span.bytes);
        }
    }

    fn reserve(&self, bytes: usize) -> Result<Span, EngineError> {
        let mut memory = lock(&self.memory);
        let pages = memory.pages.as_mut().ok_or_else(|| super::no_pages(bytes))?;
        pages.reserve(bytes).map_err(|reason| EngineError::Map { tier: Tier::Device, bytes, reason })
    }

    unsafe fn map_pages(&self, at: Span, physical: &[u32], after: &[Mark]) -> Result<(), EngineError> {
        let error = |reason| EngineError::Map { tier: Tier::Device, bytes: at.bytes, reason };
        // What replaces a mapping must not pull it from under work that is still to run.
        after.iter().try_for_each(|&mark| self.lanes.finish(mark)).map_err(|reason| error(reason.into()))?;
        let mut memory = lock(&self.memory);
        let Memory { pages: Some(pages), capacity, .. } = &mut *memory else {
            return Err(super::no_pages(at.bytes));
        };
        let new_bytes = pages.missing(physical) * self.props.page_bytes.unwrap_or(0);
        capacity.take(&self.props, Tier::Device, new_bytes).map_err(error)?;
        // SAFETY: the caller's, and the work that `after` names is done.
        unsafe { pages.map(at, physical) }.map_err(|reason| {
            capacity.give(Tier::Device, new_bytes);
            error(reason)
        })
    }

    fn release_pages(&self, physical: &[u32]) {
        let Memory { pages, capacity, .. } = &mut *lock(&self.memory);
        let there = pages.as_mut().map_or(0, |pages| pages.release(physical));
        capacity.give(Tier::Device, there * self.props.page_bytes.unwrap_or(0));
    }

    fn alternatives(&self, op: &Op, inputs: &[View]) -> Vec<Algorithm> {
        match &self.convolutions {
            Some(convolutions) if is_convolution(op) => convolutions.alternatives(op, inputs),
            _ => Vec::new(),
        }
    }

    /// By the roofline. cuDNN says which algorithm is faster and not by how much: each is taken to be a sixteenth slower than
    /// the one before.
    fn launch_ns(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> u64 {
        let fastest_ns = self.props.op_ns(op, inputs, outputs);
        let convolutions = self.convolutions.as_ref().filter(|_| is_convolution(op));
        let rank = convolutions.and_then(|library| library.rank(op, algorithm, inputs, &outputs[0]));
        fastest_ns + fastest_ns * rank.unwrap_or(0) as u64 / 16
    }

    fn scratch(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> usize {
        if let Some((_, values, then)) = op.in_two(inputs) {
            return aligned(values.size_bytes())
                + self.scratch(&then, algorithm, &[values, inputs[1]], outputs);
        }
        let by_library = self.by_library(op, algorithm, inputs, outputs);
        by_library.unwrap_or_else(|| lower::scratch_bytes(op, inputs, outputs))
    }

    fn prepares(&self) -> bool {
        true
    }

    fn prepare(&self, op: &Op, inputs: &mut dyn Iterator<Item = &View>) {
        if let (true, Some(convolutions)) = (is_convolution(op), &self.convolutions) {
            let views: Inputs<View> = inputs.copied().collect();
            return convolutions.prepare(op, &views);
        }
        self.preparation.once(op, inputs, |views| self.make_ready(op, views));
    }

    unsafe fn launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError> {
        let op = &launch.instruction.op;
        let error = |reason: String| EngineError::Kernel { op: op.name(), reason };
        let timed = Timed::Launch(launch.instruction.clone());
        // SAFETY: the caller's; a word of faults is one that no other launch has.
        let submit = |stream: &Stream, fault: u64| unsafe {
            match self.kept(launch) {
                Some(kernels) => {
                    let made = (&self.modules, &self.fallbacks);
                    kept::launch(made, stream, kernels, &addresses(launch, fault))
                }
                None => self.submit(stream, &Call::from(launch), fault),
            }
        };
        if !op.checks_indices() {
            // No kernel of the op looks at the word.
            return self.lanes.submit(lane, timed, |stream| submit(stream, 0)).map_err(error);
        }
        let full = lock(&self.faults).full_until();
        if let Some(mark) = full {
            self.lanes.finish(mark).map_err(error)?;
            lock(&self.faults).look(|launch| launch.sequence <= mark.sequence);
        }
        let mut faults = lock(&self.faults);
        let fault = faults.word();
        self.lanes.submit(lane, timed, |stream| submit(stream, fault)).map_err(error)?;
        faults.launched(self.lanes.mark(lane), launch.instruction.clone());
        Ok(())
    }

    unsafe fn copy(&self, lane: Lane, from: Span, to: Span) -> Result<(), EngineError> {
        let error = |reason: String| EngineError::Copy { bytes: from.bytes, reason };
        if from.bytes != to.bytes {
            return Err(error(format!("to a span of {} bytes", to.bytes)));
        }
        let mark = Mark { sequence: self.lanes.mark(lane).sequence + 1, lane };
        let timed = match from.tier != to.tier {
            true => Timed::Copy { bytes: from.bytes },
            false => Timed::Nothing,
        };
        let submitted = self.lanes.submit(lane, timed, |stream| match from.bytes {
            0 => Ok(()),
            // SAFETY: the caller's.
            _ if lane.is_of_disk() => unsafe { self.disk.copy(stream, mark, from, to) },
            bytes => match &self.staging {
                // SAFETY: the caller's.
                Some(staging) if [from.tier, to.tier].contains(&Tier::Host) => unsafe {
                    staging.copy(stream, lane, from, to)
                },
                // SAFETY: the caller's.
                _ => unsafe { stream.copy(from.address, to.address, bytes) },
            },
        });
        submitted.map_err(error)
    }

    fn mark(&self, lane: Lane) -> Mark {
        self.lanes.mark(lane)
    }

    fn wait(&self, lane: Lane, mark: Mark) -> Result<(), EngineError> {
        self.lanes.wait(lane, mark).map_err(wait_error)
    }

    fn reached(&self, mark: Mark) -> bool {
        self.lanes.reached(mark)
    }

    fn sync(&self, mark: Mark) -> Result<(), EngineError> {
        self.lanes.finish(mark).map_err(wait_error)
    }

    fn failures(&self) -> Vec<Failure> {
        let mut faults = lock(&self.faults);
        faults.look(|mark| self.lanes.reached(mark));
        let mut found = faults.found();
        found.extend(self.disk.failures());
        found
    }

    fn bytes(&self, span: Span) -> Option<*mut u8> {
        debug_assert_eq!(span.tier, Tier::Host, "device memory has no place on the host");
        Some(std::ptr::with_exposed_provenance_mut(span.address as usize))
    }

    fn fallbacks(&self) -> Vec<Fallback> {
        self.fallbacks.all()
    }

    fn measured_link(&self) -> Option<f64> {
        self.lanes.measured(Lane::Fetch)
    }

    fn measured_peers(&self) -> Option<f64> {
        self.lanes.measured(Lane::FromPeer)
    }

    fn measured_disk(&self) -> Option<f64> {
        self.lanes.measured(Lane::Load)
    }

    fn failed_writes(&self) -> u64 {
        self.disk.failed_writes()
    }

    fn record(&self) {
        if let Err(error) = self.lanes.record() {
            messages::tell(Level::Warn, format_args!("nothing is recorded: {error}"));
        }
    }

    fn recorded(&self) -> Vec<Ran> {
        self.lanes.recorded().unwrap_or_else(|error| {
            messages::tell(Level::Warn, format_args!("what was recorded is lost: {error}"));
            Vec::new()
        })
    }
}
