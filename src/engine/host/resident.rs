//! How much of the page memory a process is said to hold. A page of a file counts once for each address at which it was touched, so
//! that a process with many views looks many times as large as it is.
//!
//! Here it is known which addresses work has touched, page by page, and those that were not touched for long are forgotten: their
//! bytes stay in the file, and who touches them again finds them.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::ptr;
use std::sync::Mutex;

use rustix::mm::{Advice, madvise};

use crate::engine::lanes::lock;
use crate::engine::{Span, Tier};

/// Addresses that may count, in eighths of the pages there are: more than there are, since a loop touches some again before it comes
/// to the others.
const MAX_EIGHTHS: usize = 10;

/// Page memory as the process holds it. Told of by whoever runs a piece of work, in the order in which it runs.
#[derive(Debug)]
pub(super) struct Resident {
    page_bytes: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Reserved addresses: where each range begins, and the pages in it.
    ranges: Vec<(u64, Vec<PageState>)>,
    /// Those that count, by range and place, by when they were first touched or were last passed by.
    counted: VecDeque<(u32, u32)>,
    /// Pages there are.
    pages: usize,
}

/// Addresses of one page.
#[derive(Debug, Clone, Copy, Default)]
struct PageState {
    counts: bool,
    /// Since it was last passed by.
    touched: bool,
}

impl Resident {
    pub fn new(page_bytes: usize) -> Self {
        Resident { page_bytes, state: Mutex::default() }
    }

    /// Addresses that pages may be mapped at from now on.
    pub fn add(&self, range: Span) {
        let pages_of_range = vec![PageState::default(); range.bytes / self.page_bytes];
        lock(&self.state).ranges.push((range.address, pages_of_range));
    }

    /// How many pages there are from now on.
    pub fn set_pages(&self, pages: usize) {
        lock(&self.state).pages = pages;
    }

    /// Work is about to touch these. What has not been touched for long is forgotten.
    pub fn touch(&self, spans: impl Iterator<Item = Span>) {
        let mut state = lock(&self.state);
        for span in spans.filter(|span| span.tier == Tier::Device) {
            state.touch(span, self.page_bytes);
        }
        while let Some(address) = state.forget(self.page_bytes) {
            let address = ptr::with_exposed_provenance_mut::<c_void>(address as usize);
            // SAFETY: the address is reserved, and what is mapped there is a shared file, which keeps its bytes: work that touches them
            // meanwhile finds them there. What fails only leaves the process looking as large as it did.
            let _ = unsafe { madvise(address, self.page_bytes, Advice::LinuxDontNeed) };
        }
    }
}

impl State {
    fn touch(&mut self, span: Span, page_bytes: usize) {
        let inside = |&(begin, ref pages_of_range): &(u64, Vec<PageState>)| {
            (begin..begin + (pages_of_range.len() * page_bytes) as u64).contains(&span.address)
        };
        let Some(range) = self.ranges.iter().position(inside) else { return };
        let (begin, pages_of_range) = &mut self.ranges[range];
        let first = (span.address - *begin) as usize;
        let places = first / page_bytes..(first + span.bytes).div_ceil(page_bytes);
        for (place, page) in places.clone().zip(&mut pages_of_range[places]) {
            if !page.counts {
                self.counted.push_back((range as u32, place as u32));
            }
            *page = PageState { counts: true, touched: true };
        }
    }

    /// The address of one that counts no more, if too many do: the first that was not touched since it was last passed by.
    fn forget(&mut self, page_bytes: usize) -> Option<u64> {
        if self.counted.len() <= self.pages * MAX_EIGHTHS / 8 {
            return None;
        }
        loop {
            let (range, place) = self.counted.pop_front()?;
            let (begin, pages_of_range) = &mut self.ranges[range as usize];
            let page = &mut pages_of_range[place as usize];
            if !std::mem::take(&mut page.touched) {
                page.counts = false;
                return Some(*begin + (place as usize * page_bytes) as u64);
            }
            self.counted.push_back((range, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(place: usize, count: usize) -> Span {
        Span { tier: Tier::Device, address: 1000 + place as u64 * 10, bytes: count * 10 }
    }

    /// Four pages at twenty addresses.
    fn state() -> State {
        State { ranges: vec![(1000, vec![PageState::default(); 20])], pages: 4, ..State::default() }
    }

    #[test]
    fn what_was_not_touched_for_the_longest_is_forgotten() {
        let mut state = state();
        state.touch(span(0, 5), 10);
        assert_eq!(state.forget(10), None);
        state.touch(span(7, 1), 10);
        assert_eq!(state.forget(10), Some(1000), "all were touched: the first");
        assert_eq!(state.forget(10), None);
        state.touch(span(1, 1), 10);
        state.touch(span(9, 1), 10);
        assert_eq!(state.forget(10), Some(1020), "the first that was not touched again");
        state.touch(Span { address: 1400, ..span(0, 1) }, 10);
        assert_eq!((state.forget(10), state.counted.len()), (None, 5));
    }

    #[test]
    fn a_part_of_a_page_counts_as_one() {
        let mut state = state();
        state.touch(Span { address: 1015, bytes: 6, ..span(0, 1) }, 10);
        assert_eq!(state.counted, [(0, 1), (0, 2)]);
    }
}
