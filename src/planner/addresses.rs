//! From the blocks that a trial took to addresses for them.

use std::sync::Arc;

use super::blocks::IterationBlocks;
use super::pages::PageOrder;
use super::problem::{Planner, TimedSchedule, scheduled};
use super::trial::Trial;
use crate::config::Settings;
use crate::schedule::{Layout, Schedule};

/// Blocks that addresses are chosen for, at the most: each is compared with most others.
const MAX_BLOCKS: usize = 100_000;

/// How often fewer bytes in blocks are tried, where storages are copied and the addresses of as many as there may be reach too far; by how
/// much fewer at the least at first, and how many times that each time.
const MAX_LIMITS: i32 = 12;
const FIRST_MARGIN: f64 = 0.002;
const MARGIN_FACTOR: f64 = 1.35;
/// The part of what is beyond the budget by which there are fewer: others come to be in the way.
const EXCESS_PART: f64 = 0.25;
/// How often an iteration is tried again that does not end as it begins.
const MAX_REPEATS: usize = 2;

impl Planner<'_> {
    /// A schedule that was tried with addresses without end, with addresses for its blocks unless there are too many, and how long it takes.
    /// They may reach beyond the budget where memory is not in pieces, or can be put in order: where it is mapped by page, what finds its
    /// pages in use takes others that are free; where nothing is copied, blocks are moved together. Where storages are copied, fewer bytes in
    /// blocks are tried then too, as long as that could be faster.
    pub fn with_addresses(&self, schedule: &Arc<Schedule>, first: &Trial) -> Option<TimedSchedule> {
        let mut blocks = first.blocks.clone()?;
        if blocks.ops.is_empty() || blocks.ops.len() > MAX_BLOCKS {
            return None;
        }
        let mut script = scheduled(schedule, first);
        let budget_bytes = self.settings.whole_pages(self.settings.budget_bytes);
        let needs_to_fit =
            self.settings.ways.offload && self.settings.page_bytes(self.settings.budget_bytes).is_none();
        let mut limit_bytes = blocks.limit_bytes;
        let mut best: Option<TimedSchedule> = None;
        for tried in 0..MAX_LIMITS {
            if self.repeat(schedule, &mut script, &mut blocks).is_none() {
                break;
            }
            let layouts = self.layouts(&blocks, budget_bytes);
            let footprint_bytes =
                layouts.iter().map(|&(_, footprint_bytes)| footprint_bytes).min().unwrap_or(0);
            let fits = footprint_bytes <= budget_bytes;
            if fits || !needs_to_fit {
                let reach_bytes = budget_bytes.max(footprint_bytes);
                let nearest = layouts.into_iter().filter(|&(_, bytes)| bytes <= reach_bytes);
                let schedule =
                    |layout| Arc::new(Schedule { layout: Some(Arc::new(layout)), ..script.clone() });
                let timed = nearest.filter_map(|(layout, _)| self.timed(schedule(layout)));
                best = TimedSchedule::fastest(best.into_iter().chain(timed));
            }
            if fits || !self.settings.ways.offload {
                break;
            }
            let excess = footprint_bytes as f64 / budget_bytes as f64 - 1.0;
            let margin = (excess * EXCESS_PART).max(FIRST_MARGIN * MARGIN_FACTOR.powi(tried));
            limit_bytes = (limit_bytes as f64 * (1.0 - margin)) as usize;
            let Some(trial) = self.run_unbounded(limit_bytes, schedule) else { break };
            if best.as_ref().is_some_and(|best| best.step_ns <= trial.step_ns) {
                break;
            }
            script = scheduled(schedule, &trial);
            blocks = trial.blocks?;
        }
        best
    }

    /// Has an iteration end as it begins: what is followed is what was decided last, which comes to repeat itself if the rule alone does not.
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

    /// With addresses without end, and so many bytes in blocks at the most.
    fn run_unbounded(&self, limit_bytes: usize, schedule: &Arc<Schedule>) -> Option<Trial> {
        let budget_bytes = self.settings.whole_pages(self.settings.budget_bytes);
        let settings = Settings { endless: true, ..self.settings.with_less(budget_bytes - limit_bytes) };
        Planner { settings: &settings, ..*self }.run(Some(schedule))
    }

    /// Where blocks might be, and how far that reaches: on pages of each kind where what is copied out of them makes a difference.
    fn layouts(&self, blocks: &IterationBlocks, budget_bytes: usize) -> Vec<(Layout, usize)> {
        let which = if self.settings.ways.offload { &PageOrder::ALL[..] } else { &[PageOrder::Fitting] };
        match self.settings.page_bytes(self.settings.budget_bytes) {
            None => vec![blocks.layout(budget_bytes, None)],
            Some(page_bytes) => {
                which.iter().map(|&which| blocks.layout(budget_bytes, Some((page_bytes, which)))).collect()
            }
        }
    }
}
