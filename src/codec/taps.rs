//! The map from a max-pool's outputs to its inputs (section 4.1), in as many bits as its window has places for: four for
//! windows of up to 4x4, not 32 or 64.

use super::Codec;
use crate::op::{Encoding, Op, Reads, Taps};

pub const CODEC: Codec = Codec {
    lossless: true,
    serves: Reads::Values,
    encoding: |origin, _| {
        let (Op::MaxPool2d { pool, .. }, Some(input), 1) = (origin.op, origin.input, origin.place) else {
            return None;
        };
        let (read, made) = (input.shape(), origin.view.shape());
        Some(Encoding::Taps(Taps { pool, width: read[3], pooled: [made[2], made[3]] }))
    },
};
