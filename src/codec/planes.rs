//! Floats and integers of any size, by how far they are from the least of their row, in byte planes that are packed to the bits they
//! need. Not in the paper. What that comes to is counted while the iteration is logged; what does not fit into the room for it, a
//! 32nd more, is kept in the host tier. Of floats mostly exponents are alike, so little is saved of what has a long mantissa.

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
