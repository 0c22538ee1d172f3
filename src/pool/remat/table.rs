//! A table of records by place. Places are reused, and no record moves when the table grows.

use std::ops::{Index, IndexMut};

/// Records that are inserted and removed. The table consists of pages, so that growing copies nothing and no more than a page is
/// unused.
#[derive(Debug)]
pub struct Table<T> {
    pages: Vec<Box<[Option<T>]>>,
    vacant: Vec<u32>,
    /// The number of places that were used since the table was last empty.
    used: u32,
}

/// The number of places of a page, a power of two.
const PAGE: usize = 512;

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { pages: Vec::new(), vacant: Vec::new(), used: 0 }
    }
}

impl<T> Table<T> {
    /// Inserts a record and returns its place.
    #[inline]
    pub fn insert(&mut self, record: T) -> u32 {
        let place = self.vacant.pop().unwrap_or_else(|| {
            if self.used as usize == self.pages.len() * PAGE {
                self.pages.push((0..PAGE).map(|_| None).collect());
            }
            self.used += 1;
            self.used - 1
        });
        *self.slot(place) = Some(record);
        place
    }

    /// Removes the record at a place.
    ///
    /// # Panics
    /// Panics if there is none.
    #[inline]
    pub fn remove(&mut self, place: u32) -> T {
        let record = self.slot(place).take().expect("a record is removed once");
        self.vacate(place);
        record
    }

    /// Drops the record at a place where it lies.
    #[inline]
    pub fn discard(&mut self, place: u32) {
        debug_assert!(self.get(place).is_some(), "a record is removed once");
        *self.slot(place) = None;
        self.vacate(place);
    }

    fn vacate(&mut self, place: u32) {
        self.vacant.push(place);
        // An empty table gives places as a new one does, so that what ran before has no influence on what comes.
        if self.len() == 0 {
            self.vacant.clear();
            self.used = 0;
        }
    }

    /// The record at a place, if there is one.
    pub fn get(&self, place: u32) -> Option<&T> {
        self.pages[place as usize / PAGE][place as usize % PAGE].as_ref()
    }

    /// The number of records.
    pub fn len(&self) -> usize {
        self.used as usize - self.vacant.len()
    }

    /// Every record with its place.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..self.used).filter_map(|place| Some((place, self.get(place)?)))
    }

    fn slot(&mut self, place: u32) -> &mut Option<T> {
        &mut self.pages[place as usize / PAGE][place as usize % PAGE]
    }
}

impl<T> Index<u32> for Table<T> {
    type Output = T;

    fn index(&self, place: u32) -> &T {
        self.get(place).expect("the record exists")
    }
}

impl<T> IndexMut<u32> for Table<T> {
    fn index_mut(&mut self, place: u32) -> &mut T {
        self.slot(place).as_mut().expect("the record exists")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_table_gives_places_as_a_new_one() {
        let mut table = Table::default();
        let mut places = || -> Vec<u32> {
            let places: Vec<u32> = (0..5).map(|number| table.insert(number)).collect();
            for at in [3, 0, 4, 1, 2] {
                table.remove(places[at]);
            }
            places
        };
        assert_eq!(places(), [0, 1, 2, 3, 4]);
        assert_eq!(places(), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn places_are_reused_and_records_stay_where_they_are() {
        let mut table = Table::default();
        let places: Vec<u32> = (0..3 * PAGE).map(|number| table.insert(number)).collect();
        assert_eq!(table.len(), 3 * PAGE);
        for &place in places.iter().step_by(2) {
            assert_eq!(table.remove(place), place as usize);
        }
        assert_eq!(table.len(), 3 * PAGE / 2);
        assert!(table.get(0).is_none() && table[1] == 1);
        let again: Vec<u32> = (0..3 * PAGE / 2).map(|_| table.insert(usize::MAX)).collect();
        assert!(again.iter().all(|place| (*place as usize) < 3 * PAGE));
        assert_eq!(table.iter().filter(|(_, number)| **number == usize::MAX).count(), again.len());
    }
}
