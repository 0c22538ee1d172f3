//! Plans on their way to the pool, for tests: they are searched at once, and each arrives after as many ops as a seed says.

use std::sync::{Arc, Mutex, PoisonError};

use crate::pool::Pool;
use crate::schedule::{PlanId, Schedule, StreamId};

/// The most ops until a plan arrives.
const MAX_OPS: u64 = 200;
/// A search is cut short after so many plans.
const MAX_PLANS: usize = 3;

/// A plan on its way.
pub enum Arrival {
    Found { plan: PlanId, schedule: Arc<Schedule>, stream: StreamId },
    Kept { schedule: Arc<Schedule>, is_final: bool },
}

/// The plans on their way, each with the ops that are left until it arrives.
pub struct Arrivals(Mutex<OnWay>);

struct OnWay {
    state: u64,
    plans: Vec<(u64, Arrival)>,
}

impl Arrivals {
    /// None yet. The seed decides when those to come will arrive.
    pub fn new(seed: u64) -> Self {
        Arrivals(Mutex::new(OnWay { state: seed, plans: Vec::new() }))
    }

    /// Sends a plan off. Returns whether another may follow.
    pub fn send(&self, arrival: Arrival) -> bool {
        let mut on_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Knuth's linear congruential generator; the upper bits are random enough.
        on_way.state =
            on_way.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let ops = (on_way.state >> 33) % MAX_OPS;
        on_way.plans.push((ops, arrival));
        on_way.plans.len() < MAX_PLANS
    }

    /// Hands the pool those that arrive after this op.
    pub fn after_op(&self, pool: &mut Pool) {
        let mut on_way = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        on_way.plans.iter_mut().for_each(|(ops, _)| *ops = ops.saturating_sub(1));
        for (_, arrival) in on_way.plans.extract_if(.., |(ops, _)| *ops == 0) {
            match arrival {
                Arrival::Found { plan, schedule, stream } => pool.follow(plan, schedule, stream, false),
                Arrival::Kept { schedule, is_final } => pool.follow_kept(schedule, is_final),
            }
        }
    }
}
