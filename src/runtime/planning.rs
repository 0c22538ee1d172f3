//! Iterations are planned as soon as the pool knows one that is worth it, or before the program begins, with a log from
//! another device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::arrivals::Arrival;
use super::background::{self, Keeping, PlanningTask};
use super::device::Runtime;
use super::plan_cache::{KeptPlan, KeptPlans};
use super::registry;
use crate::OvercommitDevice;
use crate::config::Planning;
use crate::error::Error;
use crate::planner::{self, PlanRequest};
use crate::pool::Pool;
use crate::schedule::{BeginningId, RequestLog};

impl Runtime {
    /// Plans an iteration, if the program has just shown one that is worth it.
    pub(super) fn plan_known_iteration(self: &Arc<Self>, pool: &mut Pool) -> Result<(), Error> {
        let runs_in_real_time = self.engine.times().is_none();
        if let Some(arrivals) = &self.arrivals {
            arrivals.after_op(pool);
        }
        if let Some(plans) = self.plans.as_ref().filter(|_| runs_in_real_time)
            && let Some(beginning) = pool.take_beginning()
            && plans.is_new(beginning)
        {
            self.follow_kept_plans(pool, plans, beginning);
        }
        if pool.settings.planning != Planning::Off
            && let Some((log, period)) = pool.take_iteration()?
        {
            self.plan(pool, log, period);
        }
        Ok(())
    }

    /// Looks for plans of an earlier run, in the background.
    fn follow_kept_plans(self: &Arc<Self>, pool: &Pool, plans: &Arc<KeptPlans>, beginning: BeginningId) {
        if let Some(arrivals) = &self.arrivals {
            for KeptPlan { schedule, is_final, .. } in plans.plans(beginning).0.into_iter().rev() {
                arrivals.send(Arrival::Kept { schedule: Arc::new(schedule), is_final });
            }
            return;
        }
        let offered_to = Arc::downgrade(self);
        let offer = move |plan: KeptPlan| {
            let Some(runtime) = offered_to.upgrade() else { return };
            if let Ok(mut front) = runtime.lock() {
                front.pool.follow_kept(Arc::new(plan.schedule), plan.is_final);
            }
        };
        if let Err(error) = background::look_for(plans.clone(), beginning, pool.settings.clone(), offer) {
            pool.settings.log(log::Level::Warn, format_args!("no thread to look for plans with: {error}"));
        }
    }

    /// Plans an iteration: at once where no time passes or the same decisions are wanted every time, else in the
    /// background.
    fn plan(self: &Arc<Self>, pool: &mut Pool, log: RequestLog, period: usize) {
        let plans = self.plans.clone();
        let settings = plans
            .as_ref()
            .map_or_else(|| pool.settings.clone(), |plans| plans.settings_of_plans(&pool.settings));
        let at_once = self.engine.times().is_some() || pool.settings.planning == Planning::AtOnce;
        if at_once || self.arrivals.is_some() {
            let mut best = None;
            let keeping = plans.and_then(|plans| Keeping::of(plans, &log, &settings));
            // Not what an earlier run planned for this budget: the same program should always get the same plan.
            let known = keeping.as_ref().map_or_else(Vec::new, |keeping| keeping.known(false));
            let request = PlanRequest {
                log: &log,
                period,
                props: self.engine.props(),
                settings: &settings,
                known: &known,
                throttle: 0,
            };
            let (plan, stream) = (log.plan, log.stream);
            planner::plan(&request, |schedule| {
                let Some(arrivals) = &self.arrivals else {
                    best = Some(schedule);
                    return true;
                };
                let schedule = Arc::new(schedule);
                keeping.iter().for_each(|keeping| keeping.keep(&schedule, false));
                arrivals.send(Arrival::Found { plan, schedule, stream })
            });
            let Some(schedule) = best else { return };
            if let Some(keeping) = keeping {
                // The device that it was simulated for searches anew, by the times that it measures.
                keeping.keep(&schedule, false);
            }
            pool.follow(plan, Arc::new(schedule), stream, false);
            return;
        }
        let (plan, stream) = (log.plan, log.stream);
        let (planned_for, offered_to) = (Arc::downgrade(self), Arc::downgrade(self));
        let is_wanted = move || planned_for.strong_count() > 0;
        let offer = move |schedule| {
            let Some(runtime) = offered_to.upgrade() else { return false };
            let Ok(mut front) = runtime.lock() else { return false };
            front.pool.follow(plan, schedule, stream, false);
            true
        };
        let task = PlanningTask { engine: self.engine.clone(), settings, log, period, plans };
        if let Err(error) = background::plan(task, is_wanted, offer) {
            pool.settings.log(log::Level::Warn, format_args!("no thread to plan with: {error}"));
        }
    }
}

/// The program's request log, once its iteration is known, and how many ops the iteration has. The device, which must not
/// plan itself, logs from the first call of this function on.
pub(crate) fn learned(device: &OvercommitDevice) -> Result<Option<(RequestLog, usize)>, Error> {
    let runtime = registry::runtime(device)?;
    let mut front = runtime.settled([])?;
    front.pool.start_log();
    front.pool.take_iteration()
}

/// Plans an iteration that was [`learned`] on another device, for a device whose program has not begun.
pub(crate) fn plan_ahead(device: &OvercommitDevice, log: RequestLog, period: usize) -> Result<(), Error> {
    let runtime = registry::runtime(device)?;
    let mut front = runtime.settled([])?;
    runtime.plan(&mut front.pool, log, period);
    Ok(())
}

/// When each plan of an iteration that was [`learned`] is found, since its search began, and when the search is over.
pub(crate) fn plan_times(
    device: &OvercommitDevice,
    log: &RequestLog,
    period: usize,
) -> Result<(Vec<Duration>, Duration), Error> {
    let runtime = registry::runtime(device)?;
    let settings = runtime.settled([])?.pool.settings.clone();
    let props = runtime.engine.props();
    let request = PlanRequest { log, period, props, settings: &settings, known: &[], throttle: 0 };
    let begun = Instant::now();
    let mut found = Vec::new();
    planner::plan(&request, |_| {
        found.push(begun.elapsed());
        true
    });
    Ok((found, begun.elapsed()))
}

/// Whether an iteration is being planned.
#[cfg(test)]
pub(crate) fn is_planning(device: &OvercommitDevice) -> bool {
    registry::runtime(device)
        .and_then(|runtime| Ok(runtime.lock()?.pool.is_planning()))
        .expect("a device that is there")
}
