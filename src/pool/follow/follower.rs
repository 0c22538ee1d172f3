//! What the pool knows of the program: its threads, its plans and its request log.

use std::sync::Arc;

use super::active_plans::ActivePlans;
use super::prefetch_distance::AdaptiveDistance;
use super::streams::Streams;
use crate::config::{EvictionMethods, Planning, Settings};
use crate::policy::Reactive;
use crate::pool::observe::requests::Requests;

/// The threads, plans and requests of the program.
#[derive(Debug)]
pub struct Follower {
    /// The eviction rule unless the followed plan has its own.
    pub policy: Arc<dyn Reactive>,
    /// The eviction methods that the settings allow.
    pub eviction_methods: EvictionMethods,
    pub active_plans: ActivePlans,
    /// The stream of each thread.
    pub streams: Streams,
    /// How early storages are fetched if no plan states it.
    pub prefetch_distance: AdaptiveDistance,
    /// The request log, kept until an iteration of it is planned.
    pub requests: Requests,
}

impl Follower {
    /// The state before the program has done anything.
    pub fn new(policy: Arc<dyn Reactive>, settings: &Settings, uses_measured_times: bool) -> Self {
        let plans_iterations = policy.plans() && settings.planning != Planning::Off;
        Follower {
            policy,
            eviction_methods: settings.methods,
            active_plans: ActivePlans::default(),
            streams: Streams::default(),
            prefetch_distance: AdaptiveDistance::default(),
            requests: Requests {
                plans_iterations,
                wants_log: plans_iterations,
                uses_measured_times,
                ..Requests::default()
            },
        }
    }

    /// The rule that picks storages to evict if the schedule names none.
    pub fn rule(&self) -> &dyn Reactive {
        self.active_plans.followed().and_then(|plan| plan.rule()).unwrap_or(&*self.policy)
    }

    /// Forgets what is known of a program that is over. Plans that were made elsewhere stay.
    pub fn forget(&mut self) {
        self.streams.forget();
        self.active_plans.forget_own();
        self.prefetch_distance = AdaptiveDistance::default();
        self.requests.no_period_found = false;
    }

    /// Whether the pool follows a plan now.
    pub fn is_following(&self) -> bool {
        self.active_plans.followed().is_some()
    }
}
