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
mod instructions;
mod memory;
mod observe;
mod remat;
mod run;
mod submit;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

pub use memory::layout_cursor::{TakenBlock, Takings};
pub use remat::storage::StorageId;
pub use run::Input;
pub use submit::Pending;

use crate::OvercommitDevice;
use crate::config::{Sabotage, Settings};
use crate::engine::{Engine, EngineError, Lane, Tier, aligned};
use crate::error::Error;
use crate::policy::{self, Reactive};
use crate::pool::remat::storage::Storage;
use crate::schedule::Log;
use crate::stats::Counters;
use crate::trace::{Event, Header, Journal, Recording};
use follow::plans::Plans;
use follow::prefetch::Ahead;
use follow::streams::Streams;
use instructions::Instructions;
use memory::arena::Arena;
use memory::pages::Paged;
use observe::failures::Failures;
use observe::tallies::Tallied;
use remat::recipe::Graph;
use submit::Submitter;

/// Host memory is mapped in slabs of this size: large enough that mapping (pinning, on a GPU) is rare.
const HOST_SLAB_BYTES: usize = 64 << 20;

/// Sizes of storages and the ops that made them, the largest first.
pub type Residents = Vec<(usize, &'static str)>;

/// All memory of one device and what is in it.
#[derive(Debug)]
pub struct Pool {
    name: OvercommitDevice,
    submitter: Submitter,
    device: Arena,
    host: Arena,
    journal: Journal,
    graph: Graph,
    instructions: Instructions,
    policy: Arc<dyn Reactive>,
    counters: Counters,
    /// Launches that failed after their submission.
    failures: Failures,
    /// Pages mapped before totals were last counted anew.
    mapped_before: u64,
    /// Storages looked at so far for what is to leave.
    looks: Cell<u64>,
    /// Ops run so far: the time that recency is measured in.
    clock: u64,
    /// Predicted time of all ops so far, those run again included.
    computed_ns: u64,
    /// The most device memory in use, and the op at which it was.
    peak: (usize, u64),
    /// Bytes in use times how long, while ops run, and how long that is.
    use_over_time: (u128, u128),
    /// What was resident after the op that the settings name.
    portrait: Residents,
    /// The largest need of one op so far.
    largest_op_bytes: usize,
    /// What each thread submits.
    streams: Streams,
    /// What it asked for since memory was short, until that is planned.
    log: Option<Box<Log>>,
    /// Whether there is to be a log.
    learns: bool,
    /// What is counted for the log.
    tallies: Vec<Tallied>,
    /// What is planned.
    plans: Plans,
    /// Held by whoever plans.
    planning: Arc<()>,
    /// When that was last begun.
    planning_begun: Option<Instant>,
    /// No iteration was found in as much of the program as is looked at.
    found_none: bool,
    /// Whether plans go by measured times.
    measures: bool,
    /// Until when the offload lane is at work, by the predicted time of all ops until then.
    offloading_until_ns: u64,
    /// How early storages are fetched.
    ahead: Ahead,
    /// The host tier once had no room for all that device memory can hold.
    has_filled: bool,
    /// A recomputation is under way, and how many ops it has run.
    remaking: bool,
    remade_ops: u32,
    /// While what a recomputation has made for later may leave.
    drops_wanted: bool,
    /// Claims to take off; empty between operations.
    lost: Vec<StorageId>,
    /// Checkpointed scopes around what the program submits now: what is made in one is recomputed first.
    scopes: u32,
    pub settings: Settings,
}

impl Pool {
    /// An empty pool on `engine`.
    pub fn new(name: OvercommitDevice, engine: Arc<dyn Engine>, settings: Settings) -> Self {
        let (budget, host_limit) = (settings.budget_bytes, settings.host_limit_bytes);
        engine.bound(Tier::Host, host_limit);
        let measures = follow::drift::measures(&*engine, settings.planning);
        let journal = if settings.record { Journal::recording() } else { Journal::default() };
        if settings.record {
            engine.record();
        }
        let mut pool = Pool {
            name,
            submitter: Submitter::new(engine, settings.sabotage),
            device: match settings.page_bytes(budget) {
                page_bytes if settings.endless => {
                    let whole_pages = settings.whole_pages(budget);
                    Arena::endless(Tier::Device, whole_pages, page_bytes, journal.clone())
                }
                Some(page_bytes) => {
                    let early = settings.sabotage == Some(Sabotage::EarlyMapping);
                    let paged = Paged::new(budget / page_bytes, page_bytes, early);
                    Arena::of_pages(Tier::Device, paged, journal.clone())
                }
                // One slab, so that no block boundary splits the budget.
                None => Arena::new(Tier::Device, budget, budget, journal.clone()),
            },
            host: Arena::new(Tier::Host, host_limit, HOST_SLAB_BYTES, journal.clone()),
            journal,
            graph: Graph::default(),
            instructions: Instructions::default(),
            policy: policy::rule(settings.policy, settings.gist_format),
            counters: Counters::default(),
            failures: Failures::default(),
            mapped_before: 0,
            looks: Cell::new(0),
            clock: 0,
            computed_ns: 0,
            peak: (0, 0),
            use_over_time: (0, 0),
            portrait: Vec::new(),
            largest_op_bytes: 0,
            streams: Streams::default(),
            log: None,
            learns: false,
            tallies: Vec::new(),
            plans: Plans::default(),
            planning: Arc::default(),
            planning_begun: None,
            found_none: false,
            measures,
            offloading_until_ns: 0,
            ahead: Ahead::default(),
            has_filled: false,
            remaking: false,
            drops_wanted: false,
            remade_ops: 0,
            lost: Vec::new(),
            scopes: 0,
            settings,
        };
        pool.learn();
        pool
    }

    /// The thread of this number submits from now on, in so many checkpointed scopes.
    pub fn enter(&mut self, thread: usize, scopes: u32) {
        self.streams.enter(thread);
        self.scopes = if self.settings.sabotage == Some(Sabotage::LostMarks) { 0 } else { scopes };
    }

    /// The rule by which storages are evicted that no schedule names.
    fn rule(&self) -> &dyn Reactive {
        self.plans.active().and_then(|following| following.rule()).unwrap_or(&*self.policy)
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
        self.journal.note(|| Event::Free(self.number(id)));
        self.log_free(id);
        self.let_go(id);
    }

    /// The storage has no handle any more.
    fn let_go(&mut self, id: StorageId) {
        self.no_handle(id);
        self.lost_need(id);
        self.settle_claims();
        if self.graph.storages.len() == 0 {
            self.begin_again();
        }
    }

    /// Nothing is there any more. Where the host tier may fill, what comes is decided as in a new pool: what was learned before is
    /// not to decide whether it fits.
    fn begin_again(&mut self) {
        self.forget_tallies();
        if self.has_filled || !self.is_roomy() {
            self.streams.forget();
            self.plans.forget_learned();
            self.learn();
            self.ahead = Ahead::default();
            (self.found_none, self.offloading_until_ns) = (false, 0);
        }
    }

    fn no_handle(&mut self, id: StorageId) {
        let storage = &mut self.graph.storages[id];
        storage.held = false;
        let stream = &mut self.streams[storage.stream];
        stream.held_bytes -= aligned(storage.size_bytes);
        stream.tracker.dropped(storage.touch);
        stream.absent.remove(id, storage);
    }

    /// Takes off the claims in `lost`, and what follows from that.
    fn settle_claims(&mut self) {
        while let Some(id) = self.lost.pop() {
            self.graph.storages[id].claims -= 1;
            self.lost_need(id);
        }
    }

    fn lost_need(&mut self, id: StorageId) {
        if self.graph.storages[id].active() {
            return;
        }
        self.lost.extend(self.graph.storages[id].signs.take());
        let storage = &self.graph.storages[id];
        if storage.stored() {
            self.free_device(id);
            self.free_host(id);
            self.free_beside(id);
            self.lost_bytes(id);
        } else if storage.recipe.is_some() {
            self.graph.unclaim(id, &mut self.lost);
        }
        self.graph.settle(id);
    }

    fn free_device(&mut self, id: StorageId) {
        if let Some(copy) = self.graph.storages.take_device(id) {
            self.device.free(copy.block, copy.touched);
        }
    }

    fn free_host(&mut self, id: StorageId) {
        if let Some(copy) = self.graph.storages.take_host(id) {
            self.host.free(copy.block, copy.touched);
        }
    }

    fn free_beside(&mut self, id: StorageId) {
        if let Some(copy) = self.graph.storages[id].beside.take() {
            self.host.free(copy.block, copy.touched);
        }
    }

    /// Gives memory that nothing uses back to the system, unless work is submitted meanwhile.
    pub fn give_back(&mut self) {
        let engine = self.engine().clone();
        if !self.ends().into_iter().all(|end| engine.reached(end)) {
            return;
        }
        self.device.release(&*engine);
        self.host.release(&*engine);
    }

    /// Storages looked at so far for what is to leave.
    pub fn looks(&self) -> u64 {
        self.looks.get()
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
        let (allocated_bytes, peak_allocated_bytes, budget_bytes) = needed(&self.device);
        let (host_bytes, peak_host_bytes, host_limit_bytes) = needed(&self.host);
        crate::Stats {
            device: self.name,
            allocated_bytes,
            peak_allocated_bytes,
            average_allocated_bytes: (self.use_over_time.0 / self.use_over_time.1.max(1)) as usize,
            footprint_bytes: self.device.footprint_bytes(),
            reserved_bytes: self.device.reserved_bytes(),
            peak_reserved_bytes: self.device.peak_reserved_bytes(),
            budget_bytes,
            smallest_budget_bytes: self.settings.budget_for(self.largest_op_bytes),
            host_bytes,
            peak_host_bytes,
            host_limit_bytes,
            storages: self.graph.storages.len(),
            recipes: self.graph.recipe_count(),
            counters: Counters {
                mapped_pages: self.device.mapped_pages() - self.mapped_before,
                ..self.counters
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
            budget_bytes: self.device.limit_bytes(),
            host_limit_bytes: self.host.limit_bytes(),
            policy: self.settings.policy.to_string(),
            simulated: self.engine().times().is_some(),
        };
        self.journal.is_recording().then(|| self.journal.take(header, &self.engine().recorded()))
    }

    /// The number of the op at which the most device memory was in use.
    pub fn peak_op(&self) -> u64 {
        self.peak.1
    }

    /// What was resident after the op that the settings name: sizes, and the ops that made them, the largest first.
    pub fn portrait(&self) -> &Residents {
        &self.portrait
    }

    /// Starts counting peaks and totals anew.
    pub fn reset_stats(&mut self) {
        self.device.reset_peak();
        self.host.reset_peak();
        self.counters = Counters::default();
        self.mapped_before = self.device.mapped_pages();
        self.largest_op_bytes = 0;
        self.use_over_time = (0, 0);
        self.peak = (self.device.peak_bytes(), self.clock);
    }

    fn engine_error(&self, source: EngineError) -> Error {
        Error::Engine { device: self.name, source }
    }
}
