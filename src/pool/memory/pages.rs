//! Device memory mapped by page. Blocks lie where best fit puts them in one range of addresses; behind it, pages of
//! physical memory come into being as blocks reach them. Where free memory is in pieces, a block of a page and more takes
//! whole pages from here and there, which are put side by side at other addresses.

use std::ops::Range;

use super::address_space::{AddressSpace, Placed, Room};
use super::block::Block;
use super::free_list::Placement;
use super::views::{self, Runs, Views};
use crate::engine::{Engine, EngineError, Span};
use crate::pool::submit::{self, Pending};
use crate::schedule::BlockPlacement;

/// Addresses that are reserved at a time for views, as a multiple of the pages there may be: views are remembered until
/// their addresses come up again, and a loop that finds all its own maps nothing.
const ADDRESSES: usize = 24;
/// Unless they are more than this. Linux gives a process 65,530 mappings, and each page may be one.
const MOST_ADDRESSES: usize = 32_768;

/// Pages of one tier and the blocks in them.
#[derive(Debug)]
pub struct Paged {
    page_bytes: usize,
    limit_bytes: usize,
    /// Free space by physical address, as far as blocks have reached so far.
    placement: Placement,
    /// Work on memory that blocks have not reached since they were all gone.
    floor: Pending,
    pages: Vec<Page>,
    views: Views,
    view_range_pages: usize,
    /// Addresses: first those where every page has its own, then those of views.
    ranges: Vec<Span>,
    reserved_bytes: usize,
    mapped_pages: u64,
    /// Planted fault: pages are mapped without regard to old work.
    early: bool,
}

/// What there is of a page.
#[derive(Debug, Clone, Copy, Default)]
struct Page {
    exists: bool,
    /// It is mapped at the address of its own.
    at_home: bool,
    /// Work on it: less than on the free range that it is in, which may have grown together from many.
    work: Pending,
}

impl Paged {
    /// At most `limit` pages.
    pub fn new(limit: usize, page_bytes: usize, early: bool) -> Self {
        // With few addresses, the planted fault shows earlier.
        let view_range_pages =
            (if early { limit } else { ADDRESSES * limit }).min(MOST_ADDRESSES.max(2 * limit));
        Paged {
            page_bytes,
            limit_bytes: limit * page_bytes,
            placement: Placement::new(0),
            floor: Pending::default(),
            pages: Vec::new(),
            views: Views::new(view_range_pages),
            view_range_pages,
            ranges: Vec::new(),
            reserved_bytes: 0,
            mapped_pages: 0,
            early,
        }
    }

    /// Bytes of all the pages there may be.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// A block at a certain address; `None` if it is not free.
    fn allocate_from(
        &mut self,
        engine: &dyn Engine,
        offset: usize,
        bytes: usize,
    ) -> Result<Placed, EngineError> {
        let (begin, end) = (self.placement.capacity_bytes(), offset + bytes);
        if end > self.limit_bytes {
            return Ok(None);
        }
        if end > begin {
            self.placement.extend(end - begin, self.floor);
        }
        if !self.placement.is_free(offset, bytes) {
            return Ok(None);
        }
        let pending = self.placement.take(offset, bytes);
        self.at_home(engine, offset, bytes, pending)
    }

    /// A block on certain pages, joined where they are neighbours; `None` if they are not free, or too few.
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
        let capacity_bytes = self.placement.capacity_bytes();
        if end > capacity_bytes {
            self.placement.extend(end - capacity_bytes, self.floor);
        }
        if !ranges.iter().all(|&(offset, bytes)| self.placement.is_free(offset, bytes)) {
            return Ok(None);
        }
        self.gather(engine, pages)
    }

    /// Whether a block is on just these pages.
    fn is_on(&self, block: Block, pages: &Runs) -> bool {
        if block.slab == 0 {
            return self.ranges_of(pages) == [(block.offset, block.bytes)];
        }
        self.views.runs(self.first(block)) == pages
    }

    /// Where pages are at home: offsets and sizes.
    fn ranges_of(&self, pages: &[Range<u32>]) -> Vec<(usize, usize)> {
        pages.iter().map(|run| (run.start as usize * self.page_bytes, run.len() * self.page_bytes)).collect()
    }

    /// The block at a range of the placement, with memory behind it.
    fn at_home(
        &mut self,
        engine: &dyn Engine,
        offset: usize,
        bytes: usize,
        pending: Pending,
    ) -> Result<Placed, EngineError> {
        let pages = self.pages_of(offset, bytes);
        let pending = pending.common(self.work_on(pages.clone()));
        let pages = pages.start as u32..pages.end as u32;
        match self.back(engine, pages) {
            Ok(()) => Ok(Some((Block { slab: 0, offset, bytes }, pending))),
            Err(error) => {
                self.placement.free(offset, bytes, pending);
                Err(error)
            }
        }
    }

    /// Maps pages at their own addresses, where they are not.
    fn back(&mut self, engine: &dyn Engine, pages: Range<u32>) -> Result<(), EngineError> {
        self.pages.resize(self.pages.len().max(pages.end as usize), Page::default());
        let is_missing = |pages: &[Page], page: &u32| !pages[*page as usize].at_home;
        let mut next = pages.start;
        while let Some(begin) = (next..pages.end).find(|page| is_missing(&self.pages, page)) {
            let end = (begin..pages.end).find(|page| !is_missing(&self.pages, page)).unwrap_or(pages.end);
            let missing: Vec<u32> = (begin..end).collect();
            self.reserve(engine, 0)?;
            let at = self.ranges[0].slice(begin as usize * self.page_bytes, missing.len() * self.page_bytes);
            // Nothing was mapped here before, or it was given back when all work was done.
            self.map(engine, at, &missing, Pending::default())?;
            self.pages[begin as usize..end as usize].iter_mut().for_each(|page| page.at_home = true);
            next = end;
        }
        Ok(())
    }

    /// A block of these pages, which are free, at addresses where they are already or are put now.
    fn gather(&mut self, engine: &dyn Engine, pages: &Runs) -> Result<Placed, EngineError> {
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
            |run: &Range<u32>| self.placement.take(run.start as usize * page_bytes, run.len() * page_bytes);
        let mut pending = self.views.runs(first).iter().map(take).fold(Pending::default(), Pending::and);
        let work = |run: &Range<u32>| self.work_on(run.start as usize..run.end as usize);
        pending = pending.common(pages.iter().map(work).fold(Pending::default(), Pending::and));
        Ok(Some((self.block(first, pages.iter().map(|run| run.len()).sum()), pending)))
    }

    fn map_view(
        &mut self,
        engine: &dyn Engine,
        first: usize,
        pages: &[u32],
        after: Pending,
    ) -> Result<(), EngineError> {
        self.reserve(engine, self.views.ranges())?;
        let last = pages.last().map_or(0, |&page| page as usize + 1);
        self.pages.resize(self.pages.len().max(last), Page::default());
        let at = self.whole(self.block(first, pages.len()));
        self.map(engine, at, pages, if self.early { Pending::default() } else { after })
    }

    fn map(
        &mut self,
        engine: &dyn Engine,
        at: Span,
        pages: &[u32],
        after: Pending,
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

    /// Reserves the addresses of the placement, and so many ranges for views.
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

    /// The block of a view.
    fn block(&self, first: usize, count: usize) -> Block {
        let (range, first) = (first / self.view_range_pages, first % self.view_range_pages);
        Block { slab: 1 + range as u32, offset: first * self.page_bytes, bytes: count * self.page_bytes }
    }

    /// Where a block is.
    fn whole(&self, block: Block) -> Span {
        self.ranges[block.slab as usize].slice(block.offset, block.bytes)
    }

    /// The first address of a block's view, in pages.
    fn first(&self, block: Block) -> usize {
        (block.slab as usize - 1) * self.view_range_pages + block.offset / self.page_bytes
    }

    /// The pages that a range has a part of.
    fn pages_of(&self, offset: usize, bytes: usize) -> Range<usize> {
        offset / self.page_bytes..(offset + bytes).div_ceil(self.page_bytes)
    }

    fn work_on(&self, pages: Range<usize>) -> Pending {
        let known = pages.start.min(self.pages.len())..pages.end.min(self.pages.len());
        self.pages[known].iter().fold(Pending::default(), |all, page| all.and(page.work))
    }

    fn worked_on(&mut self, pages: Range<usize>, pending: Pending) {
        self.pages[pages].iter_mut().for_each(|page| page.work = page.work.and(pending));
    }
}

impl AddressSpace for Paged {
    /// A block of at least `bytes`, a multiple of the alignment, with the work to wait for before writing it. `None` if
    /// no free range is so large, and not so many whole pages are free.
    ///
    /// As little memory as can be is taken where no block was yet.
    fn allocate(&mut self, engine: &dyn Engine, bytes: usize, _: Room) -> Result<Placed, EngineError> {
        if let Some((offset, pending)) = self.placement.allocate(bytes) {
            return self.at_home(engine, offset, bytes, pending);
        }
        let end = self.placement.capacity_bytes();
        let end_with_block = self.placement.reach_bytes() + bytes;
        if bytes >= self.page_bytes {
            let count = bytes.div_ceil(self.page_bytes);
            let mut pages = self.placement.free_pages(self.page_bytes, count);
            let missing_bytes = (count - pages.len()) * self.page_bytes;
            let end_with_pages = end.next_multiple_of(self.page_bytes) + missing_bytes;
            if missing_bytes > 0 && end_with_pages < end_with_block && end_with_pages <= self.limit_bytes {
                self.placement.extend(end_with_pages - end, self.floor);
                pages = self.placement.free_pages(self.page_bytes, count);
            }
            if pages.len() == count {
                return self.gather(engine, &views::runs(&pages));
            }
        }
        if end_with_block > self.limit_bytes {
            return Ok(None);
        }
        self.placement.extend(end_with_block - end, self.floor);
        let (offset, pending) = self.placement.allocate(bytes).expect("it was made as large");
        self.at_home(engine, offset, bytes, pending)
    }

    fn allocate_at(
        &mut self,
        engine: &dyn Engine,
        spot: &BlockPlacement,
        bytes: usize,
        _: Room,
    ) -> Result<Placed, EngineError> {
        match spot {
            &BlockPlacement::At(offset) => self.allocate_from(engine, offset, bytes),
            BlockPlacement::On(pages) => self.allocate_on(engine, pages, bytes),
        }
    }

    fn free(&mut self, block: Block, pending: Pending) {
        if block.slab == 0 {
            self.worked_on(self.pages_of(block.offset, block.bytes), pending);
            self.placement.free(block.offset, block.bytes, pending);
        } else {
            let first = self.first(block);
            let runs = self.views.runs(first).clone();
            for run in &*runs {
                self.worked_on(run.start as usize..run.end as usize, pending);
                self.placement.free(
                    run.start as usize * self.page_bytes,
                    run.len() * self.page_bytes,
                    pending,
                );
            }
            self.views.free(first, pending);
        }
        // A program that is run again finds what it found before.
        if self.placement.reach_bytes() == 0 {
            let whole = std::mem::replace(&mut self.placement, Placement::new(0));
            self.floor = self.floor.and(whole.pending());
        }
    }

    fn span(&self, block: Block, bytes: usize) -> Span {
        self.whole(block).slice(0, bytes)
    }

    /// Where the last block ends in physical memory.
    fn reach_bytes(&mut self, _: Option<Block>) -> usize {
        self.placement.reach_bytes()
    }

    fn release(&mut self, engine: &dyn Engine) {
        self.views.clear();
        let end = self.placement.capacity_bytes();
        let is_free = |page: usize| {
            let begin = page * self.page_bytes;
            begin >= end || self.placement.is_free(begin, self.page_bytes.min(end - begin))
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

    /// What is free within a range, reached or not: offsets and sizes.
    fn free_within(&self, offset: usize, bytes: usize) -> Vec<(usize, usize)> {
        let mut free = self.placement.free_within(offset, bytes);
        let (begin, end) =
            (self.placement.capacity_bytes().max(offset), self.limit_bytes.min(offset + bytes));
        free.extend((begin < end).then(|| (begin, end - begin)));
        free
    }

    fn each_range(&self, block: Block, found: &mut dyn FnMut(usize, usize)) {
        if block.slab == 0 {
            return found(block.offset, block.bytes);
        }
        for run in &**self.views.runs(self.first(block)) {
            found(run.start as usize * self.page_bytes, run.len() * self.page_bytes);
        }
    }

    fn is_at(&self, block: Block, spot: &BlockPlacement) -> bool {
        match spot {
            &BlockPlacement::At(offset) => (block.slab, block.offset) == (0, offset),
            BlockPlacement::On(pages) => self.is_on(block, pages),
        }
    }

    fn ranges(&self, spot: &BlockPlacement, bytes: usize) -> Vec<(usize, usize)> {
        match spot {
            &BlockPlacement::At(offset) => vec![(offset, bytes)],
            BlockPlacement::On(pages) => self.ranges_of(pages),
        }
    }
}

#[cfg(test)]
mod tests;
