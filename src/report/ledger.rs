//! The place of each storage, from event to event.

use std::collections::HashMap;

use crate::engine::{Lane, Tier, aligned};
use crate::trace::{Event, Made, OpEvent};

/// The address of a constant, which the program has on the device without a block.
const OUTSIDE: u64 = u64::MAX;

/// A storage that the program holds, or that has bytes on a tier.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    pub made_by: String,
    /// Exact size.
    pub bytes: usize,
    /// Whether the program has a handle.
    pub held: bool,
    /// Address of its block in device memory.
    device: Option<u64>,
    /// Address of its block in the host tier.
    host: Option<u64>,
    /// Address of its block in another device's memory.
    peer: Option<u64>,
    /// Address of its block in the disk tier.
    disk: Option<u64>,
}

/// A block in use, and the storage that it belongs to: none for a workspace, or while the block's op is not yet
/// submitted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub bytes: usize,
    pub storage: Option<u64>,
}

/// Bytes by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Bytes of storages that the program holds.
    pub live_bytes: usize,
    /// Bytes in blocks of device memory.
    pub device_bytes: usize,
    /// Bytes in blocks of host memory.
    pub host_bytes: usize,
    /// Bytes in blocks of other devices.
    pub peer_bytes: usize,
    /// Bytes in blocks of the disk.
    pub disk_bytes: usize,
    /// Bytes of device memory that are mapped.
    pub reserved_bytes: usize,
    /// Bytes of storages that are only away from device memory.
    pub host_only_bytes: usize,
    /// Bytes of storages that the program holds and that are on no tier, so they will be recomputed.
    pub dropped_bytes: usize,
}

/// Follows a recording. If the recording began in the middle of a run, storages from before are unknown and not
/// counted.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    storages: HashMap<u64, Storage>,
    blocks: [HashMap<u64, Block>; Tier::ALL.len()],
    /// Blocks, in order, for the work that is submitted next.
    placed: [Vec<u64>; Tier::ALL.len()],
    totals: Totals,
}

impl Ledger {
    /// The bytes as of the last event.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The record of a storage, if it has one.
    pub fn storage(&self, number: u64) -> Option<&Storage> {
        self.storages.get(&number)
    }

    /// Blocks of device memory in use, by address.
    pub fn device_blocks(&self) -> Vec<(u64, Block)> {
        let mut blocks: Vec<_> =
            self.blocks[Tier::Device as usize].iter().map(|(&at, &block)| (at, block)).collect();
        blocks.sort_unstable_by_key(|&(address, _)| address);
        blocks
    }

    /// The storage of a block, if it is known by now.
    pub fn owner(&self, address: u64) -> Option<u64> {
        self.blocks[Tier::Device as usize].get(&address)?.storage
    }

    /// Applies an event.
    pub fn take(&mut self, event: &Event) {
        match event {
            Event::Op(op) => self.op(op),
            Event::Recompute(recomputed) => {
                for made in &recomputed.storages {
                    let block = self.placed_block(made.bytes);
                    self.know(made, &recomputed.name, false);
                    self.put(made.storage, Tier::Device, block);
                }
                self.placed[Tier::Device as usize].clear();
            }
            Event::Constant(made) => {
                self.know(made, "constant", true);
                self.change(made.storage, |storage| storage.device = Some(OUTSIDE));
            }
            Event::Write(made) => {
                self.know(made, "upload", true);
                let block = self.placed[Tier::Host as usize].pop();
                self.put(made.storage, Tier::Host, block);
            }
            Event::Copy(copied) => {
                let made = Made { storage: copied.storage, bytes: copied.bytes };
                self.know(&made, "made before", true);
                let tier = match copied.lane {
                    _ if copied.within => Tier::Device,
                    Lane::Offload | Lane::Load => Tier::Host,
                    Lane::Spill => Tier::Disk,
                    Lane::ToPeer => Tier::Peer,
                    // Into host memory, for the program to read, if a block there is the last that was allocated.
                    Lane::FromPeer if self.placed[Tier::Device as usize].is_empty() => Tier::Host,
                    Lane::FromPeer | Lane::Fetch | Lane::Compute => Tier::Device,
                };
                let block = self.placed[tier as usize].pop();
                self.put(copied.storage, tier, block);
            }
            Event::Evict(evicted) => {
                let made = Made { storage: evicted.storage, bytes: evicted.bytes };
                self.know(&made, &evicted.made_by, true);
                self.change(evicted.storage, |storage| storage.device = None);
            }
            Event::Free(number) => self.change(*number, |storage| storage.held = false),
            &Event::Allocate { tier, address, bytes } => self.allocate(tier, address, bytes),
            &Event::Release { tier, address, .. } => self.release(tier, address),
            &Event::Reserve { tier: Tier::Device, bytes } => self.totals.reserved_bytes = bytes,
            Event::Reserve { .. } | Event::Read(_) | Event::Sync | Event::Note(_) => {}
        }
    }

    fn op(&mut self, op: &OpEvent) {
        for (n, made) in op.outputs.iter().enumerate() {
            // The first outputs take the memory of inputs if fewer blocks of this size were placed than outputs are left.
            let alike = op.outputs[n..].iter().filter(|other| other.bytes == made.bytes).count();
            let is_overwriting = self.placed_of_size(made.bytes).count() < alike;
            let block = if is_overwriting { self.overwritten_block(op, made.bytes) } else { None };
            let block = block.or_else(|| self.placed_block(made.bytes));
            self.know(made, &op.name, true);
            self.put(made.storage, Tier::Device, block);
        }
        self.placed[Tier::Device as usize].clear();
        for &place in &op.consumed {
            self.change(op.inputs[place], |storage| storage.held = false);
        }
    }

    /// The first block of this size that was placed for the work now submitted.
    fn placed_block(&mut self, bytes: usize) -> Option<u64> {
        let found = self.placed_of_size(bytes).next()?;
        Some(self.placed[Tier::Device as usize].remove(found))
    }

    /// Where among the blocks that were placed for the work now submitted those of this size are.
    fn placed_of_size(&self, bytes: usize) -> impl Iterator<Item = usize> {
        let tier = Tier::Device as usize;
        let fits = move |&place: &usize| {
            let block = self.blocks[tier].get(&self.placed[tier][place]);
            block.is_some_and(|block| block.bytes == aligned(bytes))
        };
        (0..self.placed[tier].len()).filter(fits)
    }

    /// The block of an input that the op overwrote.
    fn overwritten_block(&mut self, op: &OpEvent, bytes: usize) -> Option<u64> {
        let consumed = op.consumed.iter().filter(|place| op.in_place.contains(place));
        let (input, block) = consumed
            .filter_map(|&place| {
                let storage = self.storages.get(&op.inputs[place])?;
                Some((op.inputs[place], storage.device.filter(|_| storage.bytes == bytes)?))
            })
            .next()?;
        self.change(input, |storage| storage.device = None);
        Some(block)
    }

    fn allocate(&mut self, tier: Tier, address: u64, bytes: usize) {
        self.blocks[tier as usize].insert(address, Block { bytes, storage: None });
        self.placed[tier as usize].push(address);
        *self.used_bytes(tier) += bytes;
    }

    fn release(&mut self, tier: Tier, address: u64) {
        let Some(block) = self.blocks[tier as usize].remove(&address) else { return };
        self.placed[tier as usize].retain(|&placed| placed != address);
        *self.used_bytes(tier) -= block.bytes;
        if let Some(number) = block.storage {
            // A block that was moved has another address by now.
            self.change(number, |storage| {
                storage.place(tier).take_if(|place| *place == address);
            });
        }
    }

    fn used_bytes(&mut self, tier: Tier) -> &mut usize {
        match tier {
            Tier::Device => &mut self.totals.device_bytes,
            Tier::Host => &mut self.totals.host_bytes,
            Tier::Peer => &mut self.totals.peer_bytes,
            Tier::Disk => &mut self.totals.disk_bytes,
        }
    }

    /// Makes sure that the storage has a record.
    fn know(&mut self, made: &Made, made_by: &str, held: bool) {
        if !self.storages.contains_key(&made.storage) {
            let (made_by, bytes) = (made_by.to_string(), made.bytes);
            let storage = Storage { made_by, bytes, held, device: None, host: None, peer: None, disk: None };
            storage.count(&mut self.totals, usize::wrapping_add);
            self.storages.insert(made.storage, storage);
        }
    }

    fn put(&mut self, number: u64, tier: Tier, address: Option<u64>) {
        if let Some(block) = address.and_then(|address| self.blocks[tier as usize].get_mut(&address)) {
            block.storage = Some(number);
        }
        self.change(number, |storage| *storage.place(tier) = Some(address.unwrap_or(OUTSIDE)));
    }

    /// Changes a storage and updates the totals. The record is removed once the storage has no handle and no bytes.
    fn change(&mut self, number: u64, change: impl FnOnce(&mut Storage)) {
        let Some(storage) = self.storages.get_mut(&number) else { return };
        storage.count(&mut self.totals, usize::wrapping_sub);
        change(storage);
        storage.count(&mut self.totals, usize::wrapping_add);
        if !storage.held && storage.device.is_none() && !storage.is_away() {
            self.storages.remove(&number);
        }
    }
}

impl Storage {
    fn is_away(&self) -> bool {
        [self.host, self.peer, self.disk].iter().any(Option::is_some)
    }

    fn place(&mut self, tier: Tier) -> &mut Option<u64> {
        match tier {
            Tier::Device => &mut self.device,
            Tier::Host => &mut self.host,
            Tier::Peer => &mut self.peer,
            Tier::Disk => &mut self.disk,
        }
    }

    fn count(&self, totals: &mut Totals, with: fn(usize, usize) -> usize) {
        let count = |total: &mut usize, counts: bool| {
            if counts {
                *total = with(*total, self.bytes);
            }
        };
        let (device, host) = (self.device.is_some(), self.is_away());
        count(&mut totals.live_bytes, self.held);
        count(&mut totals.host_only_bytes, host && !device);
        count(&mut totals.dropped_bytes, self.held && !host && !device);
    }
}
