//! Pages: addresses for views of them, and sets of physical ones, for engines that map by page.

/// Addresses of pages that are reserved at a time for views, as a multiple of the pages of the budget. A view is remembered
/// until its addresses are used again, and a loop whose views are all remembered maps nothing.
const VIEW_ADDRESSES_PER_PAGE: usize = 24;
/// At most this many addresses of pages are reserved at a time, unless that is less than twice the budget. Linux allows a
/// process 65,530 mappings, and each page may be one.
const MAX_VIEW_ADDRESSES: usize = 32_768;

/// How many pages' addresses are reserved at a time for views of so many pages.
pub(crate) fn view_addresses(pages: usize) -> usize {
    (VIEW_ADDRESSES_PER_PAGE * pages).min(MAX_VIEW_ADDRESSES.max(2 * pages))
}

/// A set of physical pages, identified by numbers.
#[derive(Debug, Default)]
pub(super) struct PageSet {
    is_in: Vec<bool>,
    len: usize,
}

impl PageSet {
    /// The number of pages in the set.
    #[cfg_attr(not(all(feature = "host", target_os = "linux")), allow(dead_code))]
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many of these pages are not in the set.
    pub fn missing(&self, pages: &[u32]) -> usize {
        pages.iter().filter(|&&page| !self.is_in.get(page as usize).copied().unwrap_or(false)).count()
    }

    /// Adds pages and returns how many were not in the set.
    pub fn insert(&mut self, pages: &[u32]) -> usize {
        let missing = self.missing(pages);
        for &page in pages {
            let end = page as usize + 1;
            self.is_in.resize(self.is_in.len().max(end), false);
            self.is_in[page as usize] = true;
        }
        self.len += missing;
        missing
    }

    /// Removes pages and returns how many were in the set.
    pub fn remove(&mut self, pages: &[u32]) -> usize {
        let there = pages.len() - self.missing(pages);
        for &page in pages {
            if let Some(is_there) = self.is_in.get_mut(page as usize) {
                *is_there = false;
            }
        }
        self.len -= there;
        there
    }
}

/// Runs of neighbouring pages: the index of the first page of each in the list, and the length.
#[cfg_attr(not(all(feature = "host", target_os = "linux")), allow(dead_code))]
pub(super) fn runs(pages: &[u32]) -> impl Iterator<Item = (usize, usize)> {
    let mut begin = 0;
    std::iter::from_fn(move || {
        let first = *pages.get(begin)?;
        let same = |(place, &page): (usize, &u32)| page as usize == first as usize + place;
        let count =
            pages[begin..].iter().enumerate().take_while(|&(place, page)| same((place, page))).count();
        begin += count;
        Some((begin - count, count))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_counts_what_changes() {
        let mut set = PageSet::default();
        assert_eq!((set.insert(&[3, 1]), set.insert(&[1, 2])), (2, 1));
        assert_eq!((set.missing(&[0, 1, 2, 3, 9]), set.remove(&[2, 9]), set.len()), (2, 1, 2));
        assert_eq!(set.missing(&[1, 2]), 1);
    }

    #[test]
    fn neighbours_are_joined() {
        assert_eq!(runs(&[4, 5, 6, 2, 3, 9]).collect::<Vec<_>>(), [(0, 3), (3, 2), (5, 1)]);
        assert_eq!(runs(&[]).count(), 0);
    }
}
