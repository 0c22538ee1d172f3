//! What a thread of the program asked for lately, kept until a whole iteration of it can be planned.

use std::sync::Arc;
use std::time::Instant;

use crate::config::Planning;
use crate::engine::{Instruction, aligned};
use crate::error::Error;
use crate::pool::Pool;
use crate::pool::follow::streams::Streams;
use crate::pool::remat::storage::{Storage, TierCopy};
use crate::pool::remat::ids::StorageId;
use crate::pool::input::Input;
use crate::schedule::{Asked, Begun, Log, PlanId, StreamId};
use crate::op::Tally;

/// Ops of a log at the most: twice the longest iteration that is recognised.
const MOST_OPS: usize = 1 << 19;

/// The number of a storage, what was counted of it, and where that is.
pub type Tallied = (u64, Tally, TierCopy);

/// What is kept of what the program asked for.
#[derive(Debug, Default)]
pub struct Requests {
    /// Since memory was short, until that is planned.
    pub log: Option<Box<Log>>,
    /// Whether there is to be a log.
    pub learns: bool,
    /// What is counted for the log.
    pub tallies: Vec<Tallied>,
    /// Held by whoever plans.
    pub planning: Arc<()>,
    /// When that was last begun.
    pub planning_begun: Option<Instant>,
    /// No iteration was found in as much of the program as is looked at.
    pub found_none: bool,
    /// Whether plans go by measured times.
    pub measures: bool,
}

/// A thread that computes so many times as much as the one whose ops are logged is the one to be planned.
const LEAD: u64 = 2;

impl Pool {
    /// Whether iterations are planned.
    pub(in crate::pool) fn plans_iterations(&self) -> bool {
        self.follower.policy.plans() && self.settings.planning != Planning::Off
    }

    /// Whether something is planned just now.
    pub fn is_planning(&self) -> bool {
        Arc::strong_count(&self.follower.requests.planning) > 1
    }

    /// Logs from the next eviction on, if the policy plans: a program that needs none is not to pay for a log.
    pub(in crate::pool) fn learn(&mut self) {
        self.begin_anew(None);
        self.follower.requests.learns = self.plans_iterations();
    }

    /// As [`learn`](Pool::learn), unless that is so or something is planned just now.
    pub(in crate::pool) fn learn_again(&mut self) {
        if !self.follower.requests.learns && !self.is_planning() {
            self.learn();
        }
    }

    /// What the program does is planned already.
    pub(in crate::pool) fn stop_learning(&mut self) {
        if self.follower.requests.learns && self.follower.requests.log.as_ref().is_none_or(|log| !log.renews)
        {
            self.begin_anew(None);
            self.follower.requests.learns = false;
        }
    }

    /// Logs from now on what a plan that is followed is made anew from.
    pub(in crate::pool) fn renew(&mut self, plan: PlanId) {
        if !self.follower.requests.learns && !self.is_planning() {
            let log = Log { plan, renews: true, ..self.new_log(self.follower.streams.current()) };
            self.begin_anew(Some(log));
            self.follower.requests.learns = true;
        }
    }

    /// Logs what the thread asks for that computes the most.
    pub(in crate::pool) fn log_from_now_on(&mut self) {
        if self.follower.requests.learns {
            self.begin_log();
        }
    }

    fn begin_log(&mut self) {
        let leader = self.follower.streams.leader();
        let computed_ns = |stream| self.follower.streams[stream].computed_ns;
        let leads = |log: &Log| computed_ns(leader) > LEAD * computed_ns(log.stream);
        // In vain once is enough.
        let period = self.follower.streams[leader].tracker.period();
        let in_vain = period.is_some_and(|period| self.follower.plans.is_fruitless(period as usize));
        if self.follower.requests.log.as_deref().is_none_or(leads) && !in_vain {
            self.begin_anew(Some(self.new_log(leader)));
        }
    }

    fn new_log(&self, stream: StreamId) -> Log {
        let tracker = &self.follower.streams[stream].tracker;
        let held = self.graph.storages.iter().map(|(_, storage)| storage);
        let held = held.filter(|storage| storage.held && storage.stream == stream);
        let begun =
            |storage: &Storage| Begun { size_bytes: storage.size_bytes, touched: tracker.ago(storage.touch) };
        let begun = held.map(|storage| (storage.number, begun(storage))).collect();
        Log { stream, first: self.graph.storages.made(), begun, ..Log::default() }
    }

    /// What was logged before is of no use.
    fn begin_anew(&mut self, log: Option<Log>) {
        self.follower.requests.log = log.map(Box::new);
        self.forget_tallies();
    }

    /// Logs from now on, whatever the policy, though nothing was evicted.
    pub fn log_at_once(&mut self) {
        self.begin_log();
    }

    /// The log, and how many ops at its end are an iteration, once there are two of it. Waits for what was counted.
    ///
    /// # Errors
    /// A failure of work that was submitted before.
    pub fn learned(&mut self) -> Result<Option<(Log, usize)>, Error> {
        let Some((mut log, period)) = self.whole_log() else { return Ok(None) };
        log.counts = self.tallied()?;
        Ok(Some((log, period)))
    }

    fn whole_log(&mut self) -> Option<(Log, usize)> {
        let log = self
            .follower
            .requests
            .log
            .as_ref()
            .filter(|log| log.stream == self.follower.streams.current())?;
        if log.ops() > MOST_OPS {
            self.follower.requests.found_none = true;
            self.learn();
            return None;
        }
        let tracker = &self.follower.streams[log.stream].tracker;
        let period = tracker.period()? as usize;
        // Until then, its beginning cannot be chosen freely. What repeats within an iteration, such as layers, leaves more
        // or less behind each time.
        let in_vain = self.follower.plans.is_fruitless(period);
        if log.ops() < 2 * period || !tracker.holds_as_much() || in_vain {
            return None;
        }
        (self.follower.requests.learns, self.follower.requests.found_none) = (false, false);
        self.follower.requests.planning_begun = Some(Instant::now());
        self.observer.counters.plannings += 1;
        let renews = log.renews && self.follower.plans.is_in(log.plan);
        let mut log = self.follower.requests.log.take()?;
        let new = self.follower.plans.begin(period);
        if !renews {
            log.plan = new;
        }
        log.under_way = self.follower.requests.planning.clone();
        let storages = &self.graph.storages;
        let idle = storages
            .residents()
            .map(|id| &storages[id])
            .filter(|storage| !log.size_bytes.contains_key(&storage.number) && !self.can_leave(storage));
        log.idle_bytes = idle.map(|storage| aligned(storage.size_bytes)).sum();
        Some((*log, period))
    }

    pub(in crate::pool) fn log_op(
        &mut self,
        inputs: &[Input],
        instruction: &Arc<Instruction>,
        outputs: &[StorageId],
    ) {
        let Some(log) = &mut self.follower.requests.log else { return };
        let storages = &self.graph.storages;
        if log.stream != self.follower.streams.current() {
            let consumed = inputs.iter().filter(|input| input.consumed);
            consumed.for_each(|input| log.loses(storages[input.id].number));
            return;
        }
        let uses = |input: &Input| {
            let storage = &storages[input.id];
            (log.uses(storage.number, storage.size_bytes), input.consumed)
        };
        let inputs = inputs.iter().map(uses).collect();
        let makes = |&id: &StorageId| {
            let storage = &storages[id];
            log.makes(storage.number, storage.size_bytes, storage.scopes())
        };
        let outputs = outputs.iter().map(makes).collect();
        let context = self.follower.streams[log.stream].recent.context();
        log.asked.push(Asked::Op { instruction: instruction.clone(), context, inputs, outputs });
        log.ops += 1;
    }

    pub(in crate::pool) fn log_write(&mut self, id: StorageId) {
        if let Some(log) = log_of(&mut self.follower.requests.log, &self.follower.streams) {
            let storage = &self.graph.storages[id];
            let number = log.makes(storage.number, storage.size_bytes, storage.scopes());
            log.asked.push(Asked::Write(number));
        }
    }

    pub(in crate::pool) fn log_read(&mut self, id: StorageId) {
        if let Some(log) = log_of(&mut self.follower.requests.log, &self.follower.streams) {
            let storage = &self.graph.storages[id];
            let number = log.uses(storage.number, storage.size_bytes);
            log.asked.push(Asked::Read(number));
        }
    }

    pub(in crate::pool) fn log_keep(&mut self, id: StorageId, scopes: u32) {
        if let Some(log) = &mut self.follower.requests.log
            && let Some(made_in) = log.scopes.get_mut(&self.graph.storages[id].number)
        {
            *made_in = scopes.min(*made_in);
        }
    }

    pub(in crate::pool) fn log_free(&mut self, id: StorageId) {
        if let Some(log) = &mut self.follower.requests.log {
            log.loses(self.graph.storages[id].number);
        }
    }

    pub(in crate::pool) fn log_sync(&mut self) {
        if let Some(log) = log_of(&mut self.follower.requests.log, &self.follower.streams) {
            log.asked.push(Asked::Sync);
        }
    }
}

/// The log, if it is of the thread that submits.
fn log_of<'a>(log: &'a mut Option<Box<Log>>, streams: &Streams) -> Option<&'a mut Log> {
    log.as_deref_mut().filter(|log| log.stream == streams.current())
}
