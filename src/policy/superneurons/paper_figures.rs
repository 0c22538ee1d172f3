//! Figures of SuperNeurons' paper, for a benchmark and a test that compare with them. No plan depends on them.

use super::{Segment, largest_layer_bytes, segments};
use crate::liveness::Dataflow;

/// The policy's result for an iteration, in layers as the paper counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerCounts {
    /// The number of layers that are recomputed if no segment is memory-centric, if the segments larger than the largest layer
    /// are, as under the policy, and if all are.
    pub recomputed: [usize; 3],
    /// The most memory that the backward pass of a layer takes.
    pub largest_bytes: usize,
}

impl LayerCounts {
    /// The counts of an iteration.
    pub fn of(flow: &Dataflow) -> Self {
        let segments = segments(flow);
        let largest_bytes = largest_layer_bytes(flow, &segments);
        let count = |memory_centric: &dyn Fn(&Segment) -> bool| {
            segments.iter().map(|segment| segment.recomputations(memory_centric(segment))).sum()
        };
        let recomputed =
            [count(&|_| false), count(&|segment| segment.bytes() > largest_bytes), count(&|_| true)];
        LayerCounts { recomputed, largest_bytes }
    }
}

impl Segment {
    /// The number of layers that are recomputed. As in the paper, a fork counts as a copy.
    fn recomputations(&self, memory_centric: bool) -> usize {
        let count = self.units.iter().rposition(|unit| unit.needed).map_or(0, |last| last + 1);
        let sum = |count: usize| count * (count + 1) / 2;
        match (memory_centric, self.forks) {
            (false, _) => count,
            (true, false) => sum(count),
            // The layer of the output needs it first, together with what that layer reads.
            (true, true) => count + sum(count.saturating_sub(2)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::chain;

    /// AlexNet as in the authors' `testing/alexnet.cpp`, in elements of one image.
    const ALEXNET: [(&str, usize); 22] = [
        ("conv", 96 * 55 * 55),
        ("relu", 96 * 55 * 55),
        ("batch_norm", 96 * 55 * 55),
        ("max_pool2d", 96 * 27 * 27),
        ("conv", 256 * 27 * 27),
        ("relu", 256 * 27 * 27),
        ("batch_norm", 256 * 27 * 27),
        ("max_pool2d", 256 * 13 * 13),
        ("conv", 384 * 13 * 13),
        ("relu", 384 * 13 * 13),
        ("conv", 384 * 13 * 13),
        ("relu", 384 * 13 * 13),
        ("conv", 256 * 13 * 13),
        ("relu", 256 * 13 * 13),
        ("max_pool2d", 256 * 6 * 6),
        ("matmul", 4096),
        ("relu", 4096),
        ("dropout", 4096),
        ("matmul", 4096),
        ("relu", 4096),
        ("dropout", 4096),
        ("matmul", 1000),
    ];

    #[test]
    fn the_papers_counts_of_alexnet() {
        assert_eq!(LayerCounts::of(&chain(3 * 227 * 227, &ALEXNET)).recomputed, [14, 17, 23]);
    }
}
