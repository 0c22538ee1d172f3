//! Floats and integers of any size, by how far they are from the least of their row, in byte planes that are packed to the bits they
//! need. Not in the paper. What that comes to is counted while the iteration is logged; what does not fit into the room for it, a
//! 32nd more, is kept in the host tier. Of floats mostly exponents are alike, so little is saved of what has a long mantissa.

use super::Codec;
use crate::op::{Encoding, Planes, Reads};

/// The most that an encoded form may take of what the values do, as a fraction.
const MOST: (usize, usize) = (15, 16);

pub const CODEC: Codec = Codec {
    lossless: true,
    serves: Reads::Values,
    encoding: |origin, _| {
        let (count, dtype) = (origin.view.shape().count(), origin.view.dtype);
        let encoding =
            Encoding::Planes(Planes::with_room_for(origin.counts.units?, count, dtype.size_bytes()));
        let is_small = MOST.1 * encoding.size_bytes(count) <= MOST.0 * origin.view.size_bytes();
        (is_small && encoding.takes(dtype)).then_some(encoding)
    },
};
