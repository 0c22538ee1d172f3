//! Planning beside the program: one thread plans while no other has anything to do, another hands on what it finds.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use thread_priority::ThreadPriority;

use super::Runtime;
use crate::config::Settings;
use crate::engine::{Engine, Props};
use crate::planner::{self, PlanRequest};
use crate::schedule::Log;

/// For how many times as long as it works the planner rests: the program is to lose little time by it.
const RESTS: u32 = 4;

/// Plans an iteration until there is nothing better to find, or the device is no longer used.
pub(super) fn plan(runtime: &Arc<Runtime>, settings: Settings, log: Log, period: usize) -> io::Result<()> {
    let (engine, runtime) = (runtime.engine.clone(), Arc::downgrade(runtime));
    let (plan, stream) = (log.plan, log.stream);
    let device = runtime.clone();
    let (found, schedules) = mpsc::channel();
    spawn("overcommit-planner", move || {
        give_way();
        let (log, props) = as_measured(&log, &*engine, &settings);
        // The device is given back when the program is done with it, though this may go on.
        drop(engine);
        let request = PlanRequest { log: &log, period, props: &props, settings: &settings, throttle: RESTS };
        planner::plan(&request, |schedule| {
            device.strong_count() > 0 && found.send(Arc::new(schedule)).is_ok()
        });
    })?;
    // The planner may be kept from going on at any time, and the program would wait for what it has locked.
    spawn("overcommit-plans", move || {
        for schedule in schedules {
            let Some(runtime) = runtime.upgrade() else { return };
            runtime.lock().pool.follow(plan, schedule, stream, false);
        }
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

/// From now on this thread runs where no other would, if there are cores for that: a thread that merely has the least priority still
/// delays others by whole slices of time, where those that wait for each other let it run in between.
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

/// What is planned, and for what device, with the times that were measured: what a plan made beside the program goes by.
fn as_measured(log: &Log, engine: &dyn Engine, settings: &Settings) -> (Log, Props) {
    let (log, [predicted_ns, measured_ns]) = log.as_measured();
    let props = engine.props();
    let link_bytes_per_second = engine.measured_link().unwrap_or(props.link_bytes_per_second);
    settings.log(
        log::Level::Info,
        format_args!(
            "planning {} ops that take {measured_ns} ns, predicted {predicted_ns}, with copies of {link_bytes_per_second:.3e} \
             bytes/s, predicted {:.3e}",
            log.ops(),
            props.link_bytes_per_second
        ),
    );
    (log, Props { link_bytes_per_second, ..props.clone() })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use thread_priority::{NormalThreadSchedulePolicy, ThreadSchedulePolicy, thread_schedule_policy};

    #[test]
    fn a_thread_that_gives_way_runs_when_others_do_not() {
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
