//! Sparse storage, dense compute (section 4.2, SSDC): values that are mostly zero are kept without the zeros. Zero
//! means that all bits are clear.
//!
//! Besides the paper's form, with a byte for the place of each value that is kept, there is one with a bit for each
//! value of the row, which takes less where more than one of eight is not zero. How many are not zero is counted while
//! the iteration is logged. Rows that do not fit into the capacity, which is an eighth larger, are kept in the host
//! tier. A value whose form takes more than three quarters of its memory stays as it is.

use super::{Codec, worthwhile};
use crate::op::{Encoding, Origin, Reads, Sparse};

pub const CODEC: Codec = Codec {
    lossless: true,
    serves: Reads::Values,
    encoding: |origin, _| {
        let (count, dtype) = (origin.view.shape().count(), origin.view.dtype);
        let nonzeros = origin.counts.nonzeros.filter(|_| Origin::may_be_sparse(&origin.op, origin.place))?;
        let sparse = Sparse::with_room_for(nonzeros, count, dtype.size_bytes());
        worthwhile(Encoding::Sparse(sparse), origin, 3.0 / 4.0)
    },
};
