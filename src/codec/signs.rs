//! Binarize (section 4.1): where all coming uses read no more than whether a value is greater than zero, as the
//! gradient of a rectifier does, one bit of each value is kept. That gradient reads the bits. If the values themselves
//! are asked for after all, the op that made them runs again.

use super::Codec;
use crate::op::{Encoding, Reads};

pub const CODEC: Codec = Codec {
    lossless: true,
    serves: Reads::Signs,
    encoding: |origin, _| Some(Encoding::Signs).filter(|encoding| encoding.takes(origin.view.dtype)),
};
