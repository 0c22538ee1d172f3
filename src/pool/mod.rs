//! The pool: it decides where the bytes of every storage are, and brings them where an op needs them.
//!
//! The folders:
//!
//! - `memory`: the arenas of the tiers with their blocks, pages and views, planned placements, and the allocation trace.
//! - `remat`: the records of storages, the recipes that rematerialize them, and what rematerializations cost.
//! - `evict`: which storage leaves device memory, by which eviction method, and the copies, drops and encodings for that.
//! - `follow`: the streams of the program, the active plan and its cursor, prefetches, and the log that plans are made from.
//! - `observe`: counters, the journal, failed launches, tallies, and what users and the planner are told.
//!
//! The files:
//!
//! - `run`: an op from request to follow-up. `operands`: the placement of what it reads and makes. `launch`: its submission.
//! - `handles`: the handles of the program. `host_access`: its reads and writes.
//! - `needs`: how much memory an op needs. `refusals`: the errors where that is too much. `algorithm`: the choice of an
//!   algorithm by its workspace.
//! - `instructions`: the instructions that recipes share. `input`: the inputs of an op. `faults`: planted faults.
//! - `submit`: the only place that hands memory to an engine, and the pool's only unsafe code.
//!
//! [`Pool`] owns five parts, and each layer of its methods calls only the layers below it, from the bottom up:
//!
//! 1. The parts, which know nothing of the pool: [`Memory`], [`Graph`], [`Submitter`], [`Follower`] and [`Observer`].
//! 2. `launch` submits an op whose inputs are resident.
//! 3. `evict` makes room: `costs`, the copies between tiers (`transfer`, `other_tiers` and `staging`, which call each other), `moves`,
//!    `candidates`, `drop`, `encoding`, `eviction`, `defragment`, then `room`.
//! 4. `operands` places what an op reads and makes.
//! 5. `remat::rematerialize` runs recipes.
//! 6. `follow` does what the active plan says.
//! 7. `observe::tallies` counts values of what ops made.
//! 8. `host_access` and `run` serve the program.
//!
//! All this runs under the runtime's short lock. The pool waits for the device only to map old addresses anew, and to read tallies
//! when an iteration has been logged. A block is free from the submission of its free: whoever gets it next makes its lane wait for
//! the work that still touches it.

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
pub use memory::allocation_trace::{AllocationTrace, TakenBlock};
pub use observe::observer::Residents;
pub use remat::ids::StorageId;
pub use submit::{HostAccess, PendingWork};

/// All memory of one device and what is in it.
#[derive(Debug)]
pub struct Pool {
    /// The device, for errors and figures.
    name: OvercommitDevice,
    /// The user's settings.
    pub settings: Settings,
    /// The arenas of the tiers.
    memory: Memory,
    /// The records of storages, and how each is rematerialized.
    graph: Graph,
    /// The only access to the engine's lanes.
    submitter: Submitter,
    /// The streams of the program, and the plans for it.
    follower: Follower,
    /// Counters, the journal, and failed launches.
    observer: Observer,
}

impl Pool {
    /// Creates an empty pool on an engine.
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
            graph: Graph::new(policy.cost_model() == CostModel::Components),
            submitter: Submitter::new(engine, settings.planted_fault),
            follower: Follower::new(policy, &settings, measures),
            observer: Observer::new(journal),
            settings,
        };
        pool.graph.storages.absent.is_listed = pool.memory.has_other_tiers();
        pool.follower.await_eviction(&mut pool.memory);
        pool
    }

    /// Whether the device is a GPU, or simulates one.
    pub fn is_gpu(&self) -> bool {
        !matches!(self.name, OvercommitDevice::Host(_))
    }

    /// Notes that ops are submitted by the thread of this number from now on, within this many checkpointed scopes.
    pub fn enter(&mut self, thread: usize, scopes: u32) {
        let scopes = if self.settings.planted_fault == Some(PlantedFault::LostMarks) { 0 } else { scopes };
        self.follower.streams.enter(thread, scopes);
    }
}
