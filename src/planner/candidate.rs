//! A candidate: the ingredients of a schedule.

use std::sync::Arc;

use hashbrown::HashMap;

use super::assignment::Assignment;
use super::problem::Planner;
use super::reservations::Timeline;
use crate::schedule::{Eviction, EvictionOrder, IntervalId, Schedule};

/// The ingredients of a schedule.
#[derive(Clone, Debug)]
pub struct ScheduleCandidate {
    /// A complete schedule to build upon.
    pub base: Arc<Schedule>,
    /// Copies are reserved for intervals without constraints too, and storages leave when memory is short. Else a storage with
    /// reserved copies leaves as soon as its copy is made.
    pub reserves_all: bool,
    /// The timeline for reservations.
    pub timeline: Arc<Timeline>,
    pub constraints: Constraints,
}

/// The constraints by interval.
pub type Constraints = HashMap<IntervalId, Constraint>;

/// A constraint on a storage in an interval. It holds if it can be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// Its copies are reserved. Lower ranks are reserved first.
    Reserve(u32),
    /// It is dropped, in this order among others.
    Drop(EvictionOrder),
    /// It leaves in this order among others.
    Leave(EvictionOrder),
    /// It leaves as soon as the interval begins, usually encoded.
    Release(Eviction),
}

/// The rank before all others, and the one after all constraints.
pub const FIRST: u32 = 0;
const LAST: u32 = u32::MAX;

impl ScheduleCandidate {
    /// The schedule of these ingredients.
    pub fn schedule(&self, planner: &Planner<'_>) -> Schedule {
        let mut schedule = (*self.base).clone();
        for (&interval, &constraint) in &self.constraints {
            let at = interval.0 as usize;
            let interval = &mut schedule.intervals[at];
            match constraint {
                Constraint::Leave(order) => interval.order = order,
                Constraint::Drop(order) => (interval.method, interval.order) = (Some(Eviction::Drop), order),
                Constraint::Release(method) => {
                    let (_, op) = planner.iteration.of_interval[at];
                    schedule.releases.push((op, IntervalId(at as u32), method));
                }
                Constraint::Reserve(_) => {}
            }
        }
        let constraint = |interval| self.constraints.get(&interval).copied();
        let is_reserved = |constraint: &Constraint| matches!(constraint, Constraint::Reserve(_));
        if self.reserves_all || self.constraints.values().any(is_reserved) {
            let rank = |interval| match constraint(interval) {
                Some(Constraint::Reserve(rank)) => Some(rank),
                None => self.reserves_all.then_some(LAST),
                Some(_) => None,
            };
            self.timeline.reserve(&mut schedule, planner.settings.budget_bytes, !self.reserves_all, rank);
        }
        schedule.releases.sort_unstable_by_key(|&(op, interval, _)| (op, interval));
        schedule
    }
}

/// An assignment as constraints.
pub fn constraints(assignment: &Assignment) -> Constraints {
    let (dropped, moved) = assignment.leaving();
    let dropped = dropped.into_iter().map(|interval| (interval, Constraint::Drop(EvictionOrder::First)));
    let moved = moved.into_iter().zip(1..).map(|(interval, rank)| (interval, Constraint::Reserve(rank)));
    dropped.chain(moved).collect()
}
