//! Where the parts of a sparse form lie: values that are not zero, side by side, and which of each row they are.

/// Values of a row.
pub const ROW: usize = 256;
/// Rows whose beginnings are counted together.
pub const PIECE: usize = 128;

/// Values of which few are not zero (all bits clear), in rows of [`ROW`]. There is room for so many; a row that finds none is
/// kept as it is, in memory beside the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sparse {
    /// Values that there is room for in a row, on the average.
    pub per_row: u16,
    /// Bytes of a value: 2, 4 or 8.
    pub width: u8,
}

/// The parts of a form, in words from its beginning: first a word for each row, how many values the rows before it in its
/// piece have; then a word for each piece, how many all before have, and one for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SparseParts {
    /// Rows, the last of which may be shorter.
    pub rows: usize,
    /// Pieces of rows.
    pub pieces: usize,
    /// Values that there is room for.
    pub capacity: usize,
    /// Where it says which values of a row are kept.
    pub marks: usize,
    /// Where these are.
    pub values: usize,
    /// Words in all.
    pub words: usize,
}

impl Sparse {
    /// With room for `nonzeros` of `count` values of `width` bytes, and an eighth more.
    pub fn with_room_for(nonzeros: usize, count: usize, width: usize) -> Self {
        let expected = (ROW * nonzeros).div_ceil(count.max(1));
        let per_row = (expected + expected.div_ceil(8)).clamp(1, ROW);
        Sparse { per_row: per_row as u16, width: width as u8 }
    }

    /// Whether a byte for each value says which of its row it is, as in the paper; otherwise a bit for each of all values does,
    /// which takes less where more than one of eight is kept.
    pub fn has_columns(&self) -> bool {
        usize::from(self.per_row) < ROW / 8
    }

    /// Where the parts of so many values are.
    pub fn parts(&self, count: usize) -> SparseParts {
        let rows = count.div_ceil(ROW);
        let pieces = rows.div_ceil(PIECE);
        let capacity = rows * usize::from(self.per_row);
        let marks = rows + pieces + 1;
        let mark_words = if self.has_columns() { capacity.div_ceil(4) } else { rows * (ROW / 32) };
        // Values of eight bytes begin at multiples of that.
        let values = (marks + mark_words).next_multiple_of(2);
        let words = values + (capacity * usize::from(self.width)).div_ceil(size_of::<u32>());
        SparseParts { rows, pieces, capacity, marks, values, words }
    }

    /// Rows that find room whatever is in them.
    pub fn certain_rows(&self, count: usize) -> usize {
        self.parts(count).capacity / ROW
    }

    /// Values in the rows that may find none.
    pub fn uncertain(&self, count: usize) -> usize {
        (count.div_ceil(ROW) - self.certain_rows(count)) * ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_of_two_ways_says_which_values_are_kept() {
        for (nonzeros, has_columns) in [(0, true), (1600, true), (2000, false), (16384, false)] {
            let sparse = Sparse::with_room_for(nonzeros, 16384, 4);
            assert_eq!(sparse.has_columns(), has_columns, "{nonzeros}");
            assert!(sparse.parts(16384).capacity >= nonzeros);
        }
    }

    #[test]
    fn parts_do_not_overlap() {
        for count in [0, 1, 255, 256, 257, 100_000] {
            for per_row in [1, 31, 32, 100, 256] {
                for width in [2, 4, 8] {
                    let sparse = Sparse { per_row, width };
                    let SparseParts { rows, pieces, capacity, marks, values, words } = sparse.parts(count);
                    assert!(marks > rows + pieces && values >= marks && values % 2 == 0);
                    assert!((words - values) * 4 >= capacity * usize::from(width));
                    assert!(sparse.uncertain(count) + sparse.certain_rows(count) * ROW >= count);
                }
            }
        }
    }
}
