//! The free ranges of a slab or of a range of pages, allocated by best fit and coalesced when they are freed.

use std::collections::{BTreeMap, BTreeSet};

use crate::pool::submit::PendingWork;

/// The free ranges of one slab. Offsets and sizes are multiples of the engine's alignment.
#[derive(Debug)]
pub struct FreeList {
    /// The free ranges by offset.
    free: BTreeMap<usize, Free>,
    /// The same ranges by size and offset.
    by_size: BTreeSet<(usize, usize)>,
    capacity_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct Free {
    bytes: usize,
    /// The work that still touches this range.
    pending: PendingWork,
}

impl FreeList {
    /// Creates the list of a slab of `capacity_bytes`, all free.
    pub fn new(capacity_bytes: usize) -> Self {
        let mut free_list = FreeList { free: BTreeMap::new(), by_size: BTreeSet::new(), capacity_bytes };
        if capacity_bytes > 0 {
            free_list.insert(0, Free { bytes: capacity_bytes, pending: PendingWork::default() });
        }
        free_list
    }

    /// Allocates from the smallest free range that holds `bytes`, the lowest among equals. Returns its offset and the work that
    /// must be waited for before it is written.
    pub fn allocate(&mut self, bytes: usize) -> Option<(usize, PendingWork)> {
        let &(size, offset) = self.by_size.range((bytes, 0)..).next()?;
        let found = self.remove(offset, size);
        if found.bytes > bytes {
            self.insert(offset + bytes, Free { bytes: found.bytes - bytes, ..found });
        }
        Some((offset, found.pending))
    }

    /// Whether a free range holds `bytes`.
    pub fn fits(&self, bytes: usize) -> bool {
        self.by_size.range((bytes, 0)..).next().is_some()
    }

    /// Allocates from the end of the last free range.
    pub fn allocate_last(&mut self, bytes: usize) -> Option<(usize, PendingWork)> {
        let (&offset, free) = self.free.last_key_value()?;
        let at = (offset + free.bytes).checked_sub(bytes).filter(|&at| at >= offset)?;
        Some((at, self.take(at, bytes)))
    }

    /// Adds free space at the end, which `pending` still touches.
    pub fn extend(&mut self, bytes: usize, pending: PendingWork) {
        let end = self.capacity_bytes;
        self.capacity_bytes += bytes;
        self.free(end, bytes, pending);
    }

    /// Whether a range is free.
    pub fn is_free(&self, offset: usize, bytes: usize) -> bool {
        let around = self.free.range(..=offset).next_back();
        let end = offset.checked_add(bytes);
        around.zip(end).is_some_and(|((&at, free), end)| at + free.bytes >= end)
    }

    /// The free parts of a range, as offsets and sizes.
    pub fn free_within(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        let end = offset + bytes;
        let before = self.free.range(..offset).next_back();
        let ranges = before.into_iter().chain(self.free.range(offset..end));
        let within = ranges.map(|(&at, free)| (at.max(offset), (at + free.bytes).min(end)));
        within.filter(|(begin, end)| begin < end).map(|(begin, end)| (begin, end - begin)).collect()
    }

    /// Allocates a given range, which must be free. Returns the work that still touches it.
    pub fn take(&mut self, offset: usize, bytes: usize) -> PendingWork {
        let around = self.free.range(..=offset).next_back().map(|(&at, free)| (at, free.bytes));
        let (at, size) = around.expect("the range is free");
        let found = self.remove(at, size);
        if at < offset {
            self.insert(at, Free { bytes: offset - at, ..found });
        }
        if at + size > offset + bytes {
            self.insert(offset + bytes, Free { bytes: at + size - offset - bytes, ..found });
        }
        found.pending
    }

    /// At most `count` whole pages that are free, in ascending order. Pages of the smallest ranges are preferred, so that large
    /// ranges stay whole.
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

    /// The work that still touches free ranges.
    pub fn pending(&self) -> PendingWork {
        self.free.values().fold(PendingWork::default(), |all, free| all.and(free.pending))
    }

    /// The bytes of the slab, free or not.
    pub fn capacity_bytes(&self) -> usize {
        self.capacity_bytes
    }

    /// Frees a range, which `pending` still touches.
    pub fn free(&mut self, offset: usize, bytes: usize, pending: PendingWork) {
        debug_assert!(offset + bytes <= self.capacity_bytes, "freed range lies outside the slab");
        let mut range = Free { bytes, pending };
        if let Some(free) = self.free.get(&(offset + bytes)).copied() {
            self.remove(offset + bytes, free.bytes);
            range = Free { bytes: range.bytes + free.bytes, pending: range.pending.and(free.pending) };
        }
        // Most often the range before it is free already and only grows.
        match self.free.range_mut(..offset).next_back() {
            Some((&at, free)) if at + free.bytes == offset => {
                self.by_size.remove(&(free.bytes, at));
                *free = Free { bytes: free.bytes + range.bytes, pending: free.pending.and(range.pending) };
                self.by_size.insert((free.bytes, at));
            }
            _ => self.insert(offset, range),
        }
    }

    /// The offset at which the last range in use ends.
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
    fn what_wraps_around_is_not_free() {
        let free_list = FreeList::new(1024);
        assert!(free_list.is_free(768, 256));
        assert!(!free_list.is_free(usize::MAX - 255, 256) && !free_list.is_free(usize::MAX - 255, 512));
    }

    #[test]
    fn freed_neighbours_coalesce_whatever_the_order() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut free_list = FreeList::new(768);
            let offsets: Vec<usize> = (0..3).map(|_| free_list.allocate(256).unwrap().0).collect();
            assert_eq!(free_list.allocate(256), None);
            for index in order {
                free_list.free(offsets[index], 256, PendingWork::default());
            }
            assert_eq!(free_list.allocate(768).map(|(offset, _)| offset), Some(0));
        }
    }

    #[test]
    fn the_smallest_range_that_fits_is_taken() {
        let mut free_list = FreeList::new(2048);
        let a = free_list.allocate(512).unwrap().0;
        let _keep = free_list.allocate(256).unwrap();
        let b = free_list.allocate(256).unwrap().0;
        let _keep = free_list.allocate(256).unwrap();
        free_list.free(a, 512, PendingWork::default());
        free_list.free(b, 256, PendingWork::default());
        assert_eq!(free_list.allocate(256).unwrap().0, b);
    }

    #[test]
    fn free_ranges_are_cut_at_the_ends_of_the_range_asked_about() {
        let mut free_list = FreeList::new(2048);
        free_list.take(512, 256);
        free_list.take(1024, 512);
        assert_eq!(free_list.free_within(256, 1536), [(256, 256), (768, 256), (1536, 256)]);
        assert_eq!(free_list.free_within(512, 256), []);
        assert_eq!(free_list.free_within(0, 512), [(0, 512)]);
    }

    #[test]
    fn a_reused_range_comes_with_the_work_on_it() {
        use crate::engine::{Lane, Mark};
        let mut free_list = FreeList::new(512);
        let a = free_list.allocate(256).unwrap().0;
        let b = free_list.allocate(256).unwrap().0;
        let copied = PendingWork::default().with(Mark { lane: Lane::Offload, sequence: 7 });
        free_list.free(a, 256, copied);
        free_list.free(b, 256, PendingWork::default());
        assert_eq!(free_list.allocate(512).unwrap().1, copied);
    }
}
