//! The host engine: kernels compiled by the C++ compiler, memory mapped in bounded amounts, lanes run by threads.

mod columns;
mod conv;
mod kernels;
mod lowered;
mod matmul;
mod memory;
#[cfg(target_os = "linux")]
mod pages;
#[cfg(target_os = "linux")]
mod resident;
mod spread;
#[cfg(test)]
mod testing;
mod widen;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::available_parallelism;

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use super::call::{self, Call};
use super::capacity::Capacity;
use super::disk::DiskStore;
use super::lanes::{self, Lanes, Piece};
use super::props::PAGE_BYTES;
use super::{
    Algorithm, DiskTier, Engine, EngineError, Failure, Flops, Instruction, Lane, Launch, MapError, Mark,
    PeerTier, Props, Ran, Span, Tier,
};
use crate::op::{Inputs, Op, Outputs, View, lower};
use memory::Memory;
#[cfg(target_os = "linux")]
use pages::PageMemory;
#[cfg(target_os = "linux")]
use resident::Resident;

#[cfg(target_os = "linux")]
fn possible_page_bytes(bytes: usize) -> Option<usize> {
    Some(pages::possible_page_bytes(bytes))
}

/// Where the system has nothing like it.
#[cfg(not(target_os = "linux"))]
fn possible_page_bytes(_: usize) -> Option<usize> {
    None
}

/// Who runs submitted work.
///
/// ```
/// use burn_overcommit::{Config, LaneMode, OvercommitDevice, configure};
///
/// configure(&OvercommitDevice::Host(0), Config::new().lanes(LaneMode::Deferred { seed: 1 }))?;
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaneMode {
    /// A thread per lane, and callers that wait.
    #[default]
    Threads,
    /// Only callers that wait, as late and as crossed as marks allow: a missing wait gives wrong results. For tests.
    Deferred {
        /// Of the order in which lanes run.
        seed: u64,
    },
}

/// What a host engine is made of. By default the device tier is half of the memory that is free; the host tier may be
/// all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Who runs submitted work.
    pub mode: LaneMode,
    /// Size of the device tier; more cannot be mapped.
    pub device_bytes: usize,
    /// Size of the host tier; more cannot be mapped.
    pub host_bytes: usize,
    /// Threads that one op may use, which also decides the scratch of convolutions. Never changes results.
    pub workers: usize,
    /// Size of the pages of the device tier, where the system maps pages; rounded up to what it can.
    pub page_bytes: usize,
}

impl Default for HostOptions {
    fn default() -> Self {
        let memory = RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram());
        let free_bytes = System::new_with_specifics(memory).available_memory() as usize;
        HostOptions {
            mode: LaneMode::Threads,
            device_bytes: free_bytes / 2,
            host_bytes: free_bytes,
            workers: available_parallelism().map_or(1, |count| count.get()).min(MAX_WORKERS),
            page_bytes: PAGE_BYTES,
        }
    }
}

/// Beyond this, scratch grows and speed does not.
const MAX_WORKERS: usize = 32;

// A cautious guess at a processor of the last ten years. Never measured: decisions must be the same in every run.
/// f32 operations per second of one core, in products.
const CORE_FLOPS_PER_SECOND: f64 = 40e9;
/// What one core can read or write per second.
const CORE_BYTES_PER_SECOND: f64 = 8e9;
/// What all cores together can.
const MAX_BYTES_PER_SECOND: f64 = 40e9;
/// A copy between tiers, on one core, which reads and writes.
const LINK_BYTES_PER_SECOND: f64 = 5e9;
/// Submitting and starting a piece of work.
const OVERHEAD_NS: u64 = 500;

impl HostOptions {
    /// What the engine says of itself.
    pub fn props(&self) -> Props {
        let cores = self.workers as f64;
        Props {
            name: format!("host, {} threads", self.workers),
            device_bytes: self.device_bytes,
            host_bytes: self.host_bytes,
            shares_memory: true,
            flops: Flops {
                f64: cores * CORE_FLOPS_PER_SECOND / 2.0,
                ..Flops::all(cores * CORE_FLOPS_PER_SECOND)
            },
            memory_bytes_per_second: (cores * CORE_BYTES_PER_SECOND).min(MAX_BYTES_PER_SECOND),
            offload_bytes_per_second: LINK_BYTES_PER_SECOND,
            fetch_bytes_per_second: LINK_BYTES_PER_SECOND,
            peer_bytes_per_second: None,
            overhead_ns: OVERHEAD_NS,
            page_bytes: possible_page_bytes(self.page_bytes),
            view_bytes: None,
            host: super::HostTimes::default(),
            kernels: None,
        }
    }
}

/// The engine whose device is this machine's processor.
#[derive(Debug)]
pub struct HostEngine {
    // Before `slabs`, so that no piece runs on memory that is gone.
    lanes: Lanes,
    slabs: Mutex<Slabs>,
    disk: Arc<OnceLock<DiskStore>>,
    props: Props,
    workers: usize,
}

/// Mapped memory by address, pages, and bytes of both per tier.
#[derive(Debug, Default)]
struct Slabs {
    maps: HashMap<u64, Memory>,
    #[cfg(target_os = "linux")]
    pages: Option<PageMemory>,
    capacity: Capacity,
}

impl HostEngine {
    /// Returns whether this processor has the instructions that the kernels were compiled to.
    pub fn runs_here() -> bool {
        kernels::run_here()
    }

    /// An engine with nothing mapped.
    ///
    /// # Panics
    /// If the system gives no threads.
    pub fn new(options: HostOptions) -> Self {
        let workers = options.workers.max(1);
        #[allow(unused_mut, reason = "only Linux has pages")]
        let (mut props, mut slabs) = (options.props(), Slabs::default());
        #[cfg(target_os = "linux")]
        if let Some(page_bytes) = props.page_bytes {
            slabs.pages = PageMemory::new(page_bytes).ok();
            // A system that forbids them is one without.
            props.page_bytes = slabs.pages.is_some().then_some(page_bytes);
        }
        #[cfg(target_os = "linux")]
        let resident = slabs.pages.as_ref().map(|pages| pages.resident.clone());
        let disk = Arc::<OnceLock<DiskStore>>::default();
        let on_disk = disk.clone();
        let run = Box::new(move |piece: &Piece| {
            #[cfg(target_os = "linux")]
            if let Some(resident) = &resident {
                touch(resident, piece);
            }
            execute(piece, workers, on_disk.get())
        });
        let lanes = match options.mode {
            LaneMode::Threads => Lanes::threads(run, &[Lane::Compute, Lane::Offload, Lane::Fetch]),
            LaneMode::Deferred { seed } => Lanes::deferred(run, seed),
        };
        HostEngine { lanes, slabs: Mutex::new(slabs), disk, props, workers }
    }
}

/// Device memory could not be mapped.
#[cfg(target_os = "linux")]
fn map_error(bytes: usize, reason: impl Into<MapError>) -> EngineError {
    EngineError::Map { tier: Tier::Device, bytes, reason: reason.into() }
}

/// Whether an op is computed by [`matmul`] or [`conv`].
fn is_product(op: &Op) -> bool {
    matches!(
        op,
        Op::Matmul
            | Op::Conv(_)
            | Op::ConvBackwardInput { .. }
            | Op::ConvBackwardWeight { .. }
            | Op::ConvBackwardWeightEncoded { .. }
    )
}

/// # Safety
/// As for [`Engine::launch`], until this returns.
unsafe fn compute_as_is(call: &Call, workers: usize) -> Result<(), EngineError> {
    // SAFETY: the caller's.
    unsafe {
        match call.op {
            Op::Matmul => matmul::run(call),
            _ => conv::run(call, workers),
        }
    }
}

/// # Safety
/// As for [`Engine::launch`], until this returns.
unsafe fn compute(call: &Call, workers: usize) -> Result<(), EngineError> {
    let views: Inputs<View> = call.inputs.iter().map(|operand| operand.view).collect();
    // SAFETY: the caller's; the call inside is on parts of its scratch.
    unsafe {
        match widen::applies(&views) {
            true => widen::run(call, |call| compute_as_is(call, workers)),
            false => compute_as_is(call, workers),
        }
    }
}

/// Says which memory a piece of work is about to touch.
#[cfg(target_os = "linux")]
fn touch(resident: &Resident, piece: &Piece) {
    match piece {
        Piece::Launch(launch) => {
            resident.touch(launch.inputs.iter().chain(&launch.outputs).chain([&launch.scratch]).copied());
        }
        Piece::Copy { from, to } => resident.touch([*from, *to].into_iter()),
        Piece::Wait(_) => {}
    }
}

fn execute(piece: &Piece, workers: usize, disk: Option<&DiskStore>) -> Result<(), EngineError> {
    match piece {
        // SAFETY: whoever launched it keeps its spans as `Engine::launch` asks until the lane has passed it.
        Piece::Launch(launch) => unsafe {
            let Instruction { op, measured, .. } = &*launch.instruction;
            match (is_product(op), measured.ns()) {
                (true, _) => compute(&Call::from(launch), workers),
                // What runs for the first time may never run again: its scalars may be others each time.
                (false, None) => kernels::run(&Call::from(launch)),
                (false, Some(_)) => lowered::run(launch),
            }
        },
        &Piece::Copy { from, to } if from.tier == Tier::Disk || to.tier == Tier::Disk => {
            let disk = disk.expect("the disk tier was opened before it was mapped");
            // SAFETY: both spans are mapped, equally large and apart, as `Engine::copy` asks of whoever submits.
            unsafe { disk.copy(from, to) }
        }
        &Piece::Copy { from, to } => {
            // SAFETY: both spans are mapped, equally large and apart, as `Engine::copy` asks of whoever submits.
            unsafe {
                std::ptr::copy_nonoverlapping(from.address as *const u8, to.address as *mut u8, from.bytes);
            }
            Ok(())
        }
        Piece::Wait(_) => Ok(()),
    }
}

/// Size of the argument struct of the kernel of that C name, if there is one.
#[cfg(feature = "cuda")]
pub(super) fn kernel_args_bytes(name: &str) -> Option<u64> {
    kernels::args_bytes(name)
}

/// Workspace of an op on an engine of so many workers.
pub fn scratch_bytes(
    op: &Op,
    algorithm: Algorithm,
    inputs: &[View],
    outputs: &Outputs,
    workers: usize,
) -> usize {
    let own = |inputs: &[View]| match op {
        Op::Matmul => 0,
        _ if is_product(op) => conv::scratch_bytes(op, algorithm, inputs, workers),
        _ => lower::scratch_bytes(op, inputs, outputs),
    };
    if is_product(op) && widen::applies(inputs) {
        let wide: Inputs<View> = inputs.iter().map(widen::widened).collect();
        return widen::scratch_bytes(inputs, &outputs[0]) + own(&wide);
    }
    own(inputs)
}

impl Engine for HostEngine {
    fn props(&self) -> &Props {
        &self.props
    }

    fn open_disk(&self, disk: &DiskTier) -> Result<(), String> {
        let store = DiskStore::new(disk)?;
        self.disk.set(store).map_err(|_| String::from("the disk tier is open already"))?;
        self.lanes.begin(&[Lane::Spill, Lane::Load]);
        Ok(())
    }

    /// Memory of other devices is host memory here too, beyond theirs and this one's.
    fn open_peers(&self, _: &PeerTier) -> Result<(), String> {
        self.lanes.begin(&[Lane::ToPeer, Lane::FromPeer]);
        Ok(())
    }

    fn map(&self, tier: Tier, bytes: usize) -> Result<Span, EngineError> {
        let error = |reason| EngineError::Map { tier, bytes, reason };
        if tier == Tier::Disk {
            let disk = self.disk.get().ok_or_else(|| error("there is no disk tier".into()))?;
            return disk.map(bytes).map_err(error);
        }
        let mut slabs = lanes::lock(&self.slabs);
        slabs.capacity.take(&self.props, tier, bytes).map_err(error)?;
        // Pages are aligned far beyond ALIGN_BYTES, and the system provides them when they are first written.
        let map = Memory::map_anon(bytes.max(1)).map_err(|reason| {
            slabs.capacity.give(tier, bytes);
            error(reason.into())
        })?;
        let address = map.as_ptr() as u64;
        slabs.maps.insert(address, map);
        Ok(Span { tier, address, bytes })
    }

    fn unmap(&self, span: Span) {
        if let (Tier::Disk, Some(disk)) = (span.tier, self.disk.get()) {
            return disk.unmap(span);
        }
        let mut slabs = lanes::lock(&self.slabs);
        let map = slabs.maps.remove(&span.address);
        debug_assert!(map.is_some(), "unmapped what was not mapped");
        if map.is_some() {
            slabs.capacity.give(span.tier, span.bytes);
        }
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, bytes: usize) -> Result<Span, EngineError> {
        let mut slabs = lanes::lock(&self.slabs);
        let pages = slabs.pages.as_mut().ok_or_else(|| super::no_pages(bytes))?;
        pages.reserve(bytes).map_err(|reason| map_error(bytes, reason))
    }

    #[cfg(target_os = "linux")]
    unsafe fn map_pages(&self, at: Span, physical: &[u32], after: &[Mark]) -> Result<(), EngineError> {
        // What replaces a mapping must not pull it from under work that is still to run.
        after.iter().for_each(|&mark| self.lanes.finish(mark));
        let mut slabs = lanes::lock(&self.slabs);
        let Slabs { pages: Some(pages), .. } = &mut *slabs else { return Err(super::no_pages(at.bytes)) };
        let new_bytes = pages.missing(physical) * self.props.page_bytes.unwrap_or(0);
        slabs
            .capacity
            .take(&self.props, Tier::Device, new_bytes)
            .map_err(|reason| map_error(at.bytes, reason))?;
        let Slabs { pages: Some(pages), capacity, .. } = &mut *slabs else { unreachable!("as above") };
        // SAFETY: the caller's, and the work that `after` names is done.
        unsafe { pages.map(at, physical) }.map_err(|reason| {
            capacity.give(Tier::Device, new_bytes);
            map_error(at.bytes, reason)
        })
    }

    #[cfg(target_os = "linux")]
    fn release_pages(&self, physical: &[u32]) {
        let Slabs { pages, capacity, .. } = &mut *lanes::lock(&self.slabs);
        let there = pages.as_mut().map_or(0, |pages| pages.release(physical));
        capacity.give(Tier::Device, there * self.props.page_bytes.unwrap_or(0));
    }

    fn scratch(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> usize {
        scratch_bytes(op, algorithm, inputs, outputs, self.workers)
    }

    unsafe fn launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError> {
        self.lanes.submit(lane, Piece::Launch(launch.clone()));
        Ok(())
    }

    unsafe fn copy(&self, lane: Lane, from: Span, to: Span) -> Result<(), EngineError> {
        if from.bytes != to.bytes {
            let reason = format!("to a span of {} bytes", to.bytes);
            return Err(EngineError::Copy { bytes: from.bytes, reason });
        }
        self.lanes.submit(lane, Piece::Copy { from, to });
        Ok(())
    }

    fn mark(&self, lane: Lane) -> Mark {
        self.lanes.mark(lane)
    }

    fn wait(&self, lane: Lane, mark: Mark) -> Result<(), EngineError> {
        // A lane is in order with itself.
        if mark.lane != lane {
            self.lanes.submit(lane, Piece::Wait(mark));
        }
        Ok(())
    }

    fn reached(&self, mark: Mark) -> bool {
        self.lanes.reached(mark)
    }

    fn sync(&self, mark: Mark) -> Result<(), EngineError> {
        self.lanes.finish(mark);
        Ok(())
    }

    fn failures(&self) -> Vec<Failure> {
        self.lanes.failures()
    }

    fn bytes(&self, span: Span) -> Option<*mut u8> {
        Some(span.address as *mut u8)
    }

    fn measured_link(&self) -> Option<f64> {
        self.lanes.measured_link()
    }

    fn measured_peers(&self) -> Option<f64> {
        self.lanes.measured_peers()
    }

    fn measured_disk(&self) -> Option<f64> {
        self.lanes.measured_disk()
    }

    fn failed_writes(&self) -> u64 {
        self.disk.get().map_or(0, DiskStore::failed_writes)
    }

    fn record(&self) {
        self.lanes.record();
    }

    fn recorded(&self) -> Vec<Ran> {
        self.lanes.recorded()
    }
}

#[cfg(test)]
mod tests;
