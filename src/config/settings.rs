//! What a device works by, once every choice is made.

use std::sync::Arc;

use log::LevelFilter;

use super::amount::Given;
use super::{Exactness, Placement, Planning};
use crate::engine::{ALIGN_BYTES, Props};
use crate::op::FloatFormat;
use crate::policy::{Policy, Reactive};
use crate::pool::{Foresight, Sabotage};

/// A [`Config`] with every choice made.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub budget_bytes: usize,
    /// Which budgets are mapped by page, if any are.
    pub paging: Option<Paging>,
    pub host_limit_bytes: usize,
    pub policy: Policy,
    pub exactness: Exactness,
    pub planning: Planning,
    /// Whether elementwise ops wait for others.
    pub fusion: Fusion,
    pub log: LevelFilter,
    pub sabotage: Option<Sabotage>,
    /// The op after which it is noted what is resident.
    pub portrait_at: Option<u64>,
    /// Whether all that happens is noted.
    pub record: bool,
    pub ways: AllowedWays,
    pub placement: Placement,
    pub gist_format: FloatFormat,
    /// Parts of zeros, where they are not counted.
    pub sparsity: Arc<[f64]>,
    /// Parts of memory that are left in byte planes, where they are not counted.
    pub packed: Arc<[f64]>,
    /// Device memory has addresses without end: on a simulation, for plans.
    pub endless: bool,
    /// What the policy is told of the program beforehand.
    pub foresight: Option<Arc<Foresight>>,
}

/// Device memory mapped by page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paging {
    pub page_bytes: usize,
    /// The smallest budget that is.
    pub least_bytes: usize,
}

/// How storages may be evicted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllowedWays {
    pub offload: bool,
    /// Of what the forward pass makes, only checkpoints are offloaded.
    pub checkpoints_only: bool,
    /// What is offloaded takes memory that is to be spared: above all what can be recomputed is not.
    pub spares_host: bool,
    pub recompute: bool,
}

/// Which elementwise ops wait for others, to become one with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// None.
    Off,
    /// Those whose operands are whole and in order, and nothing that reduces.
    InOrder,
    /// All that can be steps of a program, and what they end in.
    All,
}

impl Fusion {
    /// As the program said, or else what suits the device.
    pub fn of(asked: Option<bool>, props: &Props) -> Self {
        match asked {
            Some(true) => Fusion::All,
            Some(false) => Fusion::Off,
            None => match props.kernels {
                Some(kernels) if !kernels.favour_programs() => Fusion::InOrder,
                _ => Fusion::All,
            },
        }
    }
}

/// How many times as long it may take to recompute than to move, where host memory is to be spared: with more, hardly less of it is
/// taken, and with a quarter of that much more (`cargo bench --bench host_memory`).
const OUT_OF_PROPORTION: u64 = 16;

impl Default for AllowedWays {
    fn default() -> Self {
        AllowedWays { offload: true, checkpoints_only: false, spares_host: false, recompute: true }
    }
}

impl AllowedWays {
    /// Whether whatever is evicted may be kept on the host.
    pub fn offloads_all(self) -> bool {
        self.offload && !self.checkpoints_only
    }

    /// What it costs to move a storage away and back in so much time, beside what others cost.
    pub fn price_of_moving(self, move_ns: u64) -> u64 {
        if self.spares_host { OUT_OF_PROPORTION * move_ns } else { move_ns }
    }
}

impl Settings {
    /// Whether it is said what values are like, so that nothing is to be counted.
    pub fn states_counts(&self) -> bool {
        !self.sparsity.is_empty() || !self.packed.is_empty()
    }

    /// The policy's rule.
    pub fn reactive(&self) -> Arc<dyn Reactive> {
        self.policy.reactive(self.gist_format)
    }

    /// The size of the pages that a budget is mapped by, if it is.
    pub fn page_bytes(&self, budget_bytes: usize) -> Option<usize> {
        let paging = self.paging.filter(|paging| budget_bytes >= paging.least_bytes)?;
        Some(paging.page_bytes)
    }

    /// What a budget comes to: where it is mapped by page, the rest of the last one is left out.
    pub fn whole_pages(&self, budget_bytes: usize) -> usize {
        self.page_bytes(budget_bytes)
            .map_or(budget_bytes, |page_bytes| budget_bytes / page_bytes * page_bytes)
    }

    /// The same with fewer bytes of budget, which are mapped as these are.
    pub fn with_less(&self, bytes: usize) -> Settings {
        let page_bytes = self.page_bytes(self.budget_bytes);
        Settings {
            budget_bytes: self.budget_bytes.saturating_sub(bytes),
            paging: page_bytes.map(|page_bytes| Paging { page_bytes, least_bytes: page_bytes }),
            ..self.clone()
        }
    }

    /// The smallest budget with room for so much.
    pub fn budget_for(&self, needed_bytes: usize) -> usize {
        let page_bytes = self.page_bytes(needed_bytes);
        page_bytes.map_or(needed_bytes, |page_bytes| needed_bytes.next_multiple_of(page_bytes))
    }

    /// Says so where a budget in bytes comes to clearly less.
    pub(super) fn tell_of_rounding(&self, given: &Given) {
        let to_bytes = self.whole_pages(self.budget_bytes) / ALIGN_BYTES * ALIGN_BYTES;
        if given.asked_bytes().is_some_and(|asked_bytes| asked_bytes - to_bytes > asked_bytes / 100) {
            self.log(log::Level::Warn, format_args!("{}", given.rounded(to_bytes)));
        }
    }

    /// Hands a message to the [`log`] facade if the user wants such detail.
    pub fn log(&self, level: log::Level, message: std::fmt::Arguments) {
        if level <= self.log {
            log::log!(target: "burn_overcommit", level, "{message}");
        }
    }
}
