//! Both tiers of one device.

use std::sync::Arc;

use super::address_space::AddressSpace;
use super::arena::Arena;
use super::block::Block;
use super::pages::Paged;
use super::slabs::Slabs;
use super::unbounded::Endless;
use crate::OvercommitDevice;
use crate::config::{PlantedFault, Settings};
use crate::engine::{ALIGN_BYTES, Engine, EngineError, Tier};
use crate::error::Error;
use crate::pool::submit::Pending;
use crate::schedule::BlockPlacement;
use crate::trace::Journal;

/// Host memory is mapped in slabs of this size: large enough that mapping (pinning, on a GPU) is rare.
const HOST_SLAB_BYTES: usize = 64 << 20;

/// A block, and the work to wait for before writing it.
pub type Placed = (Block, Pending);

/// Device memory and host memory: which ranges are in blocks.
#[derive(Debug)]
pub struct Memory {
    /// The device, for errors.
    name: OvercommitDevice,
    engine: Arc<dyn Engine>,
    pub device: Arena,
    pub host: Arena,
    /// Whether evicted bytes may be kept in the host tier.
    offloads: bool,
    /// The host tier once had no room for all that device memory can hold.
    pub has_filled: bool,
}

impl Memory {
    /// Empty tiers of an engine's memory, within a budget and a limit.
    pub fn new(
        name: OvercommitDevice,
        engine: Arc<dyn Engine>,
        settings: &Settings,
        journal: &Journal,
    ) -> Self {
        let (budget, host_limit) = (settings.budget_bytes, settings.host_limit_bytes);
        engine.bound(Tier::Host, host_limit);
        let (limit_bytes, addresses): (usize, Box<dyn AddressSpace>) = match settings.page_bytes(budget) {
            page_bytes if settings.unbounded_addresses => {
                let whole_pages = settings.whole_pages(budget) / ALIGN_BYTES * ALIGN_BYTES;
                (whole_pages, Box::new(Endless::new(Tier::Device, whole_pages, page_bytes)))
            }
            Some(page_bytes) => {
                let early = settings.planted_fault == Some(PlantedFault::EarlyMapping);
                let pages = Paged::new(budget / page_bytes, page_bytes, early);
                (pages.limit_bytes(), Box::new(pages))
            }
            // One slab, so that no block boundary splits the budget.
            None => (budget, Box::new(Slabs::new(Tier::Device, budget))),
        };
        let device = Arena::new(Tier::Device, limit_bytes, addresses, journal.clone());
        let slabs = Box::new(Slabs::new(Tier::Host, HOST_SLAB_BYTES));
        let host = Arena::new(Tier::Host, host_limit, slabs, journal.clone());
        Memory { name, engine, device, host, offloads: settings.ways.offload, has_filled: false }
    }

    /// A block of device memory within what the active plan has in blocks; `None` if there is no room.
    pub fn allocate(&mut self, bytes: usize) -> Result<Option<Placed>, Error> {
        let placed = self.device.allocate(&*self.engine, bytes);
        placed.map_err(|error| self.error(error))
    }

    /// A block of all the device memory that there is.
    pub fn allocate_beyond(&mut self, bytes: usize) -> Result<Option<Placed>, Error> {
        let placed = self.device.allocate_beyond(&*self.engine, bytes);
        placed.map_err(|error| self.error(error))
    }

    /// A block of device memory at a certain place; `None` if that is not free.
    pub fn allocate_at(&mut self, spot: &BlockPlacement, bytes: usize) -> Result<Option<Placed>, Error> {
        let placed = self.device.allocate_at(&*self.engine, spot, bytes);
        placed.map_err(|error| self.error(error))
    }

    /// A block of device memory where it fits best, wherever the active plan would have it.
    pub fn allocate_anywhere(&mut self, bytes: usize) -> Result<Option<Placed>, Error> {
        let placed = self.device.allocate_anywhere(&*self.engine, bytes);
        placed.map_err(|error| self.error(error))
    }

    /// A block of the host tier; `None` if there is no room.
    pub fn allocate_host(&mut self, bytes: usize) -> Result<Option<Placed>, Error> {
        let left_bytes = self.host_room_bytes().saturating_sub(bytes.next_multiple_of(ALIGN_BYTES));
        self.has_filled |= left_bytes < self.device.limit_bytes();
        let placed = self.host.allocate(&*self.engine, bytes);
        placed.map_err(|error| self.error(error))
    }

    /// Bytes of the host tier that are in no block.
    pub fn host_room_bytes(&self) -> usize {
        self.host.limit_bytes() - self.host.used_bytes()
    }

    /// Whether the host tier has room for all that device memory can hold. Then nothing that is done before it must be makes a
    /// program fail: what it displaces has somewhere to go.
    pub fn is_roomy(&self) -> bool {
        self.host_room_bytes() >= self.device.limit_bytes() || !self.offloads
    }

    /// Gives memory that no block is in back to the system.
    pub fn release(&mut self) {
        self.device.release(&*self.engine);
        self.host.release(&*self.engine);
    }

    /// An engine's error, with the device's name.
    pub fn error(&self, source: EngineError) -> Error {
        Error::Engine { device: self.name, source }
    }
}
