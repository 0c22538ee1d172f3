//! Memory policies: which storage to evict, and how. Pure: they see numbers, never the pool or an engine.
//!
//! A policy is a rule for when memory is short ([`Reactive::pick`], [`Reactive::how`]), or a plan of whole iterations
//! ([`Reactive::plan`]), or both. Plans are pure functions of a [`Dataflow`]: one iteration with its ops (name, time,
//! need), its values, and the time from one touch of a value to the next, with what the next touch reads (values,
//! signs, nothing). They state what leaves at once when an op has run, and how, and what comes back before an op. A
//! policy may answer with several plans, of which the fastest on the simulation is followed; `auto` answers with none,
//! and the planner searches.
//!
//! What a plan does not state is done by the schedule's rule, or the policy's own. No policy that plans does anything
//! until the iteration is known, which takes two of them, and unless memory is short; only Gist acts though it is not.
//!
//! Each file of a published policy lists where it departs from its paper. The papers' texts were not at hand when these
//! were written, but for what is public of them (authors' code, summaries): section numbers, and the exact form of
//! AutoSwap's scores, are unverified.
//!
//! To add one: a file with a [`Reactive`] implementation, and a row in [`Policy`].

mod auto;
mod autoswap;
mod capuchin;
mod dtr;
mod evict_all;
mod gist;
mod layrub;
mod published;
mod recompute;
mod superneurons;
mod tensor_cache;
#[cfg(test)]
mod testing;
mod vdnn;
mod weighed;

use std::fmt::Debug;
use std::sync::Arc;

use crate::config::Policy;
use crate::liveness::Dataflow;
use crate::op::FloatFormat;
use crate::schedule::{Eviction, Turn, Weighed};

pub use gist::lossless;
use published::Planned;
pub use published::{Limits, Plan};
pub use superneurons::{LayerCounts, superneurons_recomputes};

/// A policy's rule for when memory is short. `format`: what is rounded is rounded to.
pub fn rule(policy: Policy, format: FloatFormat) -> Arc<dyn Reactive> {
    match policy {
        Policy::Auto => Arc::new(auto::Auto),
        Policy::TensorCache => Arc::new(tensor_cache::TensorCache),
        Policy::Recompute => Arc::new(recompute::Recompute),
        Policy::EvictAll => Arc::new(evict_all::EvictAll),
        Policy::Dtr => Arc::new(dtr::Dtr::Neighbourhood),
        Policy::DtrEq => Arc::new(dtr::Dtr::Components),
        Policy::VdnnAll => Arc::new(Planned(vdnn::Vdnn::All)),
        Policy::VdnnConv => Arc::new(Planned(vdnn::Vdnn::Conv)),
        Policy::VdnnDyn => Arc::new(Planned(vdnn::Vdnn::Dyn)),
        Policy::SuperNeurons => Arc::new(Planned(superneurons::SuperNeurons)),
        Policy::Layrub => Arc::new(Planned(layrub::Layrub)),
        Policy::AutoSwap => Arc::new(Planned(autoswap::AutoSwap::StickToLimit)),
        Policy::AutoSwapNoOverhead => Arc::new(Planned(autoswap::AutoSwap::NoOverhead)),
        Policy::Capuchin => Arc::new(Planned(capuchin::Capuchin)),
        Policy::GistLossless => Arc::new(Planned(gist::Gist { lossy: None })),
        Policy::Gist => Arc::new(Planned(gist::Gist { lossy: Some(format) })),
    }
}

/// A storage that could be evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    /// Device memory it would free.
    pub size_bytes: usize,
    /// Predicted time of the ops since it was last used.
    pub idle_ns: u64,
    /// Predicted time of the ops that the policy counts as the cost of having it back: see [`Reactive::knows`].
    pub cost_ns: u64,
    /// The host tier has its bytes: eviction costs nothing now.
    pub clean: bool,
    /// Ops until it is next used, where that is known; the most there can be if it never is.
    pub next_use_ops: Option<u64>,
    /// What the schedule says, if one is followed.
    pub turn: Turn,
}

/// What evicting a storage would cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ways {
    /// Predicted time of moving it away and back; `None` if the host tier has no room for it.
    pub move_ns: Option<u64>,
    /// Predicted time of making it again; `None` if that cannot be.
    pub remake_ns: Option<u64>,
}

/// What a policy is told of the cost of having a storage back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knowledge {
    /// Nothing.
    Recency,
    /// The time of the op that made it, and of those that made the evicted storages that it would be remade through, or that
    /// would be remade through it; of so many of these at the most. Where copies are an alternative, theirs if it is less.
    Neighbourhood {
        /// How many in each direction.
        most: usize,
    },
    /// As that, with costs of whole sets of storages that were evicted next to each other, some of which may be there again.
    Components,
}

/// A policy that acts when memory is short.
pub trait Reactive: Debug + Send + Sync {
    /// The weights by which it picks, if it does so by weights: of the candidates whose [`Turn`] comes first the one that weighs the
    /// least, of equals the least recently used.
    fn weighs(&self) -> Option<&Weighed> {
        None
    }

    /// Otherwise: which of the candidates, least recently used first, to evict, by index, to make room for a block of `need_bytes`.
    /// The iterator is lazy: what is not looked at costs nothing.
    fn pick(&self, need_bytes: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        let _ = (need_bytes, candidates);
        None
    }

    /// Storages of fewer bytes are candidates only where there are no larger ones.
    fn least_bytes(&self, need_bytes: usize) -> usize {
        let _ = need_bytes;
        0
    }

    /// What it weighs.
    fn knows(&self) -> Knowledge {
        Knowledge::Recency
    }

    /// How to evict one that is not clean. `None`: not at all.
    fn how(&self, ways: Ways) -> Option<Eviction>;

    /// Whether evicted storages come back before they are needed, where liveness is known.
    fn prefetches(&self) -> bool {
        false
    }

    /// Whether whole iterations are planned.
    fn plans(&self) -> bool {
        false
    }

    /// Plans of an iteration, to be followed as they are: the first of those that are fastest on the simulation. None: whoever
    /// plans searches for one.
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<Plan> {
        let _ = (flow, limits);
        Vec::new()
    }

    /// Whether iterations are planned though memory is not short.
    fn encodes(&self) -> bool {
        false
    }

    /// Whether storages leave as soon as no op uses them, and not when memory is short.
    fn evicts_at_once(&self) -> bool {
        false
    }
}
