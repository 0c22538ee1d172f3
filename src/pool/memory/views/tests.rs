//! Views, compared with a naive model that knows for every address the page that is mapped there and the work through it.

use proptest::prelude::*;

use super::*;
use crate::engine::{Lane, Mark};

/// A step of a program.
#[derive(Debug, Clone)]
enum Action {
    /// Takes `count` pages. If that needs a new view, `fails` tells whether its mapping fails.
    Take { count: usize, fails: bool },
    /// Frees one of its views.
    Free(usize),
}

fn steps() -> impl Strategy<Value = Vec<Action>> {
    let step = prop_oneof![
        (1usize..7, prop::bool::weighted(0.1)).prop_map(|(count, fails)| Action::Take { count, fails }),
        (0usize..64).prop_map(Action::Free),
    ];
    prop::collection::vec(step, 1..200)
}

struct Model {
    range_pages: usize,
    /// The pages that no view in use has, in the order in which they were freed.
    free: Vec<u32>,
    /// For each address: its page, whether its view is in use, and the last work through it.
    addresses: Vec<(Option<u32>, bool, u64)>,
    /// The views in use, by first address and number of pages.
    in_use: Vec<(usize, usize)>,
    /// How much work was submitted.
    made: u64,
    /// How many requests a remembered view served.
    found: usize,
}

fn work(sequence: u64) -> PendingWork {
    PendingWork::default().with(Mark { lane: Lane::Compute, sequence })
}

impl Model {
    fn take(&mut self, views: &mut Views, count: usize, fails: bool) {
        if count > self.free.len() {
            return;
        }
        let free = self.free.clone();
        // Odd requests take pages as they were freed; even ones take the lowest, which repeat more often.
        let mut pages = free[..count].to_vec();
        if count.is_multiple_of(2) {
            pages = free.clone();
            pages.sort_unstable();
            pages.truncate(count);
        }
        let pages_in_runs = runs(&pages);
        let found = views.find(&pages_in_runs);
        self.found += usize::from(found.is_some());
        let first = found.unwrap_or_else(|| {
            let pages = &pages[..];
            let (first, after) = views.add(&pages_in_runs);
            self.addresses.resize(views.ranges() * self.range_pages, (None, false, 0));
            for (address, &page) in self.addresses[first..first + count].iter_mut().zip(pages) {
                assert!(!address.1, "two views in use at an address");
                assert_eq!(after.and(work(address.2)), after, "mapped under work that is still to run");
                *address = if fails { (None, false, address.2) } else { (Some(page), false, 0) };
            }
            first
        });
        assert_eq!(
            first / self.range_pages,
            (first + count - 1) / self.range_pages,
            "over the end of a range"
        );
        if found.is_none() && fails {
            return views.discard(first);
        }
        assert_eq!(views.runs(first).iter().cloned().flatten().collect::<Vec<u32>>(), pages);
        for (address, page) in self.addresses[first..first + count].iter_mut().zip(&pages) {
            assert_eq!((address.0, address.1), (Some(*page), false), "another page is mapped there");
            address.1 = true;
        }
        self.free.retain(|page| !pages.contains(page));
        self.in_use.push((first, count));
    }

    fn free(&mut self, views: &mut Views, which: usize) {
        if self.in_use.is_empty() {
            return;
        }
        let (first, count) = self.in_use.swap_remove(which % self.in_use.len());
        self.made += 1;
        views.free(first, work(self.made));
        for address in &mut self.addresses[first..first + count] {
            (address.1, address.2) = (false, self.made);
            self.free.extend(address.0);
        }
    }
}

proptest! {
    #[test]
    fn a_view_shows_its_pages_and_is_mapped_after_old_work(
        pages in 6usize..24,
        ranges in 1usize..4,
        steps in steps(),
    ) {
        let range_pages = pages * ranges;
        let mut views = Views::new(range_pages);
        let free = (0..pages as u32).collect();
        let mut model = Model { range_pages, free, addresses: Vec::new(), in_use: Vec::new(), made: 0, found: 0 };
        for step in steps {
            match step {
                Action::Take { count, fails } => model.take(&mut views, count, fails),
                Action::Free(which) => model.free(&mut views, which),
            }
        }
    }
}

#[test]
fn a_view_is_remembered_until_its_addresses_are_used_again() {
    let mut views = Views::new(6);
    let mut add = |pages: &[u32], sequence| {
        let (first, after) = views.add(&runs(pages));
        views.free(first, work(sequence));
        (first, after)
    };
    assert_eq!(add(&[0, 2], 1), (0, work(0)));
    assert_eq!(add(&[3, 4, 5], 2), (2, work(0)));
    // The range has six addresses.
    assert_eq!(add(&[1, 2, 3], 3), (0, work(2)));
    assert_eq!(views.find(&runs(&[0, 2])), None);
    assert_eq!(views.find(&runs(&[3, 4, 5])), None);
    assert_eq!(views.find(&runs(&[1, 2, 3])), Some(0));
    assert_eq!(views.find(&runs(&[1, 2, 3])), None, "it is in use");
    assert_eq!(views.runs(0).iter().map(ExactSizeIterator::len).collect::<Vec<_>>(), [3]);
}
