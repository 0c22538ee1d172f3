//! Figures of a program's iteration that only a comparison with a paper needs.

use super::{learned, registry};
use crate::OvercommitDevice;
use crate::error::Error;
use crate::planner::paper_figures;

pub use crate::planner::paper_figures::LayerCounts;

/// How many layers SuperNeurons recomputes in the program's iteration. `None` until two iterations of the program are known; the
/// first call starts the log of what the program requests.
pub fn layer_counts(device: &OvercommitDevice) -> Result<Option<LayerCounts>, Error> {
    let props = registry::runtime(device)?.engine.props().clone();
    Ok(learned(device)?.and_then(|(log, period)| paper_figures::layer_counts(&log, period, &props)))
}

/// The fraction of zeros in each output of a rectifier or max-pool, as [`Config::sparsity`](crate::Config::sparsity) takes them, for
/// the comparison with Gist's paper. `None` until two iterations of the program are known, as for [`layer_counts`].
pub fn sparsity(device: &OvercommitDevice) -> Result<Option<Vec<f64>>, Error> {
    Ok(learned(device)?.and_then(|(log, period)| paper_figures::sparsity(&log, period)))
}
