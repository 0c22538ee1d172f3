//! Both tiers of one device: device memory and the host tier.

use std::sync::Arc;

use super::address_space::{AddressSpace, Placed};
use super::arena::Arena;
use super::pages::Pages;
use super::slabs::Slabs;
use super::unbounded::UnboundedAddresses;
use crate::OvercommitDevice;
use crate::config::{PlantedFault, Settings};
use crate::engine::{ALIGN_BYTES, Engine, EngineError, Tier};
use crate::error::Error;
use crate::schedule::BlockPlacement;
use crate::trace::Journal;

/// The size of the slabs of host memory. It is so large that mapping, which pins memory on a GPU, is rare.
const HOST_SLAB_BYTES: usize = 64 << 20;

/// The arenas of device memory and of the host tier.
#[derive(Debug)]
pub struct Memory {
    /// The device, for errors.
    name: OvercommitDevice,
    engine: Arc<dyn Engine>,
    pub device: Arena,
    pub host: Arena,
    /// Whether evicted bytes may be kept in the host tier.
    offloads: bool,
    /// Whether the host tier ever had less free memory than device memory can hold.
    pub has_filled: bool,
}

impl Memory {
    /// Creates empty tiers on an engine, with the budget and the host limit of the settings.
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
                (whole_pages, Box::new(UnboundedAddresses::new(Tier::Device, whole_pages, page_bytes)))
            }
            Some(page_bytes) => {
                let maps_early = settings.planted_fault == Some(PlantedFault::EarlyMapping);
                let pages = Pages::new(budget / page_bytes, page_bytes, maps_early);
                (pages.limit_bytes(), Box::new(pages))
            }
            // One slab, so that no boundary splits the budget.
            None => (budget, Box::new(Slabs::new(Tier::Device, budget))),
        };
        let device = Arena::new(Tier::Device, limit_bytes, addresses, journal.clone());
        let slabs = Box::new(Slabs::new(Tier::Host, HOST_SLAB_BYTES));
        let host = Arena::new(Tier::Host, host_limit, slabs, journal.clone());
        Memory { name, engine, device, host, offloads: settings.methods.offload, has_filled: false }
    }

    /// Allocates device memory within the limit of the active plan's layout; `None` if there is no room.
    pub fn allocate(&mut self, bytes: usize) -> Result<Placed, Error> {
        let placed = self.device.allocate(&*self.engine, bytes);
        placed.map_err(|error| self.error(error))
    }

    /// Allocates device memory within the whole budget; `None` if there is no room.
    pub fn allocate_beyond_plan(&mut self, bytes: usize) -> Result<Placed, Error> {
        let placed = self.device.allocate_beyond_plan(&*self.engine, bytes);
        placed.map_err(|error| self.error(error))
    }

    /// Allocates device memory at a given placement; `None` if that is not free.
    pub fn allocate_at(&mut self, placement: &BlockPlacement, bytes: usize) -> Result<Placed, Error> {
        let placed = self.device.allocate_at(&*self.engine, placement, bytes);
        placed.map_err(|error| self.error(error))
    }

    /// Allocates device memory where it fits best, whatever the active plan says.
    pub fn allocate_anywhere(&mut self, bytes: usize) -> Result<Placed, Error> {
        let placed = self.device.allocate_anywhere(&*self.engine, bytes);
        placed.map_err(|error| self.error(error))
    }

    /// Allocates memory of the host tier; `None` if there is no room.
    pub fn allocate_host(&mut self, bytes: usize) -> Result<Placed, Error> {
        let left_bytes = self.host_room_bytes().saturating_sub(bytes.next_multiple_of(ALIGN_BYTES));
        self.has_filled |= left_bytes < self.device.limit_bytes();
        let placed = self.host.allocate(&*self.engine, bytes);
        placed.map_err(|error| self.error(error))
    }

    /// The bytes of the host tier that are in no block.
    pub fn host_room_bytes(&self) -> usize {
        self.host.limit_bytes() - self.host.used_bytes()
    }

    /// Whether the host tier has room for all that device memory can hold, or nothing is offloaded. Then prefetches, plans and
    /// encodings cannot make a program fail, since what they displace can be offloaded.
    pub fn is_roomy(&self) -> bool {
        self.host_room_bytes() >= self.device.limit_bytes() || !self.offloads
    }

    /// Returns unused memory to the system.
    pub fn release(&mut self) {
        self.device.release(&*self.engine);
        self.host.release(&*self.engine);
    }

    /// Adds the device's name to an engine's error.
    pub fn error(&self, source: EngineError) -> Error {
        Error::Engine { device: self.name, source }
    }
}
