//! Blocks of all sizes on the host engine, compared with a naive model. Each block is filled with its number, so that the bytes
//! tell which block has which memory, whatever its address.
#![cfg(all(feature = "host", target_os = "linux"))]

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::engine::host::{HostEngine, HostOptions};
use crate::engine::{ALIGN_BYTES, Lane, Mark, Tier};
use crate::pool::submit::HostAccess;

/// A room that bounds nothing, since the pages know their own limit.
const ROOM: Room = Room { unmapped_bytes: 0, free_bytes: 0 };

/// The most pages of the device.
const PAGES: usize = 12;

struct Model {
    engine: Arc<dyn Engine>,
    page_bytes: usize,
    pages: Pages,
    /// The blocks in use, with their numbers.
    blocks: Vec<(Block, u64)>,
    /// The last work on the block of each number. Zero stands for memory that no block had.
    work: Vec<u64>,
    mapped_before: u64,
}

impl Model {
    fn new(limit: usize) -> Self {
        let options = HostOptions { page_bytes: 1, workers: 1, ..HostOptions::default() };
        let page_bytes = options.props().page_bytes.expect("Linux maps pages");
        let engine = HostEngine::new(HostOptions { device_bytes: limit * page_bytes, ..options });
        let pages = Pages::new(limit, page_bytes, None, false);
        Model {
            engine: Arc::new(engine),
            page_bytes,
            pages,
            blocks: Vec::new(),
            work: vec![0],
            mapped_before: 0,
        }
    }

    fn used_bytes(&self) -> usize {
        self.blocks.iter().map(|(block, _)| block.bytes).sum()
    }

    fn access(&self, block: Block) -> HostAccess {
        HostAccess::new(self.engine.clone(), self.pages.span(block, block.bytes), PendingWork::default())
    }

    fn numbers(&self, block: Block) -> Vec<u64> {
        let bytes = self.access(block).read().expect("nothing fails").expect("host memory");
        bytemuck::pod_collect_to_vec(&bytes)
    }

    /// Returns whether the block was allocated.
    fn allocate(&mut self, bytes: usize) -> bool {
        let placed = self.pages.allocate(&*self.engine, bytes, ROOM).expect("nothing fails");
        let Some((block, pending)) = placed else { return false };
        assert!(block.bytes == bytes || block.bytes == bytes.next_multiple_of(self.page_bytes));
        let work = self.numbers(block).into_iter().map(|number| self.work[number as usize]);
        let sequence = work.max().expect("a block has bytes");
        let needed = pending.with(Mark { lane: Lane::Fetch, sequence });
        assert_eq!(needed, pending, "a block comes without the work on its memory");
        let number = self.work.len() as u64;
        self.work.push(0);
        let filling = vec![number; block.bytes / size_of::<u64>()];
        self.access(block).write(bytemuck::cast_slice(&filling)).expect("nothing fails");
        self.blocks.push((block, number));
        true
    }

    fn free(&mut self, which: usize) {
        if self.blocks.is_empty() {
            return;
        }
        let (block, number) = self.blocks.swap_remove(which % self.blocks.len());
        assert!(self.numbers(block).iter().all(|&found| found == number), "two blocks share memory");
        // A wait for nothing serves as work.
        self.engine.wait(Lane::Fetch, self.engine.mark(Lane::Compute)).expect("nothing fails");
        let mark = self.engine.mark(Lane::Fetch);
        self.work[number as usize] = mark.sequence;
        self.pages.free(block, PendingWork::default().with(mark));
    }

    /// The number of pages that no block overlaps, as the free list counts them.
    fn free_pages(&self) -> usize {
        let end = self.pages.free_list.capacity_bytes();
        let beyond = (self.pages.limit_bytes - end.next_multiple_of(self.page_bytes)) / self.page_bytes;
        self.pages.free_list.free_pages(self.page_bytes, usize::MAX).len() + beyond
    }

    fn run(&mut self, step: Result<usize, usize>) {
        match step {
            Ok(units) => {
                let bytes = units * ALIGN_BYTES;
                let free_pages = self.free_pages();
                let placed = self.allocate(bytes);
                let enough = bytes >= self.page_bytes && bytes.div_ceil(self.page_bytes) <= free_pages;
                assert!(placed || !enough, "{bytes} bytes refused with {free_pages} pages free");
            }
            Err(which) => self.free(which),
        }
        assert!(self.used_bytes() <= self.pages.limit_bytes());
        assert!(self.pages.reserved_bytes() <= self.pages.limit_bytes());
    }

    fn free_all(&mut self) {
        while !self.blocks.is_empty() {
            self.free(0);
        }
    }
}

/// Steps of a program: `Ok` allocates so many units, and `Err` frees one of the blocks.
fn steps() -> impl Strategy<Value = Vec<Result<usize, usize>>> {
    let units = prop_oneof![1usize..16, 1usize..80, Just(16), Just(32), Just(48)];
    let step = prop_oneof![units.prop_map(Ok), (0usize..64).prop_map(Err)];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #[test]
    fn blocks_never_overlap_and_large_ones_fail_only_if_too_few_pages_are_free(
        limit in 1usize..PAGES,
        steps in steps(),
    ) {
        let mut model = Model::new(limit);
        steps.into_iter().for_each(|step| model.run(step));
        model.free_all();
        model.pages.release(&*model.engine);
        prop_assert_eq!(model.pages.reserved_bytes(), 0);
        model.engine.map(Tier::Device, limit * model.page_bytes).expect("all pages came back");
    }

    #[test]
    fn blocks_that_fit_together_fit_whatever_was_allocated_before(
        limit in 1usize..PAGES,
        before in steps(),
        units in prop::collection::vec(1usize..60, 1..12),
    ) {
        let mut model = Model::new(limit);
        before.into_iter().for_each(|step| model.run(step));
        model.free_all();
        let sizes = || units.iter().map(|units| units * ALIGN_BYTES);
        let fits = sizes().all(|bytes| model.allocate(bytes));
        prop_assert_eq!(fits, sizes().sum::<usize>() <= model.pages.limit_bytes());
    }

    #[test]
    fn a_loop_maps_nothing_in_the_end(limit in 1usize..PAGES, body in steps()) {
        let mut model = Model::new(limit);
        let rounds: Vec<u64> = (0..10)
            .map(|_| {
                body.iter().for_each(|&step| model.run(step));
                model.free_all();
                let mapped = model.pages.mapped_pages();
                mapped - std::mem::replace(&mut model.mapped_before, mapped)
            })
            .collect();
        prop_assert_eq!(&rounds[8..], &[0, 0], "{:?}", rounds);
    }
}

#[test]
fn planned_pages_are_taken_if_all_are_free() {
    let mut model = Model::new(6);
    let page_bytes = model.page_bytes;
    let engine = model.engine.clone();
    let runs = |pages: &[u32]| crate::pool::memory::views::runs(pages);
    let take = |arena: &mut Pages, pages: &[u32], bytes: usize| {
        let placed = arena.allocate_on(&*engine, &runs(pages), bytes).expect("nothing fails");
        placed.map(|(block, _)| block)
    };
    let scattered = take(&mut model.pages, &[1, 4], page_bytes + 256).expect("both are free");
    assert_eq!((scattered.bytes, model.pages.mapped_pages()), (2 * page_bytes, 2));
    assert!(model.pages.is_on(scattered, &runs(&[1, 4])) && !model.pages.is_on(scattered, &runs(&[1, 5])));
    assert_eq!(take(&mut model.pages, &[4, 5], page_bytes), None, "one is in use");
    assert_eq!(take(&mut model.pages, &[5, 6], page_bytes), None, "there are six");
    assert_eq!(take(&mut model.pages, &[5], page_bytes + 256), None, "they are too few");
    let neighbours = take(&mut model.pages, &[2, 3], page_bytes).expect("both are free");
    assert!(model.pages.is_on(neighbours, &runs(&[2, 3])));
    model.pages.free(scattered, PendingWork::default());
    assert_eq!(take(&mut model.pages, &[1, 4], 2 * page_bytes), Some(scattered), "the view is remembered");
    assert_eq!(model.pages.mapped_pages(), 4);
}

#[test]
fn a_page_comes_with_the_work_on_it_and_not_on_its_neighbours() {
    let mut model = Model::new(2);
    let page_bytes = model.page_bytes;
    let engine = model.engine.clone();
    let blocks = [0, 1].map(|_| {
        model.pages.allocate(&*engine, page_bytes, ROOM).expect("nothing fails").expect("there is room").0
    });
    let work = |sequence| PendingWork::default().with(Mark { lane: Lane::Offload, sequence });
    // The two become one free range.
    model.pages.free(blocks[0], work(1));
    model.pages.free(blocks[1], work(9));
    let first =
        model.pages.allocate_at(&*engine, &BlockPlacement::At(0), page_bytes, ROOM).expect("nothing fails");
    assert_eq!(first.map(|(_, pending)| pending), Some(work(1)));
}

#[test]
fn free_pages_in_pieces_make_one_block() {
    let mut model = Model::new(5);
    let page_bytes = model.page_bytes;
    (0..5).for_each(|_| assert!(model.allocate(page_bytes)));
    // The second and the fourth, which are no neighbours.
    model.free(1);
    model.free(3);
    assert_eq!(model.pages.mapped_pages(), 5);
    assert!(model.allocate(2 * page_bytes), "two pages are free");
    assert_eq!(model.pages.mapped_pages(), 7);
    assert!(!model.allocate(ALIGN_BYTES));
    let last = model.blocks.len() - 1;
    model.free(last);
    assert!(model.allocate(page_bytes + 1024));
    assert_eq!(model.pages.mapped_pages(), 7, "the view is remembered");
    model.free_all();
}
