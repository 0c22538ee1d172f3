//! Logging what the program asks for, from the first eviction on until an iteration is known.

use std::sync::Arc;
use std::time::Instant;

use super::follower::Follower;
use super::streams::Streams;
use crate::engine::{Instruction, aligned};
use crate::pool::input::Input;
use crate::pool::memory::tiers::Memory;
use crate::pool::remat::ids::StorageId;
use crate::pool::remat::recipe::Graph;
use crate::pool::remat::storage::{Storage, TierCopy};
use crate::schedule::{InitialStorage, PlanId, Request, RequestLog, StreamId};

/// Ops of a log at the most: twice the longest iteration that is recognised.
const MOST_OPS: usize = 1 << 19;

/// A thread that computes so many times as much as the one whose ops are logged is the one to be planned.
const LEAD: u64 = 2;

impl Follower {
    /// Whether iterations are planned.
    pub fn plans_iterations(&self) -> bool {
        self.requests.plans_iterations
    }

    /// Whether something is planned just now.
    pub fn is_planning(&self) -> bool {
        Arc::strong_count(&self.requests.planning) > 1
    }

    /// Logs from the next eviction on, if the policy plans: a program that needs none is not to pay for a log.
    pub fn learn(&mut self, memory: &mut Memory) {
        self.begin_anew(memory, None);
        self.requests.learns = self.plans_iterations();
    }

    /// As [`learn`](Follower::learn), unless that is so or something is planned just now.
    pub fn learn_again(&mut self, memory: &mut Memory) {
        if !self.requests.learns && !self.is_planning() {
            self.learn(memory);
        }
    }

    /// What the program does is planned already.
    pub fn stop_learning(&mut self, memory: &mut Memory) {
        if self.requests.learns && self.requests.log.as_ref().is_none_or(|log| !log.renews) {
            self.begin_anew(memory, None);
            self.requests.learns = false;
        }
    }

    /// Logs from now on what a plan that is followed is made anew from.
    pub fn renew(&mut self, graph: &Graph, memory: &mut Memory, plan: PlanId) {
        if !self.requests.learns && !self.is_planning() {
            let log = RequestLog { plan, renews: true, ..self.new_log(graph, self.streams.current()) };
            self.begin_anew(memory, Some(log));
            self.requests.learns = true;
        }
    }

    /// Logs what the thread asks for that computes the most.
    pub fn log_from_now_on(&mut self, graph: &Graph, memory: &mut Memory) {
        if self.requests.learns {
            self.begin_log(graph, memory);
        }
    }

    pub fn begin_log(&mut self, graph: &Graph, memory: &mut Memory) {
        let leader = self.streams.leader();
        let computed_ns = |stream| self.streams[stream].computed_ns;
        let leads = |log: &RequestLog| computed_ns(leader) > LEAD * computed_ns(log.stream);
        // In vain once is enough.
        let period = self.streams[leader].tracker.period();
        let in_vain = period.is_some_and(|period| self.plans.is_fruitless(period as usize));
        if self.requests.log.as_deref().is_none_or(leads) && !in_vain {
            self.begin_anew(memory, Some(self.new_log(graph, leader)));
        }
    }

    fn new_log(&self, graph: &Graph, stream: StreamId) -> RequestLog {
        let tracker = &self.streams[stream].tracker;
        let held = graph.storages.iter().map(|(_, storage)| storage);
        let held = held.filter(|storage| storage.uses.held && storage.access.stream == stream);
        let begun = |storage: &Storage| InitialStorage {
            size_bytes: storage.size_bytes,
            touched: tracker.ago(storage.access.touch),
        };
        let begun = held.map(|storage| (storage.number, begun(storage))).collect();
        RequestLog { stream, first: graph.storages.made(), begun, ..RequestLog::default() }
    }

    /// What was logged before is of no use.
    fn begin_anew(&mut self, memory: &mut Memory, log: Option<RequestLog>) {
        self.requests.log = log.map(Box::new);
        self.forget_tallies(memory);
    }

    pub fn whole_log(&mut self, graph: &Graph, memory: &mut Memory) -> Option<(RequestLog, usize)> {
        let log = self.requests.log.as_ref().filter(|log| log.stream == self.streams.current())?;
        if log.ops() > MOST_OPS {
            self.requests.found_none = true;
            self.learn(memory);
            return None;
        }
        let tracker = &self.streams[log.stream].tracker;
        let period = tracker.period()? as usize;
        // Until then, its beginning cannot be chosen freely. What repeats within an iteration, such as layers, leaves more
        // or less behind each time.
        let in_vain = self.plans.is_fruitless(period);
        if log.ops() < 2 * period || !tracker.holds_as_much() || in_vain {
            return None;
        }
        (self.requests.learns, self.requests.found_none) = (false, false);
        self.requests.planning_begun = Some(Instant::now());
        let renews = log.renews && self.plans.is_in(log.plan);
        let mut log = self.requests.log.take()?;
        let new = self.plans.begin(period);
        if !renews {
            log.plan = new;
        }
        log.under_way = self.requests.planning.clone();
        let storages = &graph.storages;
        let idle = storages.residents().map(|id| &storages[id]).filter(|storage| {
            !log.size_bytes.contains_key(&storage.number) && !self.can_leave(graph, storage)
        });
        log.idle_bytes = idle.map(|storage| aligned(storage.size_bytes)).sum();
        Some((*log, period))
    }

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
        log.asked.push(Request::Op { instruction: instruction.clone(), context, inputs, outputs });
        log.ops += 1;
    }

    pub fn log_write(&mut self, graph: &Graph, id: StorageId) {
        if let Some(log) = log_of(&mut self.requests.log, &self.streams) {
            let storage = &graph.storages[id];
            let number = log.makes(storage.number, storage.size_bytes, storage.scopes());
            log.asked.push(Request::Write(number));
        }
    }

    pub fn log_read(&mut self, graph: &Graph, id: StorageId) {
        if let Some(log) = log_of(&mut self.requests.log, &self.streams) {
            let storage = &graph.storages[id];
            let number = log.uses(storage.number, storage.size_bytes);
            log.asked.push(Request::Read(number));
        }
    }

    pub fn log_keep(&mut self, graph: &Graph, id: StorageId, scopes: u32) {
        if let Some(log) = &mut self.requests.log
            && let Some(made_in) = log.scopes.get_mut(&graph.storages[id].number)
        {
            *made_in = scopes.min(*made_in);
        }
    }

    pub fn log_free(&mut self, graph: &Graph, id: StorageId) {
        if let Some(log) = &mut self.requests.log {
            log.loses(graph.storages[id].number);
        }
    }

    pub fn log_sync(&mut self) {
        if let Some(log) = log_of(&mut self.requests.log, &self.streams) {
            log.asked.push(Request::Sync);
        }
    }

    pub fn forget_tallies(&mut self, memory: &mut Memory) {
        for (_, _, TierCopy { block, touched, .. }) in std::mem::take(&mut self.requests.tallies) {
            memory.host.free(block, touched);
        }
    }
}

/// The log, if it is of the thread that submits.
fn log_of<'a>(log: &'a mut Option<Box<RequestLog>>, streams: &Streams) -> Option<&'a mut RequestLog> {
    log.as_deref_mut().filter(|log| log.stream == streams.current())
}
