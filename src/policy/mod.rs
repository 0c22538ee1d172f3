//! Memory policies: which storage to evict, and by which method. They are pure: they see numbers and never the pool or an
//! engine.
//!
//! A policy is a rule for when memory is short ([`Reactive::pick`], [`Reactive::method`]), or a plan of whole iterations
//! ([`Reactive::plan`]), or both. A plan is a pure function of a [`Dataflow`](crate::liveness::Dataflow): one iteration with
//! its ops (name, time, need), its values, and the intervals between two touches of a value, with what the next touch reads
//! (values, signs or nothing). The plan states which values leave when an op has run, how they leave, and which values come
//! back before an op. If a policy returns several plans, the fastest on the simulation is followed. `auto` returns none, and
//! the planner searches instead.
//!
//! The schedule's rule, or else the policy's own, decides whatever the plan does not state. A policy that plans does nothing
//! until the iteration is known, which takes two of them, and only when memory is short. Gist also acts when memory is not
//! short.
//!
//! The file of each published policy lists its departures from the paper. The papers' texts were not available, only what is
//! public of them (authors' code, summaries). So section numbers and the exact form of AutoSwap's scores are unverified.
//!
//! A new policy needs a file with a [`Reactive`] implementation, a variant of [`Policy`](crate::config::Policy), and a row in
//! [`rule`].

mod auto;
mod autoswap;
mod capuchin;
mod dtr;
mod evict_all;
mod gist;
mod layrub;
mod published;
mod published_plan;
mod reactive;
mod recompute;
mod rules;
mod superneurons;
mod tensor_cache;
#[cfg(test)]
mod testing;
mod vdnn;
mod weighted_rule;

pub use gist::lossless;
pub use published_plan::Limits;
pub use reactive::{Candidate, CostModel, EvictionCosts, Reactive};
pub use rules::rule;
pub use superneurons::paper_figures::LayerCounts;
pub use superneurons::superneurons_recomputes;
