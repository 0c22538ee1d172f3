//! Addresses behind which pages from here and there were put side by side. Pure: an engine does the mapping.
//!
//! A *view* is remembered when its block is freed: as soon as all its pages are free again, it serves a request of the same
//! size without any mapping. So a page may be seen by many views, of which one at a time is in use, and a loop that asks
//! for the same sizes over and over maps nothing from some iteration on. Addresses are plentiful, and used again in turn.
//!
//! A view carries the work that was submitted through its addresses, for when they are mapped anew.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::pool::submit::Pending;

/// The views of one tier, by address, in pages. Addresses come in ranges of equal size.
#[derive(Debug)]
pub struct Views {
    range_pages: usize,
    ranges: usize,
    /// Where the next view goes, if there is room.
    cursor: usize,
    /// By first address. They do not overlap.
    views: BTreeMap<usize, View>,
    /// Those not in use, by their pages.
    unused: HashMap<Runs, usize>,
    /// Work through addresses of views that are forgotten, and of which a part was not mapped anew since.
    forgotten: Pending,
}

#[derive(Debug)]
struct View {
    runs: Runs,
    count: usize,
    touched: Pending,
    in_use: bool,
}

/// Pages, joined where they are neighbours.
pub type Runs = Arc<[Range<u32>]>;

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
    /// None, and no addresses. Ranges have so many pages, as many as any view at the least.
    pub fn new(range_pages: usize) -> Self {
        Views {
            range_pages,
            ranges: 0,
            cursor: 0,
            views: BTreeMap::new(),
            unused: HashMap::new(),
            forgotten: Pending::default(),
        }
    }

    /// Ranges of addresses that there must be.
    pub fn ranges(&self) -> usize {
        self.ranges
    }

    /// The first address of the view of these pages, none of them in use, if it is remembered. It is in use from now on.
    pub fn find(&mut self, pages: &Runs) -> Option<usize> {
        let first = self.unused.remove(pages)?;
        self.get(first).in_use = true;
        Some(first)
    }

    /// A view of these pages, in use: its first address, and the work to be done before it is mapped. Other views there are
    /// forgotten.
    pub fn add(&mut self, pages: &Runs) -> (usize, Pending) {
        let count = pages.iter().map(|run| run.len()).sum();
        let found = self.gap(self.cursor, count).or_else(|| self.gap(0, count));
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

    /// The pages of a view, joined where they are neighbours.
    pub fn runs(&self, first: usize) -> &Runs {
        &self.views[&first].runs
    }

    /// A view is not in use any more; `pending` is the work through it.
    pub fn free(&mut self, first: usize, pending: Pending) {
        let view = self.get(first);
        (view.in_use, view.touched) = (false, view.touched.and(pending));
        let runs = view.runs.clone();
        self.unused.insert(runs, first);
    }

    /// Forgets a view in use, since its mapping failed.
    pub fn discard(&mut self, first: usize) {
        self.free(first, Pending::default());
        self.forgotten = self.forgotten.and(self.views[&first].touched);
        self.forget(first);
    }

    /// Forgets all views that are not in use. All work through them is done.
    pub fn clear(&mut self) {
        self.unused.clear();
        self.views.retain(|_, view| view.in_use);
        self.forgotten = Pending::default();
    }

    fn get(&mut self, first: usize) -> &mut View {
        self.views.get_mut(&first).expect("a view is there until it is forgotten")
    }

    fn forget(&mut self, first: usize) -> View {
        let view = self.views.remove(&first).expect("a view is forgotten once");
        debug_assert!(!view.in_use, "a view in use is not forgotten");
        self.unused.remove(&view.runs);
        view
    }

    /// So many addresses in one range, at `at` or after it, where nothing is in use.
    fn gap(&self, mut at: usize, count: usize) -> Option<usize> {
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
