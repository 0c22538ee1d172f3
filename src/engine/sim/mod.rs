//! The simulation engine has no data and a virtual clock. Otherwise it behaves like a real device: memory is bounded,
//! lanes overlap, and marks order them.

mod clock;
mod convolution;
mod kept;
mod profiles;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use clock::Times;
pub use profiles::{Profile, Workspace, profiles};

use super::capacity::Capacity;
use super::pages::PageSet;
use super::{
    Algorithm, DiskTier, Engine, EngineError, Instruction, Lane, Launch, Mark, PeerTier, Props, Ran, Span,
    Tier,
};
use crate::op::{Op, Outputs, View};
use clock::Clock;

/// The engine whose device is a [`Profile`].
#[derive(Debug)]
pub struct SimEngine {
    props: Props,
    workspace: Workspace,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    clock: Clock,
    capacity: Capacity,
    /// The next slab's address. No address is used twice, so that mistakes show.
    next_address: u64,
    pages: PageSet,
    disk: Option<DiskTier>,
    peers: Option<PeerTier>,
    /// The size of the slab of host memory that a thread pins ahead of its use, and when it is ready.
    spare: (usize, u64),
}

impl State {
    /// Returns addresses that were not used before.
    fn address(&mut self, bytes: usize, alignment: usize) -> u64 {
        let begin = (self.next_address + super::ALIGN_BYTES as u64).next_multiple_of(alignment as u64);
        self.next_address = begin + super::aligned(bytes) as u64;
        begin
    }

    /// Takes the pinned slab that is ready or soon will be, if it has this size, or pins one; then a thread pins another.
    fn pin(&mut self, bytes: usize, pin_ns: u64) {
        let (spare_bytes, ready_ns) = self.spare;
        if spare_bytes == bytes {
            self.clock.wait_until(ready_ns);
        } else {
            self.clock.spend(pin_ns);
        }
        self.spare = (bytes, self.clock.program_ns() + pin_ns);
    }
}

impl SimEngine {
    /// An engine at time zero with nothing mapped.
    pub fn new(profile: &Profile) -> Self {
        SimEngine { props: profile.props.clone(), workspace: profile.workspace, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program's time to submit an instruction: one call of a library, or as many launches as there are kernels.
    fn submitted_ns(&self, instruction: &Instruction) -> u64 {
        let Instruction { op, views, outputs, .. } = instruction;
        let submitted_ns = instruction.submitted.get(|| {
            let prices = self.props.kernels.and_then(|kernels| kernels.prices(op, views, outputs));
            Some(match prices {
                Some(prices) => prices.len() as u64 * self.props.host.launch_ns,
                None => self.props.host.library_ns,
            })
        });
        submitted_ns.copied().unwrap_or(0)
    }
}

impl Engine for SimEngine {
    fn props(&self) -> &Props {
        &self.props
    }

    fn open_disk(&self, disk: &DiskTier) -> Result<(), String> {
        self.state().disk = Some(disk.clone());
        Ok(())
    }

    fn open_peers(&self, peers: &PeerTier) -> Result<(), String> {
        self.state().peers = Some(peers.clone());
        Ok(())
    }

    fn map(&self, tier: Tier, bytes: usize) -> Result<Span, EngineError> {
        let mut state = self.state();
        let error = |reason| EngineError::Map { tier, bytes, reason };
        state.capacity.take(&self.props, tier, bytes).map_err(error)?;
        if tier == Tier::Host {
            state.pin(bytes, self.props.host.pin_ns(bytes));
        }
        let address = state.address(bytes, super::ALIGN_BYTES);
        Ok(Span { tier, address, bytes })
    }

    fn unmap(&self, span: Span) {
        self.state().capacity.give(span.tier, span.bytes);
    }

    fn reserve(&self, bytes: usize) -> Result<Span, EngineError> {
        let page_bytes = self.props.page_bytes.ok_or_else(|| super::no_pages(bytes))?;
        let address = self.state().address(bytes, page_bytes);
        Ok(Span { tier: Tier::Device, address, bytes })
    }

    unsafe fn map_pages(&self, at: Span, physical: &[u32], after: &[Mark]) -> Result<(), EngineError> {
        let page_bytes = self.props.page_bytes.ok_or_else(|| super::no_pages(at.bytes))?;
        debug_assert_eq!(at.bytes, physical.len() * page_bytes, "a span as long as its pages");
        let mut state = self.state();
        let new_bytes = state.pages.missing(physical) * page_bytes;
        let error = |reason| EngineError::Map { tier: Tier::Device, bytes: new_bytes, reason };
        state.capacity.take(&self.props, Tier::Device, new_bytes).map_err(error)?;
        state.pages.insert(physical);
        after.iter().for_each(|&mark| state.clock.sync(mark));
        state.clock.spend(self.props.host.map_ns(physical.len()));
        Ok(())
    }

    fn release_pages(&self, physical: &[u32]) {
        let mut state = self.state();
        let there = state.pages.remove(physical);
        state.capacity.give(Tier::Device, there * self.props.page_bytes.unwrap_or(0));
    }

    fn alternatives(&self, op: &Op, inputs: &[View]) -> Vec<Algorithm> {
        self.workspace.alternatives(op, inputs)
    }

    fn launch_ns(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> u64 {
        convolution::launch_ns(&self.props, op, algorithm, inputs, outputs)
    }

    fn scratch(&self, op: &Op, algorithm: Algorithm, inputs: &[View], outputs: &Outputs) -> usize {
        self.workspace.bytes(op, algorithm, inputs, outputs)
    }

    unsafe fn launch(&self, lane: Lane, launch: &Launch) -> Result<(), EngineError> {
        let submitted_ns = self.submitted_ns(&launch.instruction);
        let mut state = self.state();
        state.clock.spend(submitted_ns);
        state.clock.run(lane, launch.instruction.launch_ns);
        Ok(())
    }

    unsafe fn copy(&self, lane: Lane, from: Span, to: Span) -> Result<(), EngineError> {
        debug_assert_eq!(from.bytes, to.bytes, "a copy between spans of equal size");
        let mut state = self.state();
        let duration_ns = match (&state.disk, &state.peers) {
            (Some(disk), _) if lane.is_of_disk() => disk.copy_ns(from.bytes),
            (_, Some(peers)) if lane.is_of_peers() => peers.copy_ns(&self.props, from.bytes),
            _ if from.tier == to.tier => self.props.move_ns(from.bytes),
            _ if to.tier == Tier::Host => self.props.offload_ns(from.bytes),
            _ => self.props.fetch_ns(from.bytes),
        };
        state.clock.spend(self.props.host.launch_ns);
        state.clock.run(lane, duration_ns);
        Ok(())
    }

    fn spend(&self, ns: u64) {
        self.state().clock.spend(ns);
    }

    fn mark(&self, lane: Lane) -> Mark {
        self.state().clock.mark(lane)
    }

    fn wait(&self, lane: Lane, mark: Mark) -> Result<(), EngineError> {
        if mark.lane != lane {
            self.state().clock.wait(lane, mark);
        }
        Ok(())
    }

    fn reached(&self, mark: Mark) -> bool {
        self.state().clock.reached(mark)
    }

    fn sync(&self, mark: Mark) -> Result<(), EngineError> {
        self.state().clock.sync(mark);
        Ok(())
    }

    fn bytes(&self, _: Span) -> Option<*mut u8> {
        None
    }

    fn times(&self) -> Option<Times> {
        Some(self.state().clock.times())
    }

    fn record(&self) {
        self.state().clock.record();
    }

    fn recorded(&self) -> Vec<Ran> {
        self.state().clock.recorded()
    }
}
