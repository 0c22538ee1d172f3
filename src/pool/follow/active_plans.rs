//! The plans of a program: one for each kind of iteration that it alternates between, such as training and evaluation, or the
//! steps of two models. The program's last ops tell which plan applies.

use std::collections::VecDeque;
use std::sync::Arc;

use super::drift::Drift;
use crate::policy::Reactive;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::storage::{Storage, Storages};
use crate::schedule::{
    AlgorithmChoice, Cursor, Eviction, IntervalId, IntervalPlan, PlanId, RecentOps, Schedule,
    ScheduleOutcome, ScheduledInterval, StreamId,
};

/// The maximum number of plans that are kept. When there are more, the plan goes that was followed least recently.
const MAX_PLANS: usize = 4;

/// A plan, with the position of the program in it.
#[derive(Debug)]
pub struct ActivePlan {
    pub schedule: Arc<Schedule>,
    /// What the schedule repeats: see [`Schedule::iteration`].
    iteration: u64,
    /// The position of the program's last op.
    pub cursor: Cursor,
    /// The storage that was last in each interval.
    pub storages: Vec<Option<StorageId>>,
    /// The evictions that the plan allows by now and that no op has needed yet.
    pub due: VecDeque<(StorageId, IntervalId, Eviction)>,
    /// What happened since the outcome was last taken. `None` until it is taken for the first time.
    pub outcome: Option<ScheduleOutcome>,
    /// The pool acts by this plan now.
    pub is_followed: bool,
    /// The difference between measured times and those that the plan was made with.
    pub drift: Drift,
    pub id: PlanId,
    /// The search for the plan did not come to its end.
    pub is_unfinished: bool,
    /// An earlier run kept the plan.
    pub is_kept: bool,
    /// The pool's op since which it acts by this plan.
    pub since_op: u64,
    /// Tells this schedule apart from all others of the pool.
    schedule_number: u32,
    /// The stream whose ops the plan is for.
    stream: StreamId,
    /// The number of the program's latest ops that all were the plan's next op.
    followed_ops: usize,
}

impl ActivePlan {
    /// The stream whose ops the plan is for.
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// The schedule's eviction rule, if it has its own.
    pub fn rule(&self) -> Option<&dyn Reactive> {
        self.schedule.rule.as_ref().map(|rule| rule as &dyn Reactive)
    }

    /// How the schedule chooses between an engine's algorithms.
    pub fn algorithms(&self) -> AlgorithmChoice {
        self.schedule.algorithms
    }

    /// The interval that a storage is in.
    pub fn interval(&self, storage: &Storage) -> Option<IntervalId> {
        storage.access.interval.filter(|at| at.schedule == self.schedule_number).map(|at| at.interval)
    }

    /// What the schedule states for the interval that a storage is in.
    pub fn scheduled_as(&self, storage: &Storage) -> Option<&IntervalPlan> {
        Some(&self.schedule.intervals[self.interval(storage)?.0 as usize])
    }

    /// The mark for the record of a storage that enters an interval.
    pub fn scheduled(&self, interval: IntervalId) -> ScheduledInterval {
        ScheduledInterval { schedule: self.schedule_number, interval }
    }

    /// The storage that is in an interval.
    pub fn storage_in(&self, interval: IntervalId, storages: &Storages) -> Option<StorageId> {
        self.storages[interval.0 as usize].filter(|&id| self.is_in(id, interval, storages))
    }

    /// Whether a storage exists and is in an interval.
    pub fn is_in(&self, id: StorageId, interval: IntervalId, storages: &Storages) -> bool {
        storages.contains(id) && self.interval(&storages[id]) == Some(interval)
    }

    /// Ends the guidance, because the program departed from the plan.
    fn depart(&mut self) {
        self.due.clear();
        (self.is_followed, self.followed_ops) = (false, 0);
    }
}

/// The position of an op of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The op is this one of the current plan.
    At(u32),
    /// The op is not the next one of the current plan.
    Unknown,
    /// The op is of another thread than the current plan. The position in the plan stays the same.
    OtherThread,
}

/// The plans of a program.
#[derive(Debug, Default)]
pub struct ActivePlans {
    /// The plan that the program is in, or was in last. The other plans follow, the most recently followed first.
    kept: Vec<ActivePlan>,
    /// The number of plans begun so far.
    begun: u64,
    /// The number of schedules inserted so far.
    inserted: u32,
    /// Plans with numbers up to this one are forgotten. Their schedules are rejected even if they come later.
    forgotten: u64,
    /// The number of ops of the planned thread since it last followed a plan through a whole iteration.
    unplanned_ops: usize,
    /// The number of unplanned ops after which the plans are outdated. Zero means never.
    patience_ops: usize,
    /// The number of ops of the iteration that was last given to the planner, as long as no schedule has come of it.
    without_plan: Option<usize>,
}

impl ActivePlans {
    /// The plan that the program is in, or was in last.
    pub fn current(&self) -> Option<&ActivePlan> {
        self.kept.first()
    }

    /// The plan that the program is in, or was in last.
    pub fn current_mut(&mut self) -> Option<&mut ActivePlan> {
        self.kept.first_mut()
    }

    /// The plan that the pool follows now.
    pub fn followed(&self) -> Option<&ActivePlan> {
        self.current().filter(|plan| plan.is_followed)
    }

    /// The current plan, if it is for the ops of this stream.
    pub fn of_stream(&mut self, stream: StreamId) -> Option<&mut ActivePlan> {
        self.current_mut().filter(|plan| plan.stream == stream)
    }

    /// Adds a plan for the ops of a stream. With `before_first`, the next op is the plan's first. Returns `false` if the plan
    /// was forgotten in the meantime.
    pub fn insert(
        &mut self,
        id: PlanId,
        schedule: Arc<Schedule>,
        stream: StreamId,
        before_first: bool,
    ) -> bool {
        if self.is_forgotten(id) {
            return false;
        }
        (self.unplanned_ops, self.without_plan) = (0, None);
        let mut plan = self.activated(id, schedule, stream, before_first);
        let is_before =
            |kept: &&mut ActivePlan| kept.id == id || kept.is_kept && kept.iteration == plan.iteration;
        if let Some(before) = self.kept.iter_mut().find(is_before) {
            plan.drift = before.drift.restarted();
            *before = plan;
            return true;
        }
        // The new plan takes over when its ops are recognized. Until then a plan that is followed now stays current.
        let index = usize::from(self.kept.first().is_some_and(|kept| kept.is_followed));
        self.kept.insert(index, plan);
        self.kept.truncate(MAX_PLANS);
        true
    }

    /// Adds a plan that an earlier run kept, behind all others: a plan that this run made goes by the times of this run. Returns
    /// `false` if there is no place for it, or a plan of its iteration already.
    pub fn insert_kept(&mut self, schedule: Arc<Schedule>, is_final: bool) -> bool {
        let plan = self.activated(PlanId(self.begun + 1), schedule, StreamId::default(), false);
        let is_planned = self.kept.iter().any(|kept| kept.iteration == plan.iteration);
        if is_planned || self.kept.len() == MAX_PLANS {
            return false;
        }
        self.begun += 1;
        (self.unplanned_ops, self.patience_ops) = (0, 2 * plan.schedule.ops.len());
        self.kept.push(ActivePlan { is_kept: true, is_unfinished: !is_final, ..plan });
        true
    }

    /// A plan of which no op has come yet.
    fn activated(
        &mut self,
        id: PlanId,
        schedule: Arc<Schedule>,
        stream: StreamId,
        before_first: bool,
    ) -> ActivePlan {
        self.inserted += 1;
        ActivePlan {
            cursor: Cursor::new(&schedule, before_first),
            iteration: schedule.iteration(),
            storages: vec![None; schedule.intervals.len()],
            due: VecDeque::new(),
            outcome: None,
            is_followed: false,
            drift: Drift::default(),
            schedule,
            id,
            is_unfinished: false,
            is_kept: false,
            since_op: 0,
            schedule_number: self.inserted,
            stream,
            followed_ops: 0,
        }
    }

    /// Advances the current plan's cursor, because an op of a stream comes.
    pub fn advance(&mut self, stream: StreamId, signature: u64) -> Position {
        let Some(current) = self.kept.first_mut() else {
            self.unplanned_ops += 1;
            return Position::Unknown;
        };
        if current.stream != stream {
            return Position::OtherThread;
        }
        self.unplanned_ops += 1;
        if let Some(at) = current.cursor.advance(&current.schedule, signature) {
            current.followed_ops += 1;
            if current.followed_ops >= current.schedule.ops.len() {
                self.unplanned_ops = 0;
            }
            return Position::At(at);
        }
        current.depart();
        Position::Unknown
    }

    /// Looks for the plan that a stream's last ops belong to, unless the position in the current plan is known.
    pub fn find(&mut self, stream: StreamId, recent: &RecentOps) {
        if self.current().is_none_or(|current| current.cursor.at().is_some()) {
            return;
        }
        if let Some(index) = self.kept.iter_mut().position(|plan| plan.cursor.find(recent).is_some()) {
            self.kept[..=index].rotate_right(1);
            self.kept[0].stream = stream;
        }
    }

    /// Whether the program repeats the iteration of this plan.
    pub fn follows(&self, plan: PlanId) -> bool {
        self.followed_whole_iteration() && self.current().is_some_and(|current| current.id == plan)
    }

    /// Whether the program's last ops were a whole iteration as planned.
    pub fn followed_whole_iteration(&self) -> bool {
        self.unplanned_ops == 0 && !self.kept.is_empty()
    }

    /// Whether the program has followed no plan for so long that it must be doing something else.
    pub fn are_outdated(&self) -> bool {
        self.patience_ops > 0 && self.unplanned_ops > self.patience_ops
    }

    /// Begins a plan for an iteration of `period` ops, which the planner now searches.
    pub fn begin(&mut self, period: usize) -> PlanId {
        self.begun += 1;
        (self.unplanned_ops, self.patience_ops, self.without_plan) = (0, 2 * period, Some(period));
        PlanId(self.begun)
    }

    /// Forgets the plans that were begun here. Plans that were made elsewhere, before the program began, stay.
    pub fn forget_own(&mut self) {
        self.forgotten = self.begun;
        let mut kept = std::mem::take(&mut self.kept);
        kept.retain(|plan| !self.is_forgotten(plan.id));
        self.kept = kept;
        (self.unplanned_ops, self.patience_ops, self.without_plan) = (0, 0, None);
    }

    fn is_forgotten(&self, plan: PlanId) -> bool {
        (1..=self.forgotten).contains(&plan.0)
    }

    /// The number of plans.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// The number of ops of the iteration that was last given to the planner, as long as no schedule has come of it.
    pub fn ops_without_plan(&self) -> Option<usize> {
        self.without_plan
    }

    /// Whether the planner was last given an iteration of `period` ops and no schedule has come of it.
    pub fn has_no_plan_for(&self, period: usize) -> bool {
        self.without_plan == Some(period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::ScheduledOp;

    /// A schedule whose ops occur in no other.
    fn schedule(plan: u64) -> Arc<Schedule> {
        let op = |at| ScheduledOp {
            signature: 100 * plan + at,
            context: 100 * plan + at,
            launch_ns: 0,
            first: IntervalId(0),
        };
        Arc::new(Schedule { ops: (0..20).map(op).collect(), ..Schedule::default() })
    }

    fn insert(plans: &mut ActivePlans, plan: u64) {
        plans.insert(PlanId(plan), schedule(plan), StreamId::default(), false);
    }

    /// Runs iterations of a plan, and returns how many of their ops were followed.
    fn run(plans: &mut ActivePlans, recent: &mut RecentOps, plan: u64, iterations: u64) -> usize {
        let mut is_followed = |at: u64| {
            let signature = 100 * plan + at % 20;
            let position = plans.advance(StreamId::default(), signature);
            recent.push(signature);
            plans.find(StreamId::default(), recent);
            position == Position::At(at as u32 % 20)
        };
        (0..20 * iterations).filter(|&at| is_followed(at)).count()
    }

    #[test]
    fn plans_are_found_again_and_the_least_recently_followed_goes() {
        let (mut plans, mut recent) = (ActivePlans::default(), RecentOps::default());
        for plan in 1..=4 {
            plans.begin(20);
            insert(&mut plans, plan);
            assert_eq!(run(&mut plans, &mut recent, plan, 2), 32, "recognized by its first eight ops");
            assert!(plans.followed_whole_iteration());
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
    fn a_plan_of_an_earlier_run_takes_the_place_of_none_of_this_run() {
        let (mut plans, mut recent) = (ActivePlans::default(), RecentOps::default());
        insert(&mut plans, 1);
        assert!(!plans.insert_kept(schedule(1), true), "this run has planned that iteration");
        assert_eq!((2..9).filter(|&plan| plans.insert_kept(schedule(plan), true)).count(), MAX_PLANS - 1);
        assert_eq!(run(&mut plans, &mut recent, 1, 2), 32);
        assert_eq!(run(&mut plans, &mut recent, 2, 2), 32);
        assert!(plans.current().is_some_and(|plan| plan.is_kept));
        plans.insert(PlanId(100), schedule(2), StreamId::default(), false);
        assert_eq!(plans.len(), MAX_PLANS);
        assert_eq!(run(&mut plans, &mut recent, 2, 2), 39, "recognized by the ops before");
        assert!(plans.current().is_some_and(|plan| plan.id == PlanId(100)), "this run's search knows better");
    }

    #[test]
    fn own_plans_are_forgotten_and_plans_from_elsewhere_stay() {
        let mut plans = ActivePlans::default();
        insert(&mut plans, 1);
        plans.forget_own();
        assert_eq!(plans.kept.len(), 1);
        assert_eq!(plans.begin(20), PlanId(1));
        insert(&mut plans, 1);
        plans.forget_own();
        assert!(plans.kept.is_empty() && !plans.has_no_plan_for(20));
        insert(&mut plans, 1);
        assert!(plans.kept.is_empty(), "it was planned for a program that is over");
        let next = plans.begin(20);
        insert(&mut plans, next.0);
        assert_eq!(plans.kept.len(), 1);
    }

    #[test]
    fn a_new_schedule_of_a_plan_replaces_the_previous_one() {
        let (mut plans, mut recent) = (ActivePlans::default(), RecentOps::default());
        (0..10).for_each(|_| insert(&mut plans, 1));
        assert_eq!(plans.kept.len(), 1);
        assert_eq!(run(&mut plans, &mut recent, 1, 1), 12);
        insert(&mut plans, 1);
        assert_eq!(run(&mut plans, &mut recent, 1, 1), 19, "recognized by the ops before");
    }
}
