//! The state of planning, as users see it.

use crate::config::Planning;
use crate::liveness::MAX_PERIOD;
use crate::pool::Pool;
use crate::schedule::RequestLog;
use crate::stats::PlanningState as State;

impl Pool {
    /// The state of planning.
    pub(in crate::pool) fn planning_state(&self) -> State {
        let planned_ops = self.follower.active_plans.ops_without_plan();
        if let Some(plan) = self.follower.active_plans.followed() {
            let iteration_ops = plan.schedule.ops.len();
            return State::Followed {
                iteration_ops,
                since_op: plan.since_op,
                is_improved: self.follower.is_planning(),
                is_kept: plan.is_kept,
            };
        }
        if self.settings.planning == Planning::Off {
            return State::Off;
        }
        if !self.follower.plans_iterations() {
            return State::NotByPolicy;
        }
        if let (true, Some(iteration_ops), Some(begun)) =
            (self.follower.is_planning(), planned_ops, self.follower.requests.planning_begun)
        {
            return State::Planning { iteration_ops, elapsed: begun.elapsed() };
        }
        if let Some(state) = self.why_not_followed() {
            return state;
        }
        match (&self.follower.requests.log, planned_ops) {
            (Some(log), _) => self.state_of_log(log),
            (None, Some(iteration_ops)) => State::NoneBetter { iteration_ops },
            (None, None) if self.follower.requests.no_period_found => State::TooLong { most_ops: MAX_PERIOD },
            (None, None) => State::MemoryNotShort,
        }
    }

    /// Why the pool follows none of its plans. `None` if there are no plans.
    fn why_not_followed(&self) -> Option<State> {
        let current = self.follower.active_plans.current()?;
        Some(if !self.memory.is_roomy() {
            let room_bytes = self.memory.away_room_bytes();
            State::HostTierTooSmall { room_bytes, needed_bytes: self.memory.device.limit_bytes() }
        } else if current.stream() != self.follower.streams.leader() {
            State::OtherThread
        } else {
            State::NotFollowed { plans: self.follower.active_plans.len() }
        })
    }

    /// What the log lacks for a plan.
    fn state_of_log(&self, log: &RequestLog) -> State {
        let (tracker, logged_ops) = (&self.follower.streams[log.stream].tracker, log.ops());
        match (tracker.period(), tracker.likeness()) {
            (Some(period), _) => {
                let iteration_ops = period as usize;
                if self.follower.active_plans.has_no_plan_for(iteration_ops) {
                    State::NoneBetter { iteration_ops }
                } else if logged_ops < 2 * iteration_ops {
                    State::Repeats { iteration_ops, logged_ops }
                } else {
                    State::HoldsDifferently { iteration_ops }
                }
            }
            (None, _) if self.follower.requests.no_period_found => State::TooLong { most_ops: MAX_PERIOD },
            (None, Some((period, alike))) => {
                State::Differs { iteration_ops: period as usize, alike_ops: alike as usize }
            }
            (None, None) => State::NoRepetition { logged_ops },
        }
    }
}
