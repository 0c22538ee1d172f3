mod planning;

use std::fmt;

use bytesize::ByteSize;

pub use self::planning::PlanningState;
use crate::OvercommitDevice;
use crate::engine::{Fallback, Times};

/// Totals since the device's first use, or since `reset_stats`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Ops submitted, replays included.
    pub ops: u64,
    /// Storages whose device copy was taken away.
    pub evictions: u64,
    /// Of these, those that cost nothing: the host tier had the bytes already.
    pub clean_evictions: u64,
    /// Of these, those whose bytes were forgotten, to be recomputed.
    pub drops: u64,
    /// Bytes copied from device to host.
    pub offloaded_bytes: u64,
    /// Bytes copied from host to device.
    pub fetched_bytes: u64,
    /// Of these, those copied before they were asked for.
    pub prefetched_bytes: u64,
    /// Ops run again to bring dropped storages back.
    pub recomputed_ops: u64,
    /// Bytes these ops made.
    pub recomputed_bytes: u64,
    /// Storages that were kept in fewer bits.
    pub encodings: u64,
    /// Bytes that these took before.
    pub encoded_bytes: u64,
    /// And as long as they were.
    pub encoded_into_bytes: u64,
    /// Bytes moved within device memory: to where a plan has them, or to join what is free between them.
    pub relocated_bytes: u64,
    /// Times the arena was emptied because free memory was in pieces.
    pub compactions: u64,
    /// Pages mapped, each as often as it was: none in a loop that asks for the same memory again and again.
    pub mapped_pages: u64,
    /// Iterations that were planned. A program that alternates between several kinds of them has each planned once.
    pub plannings: u64,
    /// Plans that came of it, each better than the one before of the same iteration.
    pub plans: u64,
    /// Ops, writes and reads refused for want of memory.
    pub out_of_memory: u64,
    /// Ops that failed when they ran, by an index out of range: what they made, and what descends from it, tells so when read.
    pub failed_ops: u64,
    /// Times the program read a tensor.
    pub reads: u64,
    /// Ops submitted after the first read. On an engine without data, they may not be those of a real run.
    pub ops_after_read: u64,
}

/// What a device's memory holds and held. `Display` prints a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The device.
    pub device: OvercommitDevice,
    /// Bytes in blocks of device memory: storages, and an op's workspace while it is submitted. Blocks are multiples of 256
    /// bytes; those made of pages from here and there, of the page.
    pub allocated_bytes: usize,
    /// The most of them at once.
    pub peak_allocated_bytes: usize,
    /// The average of them while ops run, by the ops' predicted times.
    pub average_allocated_bytes: usize,
    /// How far into device memory blocks have reached: the peak, and what lay unused between blocks.
    pub footprint_bytes: usize,
    /// Bytes of device memory mapped, whether in use or not.
    pub reserved_bytes: usize,
    /// The most of them at once.
    pub peak_reserved_bytes: usize,
    /// The most device memory that may be allocated.
    pub budget_bytes: usize,
    /// The smallest budget that the ops so far would have worked in: the largest need of a single one, in whole pages where
    /// memory is mapped by page.
    pub smallest_budget_bytes: usize,
    /// Bytes in the host tier.
    pub host_bytes: usize,
    /// The most of them at once.
    pub peak_host_bytes: usize,
    /// The host tier's limit.
    pub host_limit_bytes: usize,
    /// Records of storages, those only known to recipes included.
    pub storages: usize,
    /// Recipes.
    pub recipes: usize,
    /// Totals.
    pub counters: Counters,
    /// What the engine's clock shows; `None` where time is the world's.
    pub times: Option<Times>,
    /// Where planning stands.
    pub planning: PlanningState,
    /// Ops that slower kernels computed since NVIDIA's libraries did not, and why; since the engine began.
    pub fallbacks: Vec<Fallback>,
}

impl Stats {
    /// The figures under the keys of PyTorch's `torch.cuda.memory_stats`, and our own in its style.
    pub fn entries(&self) -> Vec<(&'static str, u64)> {
        let counters = &self.counters;
        vec![
            ("allocated_bytes.all.current", self.allocated_bytes as u64),
            ("allocated_bytes.all.peak", self.peak_allocated_bytes as u64),
            ("allocated_bytes.all.average", self.average_allocated_bytes as u64),
            ("footprint_bytes", self.footprint_bytes as u64),
            ("reserved_bytes.all.current", self.reserved_bytes as u64),
            ("reserved_bytes.all.peak", self.peak_reserved_bytes as u64),
            ("smallest_budget_bytes", self.smallest_budget_bytes as u64),
            ("host_bytes.all.current", self.host_bytes as u64),
            ("host_bytes.all.peak", self.peak_host_bytes as u64),
            ("offloaded_bytes.all.allocated", counters.offloaded_bytes),
            ("fetched_bytes.all.allocated", counters.fetched_bytes),
            ("prefetched_bytes.all.allocated", counters.prefetched_bytes),
            ("recomputed_bytes.all.allocated", counters.recomputed_bytes),
            ("encoded_bytes.all.allocated", counters.encoded_bytes),
            ("encoded_into_bytes.all.allocated", counters.encoded_into_bytes),
            ("num_encodings", counters.encodings),
            ("relocated_bytes.all.allocated", counters.relocated_bytes),
            ("recomputed_ops", counters.recomputed_ops),
            ("num_ops", counters.ops),
            ("num_evictions", counters.evictions),
            ("num_clean_evictions", counters.clean_evictions),
            ("num_drops", counters.drops),
            ("num_compactions", counters.compactions),
            ("num_mapped_pages", counters.mapped_pages),
            ("num_plannings", counters.plannings),
            ("num_plans", counters.plans),
            ("num_ooms", counters.out_of_memory),
            ("num_failed_ops", counters.failed_ops),
            ("num_reads", counters.reads),
            ("num_fallbacks", self.fallbacks.iter().map(|fallback| fallback.count).sum()),
        ]
    }
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
        let [compute, offload, fetch] = times.busy_ns.map(milliseconds);
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
