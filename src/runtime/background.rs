//! Planning in the background: one thread plans, with rests and only while cores are idle, and another offers the
//! schedules to the device.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use thread_priority::ThreadPriority;

use super::plan_cache::{KeptPlan, KeptPlans};
use crate::config::Settings;
use crate::engine::{Engine, Props};
use crate::planner::{self, PlanRequest};
use crate::schedule::{BeginningId, RequestLog, Schedule};

/// The planner's throttle on a device that is the processor: it rests this many times as long as it works, so that the program loses
/// little time to it.
const THROTTLE_REST_RATIO: u32 = 4;

/// An iteration to plan, and the device to plan it for.
pub struct PlanningTask {
    /// The device's engine.
    pub engine: Arc<dyn Engine>,
    /// The pool's settings.
    pub settings: Settings,
    /// The program's request log.
    pub log: RequestLog,
    /// How many ops the iteration has.
    pub period: usize,
    /// Where plans are kept.
    pub plans: Option<Arc<KeptPlans>>,
}

/// Plans an iteration until there is nothing better to find, or until the plan is no longer wanted. Offers each schedule that
/// is better than those before, until an offer is refused.
pub fn plan(
    task: PlanningTask,
    is_wanted: impl Fn() -> bool + Send + 'static,
    offer: impl Fn(Arc<Schedule>) -> bool + Send + 'static,
) -> io::Result<()> {
    let (found, schedules) = mpsc::channel();
    let keeping = task.plans.clone().and_then(|plans| Keeping::of(plans, &task.log, &task.settings));
    let kept = keeping.clone();
    spawn("overcommit-planner", move || {
        give_way();
        let PlanningTask { engine, mut settings, log, period, .. } = task;
        if let (Some(peers), Some(bytes_per_second)) = (&mut settings.peers, engine.measured_peers()) {
            peers.bytes_per_second = Some(bytes_per_second);
        }
        if let (Some(disk), Some(bytes_per_second)) = (&mut settings.disk, engine.measured_disk()) {
            disk.bytes_per_second = bytes_per_second;
        }
        let (log, props) = as_measured(&log, &*engine, &settings);
        // The device is given back when the program is done with it, even if planning goes on.
        drop(engine);
        let throttle = if props.shares_memory { THROTTLE_REST_RATIO } else { 0 };
        let known = kept.as_ref().map_or_else(Vec::new, |keeping| keeping.known(true));
        let request =
            PlanRequest { log: &log, period, props: &props, settings: &settings, known: &known, throttle };
        let mut is_searched = true;
        planner::plan(&request, |schedule| {
            is_searched = is_wanted() && found.send(Found::Schedule(Arc::new(schedule))).is_ok();
            is_searched
        });
        if is_searched {
            // Nobody waits for it any more if the device is gone.
            let _ = found.send(Found::NoBetter);
        }
    })?;
    // Another thread offers: the system may stop the planner for any time, and the program would wait for a lock that it
    // holds.
    spawn("overcommit-plans", move || {
        let mut best = None;
        for found in schedules {
            match found {
                Found::Schedule(schedule) => {
                    if !offer(schedule.clone()) {
                        return;
                    }
                    keeping.iter().for_each(|keeping| keeping.keep(&schedule, false));
                    best = Some(schedule);
                }
                Found::NoBetter => {
                    keeping.iter().zip(&best).for_each(|(keeping, schedule)| keeping.keep(schedule, true));
                }
            }
        }
    })
}

/// What the planner tells.
enum Found {
    Schedule(Arc<Schedule>),
    /// The search is over.
    NoBetter,
}

/// Where the schedules of a search are kept.
#[derive(Clone)]
pub struct Keeping {
    plans: Arc<KeptPlans>,
    beginning: BeginningId,
    settings: Settings,
}

impl Keeping {
    /// Where the schedules for a log are kept, unless it is not known how the program began.
    pub fn of(plans: Arc<KeptPlans>, log: &RequestLog, settings: &Settings) -> Option<Self> {
        Some(Keeping { plans, beginning: log.beginning?, settings: settings.clone() })
    }

    /// What is kept for smaller budgets and, with `this_budget`, for this one.
    pub fn known(&self, this_budget: bool) -> Vec<Schedule> {
        self.plans.known(self.beginning, this_budget)
    }

    /// Keeps a schedule. `is_final` says that nothing better is to be found.
    pub fn keep(&self, schedule: &Schedule, is_final: bool) {
        if let Err(reason) = self.plans.keep(self.beginning, schedule, is_final) {
            self.settings.log(log::Level::Info, format_args!("the plan is not kept: {reason}"));
        }
    }
}

/// Reads the plans of programs that began like this one, and offers each of them, the newest first.
pub fn look_for(
    plans: Arc<KeptPlans>,
    beginning: BeginningId,
    settings: Settings,
    offer: impl Fn(KeptPlan) + Send + 'static,
) -> io::Result<()> {
    spawn("overcommit-plan-cache", move || {
        let (kept, unsound) = plans.plans(beginning);
        if unsound > 0 {
            let text = "plans of earlier runs are damaged or not for this pool, and are ignored";
            settings.log(log::Level::Warn, format_args!("{unsound} {text}"));
        }
        settings.log(log::Level::Info, format_args!("{} plans of earlier runs", kept.len()));
        kept.into_iter().rev().for_each(offer);
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

/// From now on this thread runs only on cores that no other thread wants, if there are several. The lowest priority alone
/// would not do: such a thread runs whenever others wait for each other, and then delays them by a whole time slice.
fn give_way() {
    let _ = ThreadPriority::Min.set_for_current();
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        use thread_priority::{NormalThreadSchedulePolicy, ThreadSchedulePolicy};
        let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
        let this = thread_priority::thread_native_id();
        let _ = thread_priority::set_thread_priority_and_policy(this, ThreadPriority::Min, idle);
    }
}

/// The log and the device with measured times in place of predicted ones, which a plan in the background goes by.
fn as_measured(log: &RequestLog, engine: &dyn Engine, settings: &Settings) -> (RequestLog, Props) {
    let (log, [predicted_ns, measured_ns]) = log.as_measured();
    let props = engine.props();
    let link_bytes_per_second = engine.measured_link().unwrap_or_else(|| props.link_bytes_per_second());
    settings.log(
        log::Level::Info,
        format_args!(
            "planning {} ops that take {measured_ns} ns, predicted {predicted_ns}, with copies of {link_bytes_per_second:.3e} \
             bytes/s, predicted {:.3e}",
            log.ops(),
            props.link_bytes_per_second()
        ),
    );
    (log, props.with_link(link_bytes_per_second))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use thread_priority::{NormalThreadSchedulePolicy, ThreadSchedulePolicy, thread_schedule_policy};

    #[test]
    fn a_thread_that_gives_way_has_the_idle_policy() {
        let policy = std::thread::spawn(|| {
            super::give_way();
            thread_schedule_policy().unwrap()
        });
        let several = std::thread::available_parallelism().unwrap().get() > 1;
        let wanted =
            if several { NormalThreadSchedulePolicy::Idle } else { NormalThreadSchedulePolicy::Other };
        assert_eq!(policy.join().unwrap(), ThreadSchedulePolicy::Normal(wanted));
    }
}
