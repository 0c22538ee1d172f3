//! Views: addresses behind which pages from several places lie side by side. This module chooses the addresses; an engine does
//! the mapping.
//!
//! A *view* is remembered when its block is freed. When a later block takes the same pages, the view serves it without any
//! mapping. So a page can be in many views, of which at most one is in use, and a loop that asks for the same sizes in each
//! iteration soon maps nothing. Addresses are plentiful, and views take them in turn.
//!
//! A view knows the work that was submitted through its addresses. They are mapped anew only after that work.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::pool::submit::PendingWork;

/// The views of one tier. Addresses are counted in pages and come in ranges of equal size.
#[derive(Debug)]
pub struct Views {
    range_pages: usize,
    ranges: usize,
    /// Where the search for the next view's addresses begins.
    cursor: usize,
    /// All views by first address. They do not overlap.
    views: BTreeMap<usize, View>,
    /// The first addresses of the views that are not in use, by their pages.
    unused: HashMap<Runs, usize>,
    /// The work through those addresses of forgotten views that were not mapped anew since.
    forgotten: PendingWork,
}

#[derive(Debug)]
struct View {
    runs: Runs,
    /// The number of its pages.
    count: usize,
    /// The work that was submitted through it.
    touched: PendingWork,
    in_use: bool,
}

/// Pages, as ranges of neighbours.
pub type Runs = Arc<[Range<u32>]>;

/// Joins neighbouring pages into ranges.
pub fn runs(pages: &[u32]) -> Runs {
    let mut runs: Vec<Range<u32>> = Vec::new();
    for &page in pages {
        match runs.last_mut() {
            Some(run) if run.end == page => run.end += 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs.into()
}

impl Views {
    /// Starts without views and addresses. Each range will have `range_pages` pages, which is no less than any view has.
    pub fn new(range_pages: usize) -> Self {
        Views {
            range_pages,
            ranges: 0,
            cursor: 0,
            views: BTreeMap::new(),
            unused: HashMap::new(),
            forgotten: PendingWork::default(),
        }
    }

    /// The number of address ranges that must be reserved.
    pub fn ranges(&self) -> usize {
        self.ranges
    }

    /// Takes the remembered view of these pages into use, if there is one, and returns its first address. No other block may use
    /// the pages.
    pub fn find(&mut self, pages: &Runs) -> Option<usize> {
        let first = self.unused.remove(pages)?;
        self.get(first).in_use = true;
        Some(first)
    }

    /// Adds a view of these pages and takes it into use. Returns its first address, and the work that must be done before it is
    /// mapped. Older views at these addresses are forgotten.
    pub fn add(&mut self, pages: &Runs) -> (usize, PendingWork) {
        let count = pages.iter().map(|run| run.len()).sum();
        let found = self.free_addresses(self.cursor, count).or_else(|| self.free_addresses(0, count));
        let first = found.unwrap_or_else(|| {
            self.ranges += 1;
            (self.ranges - 1) * self.range_pages
        });
        self.cursor = first + count;
        let before = self.views.range(..first).next_back().filter(|(at, view)| *at + view.count > first);
        let replaced: Vec<usize> =
            before.into_iter().chain(self.views.range(first..first + count)).map(|(&at, _)| at).collect();
        let mut after = self.forgotten;
        for at in replaced {
            let view = self.forget(at);
            after = after.and(view.touched);
            if at < first || at + view.count > first + count {
                self.forgotten = self.forgotten.and(view.touched);
            }
        }
        self.views.insert(first, View { runs: pages.clone(), count, touched: after, in_use: true });
        (first, after)
    }

    /// The pages of a view.
    pub fn runs(&self, first: usize) -> &Runs {
        &self.views[&first].runs
    }

    /// Takes a view out of use; `pending` is the work that was submitted through it.
    pub fn free(&mut self, first: usize, pending: PendingWork) {
        let view = self.get(first);
        (view.in_use, view.touched) = (false, view.touched.and(pending));
        let runs = view.runs.clone();
        self.unused.insert(runs, first);
    }

    /// Forgets a view in use whose mapping failed.
    pub fn discard(&mut self, first: usize) {
        self.free(first, PendingWork::default());
        self.forgotten = self.forgotten.and(self.views[&first].touched);
        self.forget(first);
    }

    /// Forgets all views that are not in use. All work through them must be done.
    pub fn clear(&mut self) {
        self.unused.clear();
        self.views.retain(|_, view| view.in_use);
        self.forgotten = PendingWork::default();
    }

    fn get(&mut self, first: usize) -> &mut View {
        self.views.get_mut(&first).expect("a view exists until it is forgotten")
    }

    fn forget(&mut self, first: usize) -> View {
        let view = self.views.remove(&first).expect("a view is forgotten once");
        debug_assert!(!view.in_use, "a view in use is not forgotten");
        self.unused.remove(&view.runs);
        view
    }

    /// Finds `count` addresses in one range, at `at` or later, that no view in use has.
    fn free_addresses(&self, mut at: usize, count: usize) -> Option<usize> {
        loop {
            if at / self.range_pages != (at + count - 1) / self.range_pages {
                at = at.next_multiple_of(self.range_pages);
            }
            if at + count > self.ranges * self.range_pages {
                return None;
            }
            let mut before =
                self.views.range(..at + count).rev().take_while(|(first, view)| *first + view.count > at);
            match before.find(|(_, view)| view.in_use) {
                Some((first, view)) => at = first + view.count,
                None => return Some(at),
            }
        }
    }
}

#[cfg(test)]
mod tests;
