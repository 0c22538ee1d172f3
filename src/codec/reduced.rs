//! Delayed precision reduction (section 4.3), which loses bits: after their last use in the forward pass floats are kept in a
//! format of fewer bits. No value of the forward pass is touched.

use super::Codec;
use crate::op::{Encoding, Reads};

pub const CODEC: Codec = Codec {
    lossless: false,
    serves: Reads::Values,
    encoding: |origin, format| {
        Some(Encoding::Reduced(format)).filter(|encoding| encoding.takes(origin.view.dtype))
    },
};
