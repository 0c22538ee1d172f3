//! The interface of policies: what they are told of the storages that can leave, and what they answer.

use std::fmt::Debug;

use super::published_plan::{Limits, PublishedPlan};
use crate::liveness::Dataflow;
use crate::schedule::{Eviction, EvictionOrder, WeightedRule};

/// A storage that could be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// The device memory that it would free.
    pub size_bytes: usize,
    /// The predicted time of the ops since its last use.
    pub idle_ns: u64,
    /// The predicted time of the ops that the policy counts as the cost of having it back: see [`Reactive::cost_model`].
    pub cost_ns: u64,
    /// The host tier has its bytes, so that eviction costs nothing now.
    pub clean: bool,
    /// The number of ops until its next use, if that is known, or the largest number if there is none.
    pub next_use_ops: Option<u64>,
    /// Its order in the active schedule, if there is one.
    pub order: EvictionOrder,
}

/// The cost of evicting a storage, by eviction method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvictionCosts {
    /// The predicted time of moving it away and back. `None` if the host tier has no room for it.
    pub move_ns: Option<u64>,
    /// The predicted time of rematerializing it. `None` if that is impossible.
    pub rematerialize_ns: Option<u64>,
}

/// How the cost of having a storage back is computed for a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostModel {
    /// No cost.
    Recency,
    /// The time of the op that made it, and of the ops that made its nearest evicted neighbours: those that it would be
    /// rematerialized through, and those that would be rematerialized through it. If it can be moved, the time of its copies
    /// counts if that is less.
    Neighbourhood {
        /// How many neighbours count in each direction.
        most: usize,
    },
    /// The same with the costs of whole sets of evicted neighbours, some of which may be back.
    Components,
}

/// A policy that acts when memory is short.
pub trait Reactive: Debug + Send + Sync {
    /// The rule by which it picks, if it weighs candidates. Among the candidates that are first by [`EvictionOrder`], the pool
    /// evicts the one with the least weight, and the least recently used of equals.
    fn weighs(&self) -> Option<&WeightedRule> {
        None
    }

    /// Otherwise, the index of the candidate to evict to make room for a block of `need_bytes`. Candidates come least recently
    /// used first. The iterator is lazy, so that candidates that are not read cost nothing.
    fn pick(&self, need_bytes: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        let _ = (need_bytes, candidates);
        None
    }

    /// Smaller storages are candidates only if there are no larger ones.
    fn least_bytes(&self, need_bytes: usize) -> usize {
        let _ = need_bytes;
        0
    }

    /// How the cost of candidates is computed.
    fn cost_model(&self) -> CostModel {
        CostModel::Recency
    }

    /// How to evict a storage that is not clean. `None` means not at all.
    fn method(&self, costs: EvictionCosts) -> Option<Eviction>;

    /// Whether evicted storages are prefetched, if liveness is known.
    fn prefetches(&self) -> bool {
        false
    }

    /// Whether whole iterations are planned.
    fn plans(&self) -> bool {
        false
    }

    /// Plans of an iteration, to be followed as they are. If there are several, the fastest on the simulation is followed. If
    /// there is none although the policy plans, the planner searches.
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<PublishedPlan> {
        let _ = (flow, limits);
        Vec::new()
    }

    /// Whether iterations are planned even if memory is not short.
    fn encodes(&self) -> bool {
        false
    }

    /// Whether storages leave as soon as no op uses them, instead of when memory is short.
    fn evicts_at_once(&self) -> bool {
        false
    }
}
