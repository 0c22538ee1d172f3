//! What all published policies have in common that plan whole iterations.

use std::fmt::Debug;

use super::published_plan::{Limits, PublishedPlan};
use super::reactive::{Candidate, EvictionCosts, Reactive};
use super::tensor_cache::TensorCache;
use crate::liveness::Dataflow;
use crate::schedule::Eviction;

/// A policy that plans whole iterations.
pub trait PublishedPolicy: Debug + Send + Sync {
    /// See [`Reactive::plan`].
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<PublishedPlan>;

    /// See [`Reactive::encodes`].
    fn encodes(&self) -> bool {
        false
    }

    /// Whether the policy drops storages that can be recomputed if they cannot be moved.
    fn recomputes(&self) -> bool {
        false
    }
}

/// A policy that plans, with the tensor cache as its rule for whatever the plan does not state.
#[derive(Debug)]
pub struct Published<P>(pub P);

impl<P: PublishedPolicy> Reactive for Published<P> {
    fn pick(&self, need_bytes: usize, candidates: &mut dyn Iterator<Item = Candidate>) -> Option<usize> {
        TensorCache.pick(need_bytes, candidates)
    }

    fn method(&self, costs: EvictionCosts) -> Option<Eviction> {
        let drop = costs.rematerialize_ns.filter(|_| self.0.recomputes()).map(|_| Eviction::Drop);
        TensorCache.method(costs).or(drop)
    }

    fn plans(&self) -> bool {
        true
    }

    fn encodes(&self) -> bool {
        self.0.encodes()
    }

    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<PublishedPlan> {
        self.0.plan(flow, limits)
    }
}
