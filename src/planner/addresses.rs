//! Schedules with planned addresses, from the blocks that a trial took.

use std::sync::Arc;

use super::blocks::IterationBlocks;
use super::problem::{Planner, TimedSchedule, scheduled};
use super::trial::Trial;
use crate::config::Settings;
use crate::schedule::Schedule;

/// Addresses are planned for at most so many blocks, since each block is compared with most others.
const MAX_BLOCKS: usize = 100_000;

/// If storages are copied and the addresses exceed the budget, the limit on the bytes in blocks is lowered once, by this part of the
/// excess, since later blocks may be in the way of others, but at least by this part of the limit.
const EXCESS_PART: f64 = 0.25;
const LEAST_PART: f64 = 0.002;
/// An iteration that does not end as it began is tried again at most so many times.
const MAX_REPEATS: usize = 2;

impl Planner<'_> {
    /// Plans addresses for the blocks of a schedule that was tried with unbounded addresses, unless there are too many blocks,
    /// and measures the result. The addresses may exceed the budget if memory is not fragmented or can be defragmented: if
    /// memory is mapped by page, a block whose pages are in use takes other free pages; if nothing is copied, blocks are moved
    /// together. If storages are copied, a lower limit on the bytes in blocks is tried too, if the schedule could be faster.
    pub fn with_addresses(&self, schedule: &Arc<Schedule>, first: &Trial) -> Option<TimedSchedule> {
        let mut blocks = first.blocks.clone()?;
        if blocks.ops.is_empty() || blocks.ops.len() > MAX_BLOCKS {
            return None;
        }
        let mut script = scheduled(schedule, first);
        let budget_bytes = self.settings.whole_pages(self.settings.budget_bytes);
        let page_bytes = self.settings.page_bytes(self.settings.budget_bytes);
        let needs_to_fit = self.settings.methods.offload && page_bytes.is_none();
        let mut best: Option<TimedSchedule> = None;
        for is_first in [true, false] {
            if self.repeat(schedule, &mut script, &mut blocks).is_none() {
                break;
            }
            let (layout, footprint_bytes) =
                blocks.layout(budget_bytes, page_bytes, self.settings.tunables.placement_steps);
            let fits = footprint_bytes <= budget_bytes;
            if fits || !needs_to_fit {
                let timed =
                    self.timed(Arc::new(Schedule { layout: Some(Arc::new(layout)), ..script.clone() }));
                best = TimedSchedule::fastest(best.into_iter().chain(timed));
            }
            if fits || !is_first || !self.settings.methods.offload {
                break;
            }
            let excess = footprint_bytes as f64 / budget_bytes as f64 - 1.0;
            let limit_bytes =
                (blocks.limit_bytes as f64 * (1.0 - (excess * EXCESS_PART).max(LEAST_PART))) as usize;
            let Some(trial) = self.run_unbounded(limit_bytes, schedule) else { break };
            if best.as_ref().is_some_and(|best| best.step_ns <= trial.step_ns) {
                break;
            }
            script = scheduled(schedule, &trial);
            blocks = trial.blocks?;
        }
        best
    }

    /// Repeats the trial until the iteration ends as it began. The trial follows the decisions of the one before, which come to
    /// repeat even if those of the rule alone do not.
    fn repeat(&self, schedule: &Schedule, script: &mut Schedule, blocks: &mut IterationBlocks) -> Option<()> {
        for _ in 0..MAX_REPEATS {
            if blocks.repeats {
                break;
            }
            let trial = self.run_unbounded(blocks.limit_bytes, &Arc::new(script.clone()))?;
            *script = scheduled(schedule, &trial);
            *blocks = trial.blocks?;
        }
        Some(())
    }

    /// A trial with unbounded addresses and at most so many bytes in blocks.
    fn run_unbounded(&self, limit_bytes: usize, schedule: &Arc<Schedule>) -> Option<Trial> {
        let budget_bytes = self.settings.whole_pages(self.settings.budget_bytes);
        let settings =
            Settings { unbounded_addresses: true, ..self.settings.with_less(budget_bytes - limit_bytes) };
        Planner { settings: &settings, ..*self }.run(Some(schedule))
    }
}
