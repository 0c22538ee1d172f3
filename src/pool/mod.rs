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
//! - [`note`]: what the journal is told. [`oracle`]: what a replay tells beforehand.
//! - [`lease`]: the submission itself; with `engine/`, the only unsafe code.
//!
//! Everything here runs under the runtime's short lock and waits for nothing, but for what was counted when an iteration has been
//! logged. A block is free from the submission of its
//! free: whoever gets it next makes its lane wait for the work still touching it.

mod algorithm;
mod evict;
mod faults;
mod follow;
mod handles;
mod host_access;
mod input;
mod instructions;
mod launch;
mod memory;
mod needs;
mod observe;
mod operands;
mod refusals;
mod remat;
mod run;
mod submit;

use std::sync::Arc;

use crate::OvercommitDevice;
use crate::config::{PlantedFault, Settings};
use crate::engine::Engine;
use crate::policy::{self, CostModel};
use crate::trace::Journal;
use follow::follower::Follower;
use memory::tiers::Memory;
use observe::observer::Observer;
use remat::recipe::Graph;
use submit::Submitter;

pub use input::Input;
pub use memory::allocation_trace::{TakenBlock, Takings};
pub use observe::observer::Residents;
pub use remat::ids::StorageId;
pub use submit::Pending;

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
            graph: Graph::new(policy.knows() == CostModel::Components),
            submitter: Submitter::new(engine, settings.planted_fault),
            follower: Follower::new(policy, &settings, measures),
            observer: Observer::new(journal),
            settings,
        };
        pool.follower.await_eviction(&mut pool.memory);
        pool
    }

    /// The thread of this number submits from now on, in so many checkpointed scopes.
    pub fn enter(&mut self, thread: usize, scopes: u32) {
        let scopes = if self.settings.planted_fault == Some(PlantedFault::LostMarks) { 0 } else { scopes };
        self.follower.streams.enter(thread, scopes);
    }
}
