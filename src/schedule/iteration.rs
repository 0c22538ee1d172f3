//! A schedule: the pool's decisions in an iteration, by the ops of the iteration.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::eviction::{Eviction, WeightedRule};
use super::interval::{IntervalId, IntervalPlan};
use super::layout::Layout;
use super::prefetch::PrefetchDistance;
use crate::op::Encoding;

/// No op takes longer, in a schedule that is followed: an hour.
const MAX_LAUNCH_NS: u64 = 3_600_000_000_000;

/// An op of the iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduledOp {
    /// The op's identity: [`Instruction::signature`](crate::engine::Instruction).
    pub signature: u64,
    /// The identity of the op in its context, from the [`Tracker`](crate::liveness::Tracker).
    pub context: u64,
    /// The time that the plan assumes.
    pub launch_ns: u64,
    /// The interval that begins at its first operand. Those of the other operands follow, inputs before outputs.
    pub first: IntervalId,
}

/// Which of an engine's algorithms runs an op, if there is a choice, which is under
/// [`Exactness::Fast`](crate::Exactness::Fast).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AlgorithmChoice {
    /// The fastest whose workspace fits the free memory.
    #[default]
    FastestThatFits,
    /// The fastest, whatever is evicted for its workspace.
    Fastest,
    /// The one with the smallest workspace.
    SmallestWorkspace,
}

/// What a pool does in every iteration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    pub ops: Vec<ScheduledOp>,
    pub intervals: Vec<IntervalPlan>,
    /// The evictions when an op needs memory, in this order. Sorted by op.
    pub evictions: Vec<(u32, IntervalId, Eviction)>,
    /// The evictions after an op has run. Sorted by op.
    pub releases: Vec<(u32, IntervalId, Eviction)>,
    /// The fetches before an op. Sorted by op.
    pub fetches: Vec<(u32, IntervalId)>,
    /// How long before its use a storage is fetched that `fetches` does not name, if there is memory by then.
    pub prefetch_distance: PrefetchDistance,
    /// The rule for further evictions. `None` means the policy's own rule.
    pub rule: Option<WeightedRule>,
    /// Which algorithms run ops.
    pub algorithms: AlgorithmChoice,
    /// The placements of blocks, if they are planned.
    pub layout: Option<Arc<Layout>>,
    /// The bandwidth of copies that the plan assumes.
    pub link_bytes_per_second: f64,
}

impl Schedule {
    /// The same schedule, noted as planned for this bandwidth of copies.
    pub fn made_with(self, link_bytes_per_second: f64) -> Self {
        Schedule { link_bytes_per_second, ..self }
    }

    /// Equal for schedules of the same ops in the same order, whichever of them is the first.
    pub fn iteration(&self) -> u64 {
        let ops = self.ops.iter().map(|op| op.context.wrapping_mul(2u64.wrapping_mul(op.signature) | 1));
        ops.fold(self.ops.len() as u64, u64::wrapping_add)
    }

    /// Whether the pool may follow the schedule, wherever it comes from: its numbers are those of its ops and intervals, times can be
    /// added up, placements are possible, and no encoding loses bits unless that `may_lose`. A schedule that the planner made is sound.
    pub fn is_sound(&self, may_lose: bool) -> bool {
        let (ops, intervals) = (self.ops.len(), self.intervals.len());
        let are_ops = |op: u32| (op as usize) < ops;
        let are_known = |op: u32, interval: IntervalId| are_ops(op) && (interval.0 as usize) < intervals;
        let decisions = self.evictions.iter().chain(&self.releases);
        let firsts: Vec<usize> = self.ops.iter().map(|op| op.first.0 as usize).chain([intervals]).collect();
        let evictions = decisions.clone().map(|(.., eviction)| *eviction);
        let planned = self.intervals.iter().filter_map(|interval| interval.method);
        let is_sound = |eviction| match eviction {
            Eviction::Encode(encoding) => {
                encoding.is_sound() && (may_lose || !matches!(encoding, Encoding::Reduced(_)))
            }
            Eviction::Offload | Eviction::Drop => true,
        };
        let exponents = self.rule.iter().flat_map(|rule| [rule.idle, rule.until_next]);
        ops > 0
            && firsts.is_sorted()
            && self.ops.iter().all(|op| op.launch_ns <= MAX_LAUNCH_NS)
            && { exponents }.chain([self.link_bytes_per_second]).all(f64::is_finite)
            && self.prefetch_distance <= PrefetchDistance::MAX
            && evictions.chain(planned).all(is_sound)
            && decisions.clone().all(|&(op, interval, _)| are_known(op, interval))
            && self.evictions.is_sorted_by_key(|&(op, ..)| op)
            && self.releases.is_sorted_by_key(|&(op, ..)| op)
            && self.fetches.is_sorted_by_key(|&(op, _)| op)
            && self.fetches.iter().all(|&(op, interval)| are_known(op, interval))
            && self.layout.as_ref().is_none_or(|layout| {
                layout.is_sound()
                    && layout.blocks.iter().all(|block| are_ops(block.op))
                    && layout.residents.iter().all(|&(interval, _)| are_known(0, interval))
            })
    }

    /// The interval that begins at an operand of an op.
    pub fn interval(&self, op: u32, operand: usize) -> Option<IntervalId> {
        let first = self.ops[op as usize].first.0;
        let end = self.ops.get(op as usize + 1).map_or(self.intervals.len() as u32, |next| next.first.0);
        let id = first + operand as u32;
        (id < end).then_some(IntervalId(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::FloatFormat;
    use crate::schedule::layout::{BlockPlacement, PlannedBlock};

    /// Of one op, with a block and a storage that is there from the beginning.
    fn schedule() -> Schedule {
        let op = ScheduledOp { signature: 1, context: 2, launch_ns: 3, first: IntervalId(0) };
        let interval = IntervalPlan {
            next_ops: Some(1),
            method: Some(Eviction::Offload),
            copied: false,
            order: Default::default(),
            may_move: true,
            persists: false,
        };
        Schedule {
            ops: vec![op],
            intervals: vec![interval],
            link_bytes_per_second: 1e9,
            ..Schedule::default()
        }
        .placed(BlockPlacement::At(256))
    }

    impl Schedule {
        fn placed(self, placement: BlockPlacement) -> Self {
            let blocks = vec![PlannedBlock { op: 0, bytes: 512, placement: placement.clone() }];
            let residents = vec![(IntervalId(0), placement)];
            Schedule { layout: Some(Arc::new(Layout { blocks, residents, limit_bytes: 1024 })), ..self }
        }

        fn evicting(mut self, eviction: Eviction) -> Self {
            self.evictions = vec![(0, IntervalId(0), eviction)];
            self
        }
    }

    #[test]
    fn a_schedule_with_impossible_placements_is_not_sound() {
        let pages = |runs: &[std::ops::Range<u32>]| BlockPlacement::On(runs.into());
        assert!(schedule().is_sound(false));
        assert!(schedule().placed(pages(&[4..6, 0..2])).is_sound(false));
        let impossible = [
            BlockPlacement::At(100),
            BlockPlacement::At(usize::MAX - 255),
            pages(&[0..2, 1..3]),
            pages(&[0..1, 2..2]),
        ];
        for placement in impossible {
            assert!(!schedule().placed(placement.clone()).is_sound(false), "{placement:?}");
        }
        let mut unordered = schedule();
        let layout = unordered.layout.as_deref().unwrap();
        let residents = [layout.residents.clone(), layout.residents.clone()].concat();
        unordered.layout = Some(Arc::new(Layout { residents, ..layout.clone() }));
        assert!(!unordered.is_sound(false));
    }

    #[test]
    fn a_schedule_loses_bits_only_where_it_may() {
        let encoded = |encoding| schedule().evicting(Eviction::Encode(encoding));
        let reduced = Encoding::Reduced(FloatFormat::F16);
        assert!(encoded(reduced).is_sound(true) && !encoded(reduced).is_sound(false));
        let mut planned = schedule();
        planned.intervals[0].method = Some(Eviction::Encode(reduced));
        assert!(!planned.is_sound(false));
        assert!(encoded(Encoding::Integers { bits: 4 }).is_sound(false));
        assert!(!encoded(Encoding::Integers { bits: 0 }).is_sound(true));
    }

    #[test]
    fn a_schedule_whose_numbers_mean_nothing_is_not_sound() {
        let rule = Some(WeightedRule { idle: f64::NAN, until_next: 1.0 });
        let parts = u64::MAX;
        assert!(!Schedule { rule, ..schedule() }.is_sound(true));
        assert!(!Schedule { link_bytes_per_second: f64::INFINITY, ..schedule() }.is_sound(true));
        assert!(!Schedule { prefetch_distance: PrefetchDistance { parts }, ..schedule() }.is_sound(true));
        let mut endless = schedule();
        endless.ops[0].launch_ns = u64::MAX;
        assert!(!endless.is_sound(true));
    }
}
