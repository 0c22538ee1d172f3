//! Floats and integers of any size, by their distance from the least value of their row. Each byte of the distances is
//! a plane, packed to the bits that the largest of the row needs. This is not in the paper.
//!
//! Integers take the bits of their range in a row. Floats lose what their exponents share: of normal numbers in 32 bits
//! 4 of these, in 16 bits (BF16) 4 too. So little is saved of floats with a long mantissa. A value whose planes take
//! more than 15/16 of its memory stays as it is, since encoding and decoding are two passes over it. The size is
//! counted while the iteration is logged. Rows that do not fit into the capacity, which is a 32nd larger, are kept in
//! the host tier.

use super::{Codec, worthwhile};
use crate::op::{Encoding, Planes, Reads};

pub const CODEC: Codec = Codec {
    lossless: true,
    serves: Reads::Values,
    encoding: |origin, _| {
        let (count, dtype) = (origin.view.shape().count(), origin.view.dtype);
        let planes = Planes::with_room_for(origin.counts.units?, count, dtype.size_bytes());
        worthwhile(Encoding::Planes(planes), origin, 15.0 / 16.0)
    },
};
