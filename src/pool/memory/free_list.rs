//! Where in a slab, or in a range of pages: best fit over a free list that coalesces.

use std::collections::{BTreeMap, BTreeSet};

use crate::pool::submit::Pending;

/// The free space of one slab. Offsets and sizes are multiples of the engine's alignment.
#[derive(Debug)]
pub struct Placement {
    free: BTreeMap<usize, Free>,
    by_size: BTreeSet<(usize, usize)>,
    capacity_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct Free {
    bytes: usize,
    /// Work that still touches this range, by lane.
    pending: Pending,
}

impl Placement {
    /// A slab of `capacity_bytes`, all free.
    pub fn new(capacity_bytes: usize) -> Self {
        let mut placement = Placement { free: BTreeMap::new(), by_size: BTreeSet::new(), capacity_bytes };
        if capacity_bytes > 0 {
            placement.insert(0, Free { bytes: capacity_bytes, pending: Pending::default() });
        }
        placement
    }

    /// Takes the smallest free range that holds `bytes`, the lowest among equals; with it comes the work that must be
    /// waited for before the range is written.
    pub fn allocate(&mut self, bytes: usize) -> Option<(usize, Pending)> {
        let &(size, offset) = self.by_size.range((bytes, 0)..).next()?;
        let found = self.remove(offset, size);
        if found.bytes > bytes {
            self.insert(offset + bytes, Free { bytes: found.bytes - bytes, ..found });
        }
        Some((offset, found.pending))
    }

    /// Adds space at the end; `pending` is the work on it.
    pub fn extend(&mut self, bytes: usize, pending: Pending) {
        let end = self.capacity_bytes;
        self.capacity_bytes += bytes;
        self.free(end, bytes, pending);
    }

    /// Whether a range is free.
    pub fn is_free(&self, offset: usize, bytes: usize) -> bool {
        let around = self.free.range(..=offset).next_back();
        around.is_some_and(|(&at, free)| at + free.bytes >= offset + bytes)
    }

    /// What is free within a range: offsets and sizes.
    pub fn free_within(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        let end = offset + bytes;
        let before = self.free.range(..offset).next_back();
        let ranges = before.into_iter().chain(self.free.range(offset..end));
        let within = ranges.map(|(&at, free)| (at.max(offset), (at + free.bytes).min(end)));
        within.filter(|(begin, end)| begin < end).map(|(begin, end)| (begin, end - begin)).collect()
    }

    /// Takes a certain range, which is free; the work on it.
    pub fn take(&mut self, offset: usize, bytes: usize) -> Pending {
        let around = self.free.range(..=offset).next_back().map(|(&at, free)| (at, free.bytes));
        let (at, size) = around.expect("what is taken is free");
        let found = self.remove(at, size);
        if at < offset {
            self.insert(at, Free { bytes: offset - at, ..found });
        }
        if at + size > offset + bytes {
            self.insert(offset + bytes, Free { bytes: at + size - offset - bytes, ..found });
        }
        found.pending
    }

    /// Whole pages that are free, at most `count`, in order: those of the smallest ranges that have any, since large ranges
    /// are of more use as they are.
    pub fn free_pages(&self, page_bytes: usize, count: usize) -> Vec<u32> {
        let mut found = Vec::new();
        for &(bytes, offset) in self.by_size.range((page_bytes, 0)..) {
            let pages = offset.div_ceil(page_bytes)..(offset + bytes) / page_bytes;
            found.extend(pages.map(|page| page as u32).take(count - found.len()));
            if found.len() == count {
                break;
            }
        }
        found.sort_unstable();
        found
    }

    /// The work on what is free.
    pub fn pending(&self) -> Pending {
        self.free.values().fold(Pending::default(), |all, free| all.and(free.pending))
    }

    /// All space there is.
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// Returns a range; `pending` is the work that was submitted on it.
    pub fn free(&mut self, offset: usize, bytes: usize, pending: Pending) {
        debug_assert!(offset + bytes <= self.capacity_bytes, "freed range lies outside the slab");
        let mut range = Free { bytes, pending };
        if let Some(free) = self.free.get(&(offset + bytes)).copied() {
            self.remove(offset + bytes, free.bytes);
            range = Free { bytes: range.bytes + free.bytes, pending: range.pending.and(free.pending) };
        }
        // Most often something before it is free already, which then only grows.
        match self.free.range_mut(..offset).next_back() {
            Some((&at, free)) if at + free.bytes == offset => {
                self.by_size.remove(&(free.bytes, at));
                *free = Free { bytes: free.bytes + range.bytes, pending: free.pending.and(range.pending) };
                self.by_size.insert((free.bytes, at));
            }
            _ => self.insert(offset, range),
        }
    }

    /// Where the last range in use ends.
    pub fn reach_bytes(&self) -> usize {
        match self.free.last_key_value() {
            Some((&offset, free)) if offset + free.bytes == self.capacity_bytes => offset,
            _ => self.capacity_bytes,
        }
    }

    fn insert(&mut self, offset: usize, free: Free) {
        self.free.insert(offset, free);
        self.by_size.insert((free.bytes, offset));
    }

    fn remove(&mut self, offset: usize, bytes: usize) -> Free {
        self.by_size.remove(&(bytes, offset));
        self.free.remove(&offset).expect("every range by size is a free range")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_neighbours_coalesce_whatever_the_order() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut placement = Placement::new(768);
            let offsets: Vec<usize> = (0..3).map(|_| placement.allocate(256).unwrap().0).collect();
            assert_eq!(placement.allocate(256), None);
            for index in order {
                placement.free(offsets[index], 256, Pending::default());
            }
            assert_eq!(placement.allocate(768).map(|(offset, _)| offset), Some(0));
        }
    }

    #[test]
    fn the_tightest_hole_is_taken() {
        let mut placement = Placement::new(2048);
        let a = placement.allocate(512).unwrap().0;
        let _keep = placement.allocate(256).unwrap();
        let b = placement.allocate(256).unwrap().0;
        let _keep = placement.allocate(256).unwrap();
        placement.free(a, 512, Pending::default());
        placement.free(b, 256, Pending::default());
        assert_eq!(placement.allocate(256).unwrap().0, b);
    }

    #[test]
    fn what_is_free_within_a_range_is_cut_off_at_its_ends() {
        let mut placement = Placement::new(2048);
        placement.take(512, 256);
        placement.take(1024, 512);
        assert_eq!(placement.free_within(256, 1536), [(256, 256), (768, 256), (1536, 256)]);
        assert_eq!(placement.free_within(512, 256), []);
        assert_eq!(placement.free_within(0, 512), [(0, 512)]);
    }

    #[test]
    fn a_reused_range_carries_the_work_on_it() {
        use crate::engine::{Lane, Mark};
        let mut placement = Placement::new(512);
        let a = placement.allocate(256).unwrap().0;
        let b = placement.allocate(256).unwrap().0;
        let copied = Pending::default().with(Mark { lane: Lane::Offload, sequence: 7 });
        placement.free(a, 256, copied);
        placement.free(b, 256, Pending::default());
        assert_eq!(placement.allocate(512).unwrap().1, copied);
    }
}
