//! The tiers of one device: device memory, the host tier, and perhaps memory of other devices and a disk.

use std::sync::Arc;

use super::address_space::{AddressSpace, Placed};
use super::arena::Arena;
use super::pages::Pages;
use super::slabs::Slabs;
use super::unbounded::UnboundedAddresses;
use crate::OvercommitDevice;
use crate::config::{PlantedFault, Settings};
use crate::engine::{ALIGN_BYTES, DISK_ALIGN_BYTES, DiskTier, Engine, EngineError, Span, Tier};
use crate::error::Error;
use crate::pool::memory::block::Block;
use crate::pool::submit::PendingWork;
use crate::schedule::BlockPlacement;
use crate::trace::Journal;

/// The size of the slabs of host memory. It is so large that mapping, which pins memory on a GPU, is rare.
const HOST_SLAB_BYTES: usize = 64 << 20;

/// The size of the slabs of the disk tier.
const DISK_SLAB_BYTES: usize = 1 << 30;

/// With a disk tier, a slab of the host tier is at least this part of it, so that large storages fit between its ends.
const HOST_SLABS: usize = 8;

/// The arenas of the tiers.
#[derive(Debug)]
pub struct Memory {
    /// The device, for errors.
    name: OvercommitDevice,
    engine: Arc<dyn Engine>,
    pub device: Arena,
    pub host: Arena,
    /// Memory of other devices, if it may be used.
    pub peer: Option<Arena>,
    /// If there is a disk tier.
    pub disk: Option<Arena>,
    /// The most bytes in blocks of device memory and of the host tier at once so far.
    pub peak_with_host_bytes: usize,
    /// The largest block of the disk tier so far. As much of it stays free, for what has to leave host memory to make room for
    /// what comes back.
    largest_on_disk_bytes: usize,
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
                let pages =
                    Pages::new(budget / page_bytes, page_bytes, engine.props().view_bytes, maps_early);
                (pages.limit_bytes(), Box::new(pages))
            }
            // One slab, so that no boundary splits the budget.
            None => (budget, Box::new(Slabs::new(Tier::Device, budget))),
        };
        let device = Arena::new(Tier::Device, limit_bytes, addresses, journal.clone());
        let (unit_bytes, slab_bytes) = match &settings.disk {
            Some(_) => (DISK_ALIGN_BYTES, HOST_SLAB_BYTES.max(host_limit / HOST_SLABS)),
            None => (ALIGN_BYTES, HOST_SLAB_BYTES),
        };
        let slabs = Box::new(Slabs::new(Tier::Host, slab_bytes.next_multiple_of(unit_bytes)));
        let host = Arena::new(Tier::Host, host_limit, slabs, journal.clone()).with_unit(unit_bytes);
        let peer = settings.peers.as_ref().map(|peers| {
            let slabs = Box::new(Slabs::new(Tier::Peer, peers.slab_bytes()));
            Arena::new(Tier::Peer, peers.limit_bytes(), slabs, journal.clone())
        });
        let disk = settings.disk.as_ref().map(|&DiskTier { limit_bytes, .. }| {
            let slabs = Box::new(Slabs::new(Tier::Disk, DISK_SLAB_BYTES.max(limit_bytes / HOST_SLABS)));
            Arena::new(Tier::Disk, limit_bytes, slabs, journal.clone()).with_unit(DISK_ALIGN_BYTES)
        });
        Memory {
            name,
            engine,
            device,
            host,
            peer,
            disk,
            peak_with_host_bytes: 0,
            largest_on_disk_bytes: 0,
            offloads: settings.methods.offload,
            has_filled: false,
        }
    }

    /// Allocates device memory within the limit of the active plan's layout; `None` if there is no room.
    pub fn allocate(&mut self, bytes: usize) -> Result<Placed, Error> {
        let placed = self.device.allocate(&*self.engine, bytes);
        self.counted(placed)
    }

    /// Allocates device memory within the whole budget; `None` if there is no room.
    pub fn allocate_beyond_plan(&mut self, bytes: usize) -> Result<Placed, Error> {
        let placed = self.device.allocate_beyond_plan(&*self.engine, bytes);
        self.counted(placed)
    }

    /// Allocates device memory at a given placement; `None` if that is not free.
    pub fn allocate_at(&mut self, placement: &BlockPlacement, bytes: usize) -> Result<Placed, Error> {
        let placed = self.device.allocate_at(&*self.engine, placement, bytes);
        self.counted(placed)
    }

    /// Allocates device memory where it fits best, whatever the active plan says.
    pub fn allocate_anywhere(&mut self, bytes: usize) -> Result<Placed, Error> {
        let placed = self.device.allocate_anywhere(&*self.engine, bytes);
        self.counted(placed)
    }

    /// The bytes in blocks of device memory and of the host tier.
    pub fn used_with_host_bytes(&self) -> usize {
        self.device.used_bytes() + self.host.used_bytes()
    }

    fn counted(&mut self, placed: Result<Placed, EngineError>) -> Result<Placed, Error> {
        self.peak_with_host_bytes = self.peak_with_host_bytes.max(self.used_with_host_bytes());
        placed.map_err(|error| self.error(error))
    }

    /// Sets the peaks of device memory, and of that with the host tier, back to earlier values.
    pub fn reset_peaks_to(&mut self, [device_bytes, with_host_bytes]: [usize; 2]) {
        self.device.reset_peak_to(device_bytes);
        self.peak_with_host_bytes = with_host_bytes.max(self.used_with_host_bytes());
    }

    /// Resets the peaks to what is in use now.
    pub fn reset_peaks(&mut self) {
        self.arenas_mut().for_each(Arena::reset_peak);
        self.peak_with_host_bytes = self.used_with_host_bytes();
    }

    /// Allocates memory of the host tier; `None` if there is no room.
    pub fn allocate_host(&mut self, bytes: usize) -> Result<Placed, Error> {
        let left_bytes = self.away_room_bytes().saturating_sub(bytes.next_multiple_of(ALIGN_BYTES));
        self.has_filled |= left_bytes < self.device.limit_bytes();
        let placed = self.host.allocate(&*self.engine, bytes);
        self.counted(placed)
    }

    /// Allocates memory of the host tier for bytes that are given up as soon as others need room; `None` if there is no room.
    pub fn allocate_spare_host(&mut self, bytes: usize) -> Result<Placed, Error> {
        let placed = self.host.allocate_last(&*self.engine, bytes);
        self.counted(placed)
    }

    /// The bytes of the host tier that are in no block.
    pub fn host_room_bytes(&self) -> usize {
        self.host.limit_bytes() - self.host.used_bytes()
    }

    /// Allocates memory of another device; `None` if there is no room.
    pub fn allocate_peer(&mut self, bytes: usize) -> Result<Placed, Error> {
        let Some(peer) = &mut self.peer else { return Ok(None) };
        let placed = peer.allocate(&*self.engine, bytes);
        placed.map_err(|error| self.error(error))
    }

    /// Allocates a block of the disk tier; `None` if there is no room, or a write has failed. As much as the largest block so
    /// far stays free, unless this block makes room `for_return` of another.
    pub fn allocate_disk(&mut self, bytes: usize, for_return: bool) -> Result<Placed, Error> {
        let room_bytes = self.disk_room_bytes();
        let Some(disk) = self.disk.as_mut().filter(|_| self.engine.failed_writes() == 0) else {
            return Ok(None);
        };
        let largest_bytes = self.largest_on_disk_bytes.max(bytes);
        if !for_return && room_bytes < bytes + largest_bytes {
            return Ok(None);
        }
        let placed = disk.allocate(&*self.engine, bytes).map_err(|error| self.error(error))?;
        if placed.is_some() {
            self.largest_on_disk_bytes = largest_bytes;
        }
        Ok(placed)
    }

    /// The memory of a tier, if there is one.
    pub fn arena(&self, tier: Tier) -> Option<&Arena> {
        match tier {
            Tier::Device => Some(&self.device),
            Tier::Host => Some(&self.host),
            Tier::Peer => self.peer.as_ref(),
            Tier::Disk => self.disk.as_ref(),
        }
    }

    /// Like [`arena`](Memory::arena).
    pub fn arena_mut(&mut self, tier: Tier) -> Option<&mut Arena> {
        match tier {
            Tier::Device => Some(&mut self.device),
            Tier::Host => Some(&mut self.host),
            Tier::Peer => self.peer.as_mut(),
            Tier::Disk => self.disk.as_mut(),
        }
    }

    /// Every tier that there is.
    pub fn arenas_mut(&mut self) -> impl Iterator<Item = &mut Arena> {
        let Memory { device, host, peer, disk, .. } = self;
        [device, host].into_iter().chain(peer).chain(disk)
    }

    /// The first bytes of a block.
    pub fn span(&self, tier: Tier, block: Block, bytes: usize) -> Span {
        self.arena(tier).map_or(Span::empty(tier), |arena| arena.span(block, bytes))
    }

    /// Frees a block.
    pub fn free(&mut self, tier: Tier, block: Block, pending: PendingWork) {
        if let Some(arena) = self.arena_mut(tier) {
            arena.free(block, pending);
        }
    }

    /// Whether there is a tier away from device memory besides the host's.
    pub fn has_other_tiers(&self) -> bool {
        self.peer.is_some() || self.disk.is_some()
    }

    /// Forgets what earlier programs had on the disk, which is empty now: whether a program fits must not depend on them.
    pub fn forget_disk(&mut self) {
        self.largest_on_disk_bytes = 0;
    }

    /// The bytes of other devices that may be used and are in no block.
    pub fn peer_room_bytes(&self) -> usize {
        self.peer.as_ref().map_or(0, |peer| peer.limit_bytes() - peer.used_bytes())
    }

    /// The bytes of the disk tier that are in no block.
    fn disk_room_bytes(&self) -> usize {
        self.disk.as_ref().map_or(0, |disk| disk.limit_bytes() - disk.used_bytes())
    }

    /// The bytes that can still be kept away from device memory.
    pub fn away_room_bytes(&self) -> usize {
        self.host_room_bytes()
            + self.peer_room_bytes()
            + self.disk_room_bytes().saturating_sub(self.largest_on_disk_bytes)
    }

    /// Whether the tiers away from device memory have room for all that this can hold, or nothing is offloaded. Then prefetches, plans
    /// and encodings cannot make a program fail, since what they displace can be offloaded.
    pub fn is_roomy(&self) -> bool {
        self.away_room_bytes() >= self.device.limit_bytes() || !self.offloads
    }

    /// Returns unused memory to the system.
    pub fn release(&mut self) {
        let engine = self.engine.clone();
        self.arenas_mut().for_each(|arena| arena.release(&*engine));
    }

    /// Adds the device's name to an engine's error.
    pub fn error(&self, source: EngineError) -> Error {
        Error::Engine { device: self.name, source }
    }
}
