//! Plans of whole iterations: made from what the program asked for, judged by running it through the pool on the simulation.
//!
//! - [`iteration`]: what is planned. [`search`]: what is tried. [`bookings`]: what is spent on the host. [`trial`]: a plan is
//!   tried.

mod bookings;
mod iteration;
mod search;
mod trial;

use crate::config::Settings;
use crate::engine::Props;
use crate::engine::sim::{Profile, Workspace};
use crate::policy::Schedule;
use crate::pool::Log;
use iteration::Iteration;
use search::Search;

/// Hands on schedules for an iteration, each better than the one before, as long as `found` asks for more; none if nothing
/// fits.
pub fn plan(
    log: &Log,
    period: usize,
    props: &Props,
    settings: &Settings,
    mut found: impl FnMut(Schedule) -> bool,
) {
    let Some(iteration) = Iteration::cut(log, period) else { return };
    // A simulated device like the real one.
    let profile = Profile { key: props.name.clone(), props: props.clone(), workspace: Workspace::Gpu };
    let mut search = Search::new(&iteration, &profile, settings);
    search.try_rules();
    if search.best().is_none_or(&mut found)
        && search.improve()
        && let Some(schedule) = search.best()
    {
        found(schedule);
    }
}
