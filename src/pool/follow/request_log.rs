//! The request log: what a thread asks for, from the first eviction until an iteration is recognized.

use std::sync::Arc;
use std::time::Instant;

use super::follower::Follower;
use super::streams::Streams;
use crate::engine::{Instruction, aligned};
use crate::pool::input::Input;
use crate::pool::memory::tiers::Memory;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::recipe::Graph;
use crate::pool::remat::storage::Storage;
use crate::schedule::{InitialStorage, PlanId, Request, RequestLog, StreamId};

/// The maximum number of ops in a log: twice the longest iteration that can be recognized.
const MAX_OPS: usize = 1 << 19;

/// A thread that computes this many times as much as the logged thread is logged in its place.
const LEAD: u64 = 2;

impl Follower {
    /// Whether the pool plans iterations.
    pub fn plans_iterations(&self) -> bool {
        self.requests.plans_iterations
    }

    /// Whether the planner is at work.
    pub fn is_planning(&self) -> bool {
        Arc::strong_count(&self.requests.planning) > 1
    }

    /// Starts a log at the next eviction, if the pool plans iterations. A program that never runs short of memory
    /// should not pay for a log.
    pub fn await_eviction(&mut self, memory: &mut Memory) {
        self.replace_log(memory, None);
        self.requests.wants_log = self.plans_iterations();
    }

    /// Calls [`await_eviction`](Follower::await_eviction), unless a log is wanted already or the planner is at work.
    pub fn resume_logging(&mut self, memory: &mut Memory) {
        if !self.requests.wants_log && !self.is_planning() {
            self.await_eviction(memory);
        }
    }

    /// Ends the log, because the program follows a plan. A log for a new schedule of that plan goes on.
    pub fn stop_logging(&mut self, memory: &mut Memory) {
        if self.requests.wants_log && self.requests.log.as_ref().is_none_or(|log| !log.renews) {
            self.replace_log(memory, None);
            self.requests.wants_log = false;
        }
    }

    /// Starts a log for a new schedule of a plan.
    pub fn log_for_renewal(&mut self, graph: &Graph, memory: &mut Memory, plan: PlanId) {
        if !self.requests.wants_log && !self.is_planning() {
            let log = RequestLog { plan, renews: true, ..self.new_log(graph, self.streams.current()) };
            self.replace_log(memory, Some(log));
            self.requests.wants_log = true;
        }
    }

    /// Starts a log if one is wanted.
    pub fn start_log_if_wanted(&mut self, graph: &Graph, memory: &mut Memory) {
        if self.requests.wants_log {
            self.start_log(graph, memory);
        }
    }

    /// Starts a log of the thread that computes the most, unless its log is under way already.
    pub fn start_log(&mut self, graph: &Graph, memory: &mut Memory) {
        let leader = self.streams.leader();
        let computed_ns = |stream| self.streams[stream].computed_ns;
        let leads = |log: &RequestLog| computed_ns(leader) > LEAD * computed_ns(log.stream);
        // The iteration is not logged again if the planner found no plan for it.
        let period = self.streams[leader].tracker.period();
        let has_no_plan = period.is_some_and(|period| self.active_plans.has_no_plan_for(period as usize));
        if self.requests.log.as_deref().is_none_or(leads) && !has_no_plan {
            self.replace_log(memory, Some(self.new_log(graph, leader)));
        }
    }

    /// An empty log of a stream, with the storages that the stream holds now.
    fn new_log(&self, graph: &Graph, stream: StreamId) -> RequestLog {
        let tracker = &self.streams[stream].tracker;
        let held = graph.storages.iter().map(|(_, storage)| storage);
        let held = held.filter(|storage| storage.uses.held && storage.access.stream == stream);
        let initial = |storage: &Storage| InitialStorage {
            size_bytes: storage.size_bytes,
            touched: tracker.ago(storage.access.touch),
        };
        let initial = held.map(|storage| (storage.number, initial(storage))).collect();
        RequestLog { stream, first: graph.storages.made(), initial, ..RequestLog::default() }
    }

    /// Replaces the log, and frees what was counted for the previous one.
    fn replace_log(&mut self, memory: &mut Memory, log: Option<RequestLog>) {
        self.requests.log = log.map(Box::new);
        self.free_tallies(memory);
    }

    /// Takes the log for planning once it contains two iterations, with the number of ops at its end that are an iteration.
    pub fn take_iteration(&mut self, graph: &Graph, memory: &mut Memory) -> Option<(RequestLog, usize)> {
        let log = self.requests.log.as_ref().filter(|log| log.stream == self.streams.current())?;
        if log.ops() > MAX_OPS {
            self.requests.no_period_found = true;
            self.await_eviction(memory);
            return None;
        }
        let tracker = &self.streams[log.stream].tracker;
        let period = tracker.period()? as usize;
        // A log of two iterations lets the planner choose where the iteration begins. Repeated layers are no iterations:
        // each of them changes how many bytes are held.
        let has_no_plan = self.active_plans.has_no_plan_for(period);
        if log.ops() < 2 * period || !tracker.holds_as_much() || has_no_plan {
            return None;
        }
        (self.requests.wants_log, self.requests.no_period_found) = (false, false);
        self.requests.planning_begun = Some(Instant::now());
        let renews = log.renews && self.active_plans.follows(log.plan);
        let mut log = self.requests.log.take()?;
        let new = self.active_plans.begin(period);
        if !renews {
            log.plan = new;
        }
        log.beginning = self.streams[log.stream].beginning.id();
        log.under_way = self.requests.planning.clone();
        let storages = &graph.storages;
        let idle = storages.residents().map(|id| &storages[id]).filter(|storage| {
            !log.size_bytes.contains_key(&storage.number) && !self.can_leave(graph, storage)
        });
        log.idle_bytes = idle.map(|storage| aligned(storage.size_bytes)).sum();
        Some((*log, period))
    }

    /// Logs an op. Of another thread's ops, only the consumed inputs matter: their last handles are gone.
    pub fn log_op(
        &mut self,
        graph: &Graph,
        inputs: &[Input],
        instruction: &Arc<Instruction>,
        outputs: &[StorageId],
    ) {
        let Some(log) = &mut self.requests.log else { return };
        let storages = &graph.storages;
        if log.stream != self.streams.current() {
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
        let context = self.streams[log.stream].recent.context();
        log.requests.push(Request::Op { instruction: instruction.clone(), context, inputs, outputs });
        log.ops += 1;
    }

    /// Logs a new storage with data from the program.
    pub fn log_write(&mut self, graph: &Graph, id: StorageId) {
        if let Some(log) = log_of(&mut self.requests.log, &self.streams) {
            let storage = &graph.storages[id];
            let number = log.makes(storage.number, storage.size_bytes, storage.scopes());
            log.requests.push(Request::Write(number));
        }
    }

    /// Logs a read of a storage by the program.
    pub fn log_read(&mut self, graph: &Graph, id: StorageId) {
        if let Some(log) = log_of(&mut self.requests.log, &self.streams) {
            let storage = &graph.storages[id];
            let number = log.uses(storage.number, storage.size_bytes);
            log.requests.push(Request::Read(number));
        }
    }

    /// Logs that a storage is a result of a scope within `scopes` others.
    pub fn log_keep(&mut self, graph: &Graph, id: StorageId, scopes: u32) {
        if let Some(log) = &mut self.requests.log
            && let Some(made_in) = log.scopes.get_mut(&graph.storages[id].number)
        {
            *made_in = scopes.min(*made_in);
        }
    }

    /// Logs that the last handle of a storage is gone.
    pub fn log_free(&mut self, graph: &Graph, id: StorageId) {
        if let Some(log) = &mut self.requests.log {
            log.loses(graph.storages[id].number);
        }
    }

    /// Logs that the program waits for all work.
    pub fn log_sync(&mut self) {
        if let Some(log) = log_of(&mut self.requests.log, &self.streams) {
            log.requests.push(Request::Sync);
        }
    }

    /// Frees the tallies of the log.
    pub fn free_tallies(&mut self, memory: &mut Memory) {
        std::mem::take(&mut self.requests.tallies).free(memory);
    }
}

/// The log, if it is of the thread that submits now.
fn log_of<'a>(log: &'a mut Option<Box<RequestLog>>, streams: &Streams) -> Option<&'a mut RequestLog> {
    log.as_deref_mut().filter(|log| log.stream == streams.current())
}
