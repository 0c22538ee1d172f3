//! Delayed precision reduction (section 4.3), which loses bits: after its last use in the forward pass, a float is kept
//! in a format of fewer bits. No value of the forward pass is touched.
//!
//! Formats whose name ends in `_scaled` have a power of two for each 96 values, which brings the largest finite one of
//! them to the format's highest binade. No decoded value is larger than that one. With `m` bits of mantissa the error
//! is at most `2^-m` of a value, until values are so much smaller than the largest of their block that the format has
//! no places left for them.

use super::Codec;
use crate::op::{Encoding, Reads};

pub const CODEC: Codec = Codec {
    lossless: false,
    serves: Reads::Values,
    encoding: |origin, format| {
        Some(Encoding::Reduced(format)).filter(|encoding| encoding.takes(origin.view.dtype))
    },
};
