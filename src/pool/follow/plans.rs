//! The plans of a program: one for each kind of iteration that it alternates between, such as training and evaluation, or two
//! models. Its last ops tell which one it is in.

use std::collections::VecDeque;
use std::sync::Arc;

use super::drift::Drift;
use crate::policy::Reactive;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::storage::{Storage, Storages};
use crate::schedule::{
    AlgorithmChoice, Cursor, Eviction, Interval, IntervalId, PlanId, RecentOps, Schedule, ScheduleOutcome,
    ScheduledInterval, StreamId,
};

/// Plans that are kept. Of more, the one goes that was not followed for the longest.
const MOST_PLANS: usize = 4;

/// A schedule and how far it is.
#[derive(Debug)]
pub struct Following {
    pub schedule: Arc<Schedule>,
    /// The program's op that came last.
    pub place: Cursor,
    /// By interval, the storage that was in it last.
    pub current: Vec<Option<StorageId>>,
    pub due: VecDeque<(StorageId, IntervalId, Eviction)>,
    /// What was done since this was last asked, if it ever is.
    pub done: Option<ScheduleOutcome>,
    /// What it says is done now.
    pub active: bool,
    /// Of the times that it was made with.
    pub drift: Drift,
    pub plan: PlanId,
    /// The pool's op since which it is done as it says.
    pub since_op: u64,
    /// Which of all schedules.
    number: u32,
    /// The stream that its ops are of.
    stream: StreamId,
    /// Ops of the program that were its ops, one after the other.
    followed_ops: usize,
}

impl Following {
    /// The stream that its ops are of.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// The schedule's rule, if it has one of its own.
    pub fn rule(&self) -> Option<&dyn Reactive> {
        self.schedule.rule.as_ref().map(|rule| rule as &dyn Reactive)
    }

    /// How algorithms are chosen.
    pub fn algorithms(&self) -> AlgorithmChoice {
        self.schedule.algorithms
    }

    /// The interval that a storage is in.
    pub fn interval(&self, storage: &Storage) -> Option<IntervalId> {
        storage.access.interval.filter(|at| at.schedule == self.number).map(|at| at.interval)
    }

    /// What the schedule says of the interval that a storage is in.
    pub fn scheduled_as(&self, storage: &Storage) -> Option<&Interval> {
        Some(&self.schedule.intervals[self.interval(storage)?.0 as usize])
    }

    /// What a storage in an interval is told.
    pub fn scheduled(&self, interval: IntervalId) -> ScheduledInterval {
        ScheduledInterval { schedule: self.number, interval }
    }

    /// The storage that is in an interval.
    pub fn storage_in(&self, interval: IntervalId, storages: &Storages) -> Option<StorageId> {
        self.current[interval.0 as usize].filter(|&id| self.is_in(id, interval, storages))
    }

    pub fn is_in(&self, id: StorageId, interval: IntervalId, storages: &Storages) -> bool {
        storages.contains(id) && self.interval(&storages[id]) == Some(interval)
    }

    fn lose(&mut self) {
        self.due.clear();
        (self.active, self.followed_ops) = (false, 0);
    }
}

/// Where the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// At this op of the plan that it is in.
    At(u32),
    /// Where no plan knows it.
    Unknown,
    /// In the plan as before: the op is of a thread that is not planned.
    Beside,
}

/// All plans.
#[derive(Debug, Default)]
pub struct Plans {
    /// The one that the program is in, or was in last, and the others by when it was.
    kept: Vec<Following>,
    /// Plans and schedules so far.
    begun: u64,
    made: u32,
    /// Plans up to this one are forgotten, also those that are still to come.
    forgotten: u64,
    /// Ops of the planned thread since it followed a plan through a whole iteration, and how many there may be.
    unplanned_ops: usize,
    patience_ops: usize,
    /// Ops of the iteration that was planned last, if nothing came of it.
    fruitless: Option<usize>,
}

impl Plans {
    /// The one that the program is in, or was in last.
    pub fn present(&self) -> Option<&Following> {
        self.kept.first()
    }

    /// The same.
    pub fn present_mut(&mut self) -> Option<&mut Following> {
        self.kept.first_mut()
    }

    /// The one that is followed.
    pub fn active(&self) -> Option<&Following> {
        self.present().filter(|plan| plan.active)
    }

    /// The same, if the ops that come are its stream's.
    pub fn of_stream(&mut self, stream: StreamId) -> Option<&mut Following> {
        self.present_mut().filter(|plan| plan.stream == stream)
    }

    /// A plan for the ops of a stream; `before_first`: the next op is its first.
    /// `false`: what it is for is forgotten.
    pub fn insert(
        &mut self,
        plan: PlanId,
        schedule: Arc<Schedule>,
        stream: StreamId,
        before_first: bool,
    ) -> bool {
        if self.is_forgotten(plan) {
            return false;
        }
        self.made += 1;
        (self.unplanned_ops, self.fruitless) = (0, None);
        let mut following = Following {
            place: Cursor::new(&schedule, before_first),
            current: vec![None; schedule.intervals.len()],
            due: VecDeque::new(),
            done: None,
            active: false,
            drift: Drift::default(),
            schedule,
            plan,
            since_op: 0,
            number: self.made,
            stream,
            followed_ops: 0,
        };
        if let Some(before) = self.kept.iter_mut().find(|kept| kept.plan == plan) {
            following.drift = before.drift.anew();
            *before = following;
            return true;
        }
        // It is found by its ops; what is followed now goes on.
        let place = usize::from(self.kept.first().is_some_and(|kept| kept.active));
        self.kept.insert(place, following);
        self.kept.truncate(MOST_PLANS);
        true
    }

    /// An op of a stream comes.
    pub fn advance(&mut self, stream: StreamId, signature: u64) -> Where {
        let Some(present) = self.kept.first_mut() else {
            self.unplanned_ops += 1;
            return Where::Unknown;
        };
        if present.stream != stream {
            return Where::Beside;
        }
        self.unplanned_ops += 1;
        if let Some(at) = present.place.advance(&present.schedule, signature) {
            present.followed_ops += 1;
            if present.followed_ops >= present.schedule.ops.len() {
                self.unplanned_ops = 0;
            }
            return Where::At(at);
        }
        present.lose();
        Where::Unknown
    }

    /// Ops of a stream have run: if no plan is followed, looks for one that they are the ops of.
    pub fn find(&mut self, stream: StreamId, recent: &RecentOps) {
        if self.present().is_none_or(|present| present.place.at().is_some()) {
            return;
        }
        if let Some(index) = self.kept.iter_mut().position(|plan| plan.place.find(recent).is_some()) {
            self.kept[..=index].rotate_right(1);
            self.kept[0].stream = stream;
        }
    }

    /// Whether the program goes through iterations of this plan.
    pub fn is_in(&self, plan: PlanId) -> bool {
        self.is_whole() && self.present().is_some_and(|present| present.plan == plan)
    }

    /// Whether the program has just gone through a whole iteration as planned.
    pub fn is_whole(&self) -> bool {
        self.unplanned_ops == 0 && !self.kept.is_empty()
    }

    /// Whether it has not for so long that none of the plans is of what it does now.
    pub fn are_outdated(&self) -> bool {
        self.patience_ops > 0 && self.unplanned_ops > self.patience_ops
    }

    /// An iteration of so many ops is planned now.
    pub fn begin(&mut self, period: usize) -> PlanId {
        self.begun += 1;
        (self.unplanned_ops, self.patience_ops, self.fruitless) = (0, 2 * period, Some(period));
        PlanId(self.begun)
    }

    /// Forgets what was planned of this program. What was planned elsewhere, before it began, stays.
    pub fn forget_learned(&mut self) {
        self.forgotten = self.begun;
        let mut kept = std::mem::take(&mut self.kept);
        kept.retain(|following| !self.is_forgotten(following.plan));
        self.kept = kept;
        (self.unplanned_ops, self.patience_ops, self.fruitless) = (0, 0, None);
    }

    fn is_forgotten(&self, plan: PlanId) -> bool {
        (1..=self.forgotten).contains(&plan.0)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Ops of the iteration that was planned last, or is being planned, if nothing has come of it.
    pub fn fruitless_ops(&self) -> Option<usize> {
        self.fruitless
    }

    /// Whether an iteration of so many ops is the one that was planned last, and nothing came of it.
    pub fn is_fruitless(&self, period: usize) -> bool {
        self.fruitless == Some(period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::ScheduledOp;

    /// A plan of ops that are like no other plan's.
    fn insert(plans: &mut Plans, plan: u64) {
        let op = |at| ScheduledOp {
            signature: 100 * plan + at,
            context: 100 * plan + at,
            launch_ns: 0,
            first: IntervalId(0),
        };
        let schedule = Arc::new(Schedule { ops: (0..20).map(op).collect(), ..Schedule::default() });
        plans.insert(PlanId(plan), schedule, StreamId::default(), false);
    }

    /// Goes through so many iterations; how many ops were followed.
    fn run(plans: &mut Plans, recent: &mut RecentOps, plan: u64, iterations: u64) -> usize {
        let mut is_followed = |at: u64| {
            let signature = 100 * plan + at % 20;
            let place = plans.advance(StreamId::default(), signature);
            recent.push(signature);
            plans.find(StreamId::default(), recent);
            place == Where::At(at as u32 % 20)
        };
        (0..20 * iterations).filter(|&at| is_followed(at)).count()
    }

    #[test]
    fn each_is_found_again_and_the_one_that_was_not_followed_for_the_longest_goes() {
        let (mut plans, mut recent) = (Plans::default(), RecentOps::default());
        for plan in 1..=4 {
            plans.begin(20);
            insert(&mut plans, plan);
            assert_eq!(run(&mut plans, &mut recent, plan, 2), 32, "known by its first eight ops");
            assert!(plans.is_whole());
        }
        for plan in [1, 3, 4, 1, 4, 3] {
            assert_eq!(run(&mut plans, &mut recent, plan, 2), 32);
        }
        insert(&mut plans, 5);
        assert_eq!(run(&mut plans, &mut recent, 5, 2), 32);
        assert_eq!(run(&mut plans, &mut recent, 2, 2), 0);
        assert!(!plans.are_outdated());
        assert_eq!(run(&mut plans, &mut recent, 2, 1), 0);
        assert!(plans.are_outdated());
        assert_eq!(run(&mut plans, &mut recent, 1, 2), 32);
        assert!(!plans.are_outdated());
    }

    #[test]
    fn what_was_learned_is_forgotten_and_what_was_given_stays() {
        let mut plans = Plans::default();
        insert(&mut plans, 1);
        plans.forget_learned();
        assert_eq!(plans.kept.len(), 1);
        assert_eq!(plans.begin(20), PlanId(1));
        insert(&mut plans, 1);
        plans.forget_learned();
        assert!(plans.kept.is_empty() && !plans.is_fruitless(20));
        insert(&mut plans, 1);
        assert!(plans.kept.is_empty(), "it was planned for what is gone");
        let next = plans.begin(20);
        insert(&mut plans, next.0);
        assert_eq!(plans.kept.len(), 1);
    }

    #[test]
    fn a_schedule_takes_the_place_of_the_one_before() {
        let (mut plans, mut recent) = (Plans::default(), RecentOps::default());
        (0..10).for_each(|_| insert(&mut plans, 1));
        assert_eq!(plans.kept.len(), 1);
        assert_eq!(run(&mut plans, &mut recent, 1, 1), 12);
        insert(&mut plans, 1);
        assert_eq!(run(&mut plans, &mut recent, 1, 1), 19, "known by what came before");
    }
}
