//! What the pool knows of the program that it serves: its threads, its plans, and what it asked for.

use std::sync::Arc;

use super::plans::Plans;
use super::prefetch_distance::Ahead;
use super::streams::Streams;
use crate::config::{EvictionMethods, Planning, Settings};
use crate::policy::Reactive;
use crate::pool::observe::requests::Requests;

/// The program, as far as it is known, and the plans for it.
#[derive(Debug)]
pub struct Follower {
    /// The rule where no plan has one of its own.
    pub policy: Arc<dyn Reactive>,
    /// How storages may be evicted.
    pub ways: EvictionMethods,
    pub plans: Plans,
    /// What each thread submits.
    pub streams: Streams,
    /// How early storages are fetched.
    pub prefetch_distance: Ahead,
    /// What the program asked for, until that is planned.
    pub requests: Requests,
}

impl Follower {
    /// Nothing is known yet.
    pub fn new(policy: Arc<dyn Reactive>, settings: &Settings, measures: bool) -> Self {
        let plans_iterations = policy.plans() && settings.planning != Planning::Off;
        Follower {
            policy,
            ways: settings.ways,
            plans: Plans::default(),
            streams: Streams::default(),
            prefetch_distance: Ahead::default(),
            requests: Requests {
                plans_iterations,
                learns: plans_iterations,
                measures,
                ..Requests::default()
            },
        }
    }

    /// The rule by which storages are evicted that no schedule names.
    pub fn rule(&self) -> &dyn Reactive {
        self.plans.active().and_then(|following| following.rule()).unwrap_or(&*self.policy)
    }

    /// Forgets what was learned of a program that is over. Plans that were made elsewhere stay.
    pub fn forget(&mut self) {
        self.streams.forget();
        self.plans.forget_learned();
        self.prefetch_distance = Ahead::default();
        self.requests.found_none = false;
    }

    /// Whether what a schedule says is done now.
    pub fn is_following(&self) -> bool {
        self.plans.active().is_some()
    }
}
