//! Sparse storage, dense compute (section 4.2): values that are mostly zero are kept without the zeros. Besides the paper's form
//! there is one with a bit for each value, which takes less where more than one of eight is not zero. How many are is counted
//! while the iteration is logged; what does not fit into the room for these, an eighth more, is kept in the host tier.

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
