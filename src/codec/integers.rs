//! Small integers whose range follows from the op and its shapes: places along an axis, and bools that were converted.
//! They are not in the paper.

use super::Codec;
use crate::op::{Encoding, Op, Origin, Reads};

pub const CODEC: Codec = Codec {
    lossless: true,
    serves: Reads::Values,
    encoding: |origin, _| {
        // Up to 32 bits, of which kernels take powers of two.
        let bits = ending(origin)?.max(2).checked_next_power_of_two()?.ilog2().next_power_of_two();
        let encoding = Encoding::Integers { bits: u8::try_from(bits).ok().filter(|&bits| bits <= 32)? };
        Some(encoding).filter(|encoding| encoding.takes(origin.view.dtype))
    },
};

/// What all values are below, where that is known; none is negative.
fn ending(origin: &Origin) -> Option<usize> {
    let read = origin.input?;
    match (origin.op, origin.place) {
        (Op::ArgReduce { axis, values, .. }, place) if place == usize::from(values) => {
            Some(read.shape()[axis])
        }
        (Op::ArgSort { axis, .. }, 0) => Some(read.shape()[axis]),
        (Op::Copy { .. }, 0) if read.dtype.is_bool() => Some(2),
        _ => None,
    }
}
