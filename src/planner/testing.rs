//! Views of a logged iteration for tests.

use super::iteration::{Iteration, IterationStep};
use crate::engine::Props;
use crate::liveness::Dataflow;
use crate::schedule::RequestLog;

/// The iteration as policies see it.
pub fn dataflow(log: &RequestLog, period: usize, props: &Props) -> Option<Dataflow> {
    Some(Iteration::cut(log, period)?.dataflow(props))
}

/// The iteration that would be planned, as text. Storages that are freed between the same two ops are listed in order.
pub fn in_words(log: &RequestLog, period: usize) -> Option<String> {
    let mut iteration = Iteration::cut(log, period)?;
    let is_free = |step: &IterationStep| matches!(step, IterationStep::Free(_));
    for freed in iteration.steps.chunk_by_mut(|one, next| is_free(one) && is_free(next)) {
        freed.sort_unstable_by_key(|step| if let IterationStep::Free(slot) = step { *slot } else { 0 });
    }
    Some(format!("{iteration:?}"))
}
