//! Numbers of a logged iteration that only a comparison with a paper needs. No plan depends on them.

use super::iteration::Iteration;
use crate::engine::Props;
use crate::op::Tally;
pub use crate::policy::LayerCounts;
use crate::schedule::RequestLog;

/// How many layers SuperNeurons recomputes in the iteration.
pub fn layer_counts(log: &RequestLog, period: usize, props: &Props) -> Option<LayerCounts> {
    Some(LayerCounts::of(&Iteration::cut(log, period)?.dataflow(props)))
}

/// The fraction of zeros in each value that may be sparse, in the order in which the iteration makes these values. `None` if the
/// zeros were not counted.
pub fn sparsity(log: &RequestLog, period: usize) -> Option<Vec<f64>> {
    let iteration = Iteration::cut(log, period)?;
    let values = iteration.counted_values(Tally::Nonzeros).into_iter();
    let fractions = values.map(|(slot, view)| {
        let nonzeros = iteration.counts[slot as usize].nonzeros?;
        Some(1.0 - nonzeros as f64 / view.shape().count().max(1) as f64)
    });
    fractions.collect()
}
