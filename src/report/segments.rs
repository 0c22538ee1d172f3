//! The segments of device memory: ranges of addresses that are mapped, as PyTorch's expandable segments are.
//!
//! A recording says how many bytes are mapped, and not where. So a range is mapped when a block first covers it, and stays mapped
//! until the mapped bytes exceed what the recording says. Then the ranges that were freed the longest ago are unmapped, as pages
//! move to the addresses of new blocks.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use crate::engine::Tier;
use crate::trace::Event;

/// Addresses that are mapped or unmapped right before an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The number of the event.
    pub event: usize,
    pub addresses: Range<u64>,
    /// Whether they are mapped, and not unmapped.
    pub maps: bool,
}

/// What is mapped, and how that came.
#[derive(Debug, Default)]
pub(super) struct Segments {
    /// In the order of events. Ranges that were mapped before the recording began have no change.
    pub changes: Vec<Change>,
    /// The mapped ranges by their begins. They do not overlap.
    ranges: BTreeMap<u64, Mapped>,
    /// The events that freed ranges, with the begins of these ranges.
    free: BTreeSet<(usize, u64)>,
    mapped_bytes: u64,
    used_bytes: u64,
    /// The mapped bytes, as the recording says.
    limit_bytes: u64,
}

/// A mapped range.
#[derive(Clone, Copy, Debug)]
struct Mapped {
    end: u64,
    /// The event that freed it; `None` while a block is there.
    freed_at: Option<usize>,
}

impl Segments {
    pub fn of(events: &[Event]) -> Self {
        let mut segments = Segments::default();
        segments.begin(events);
        for (index, event) in events.iter().enumerate() {
            match *event {
                Event::Reserve { tier: Tier::Device, bytes } => {
                    segments.limit_bytes = bytes as u64;
                    segments.make_room(index, 0);
                }
                Event::Allocate { tier: Tier::Device, address, bytes } => {
                    segments.allocate(index, address..address + bytes as u64);
                }
                Event::Release { tier: Tier::Device, address, bytes } => {
                    segments.release(index, address..address + bytes as u64);
                }
                _ => {}
            }
        }
        segments
    }

    /// The segments at the end, by address: neighbouring ranges are one.
    pub fn at_end(&self) -> Vec<Range<u64>> {
        let mut segments: Vec<Range<u64>> = Vec::new();
        for (&begin, mapped) in &self.ranges {
            match segments.last_mut() {
                Some(last) if last.end == begin => last.end = mapped.end,
                _ => segments.push(begin..mapped.end),
            }
        }
        segments
    }

    /// Blocks that the recording frees and did not see come were there before it began.
    fn begin(&mut self, events: &[Event]) {
        let mut allocated = HashSet::new();
        for event in events {
            match *event {
                Event::Allocate { tier: Tier::Device, address, .. } => {
                    allocated.insert(address);
                }
                Event::Release { tier: Tier::Device, address, bytes } if !allocated.remove(&address) => {
                    self.insert(address..address + bytes as u64, None);
                    self.used_bytes += bytes as u64;
                }
                _ => {}
            }
        }
    }

    fn allocate(&mut self, event: usize, block: Range<u64>) {
        let block_bytes = block.end - block.start;
        self.used_bytes += block_bytes;
        let missing = self.cut(&block);
        self.make_room(event, block_bytes);
        let maps = missing.into_iter().map(|addresses| Change { event, addresses, maps: true });
        self.changes.extend(maps);
        self.insert(block, None);
    }

    fn release(&mut self, event: usize, block: Range<u64>) {
        self.used_bytes = self.used_bytes.saturating_sub(block.end - block.start);
        self.cut(&block);
        self.insert(block, Some(event));
    }

    /// Takes the addresses of a block out of the ranges, and returns those that were not mapped.
    fn cut(&mut self, block: &Range<u64>) -> Vec<Range<u64>> {
        let (mut missing, mut at) = (Vec::new(), block.start);
        for (begin, mapped) in self.overlapping(block) {
            self.remove(begin);
            self.insert(begin..block.start, mapped.freed_at);
            self.insert(block.end..mapped.end, mapped.freed_at);
            missing.push(at..begin);
            at = mapped.end;
        }
        missing.push(at..block.end);
        missing.retain(|range| !range.is_empty());
        missing
    }

    /// The mapped ranges that overlap a block.
    fn overlapping(&self, block: &Range<u64>) -> Vec<(u64, Mapped)> {
        let before =
            self.ranges.range(..block.start).next_back().filter(|(_, mapped)| mapped.end > block.start);
        let overlapping = before.into_iter().chain(self.ranges.range(block.clone()));
        overlapping.map(|(&begin, &mapped)| (begin, mapped)).collect()
    }

    /// Unmaps free ranges until so many more bytes can be mapped.
    fn make_room(&mut self, event: usize, bytes: u64) {
        while self.mapped_bytes + bytes > self.limit_bytes.max(self.used_bytes) {
            let Some(&(_, begin)) = self.free.first() else { return };
            let addresses = begin..self.remove(begin);
            self.changes.push(Change { event, addresses, maps: false });
        }
    }

    fn insert(&mut self, addresses: Range<u64>, freed_at: Option<usize>) {
        if addresses.is_empty() {
            return;
        }
        self.mapped_bytes += addresses.end - addresses.start;
        self.free.extend(freed_at.map(|event| (event, addresses.start)));
        self.ranges.insert(addresses.start, Mapped { end: addresses.end, freed_at });
    }

    /// Removes the range that begins here, and returns its end.
    fn remove(&mut self, begin: u64) -> u64 {
        let mapped = self.ranges.remove(&begin).expect("a mapped range begins here");
        self.mapped_bytes -= mapped.end - begin;
        if let Some(event) = mapped.freed_at {
            self.free.remove(&(event, begin));
        }
        mapped.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_were_freed_first_are_unmapped_for_new_ones() {
        let tier = Tier::Device;
        let allocate = |address, bytes| Event::Allocate { tier, address, bytes };
        let release = |address, bytes| Event::Release { tier, address, bytes };
        let events = [
            Event::Reserve { tier, bytes: 300 },
            allocate(1000, 100),
            allocate(1100, 100),
            allocate(1200, 100),
            release(1100, 100),
            release(1000, 100),
            allocate(1150, 25),
            allocate(5000, 100),
        ];
        let segments = Segments::of(&events);
        let change = |event, addresses, maps| Change { event, addresses, maps };
        assert_eq!(
            segments.changes,
            [
                change(1, 1000..1100, true),
                change(2, 1100..1200, true),
                change(3, 1200..1300, true),
                change(7, 1100..1150, false),
                change(7, 1175..1200, false),
                change(7, 1000..1100, false),
                change(7, 5000..5100, true),
            ]
        );
        assert_eq!(segments.at_end(), [1150..1175, 1200..1300, 5000..5100]);
    }

    #[test]
    fn a_block_that_was_there_before_is_mapped_from_the_beginning() {
        let tier = Tier::Device;
        let events = [Event::Release { tier, address: 512, bytes: 256 }];
        let segments = Segments::of(&events);
        assert!(segments.changes.is_empty());
        assert_eq!(segments.at_end(), std::slice::from_ref(&(512..768)));
    }
}
