//! Masks, one bit an element. They are not in the paper, whose masks are those of rectifiers.

use super::Codec;
use crate::op::{Encoding, Reads};

pub const CODEC: Codec = Codec {
    lossless: true,
    serves: Reads::Values,
    encoding: |origin, _| Some(Encoding::Bools).filter(|encoding| encoding.takes(origin.view.dtype)),
};
