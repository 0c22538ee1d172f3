mod export;
mod planning;

use std::fmt;

use bytesize::ByteSize;

pub use self::export::prometheus;
pub use self::planning::PlanningState;
use crate::OvercommitDevice;
use crate::engine::{Fallback, Lane, Times};

/// Totals since the device's first use, or since `reset_stats`.
/// [`Stats::counters`] has them; see [`stats`](crate::stats()) for an example.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Ops submitted, replays included.
    pub ops: u64,
    /// Of these, ops of a plan that was followed.
    pub guided_ops: u64,
    /// Storages whose device copy was taken away.
    pub evictions: u64,
    /// Of these, evictions without a copy, because the host tier had the bytes already.
    pub clean_evictions: u64,
    /// Of these, storages whose bytes were dropped, to be recomputed.
    pub drops: u64,
    /// Bytes copied from device to host.
    pub offloaded_bytes: u64,
    /// Bytes copied from host to device.
    pub fetched_bytes: u64,
    /// Of these, bytes that were prefetched before an op needed them.
    pub prefetched_bytes: u64,
    /// Bytes copied from device or host memory to other devices.
    pub to_peers_bytes: u64,
    /// Bytes copied back from other devices.
    pub from_peers_bytes: u64,
    /// Bytes written from host memory to the disk.
    pub spilled_bytes: u64,
    /// Bytes read from the disk into host memory.
    pub loaded_bytes: u64,
    /// Ops that were run again to rematerialize dropped storages.
    pub recomputed_ops: u64,
    /// Bytes that these ops made.
    pub recomputed_bytes: u64,
    /// Storages that were evicted by encoding them in fewer bits.
    pub encodings: u64,
    /// Bytes that these storages took before.
    pub encoded_bytes: u64,
    /// Bytes that they took while they were encoded.
    pub encoded_into_bytes: u64,
    /// Bytes moved within device memory, either to the placements of a plan or to defragment memory.
    pub relocated_bytes: u64,
    /// Times that the arena was emptied because free memory was fragmented.
    pub compactions: u64,
    /// Mappings of pages, repeated ones included. A loop that asks for the same memory in each iteration causes none.
    pub mapped_pages: u64,
    /// Iterations that were planned. If a program alternates between several kinds of iterations, each is planned
    /// once.
    pub plannings: u64,
    /// Plans that were found, each better than the previous one for the same iteration.
    pub plans: u64,
    /// Plans of earlier runs that were found in the [plan cache](crate::Config::plan_cache).
    pub kept_plans: u64,
    /// Ops, writes and reads that were refused because memory was too small.
    pub out_of_memory: u64,
    /// Ops that failed while they ran because an index was out of range. Reading a tensor that descends from one of
    /// them gives the error.
    pub failed_ops: u64,
    /// Times the program read a tensor.
    pub reads: u64,
    /// Ops submitted after the first read. On an engine without data, a real run might submit other ops.
    pub ops_after_read: u64,
}

impl Counters {
    /// Counts a copy on a lane.
    pub(crate) fn copied(&mut self, lane: Lane, bytes: usize) {
        *match lane {
            Lane::Compute => return,
            Lane::Offload => &mut self.offloaded_bytes,
            Lane::Fetch => &mut self.fetched_bytes,
            Lane::ToPeer => &mut self.to_peers_bytes,
            Lane::FromPeer => &mut self.from_peers_bytes,
            Lane::Spill => &mut self.spilled_bytes,
            Lane::Load => &mut self.loaded_bytes,
        } += bytes as u64;
    }
}

/// Use of a device's memory, now and so far. `Display` prints a table.
/// See [`stats`](crate::stats()) for an example.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The device.
    pub device: OvercommitDevice,
    /// Bytes in blocks of device memory: storages, and an op's workspace while it is submitted. The size of a block
    /// is a multiple of 256 bytes, or of the page size if the block is made of scattered pages.
    pub allocated_bytes: usize,
    /// Their peak.
    pub peak_allocated_bytes: usize,
    /// Their average while ops run, weighted by the ops' predicted times.
    pub average_allocated_bytes: usize,
    /// The highest end of any block so far: the peak, plus memory that lay unused between blocks.
    pub footprint_bytes: usize,
    /// Bytes of device memory mapped, whether in use or not.
    pub reserved_bytes: usize,
    /// Their peak.
    pub peak_reserved_bytes: usize,
    /// The most device memory that may be allocated.
    pub budget_bytes: usize,
    /// A budget with which the ops so far would have worked: the largest need of a single op, in whole pages if memory is
    /// mapped by page. An op that overwrites an input may need a block less than is counted here.
    pub smallest_budget_bytes: usize,
    /// Bytes in the host tier.
    pub host_bytes: usize,
    /// Their peak.
    pub peak_host_bytes: usize,
    /// The host tier's limit.
    pub host_limit_bytes: usize,
    /// The most bytes that device memory and the host tier held together so far. On the host engine both are memory of the process.
    pub peak_with_host_bytes: usize,
    /// Bytes in memory of other devices.
    pub peer_bytes: usize,
    /// Their peak.
    pub peak_peer_bytes: usize,
    /// The most bytes of other devices that may be used; 0 if none may.
    pub peer_limit_bytes: usize,
    /// Bytes in the disk tier.
    pub disk_bytes: usize,
    /// Their peak.
    pub peak_disk_bytes: usize,
    /// How many writes the disk has not taken. After the first, nothing more is written there.
    pub failed_writes: u64,
    /// The disk tier's limit; 0 if there is none.
    pub disk_limit_bytes: usize,
    /// Records of storages, including storages that only recipes know.
    pub storages: usize,
    /// Recipes.
    pub recipes: usize,
    /// Totals.
    pub counters: Counters,
    /// Times by the engine's virtual clock; `None` on engines that run in real time.
    pub times: Option<Times>,
    /// The state of planning.
    pub planning: PlanningState,
    /// Ops that slower kernels computed in place of NVIDIA's libraries since the engine began, and the reasons.
    pub fallbacks: Vec<Fallback>,
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: usize| ByteSize(bytes as u64).to_string();
        let total = |bytes: u64| ByteSize(bytes).to_string();
        let counters = &self.counters;
        writeln!(
            f,
            "| {:<24} | {:>12} | {:>12} | {:>12} |",
            self.device.to_string(),
            "current",
            "peak",
            "limit"
        )?;
        let mut row = |name: &str, current: usize, peak: usize, limit: usize| {
            writeln!(f, "| {name:<24} | {:>12} | {:>12} | {:>12} |", size(current), size(peak), size(limit))
        };
        row("device memory", self.allocated_bytes, self.peak_allocated_bytes, self.budget_bytes)?;
        row("reserved by slabs", self.reserved_bytes, self.peak_reserved_bytes, self.budget_bytes)?;
        row("host tier", self.host_bytes, self.peak_host_bytes, self.host_limit_bytes)?;
        if let OvercommitDevice::Host(_) = self.device {
            let limit_bytes = self.budget_bytes.saturating_add(self.host_limit_bytes);
            row("both", self.allocated_bytes + self.host_bytes, self.peak_with_host_bytes, limit_bytes)?;
        }
        if self.peer_limit_bytes > 0 {
            row("other devices", self.peer_bytes, self.peak_peer_bytes, self.peer_limit_bytes)?;
        }
        if self.disk_limit_bytes > 0 {
            row("disk tier", self.disk_bytes, self.peak_disk_bytes, self.disk_limit_bytes)?;
        }
        if self.peer_limit_bytes > 0 {
            let [to, from] = [counters.to_peers_bytes, counters.from_peers_bytes].map(total);
            writeln!(f, "to other devices {to}, back from them {from}")?;
        }
        if self.disk_limit_bytes > 0 {
            let [spilled, loaded] = [counters.spilled_bytes, counters.loaded_bytes].map(total);
            writeln!(f, "written to disk {spilled}, read from disk {loaded}")?;
            if self.failed_writes > 0 {
                writeln!(f, "writes to disk that failed {}, and no more are tried", self.failed_writes)?;
            }
        }
        writeln!(
            f,
            "offloaded {}, fetched {}, recomputed {} in {} ops",
            total(counters.offloaded_bytes),
            total(counters.fetched_bytes),
            total(counters.recomputed_bytes),
            counters.recomputed_ops
        )?;
        write!(
            f,
            "{} evictions ({} clean, {} dropped), {} compactions, {} out of memory, {} ops",
            counters.evictions,
            counters.clean_evictions,
            counters.drops,
            counters.compactions,
            counters.out_of_memory,
            counters.ops
        )?;
        write!(f, "\nplanning: {}", self.planning)?;
        for Fallback { op, reason, count } in &self.fallbacks {
            write!(f, "\n{count} times {op} by slower kernels: {reason}")?;
        }
        let Some(times) = self.times else { return Ok(()) };
        let milliseconds = |ns: u64| ns as f64 / 1e6;
        let [compute, offload, fetch, ..] = times.busy_ns.map(milliseconds);
        write!(
            f,
            "\nsimulated: {:.3} ms (computing {compute:.3}, offloading {offload:.3}, fetching {fetch:.3})",
            milliseconds(times.end_ns)
        )?;
        match counters.ops_after_read {
            0 => Ok(()),
            ops => write!(f, "; {ops} ops came after a read, whose values are not those of a real run"),
        }
    }
}
