//! Encoded forms whose rows take as much room as their values need, side by side: [`Sparse`] and [`Planes`].
//!
//! How large such a form is follows from its values, and is known only after encoding. The pool does not wait for that.
//! A form has a capacity that is chosen when the iteration is planned, and a row that finds no room is kept as it is in
//! a block of the host tier, the overflow, which holds the worst case. The same kernels write and read it. So a form is
//! right whatever the values are, and values that were not foreseen cost time alone.
//!
//! Both kinds share one machinery (`kernels/form.cuh`, `op/lower/form.rs`): where rows begin, which rows overflow,
//! which rows are decoded alone. They differ in how a row is counted and written. [`Tally`] counts what a form of some
//! values would take, while an iteration is logged: zeros of what rectifiers and max-pools make, and planes of any
//! output of 1,024 values and more. The planner reads the counts, which is the one place where the pool waits for data.
//! On a simulation, which has no values, `Config::sparsity` and `Config::packed` state the counts. Where the overflow
//! would leave the host tier less room than plans need, or nothing may be offloaded, values stay dense.

use serde::{Deserialize, Serialize};

/// Values of a row.
pub const ROW: usize = 256;
/// Rows whose beginnings are counted together.
pub const PIECE: usize = 128;

/// What is counted of values, so that a form has room for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tally {
    /// How many are not zero (all bits clear).
    Nonzeros,
    /// How many units [`Planes`] of them take.
    Units,
}

/// What was counted of values, as far as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// [`Tally::Nonzeros`].
    pub nonzeros: Option<usize>,
    /// [`Tally::Units`].
    pub units: Option<usize>,
}

impl Counts {
    /// Where a count goes.
    pub fn of(&mut self, tally: Tally) -> &mut Option<usize> {
        match tally {
            Tally::Nonzeros => &mut self.nonzeros,
            Tally::Units => &mut self.units,
        }
    }
}

/// The parts of a form, in words from its beginning: first a word for each row, how much the rows before it in its piece take; then a
/// word for each piece, how much all before take, and one for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormParts {
    /// Rows, the last of which may be shorter.
    pub rows: usize,
    /// Rows that find room whatever is in them.
    pub certain_rows: usize,
    /// How much there is room for.
    pub capacity: usize,
    /// Where it says what each row is like.
    pub marks: usize,
    /// Where there is room for values.
    pub values: usize,
    /// Words in all.
    pub words: usize,
}

impl FormParts {
    /// Of a form that has room for `capacity` times `unit_bytes`, of which a row takes no more than `most`.
    fn new(rows: usize, capacity: usize, most: usize, mark_words: usize, unit_bytes: usize) -> Self {
        let marks = rows + rows.div_ceil(PIECE) + 1;
        // Values of eight bytes begin at multiples of that.
        let values = (marks + mark_words).next_multiple_of(2);
        let words = values + (capacity * unit_bytes).div_ceil(size_of::<u32>());
        FormParts { rows, certain_rows: (capacity / most).min(rows), capacity, marks, values, words }
    }

    /// Values in the rows that may find no room.
    pub fn uncertain(&self) -> usize {
        (self.rows - self.certain_rows) * ROW
    }
}

/// Values of which few are not zero (all bits clear), in rows of [`ROW`], without the zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sparse {
    /// Values that there is room for in a row, on the average.
    pub per_row: u16,
    /// Bytes of a value: 2, 4 or 8.
    pub width: u8,
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
    pub fn parts(&self, count: usize) -> FormParts {
        let rows = count.div_ceil(ROW);
        let capacity = rows * usize::from(self.per_row);
        let mark_words = if self.has_columns() { capacity.div_ceil(4) } else { rows * (ROW / 32) };
        FormParts::new(rows, capacity, ROW, mark_words, usize::from(self.width))
    }
}

/// Values of any kind by how far they are from the least of their row of [`ROW`], in planes: a byte of each value, which takes as
/// many bits as the largest of the row's needs. Floats begin with their exponent and end with their sign, so that those which are
/// about as large are near to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Planes {
    /// Units that there is room for in the rows of a piece; a unit is a bit of each value of a row.
    pub per_piece: u16,
    /// Bytes of a value: 1, 2, 4 or 8.
    pub width: u8,
}

impl Planes {
    /// With room for so many units of `count` values of `width` bytes, and a 32nd more.
    pub fn with_room_for(units: usize, count: usize, width: usize) -> Self {
        let expected = (PIECE * units).div_ceil(count.div_ceil(ROW).max(1));
        let per_piece = (expected + expected.div_ceil(32)).clamp(1, PIECE * 8 * width);
        Planes { per_piece: per_piece as u16, width: width as u8 }
    }

    /// Units of `count` values that take such a part, 0 to 1, of their memory.
    pub fn units_of(part: f64, count: usize, width: usize) -> usize {
        (part.clamp(0.0, 1.0) * (count.div_ceil(ROW) * 8 * width) as f64).ceil() as usize
    }

    /// Where the parts of so many values are. Of each row it says how many bits its planes take, and its least value.
    pub fn parts(&self, count: usize) -> FormParts {
        let (rows, width) = (count.div_ceil(ROW), usize::from(self.width));
        let capacity = (rows * usize::from(self.per_piece)).div_ceil(PIECE);
        let mark_words = rows * (1 + width.div_ceil(size_of::<u32>()));
        FormParts::new(rows, capacity, 8 * width, mark_words, ROW / 8)
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
    fn planes_have_room_for_what_was_counted() {
        for (units, count, width) in [(0, 0, 1), (64, 256, 8), (12_345, 123_456, 4), (3, 100_000, 2)] {
            let parts = Planes::with_room_for(units, count, width).parts(count);
            assert!(parts.capacity >= units, "{units}");
            assert!(parts.capacity <= units + units / 16 + parts.rows.div_ceil(PIECE) + 1, "{units}");
        }
        assert_eq!(Planes::units_of(0.5, 1000, 4), 64);
    }

    #[test]
    fn parts_do_not_overlap() {
        for count in [0, 1, 255, 256, 257, 100_000] {
            for room in [1, 31, 32, 100, 256] {
                for width in [1, 2, 4, 8] {
                    let (sparse, planes) =
                        (Sparse { per_row: room, width }, Planes { per_piece: 16 * room, width });
                    let unit_bytes = [usize::from(width), ROW / 8];
                    for (parts, unit_bytes) in
                        [sparse.parts(count), planes.parts(count)].into_iter().zip(unit_bytes)
                    {
                        let FormParts { rows, certain_rows, capacity, marks, values, words } = parts;
                        assert!(marks > rows + rows.div_ceil(PIECE) && values >= marks && values % 2 == 0);
                        assert!((words - values) * 4 >= capacity * unit_bytes);
                        assert!(parts.uncertain() + certain_rows * ROW >= count);
                    }
                }
            }
        }
    }
}
