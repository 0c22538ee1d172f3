//! The unified pool: where every storage's bytes are, and how they get where an op needs them.
//!
//! - [`storage`]: the record of a storage and the states it can be in. [`table`]: what keeps records.
//! - [`placement`], [`arena`]: where in a tier. [`guide`], [`relocate`]: where a plan says. [`endless`]: where plans are made.
//!   [`join`]: where what is free is in pieces.
//! - [`paged`]: memory mapped by page. [`views`]: of pages from here and there.
//! - [`recipe`]: how a storage is made again, and what that keeps known. [`instruction`]: what recipes share. [`algorithm`]: which
//!   of several.
//! - [`components`]: what of the evicted depends on each other. [`evict`]: making room. [`candidates`]: of which storages.
//! - [`encode`]: fewer bits in place of bytes.
//! - [`transfer`]: offload, fetch, read, write. [`plan`]: an op from request to submission.
//! - [`streams`]: what each thread submits. [`prefetch`]: what is fetched before it is needed.
//! - [`learn`]: what is to be planned. [`tally`]: what is counted for that. [`plans`]: what was. [`follow`]: what a plan says is done. [`drift`]: when
//!   it is made anew. [`state`]: where that stands.
//! - [`failures`]: launches that failed after their submission, and what descends from them.
//! - [`note`]: what the journal is told. [`foresight`]: what a replay tells beforehand.
//! - [`lease`]: the submission itself; with `engine/`, the only unsafe code.
//!
//! Everything here runs under the runtime's short lock and waits for nothing, but for what was counted when an iteration has been
//! logged. A block is free from the submission of its
//! free: whoever gets it next makes its lane wait for the work still touching it.

mod algorithm;
mod evict;
mod faults;
mod follow;
mod input;
mod instructions;
mod memory;
mod observe;
mod remat;
mod run;
mod submit;

use std::sync::Arc;

pub use memory::allocation_trace::{TakenBlock, Takings};
pub use observe::observer::Residents;
pub use remat::ids::StorageId;
pub use input::Input;
pub use submit::Pending;

use crate::OvercommitDevice;
use crate::config::{Sabotage, Settings};
use crate::engine::{Engine, Lane, aligned};
use crate::policy::{self, Knowledge};
use crate::stats::Counters;
use crate::trace::{Event, Header, Journal, Recording};
use follow::follower::Follower;
use memory::arena::Arena;
use memory::tiers::Memory;
use observe::observer::Observer;
use remat::recipe::Graph;
use remat::storage::Storage;
use submit::Submitter;

/// All memory of one device and what is in it.
#[derive(Debug)]
pub struct Pool {
    /// The device, for errors and figures.
    name: OvercommitDevice,
    /// How the user set it up.
    pub settings: Settings,
    /// Which ranges of both tiers are in blocks.
    memory: Memory,
    /// The records of storages, and how each is rematerialized.
    graph: Graph,
    /// The only way to the engine's lanes.
    submitter: Submitter,
    /// What the program does, and the plans for it.
    follower: Follower,
    /// What happened.
    observer: Observer,
}

impl Pool {
    /// An empty pool on `engine`.
    pub fn new(name: OvercommitDevice, engine: Arc<dyn Engine>, settings: Settings) -> Self {
        let measures = follow::drift::measures(&*engine, settings.planning);
        let journal = if settings.record { Journal::recording() } else { Journal::default() };
        if settings.record {
            engine.record();
        }
        let policy = policy::rule(settings.policy, settings.gist_format);
        let mut pool = Pool {
            name,
            memory: Memory::new(name, engine.clone(), &settings, &journal),
            graph: Graph::new(policy.knows() == Knowledge::Components),
            submitter: Submitter::new(engine, settings.sabotage),
            follower: Follower::new(policy, measures),
            observer: Observer::new(journal),
            settings,
        };
        pool.learn();
        pool
    }

    /// The thread of this number submits from now on, in so many checkpointed scopes.
    pub fn enter(&mut self, thread: usize, scopes: u32) {
        let scopes = if self.settings.sabotage == Some(Sabotage::LostMarks) { 0 } else { scopes };
        self.follower.streams.enter(thread, scopes);
    }

    /// A storage is a result of a scope, which is in `scopes` others: what it was made in does not count.
    pub fn keep_result(&mut self, id: StorageId, scopes: u32) {
        if self.settings.sabotage == Some(Sabotage::MarkedResults) {
            return;
        }
        self.log_keep(id, scopes);
        self.graph.storages.limit_scopes(id, scopes);
    }

    /// The last handle of a storage is gone.
    pub fn release(&mut self, id: StorageId) {
        self.observer.journal.note(|| Event::Free(self.number(id)));
        self.log_free(id);
        self.let_go(id);
    }

    /// The storage has no handle any more.
    fn let_go(&mut self, id: StorageId) {
        self.no_handle(id);
        self.graph.lost_need(id, &mut self.memory);
        self.graph.settle_claims(&mut self.memory);
        if self.graph.storages.len() == 0 {
            self.begin_again();
        }
    }

    /// Nothing is there any more. Where the host tier may fill, what comes is decided as in a new pool: what was learned before is
    /// not to decide whether it fits.
    fn begin_again(&mut self) {
        self.forget_tallies();
        if self.memory.has_filled || !self.is_roomy() {
            self.follower.forget();
            self.learn();
            self.submitter.offloading_until_ns = 0;
        }
    }

    fn no_handle(&mut self, id: StorageId) {
        let storage = &mut self.graph.storages[id];
        storage.held = false;
        let stream = &mut self.follower.streams[storage.stream];
        stream.held_bytes -= aligned(storage.size_bytes);
        stream.tracker.dropped(storage.touch);
        stream.absent.remove(id, storage);
    }

    /// Gives memory that nothing uses back to the system, unless work is submitted meanwhile.
    pub fn give_back(&mut self) {
        let engine = self.engine().clone();
        if !self.ends().into_iter().all(|end| engine.reached(end)) {
            return;
        }
        self.memory.release();
    }

    /// Storages looked at so far for what is to leave.
    pub fn looks(&self) -> u64 {
        self.observer.candidates_scanned.get()
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.submitter.engine
    }

    /// The ends of all lanes as they are now.
    pub fn ends(&self) -> [crate::engine::Mark; Lane::ALL.len()] {
        Lane::ALL.map(|lane| self.engine().mark(lane))
    }

    /// Number of storages that handles or claims need.
    pub fn live_storages(&self) -> usize {
        self.graph.storages.iter().filter(|(_, storage)| storage.active()).count()
    }

    /// Number of storages that must stay where they are.
    pub fn pinned_storages(&self) -> usize {
        let pinned = |storage: &Storage| storage.pins + storage.host_pins + storage.wanted > 0;
        self.graph.storages.iter().filter(|(_, storage)| pinned(storage)).count()
    }

    /// The figures a user sees.
    pub fn stats(&self) -> crate::Stats {
        let needed = |tier: &Arena| (tier.used_bytes(), tier.peak_bytes(), tier.limit_bytes());
        let (allocated_bytes, peak_allocated_bytes, budget_bytes) = needed(&self.memory.device);
        let (host_bytes, peak_host_bytes, host_limit_bytes) = needed(&self.memory.host);
        crate::Stats {
            device: self.name,
            allocated_bytes,
            peak_allocated_bytes,
            average_allocated_bytes: (self.observer.usage.use_over_time.0
                / self.observer.usage.use_over_time.1.max(1)) as usize,
            footprint_bytes: self.memory.device.footprint_bytes(),
            reserved_bytes: self.memory.device.reserved_bytes(),
            peak_reserved_bytes: self.memory.device.peak_reserved_bytes(),
            budget_bytes,
            smallest_budget_bytes: self.settings.budget_for(self.observer.usage.largest_op_bytes),
            host_bytes,
            peak_host_bytes,
            host_limit_bytes,
            storages: self.graph.storages.len(),
            recipes: self.graph.recipe_count(),
            counters: Counters {
                mapped_pages: self.memory.device.mapped_pages() - self.observer.usage.mapped_before,
                ..self.observer.counters
            },
            times: self.engine().times(),
            planning: self.planning_state(),
            fallbacks: self.engine().fallbacks(),
        }
    }

    /// What was recorded since this was last asked, if anything is. All submitted work must be done.
    pub fn take_recording(&mut self) -> Option<Recording> {
        let header = Header {
            trace: 1,
            device: format!(
                "{} ({}; {})",
                self.name,
                self.engine().props().name,
                self.engine().props().pricing()
            ),
            budget_bytes: self.memory.device.limit_bytes(),
            host_limit_bytes: self.memory.host.limit_bytes(),
            policy: self.settings.policy.to_string(),
            simulated: self.engine().times().is_some(),
        };
        self.observer
            .journal
            .is_recording()
            .then(|| self.observer.journal.take(header, &self.engine().recorded()))
    }

    /// The number of the op at which the most device memory was in use.
    pub fn peak_op(&self) -> u64 {
        self.observer.usage.peak.1
    }

    /// What was resident after the op that the settings name: sizes, and the ops that made them, the largest first.
    pub fn portrait(&self) -> &Residents {
        &self.observer.snapshot
    }

    /// Starts counting peaks and totals anew.
    pub fn reset_stats(&mut self) {
        self.memory.device.reset_peak();
        self.memory.host.reset_peak();
        self.observer.counters = Counters::default();
        self.observer.usage.mapped_before = self.memory.device.mapped_pages();
        self.observer.usage.largest_op_bytes = 0;
        self.observer.usage.use_over_time = (0, 0);
        self.observer.usage.peak = (self.memory.device.peak_bytes(), self.observer.clock);
    }
}
