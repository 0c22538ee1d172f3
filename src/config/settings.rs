//! The settings of a device, with every choice made.

use std::sync::Arc;

use log::LevelFilter;

use super::amount::Given;
use super::choices::{Exactness, Placement, PlanCache, Planning};
use super::fault::PlantedFault;
use super::oracle::Oracle;
use super::policy::Policy;
use super::tunables::Tunables;
use crate::engine::{ALIGN_BYTES, DiskTier, PeerTier};
use crate::messages;
use crate::op::FloatFormat;

/// A [`Config`] with every choice made.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub budget_bytes: usize,
    /// The budgets that are mapped by page, if the engine can map pages.
    pub paging: Option<Paging>,
    pub host_limit_bytes: usize,
    /// Memory of other devices.
    pub peers: Option<PeerTier>,
    /// Where bytes go that the host tier has no room for.
    pub disk: Option<DiskTier>,
    pub policy: Policy,
    pub exactness: Exactness,
    pub planning: Planning,
    /// The seed of when plans arrive, for tests.
    pub plan_arrivals: Option<u64>,
    pub plan_cache: PlanCache,
    /// Which elementwise ops are fused.
    pub fusion: bool,
    pub log: LevelFilter,
    pub planted_fault: Option<PlantedFault>,
    /// The op after which a snapshot of the resident storages is taken.
    pub snapshot_at: Option<u64>,
    /// Whether all events are recorded.
    pub record: bool,
    pub methods: EvictionMethods,
    pub placement: Placement,
    pub gist_format: FloatFormat,
    /// Fractions of zeros that replace counting.
    pub sparsity: Arc<[f64]>,
    /// Fractions of memory in byte planes that replace counting.
    pub packed: Arc<[f64]>,
    /// Device memory has unbounded addresses. Only the planner sets this, on a simulation.
    pub unbounded_addresses: bool,
    pub tunables: Tunables,
    /// The program's future, if the policy knows it.
    pub oracle: Option<Arc<Oracle>>,
}

/// Device memory mapped by page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paging {
    pub page_bytes: usize,
    /// The smallest budget that is mapped.
    pub least_bytes: usize,
}

/// The eviction methods that are allowed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct EvictionMethods {
    pub offload: bool,
    /// Of the values that the forward pass makes, only checkpoints may be offloaded.
    pub checkpoints_only: bool,
    /// Offloaded bytes take memory that should be saved, so storages that can be recomputed are not offloaded if recomputing is
    /// cheap.
    pub saves_host_memory: bool,
    pub recompute: bool,
}

/// Recomputing may take so many times as long as moving if host memory should be saved. A larger factor saves hardly more host
/// memory, and with a quarter of it much more is taken (measured by `benches/host_memory`).
const MAX_RECOMPUTE_FACTOR: u64 = 16;

impl Default for EvictionMethods {
    fn default() -> Self {
        EvictionMethods { offload: true, checkpoints_only: false, saves_host_memory: false, recompute: true }
    }
}

impl EvictionMethods {
    /// Whether every evicted storage may be kept on the host.
    pub fn offloads_all(self) -> bool {
        self.offload && !self.checkpoints_only
    }

    /// The price of moving a storage away and back in `move_ns`, to be compared with the time of recomputing it.
    pub fn price_of_moving(self, move_ns: u64) -> u64 {
        if self.saves_host_memory { MAX_RECOMPUTE_FACTOR * move_ns } else { move_ns }
    }
}

impl Settings {
    /// Whether the settings state the counts of values, so that nothing is counted.
    pub fn states_counts(&self) -> bool {
        !self.sparsity.is_empty() || !self.packed.is_empty()
    }

    /// The size of the pages that a budget is mapped by, or `None` if it is not.
    pub fn page_bytes(&self, budget_bytes: usize) -> Option<usize> {
        let paging = self.paging.filter(|paging| budget_bytes >= paging.least_bytes)?;
        Some(paging.page_bytes)
    }

    /// A budget rounded down to whole pages, if it is mapped by page.
    pub fn whole_pages(&self, budget_bytes: usize) -> usize {
        self.page_bytes(budget_bytes)
            .map_or(budget_bytes, |page_bytes| budget_bytes / page_bytes * page_bytes)
    }

    /// The same settings with a smaller budget that is mapped in the same way.
    pub fn with_less(&self, bytes: usize) -> Settings {
        let page_bytes = self.page_bytes(self.budget_bytes);
        Settings {
            budget_bytes: self.budget_bytes.saturating_sub(bytes),
            paging: page_bytes.map(|page_bytes| Paging { page_bytes, least_bytes: page_bytes }),
            ..self.clone()
        }
    }

    /// The smallest budget that holds so many bytes.
    pub fn budget_for(&self, needed_bytes: usize) -> usize {
        let page_bytes = self.page_bytes(needed_bytes);
        page_bytes.map_or(needed_bytes, |page_bytes| needed_bytes.next_multiple_of(page_bytes))
    }

    /// Warns if rounding makes the budget clearly smaller than the bytes that were requested.
    pub(super) fn tell_of_rounding(&self, given: &Given) {
        let to_bytes = self.whole_pages(self.budget_bytes) / ALIGN_BYTES * ALIGN_BYTES;
        if given.asked_bytes().is_some_and(|asked_bytes| asked_bytes - to_bytes > asked_bytes / 100) {
            self.log(log::Level::Warn, format_args!("{}", given.rounded(to_bytes)));
        }
    }

    /// Tells the user something, if messages of this level are wanted.
    pub fn log(&self, level: log::Level, message: std::fmt::Arguments) {
        messages::tell_up_to(self.log, level, message);
    }
}
