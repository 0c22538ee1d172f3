//! Device memory that is mapped by page.
//!
//! Every page has an address of its own, in one range as long as the budget. Best fit places blocks in that range, and pages of
//! physical memory are mapped when a block first reaches them. Where no free range is large enough, a block of at least one page
//! takes whole free pages from several places, and a view maps them side by side at other addresses. So such a block fits wherever
//! enough whole pages are free.

use std::ops::Range;

use super::address_space::{AddressSpace, Placed, Room};
use super::block::Block;
use super::free_list::FreeList;
use super::views::{self, Runs, Views};
use crate::engine::{Engine, EngineError, Span, view_addresses};
use crate::pool::submit::{self, PendingWork};
use crate::schedule::BlockPlacement;

/// The pages of one tier, and what is free of them.
#[derive(Debug)]
pub struct Pages {
    page_bytes: usize,
    limit_bytes: usize,
    /// The free ranges of the pages' own addresses, as far as blocks have reached since the tier was last empty.
    free_list: FreeList,
    /// The work that still touches memory beyond that.
    pending_beyond: PendingWork,
    pages: Vec<Page>,
    views: Views,
    view_range_pages: usize,
    /// The reserved addresses: first those that are the pages' own, then those of views.
    ranges: Vec<Span>,
    reserved_bytes: usize,
    mapped_pages: u64,
    /// A planted fault: views are mapped before old work on their addresses is done.
    maps_early: bool,
}

/// The state of a page.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    /// Whether it has physical memory.
    exists: bool,
    /// Whether it is mapped at its own address.
    is_at_own_address: bool,
    /// The work that still touches it. This can be less than what touches the free range around it, which may have coalesced
    /// from many.
    work: PendingWork,
}

impl Pages {
    /// Creates a tier of at most `limit` pages, with addresses for at most so many bytes of views.
    pub fn new(limit: usize, page_bytes: usize, view_bytes: Option<usize>, maps_early: bool) -> Self {
        let most_pages = view_bytes.map_or(usize::MAX, |bytes| bytes / page_bytes).max(limit);
        // With few addresses, the planted fault has an effect sooner.
        let view_range_pages = (if maps_early { limit } else { view_addresses(limit) }).min(most_pages);
        Pages {
            page_bytes,
            limit_bytes: limit * page_bytes,
            free_list: FreeList::new(0),
            pending_beyond: PendingWork::default(),
            pages: Vec::new(),
            views: Views::new(view_range_pages),
            view_range_pages,
            ranges: Vec::new(),
            reserved_bytes: 0,
            mapped_pages: 0,
            maps_early,
        }
    }

    /// The most bytes that blocks can take.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Allocates at a given offset; `None` if that range is not free.
    fn allocate_from(
        &mut self,
        engine: &dyn Engine,
        offset: usize,
        bytes: usize,
    ) -> Result<Placed, EngineError> {
        let begin = self.free_list.capacity_bytes();
        let Some(end) = offset.checked_add(bytes).filter(|&end| end <= self.limit_bytes) else {
            return Ok(None);
        };
        if end > begin {
            self.free_list.extend(end - begin, self.pending_beyond);
        }
        if !self.free_list.is_free(offset, bytes) {
            return Ok(None);
        }
        let pending = self.free_list.take(offset, bytes);
        self.allocate_at_own_addresses(engine, offset, bytes, pending)
    }

    /// Allocates on given pages; `None` if one of them is not free, or if they are too few.
    fn allocate_on(
        &mut self,
        engine: &dyn Engine,
        pages: &Runs,
        bytes: usize,
    ) -> Result<Placed, EngineError> {
        let ranges = self.ranges_of(pages);
        let end = ranges.iter().map(|&(offset, bytes)| offset + bytes).max().unwrap_or(0);
        let size: usize = ranges.iter().map(|&(_, bytes)| bytes).sum();
        if end > self.limit_bytes || bytes > size {
            return Ok(None);
        }
        if let [(offset, bytes)] = ranges[..] {
            return self.allocate_from(engine, offset, bytes);
        }
        let capacity_bytes = self.free_list.capacity_bytes();
        if end > capacity_bytes {
            self.free_list.extend(end - capacity_bytes, self.pending_beyond);
        }
        if !ranges.iter().all(|&(offset, bytes)| self.free_list.is_free(offset, bytes)) {
            return Ok(None);
        }
        self.allocate_view(engine, pages)
    }

    /// Whether a block is on exactly these pages.
    fn is_on(&self, block: Block, pages: &Runs) -> bool {
        if block.slab == 0 {
            return self.ranges_of(pages) == [(block.offset, block.bytes)];
        }
        self.views.runs(self.first_view_page(block)) == pages
    }

    /// The own addresses of pages, as offsets and sizes.
    fn ranges_of(&self, pages: &[Range<u32>]) -> Vec<(usize, usize)> {
        pages.iter().map(|run| (run.start as usize * self.page_bytes, run.len() * self.page_bytes)).collect()
    }

    /// Makes a block of a range that was taken from the free list, and maps its pages.
    fn allocate_at_own_addresses(
        &mut self,
        engine: &dyn Engine,
        offset: usize,
        bytes: usize,
        pending: PendingWork,
    ) -> Result<Placed, EngineError> {
        let pages = self.pages_of(offset, bytes);
        let pending = pending.common(self.work_on(pages.clone()));
        let pages = pages.start as u32..pages.end as u32;
        match self.map_own_addresses(engine, pages) {
            Ok(()) => Ok(Some((Block { slab: 0, offset, bytes }, pending))),
            Err(error) => {
                self.free_list.free(offset, bytes, pending);
                Err(error)
            }
        }
    }

    /// Maps those of the pages at their own addresses that are not mapped there yet.
    fn map_own_addresses(&mut self, engine: &dyn Engine, pages: Range<u32>) -> Result<(), EngineError> {
        self.pages.resize(self.pages.len().max(pages.end as usize), Page::default());
        let is_missing = |pages: &[Page], page: &u32| !pages[*page as usize].is_at_own_address;
        let mut next = pages.start;
        while let Some(begin) = (next..pages.end).find(|page| is_missing(&self.pages, page)) {
            let end = (begin..pages.end).find(|page| !is_missing(&self.pages, page)).unwrap_or(pages.end);
            let missing: Vec<u32> = (begin..end).collect();
            self.reserve(engine, 0)?;
            let at = self.ranges[0].slice(begin as usize * self.page_bytes, missing.len() * self.page_bytes);
            // Nothing needs to be waited for: nothing was mapped here, or it was released when all work was done.
            self.map(engine, at, &missing, PendingWork::default())?;
            self.pages[begin as usize..end as usize]
                .iter_mut()
                .for_each(|page| page.is_at_own_address = true);
            next = end;
        }
        Ok(())
    }

    /// Allocates on free pages through a view of them, which is remembered or mapped now.
    fn allocate_view(&mut self, engine: &dyn Engine, pages: &Runs) -> Result<Placed, EngineError> {
        let first = match self.views.find(pages) {
            Some(first) => first,
            None => {
                let (first, after) = self.views.add(pages);
                let pages: Vec<u32> = pages.iter().cloned().flatten().collect();
                if let Err(error) = self.map_view(engine, first, &pages, after) {
                    self.views.discard(first);
                    return Err(error);
                }
                first
            }
        };
        let page_bytes = self.page_bytes;
        let take =
            |run: &Range<u32>| self.free_list.take(run.start as usize * page_bytes, run.len() * page_bytes);
        let mut pending =
            self.views.runs(first).iter().map(take).fold(PendingWork::default(), PendingWork::and);
        let work = |run: &Range<u32>| self.work_on(run.start as usize..run.end as usize);
        pending = pending.common(pages.iter().map(work).fold(PendingWork::default(), PendingWork::and));
        Ok(Some((self.block(first, pages.iter().map(|run| run.len()).sum()), pending)))
    }

    fn map_view(
        &mut self,
        engine: &dyn Engine,
        first: usize,
        pages: &[u32],
        after: PendingWork,
    ) -> Result<(), EngineError> {
        self.reserve(engine, self.views.ranges())?;
        let last = pages.last().map_or(0, |&page| page as usize + 1);
        self.pages.resize(self.pages.len().max(last), Page::default());
        let at = self.full_span(self.block(first, pages.len()));
        self.map(engine, at, pages, if self.maps_early { PendingWork::default() } else { after })
    }

    fn map(
        &mut self,
        engine: &dyn Engine,
        at: Span,
        pages: &[u32],
        after: PendingWork,
    ) -> Result<(), EngineError> {
        submit::map_pages(engine, at, pages, after)?;
        self.mapped_pages += pages.len() as u64;
        for &page in pages {
            let page = &mut self.pages[page as usize];
            self.reserved_bytes += if page.exists { 0 } else { self.page_bytes };
            page.exists = true;
        }
        Ok(())
    }

    /// Reserves the pages' own addresses and `view_ranges` ranges for views, if they are not reserved yet.
    fn reserve(&mut self, engine: &dyn Engine, view_ranges: usize) -> Result<(), EngineError> {
        while self.ranges.len() < 1 + view_ranges {
            let bytes = match self.ranges.len() {
                0 => self.limit_bytes,
                _ => self.view_range_pages * self.page_bytes,
            };
            self.ranges.push(engine.reserve(bytes)?);
        }
        Ok(())
    }

    /// The block of a view, given the position of its first page among all addresses of views.
    fn block(&self, first: usize, count: usize) -> Block {
        let (range, first) = (first / self.view_range_pages, first % self.view_range_pages);
        Block { slab: 1 + range as u32, offset: first * self.page_bytes, bytes: count * self.page_bytes }
    }

    /// All addresses of a block.
    fn full_span(&self, block: Block) -> Span {
        self.ranges[block.slab as usize].slice(block.offset, block.bytes)
    }

    /// The position of a block's first page among all addresses of views.
    fn first_view_page(&self, block: Block) -> usize {
        (block.slab as usize - 1) * self.view_range_pages + block.offset / self.page_bytes
    }

    /// The pages that a range overlaps.
    fn pages_of(&self, offset: usize, bytes: usize) -> Range<usize> {
        offset / self.page_bytes..(offset + bytes).div_ceil(self.page_bytes)
    }

    fn work_on(&self, pages: Range<usize>) -> PendingWork {
        let known = pages.start.min(self.pages.len())..pages.end.min(self.pages.len());
        self.pages[known].iter().fold(PendingWork::default(), |all, page| all.and(page.work))
    }

    fn add_work(&mut self, pages: Range<usize>, pending: PendingWork) {
        self.pages[pages].iter_mut().for_each(|page| page.work = page.work.and(pending));
    }
}

impl AddressSpace for Pages {
    /// Allocates a block of at least `bytes`, which is a multiple of the alignment. Returns `None` if no free range is large
    /// enough and too few whole pages are free.
    ///
    /// Where the block needs memory that no block has reached yet, it takes as little of that as possible.
    fn allocate(&mut self, engine: &dyn Engine, bytes: usize, _: Room) -> Result<Placed, EngineError> {
        if let Some((offset, pending)) = self.free_list.allocate(bytes) {
            return self.allocate_at_own_addresses(engine, offset, bytes, pending);
        }
        let end = self.free_list.capacity_bytes();
        let end_with_block = self.free_list.reach_bytes() + bytes;
        if bytes >= self.page_bytes {
            let count = bytes.div_ceil(self.page_bytes);
            let mut pages = self.free_list.free_pages(self.page_bytes, count);
            let missing_bytes = (count - pages.len()) * self.page_bytes;
            let end_with_pages = end.next_multiple_of(self.page_bytes) + missing_bytes;
            if missing_bytes > 0 && end_with_pages < end_with_block && end_with_pages <= self.limit_bytes {
                self.free_list.extend(end_with_pages - end, self.pending_beyond);
                pages = self.free_list.free_pages(self.page_bytes, count);
            }
            if pages.len() == count {
                return self.allocate_view(engine, &views::runs(&pages));
            }
        }
        if end_with_block > self.limit_bytes {
            return Ok(None);
        }
        self.free_list.extend(end_with_block - end, self.pending_beyond);
        let (offset, pending) = self.free_list.allocate(bytes).expect("the free list was extended for it");
        self.allocate_at_own_addresses(engine, offset, bytes, pending)
    }

    fn joined_pages(&self, bytes: usize) -> usize {
        let count = bytes.div_ceil(self.page_bytes);
        let joins = bytes >= self.page_bytes
            && !self.free_list.fits(bytes)
            && self.free_list.free_pages(self.page_bytes, count).len() == count;
        if joins { count } else { 0 }
    }

    fn allocate_at(
        &mut self,
        engine: &dyn Engine,
        placement: &BlockPlacement,
        bytes: usize,
        _: Room,
    ) -> Result<Placed, EngineError> {
        match placement {
            &BlockPlacement::At(offset) => self.allocate_from(engine, offset, bytes),
            BlockPlacement::On(pages) => self.allocate_on(engine, pages, bytes),
        }
    }

    fn free(&mut self, block: Block, pending: PendingWork) {
        if block.slab == 0 {
            self.add_work(self.pages_of(block.offset, block.bytes), pending);
            self.free_list.free(block.offset, block.bytes, pending);
        } else {
            let first = self.first_view_page(block);
            let runs = self.views.runs(first).clone();
            for run in &*runs {
                self.add_work(run.start as usize..run.end as usize, pending);
                self.free_list.free(
                    run.start as usize * self.page_bytes,
                    run.len() * self.page_bytes,
                    pending,
                );
            }
            self.views.free(first, pending);
        }
        // An empty tier starts anew, so that a program that runs again gets the same blocks.
        if self.free_list.reach_bytes() == 0 {
            let whole = std::mem::replace(&mut self.free_list, FreeList::new(0));
            self.pending_beyond = self.pending_beyond.and(whole.pending());
        }
    }

    fn span(&self, block: Block, bytes: usize) -> Span {
        self.full_span(block).slice(0, bytes)
    }

    /// The offset in physical memory at which the last block ends.
    fn reach_bytes(&mut self, _: Option<Block>) -> usize {
        self.free_list.reach_bytes()
    }

    fn release(&mut self, engine: &dyn Engine) {
        self.views.clear();
        let end = self.free_list.capacity_bytes();
        let is_free = |page: usize| {
            let begin = page * self.page_bytes;
            begin >= end || self.free_list.is_free(begin, self.page_bytes.min(end - begin))
        };
        let given: Vec<u32> = (0..self.pages.len())
            .filter(|&page| self.pages[page].exists && is_free(page))
            .map(|page| page as u32)
            .collect();
        given.iter().for_each(|&page| self.pages[page as usize] = Page::default());
        self.reserved_bytes -= given.len() * self.page_bytes;
        engine.release_pages(&given);
    }

    fn reserved_bytes(&self) -> usize {
        self.reserved_bytes
    }

    fn mapped_pages(&self) -> u64 {
        self.mapped_pages
    }

    /// The free parts of a range, as offsets and sizes, whether blocks have reached them or not.
    fn free_within(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        let mut free = self.free_list.free_within(offset, bytes);
        let (begin, end) =
            (self.free_list.capacity_bytes().max(offset), self.limit_bytes.min(offset + bytes));
        free.extend((begin < end).then(|| (begin, end - begin)));
        free
    }

    fn each_range(&self, block: Block, found: &mut dyn FnMut(usize, usize)) {
        if block.slab == 0 {
            return found(block.offset, block.bytes);
        }
        for run in &**self.views.runs(self.first_view_page(block)) {
            found(run.start as usize * self.page_bytes, run.len() * self.page_bytes);
        }
    }

    fn is_at(&self, block: Block, placement: &BlockPlacement) -> bool {
        match placement {
            &BlockPlacement::At(offset) => (block.slab, block.offset) == (0, offset),
            BlockPlacement::On(pages) => self.is_on(block, pages),
        }
    }

    fn ranges(&self, placement: &BlockPlacement, bytes: usize) -> Vec<(usize, usize)> {
        match placement {
            &BlockPlacement::At(offset) => vec![(offset, bytes)],
            BlockPlacement::On(pages) => self.ranges_of(pages),
        }
    }
}

#[cfg(test)]
mod tests;
