//! Encodings: how values that wait for their next use are kept in fewer bits. Those that wait for the backward pass are
//! the case of Jain et al., *Gist: Efficient Data Encoding for Deep Neural Network Training*, ISCA 2018.
//!
//! Encoding is an eviction method beside offload and drop. `Op::Encode` and `Op::Decode` are ops like others: they are
//! priced, simulated, traced and recorded as recipes. An encoded form is a storage of the pool's own, which is only
//! ever moved (`pool/encode.rs`). Each codec of this module states for which uses it is enough, and how it encodes a
//! value of a given origin; [`smallest`] chooses among them. `op/encoding.rs` has their sizes.
//!
//! | codec | keeps | loses |
//! |---|---|---|
//! | `signs` | a bit a float, where all coming uses read no more than whether it is greater than zero | the values |
//! | `bools` | a bit a bool | nothing |
//! | `taps` | a max-pool's indices, by the place in the window | nothing |
//! | `integers` | integers whose range follows from op and shapes | nothing |
//! | `sparse` | floats that are not zero | nothing |
//! | `planes` | floats and integers of any type, by what they share with their row | nothing |
//! | `reduced` | floats in a format of fewer bits | bits |
//!
//! - *Signs* cannot be decoded. The storage keeps its recipe and its bytes are dropped; the signs are kept in their
//!   place.
//! - *Any other form* can. Its storage gets the decoding as its recipe, and its old recipe is forgotten, with what that
//!   kept known.
//! - *Some ops run on the form itself* (`Op::on_encoded`): a rectifier's gradient on signs, a max-pool's on taps, and,
//!   of `f32` and `f64`, a convolution's gradient of weights on sparse, packed and rounded images. The host engine
//!   decodes a few channels of one image at a time for the latter, a simulated GPU one image. The CUDA engine's
//!   libraries take all images at once, and in parts they would add up in another order; there everything would be
//!   decoded into workspace, which saves nothing, so the pool decodes first. Each op that reads a form decodes it for
//!   itself. It is logged, recorded and refused as the op that was asked for.
//! - *A storage that leaves encoded after an op is encoded before it* where the op can run over it: the op then takes
//!   its memory. Gist's in-place rectifiers follow from that.
//! - *Not encoded* are values that the program wrote, whose copy in the host tier lets them leave for nothing, and
//!   values whose decoding would not fit the budget. Nothing else leaves to make room for a form. Like the rest of a
//!   plan, encoding happens only while the host tier has room for all that device memory can hold.
//! - *Lossy formats* are for the policy `gist` alone. They change a storage's value once, after its last use in the
//!   forward pass. What is recomputed from such a storage is computed from the rounded values.
//!
//! How large sparse and packed forms are depends on values: see `op/form.rs`, and
//! `docs/decisions/037-forms-of-counted-size.md`. How `auto` weighs encodings is in
//! `docs/decisions/036-encodings-are-ops-and-storages.md`.
//!
//! Two things are absent. Values that the program wrote, such as tokens, are not packed, since no op tells what they
//! are. The kernels of counted forms take a row a thread, which is correct on a GPU, and not fast.
//!
//! To add an encoding: a file here, its row in [`ALL`], an [`Encoding`], its lowering in `op/lower/coded.rs` (or
//! `form.rs`, where its size is counted), and a file of `kernels/`.

mod bools;
mod integers;
mod planes;
mod reduced;
mod signs;
mod sparse;
mod taps;

use crate::op::{Encoding, FloatFormat, Origin, Reads};

/// A way to keep storages in fewer bits.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    /// Whether what comes back, or what is computed without, is the same to the bit.
    pub lossless: bool,
    /// The most that coming uses may read.
    pub serves: Reads,
    /// How it keeps what was made so, if it can; floats in `format`, where they lose bits.
    pub encoding: fn(origin: &Origin, format: FloatFormat) -> Option<Encoding>,
}

/// Every codec; of those that keep a storage in as many bits, the first is chosen.
pub const ALL: [Codec; 7] =
    [signs::CODEC, bools::CODEC, taps::CODEC, integers::CODEC, sparse::CODEC, planes::CODEC, reduced::CODEC];

impl Codec {
    /// Whether it is enough for uses that read so much.
    pub fn is_enough_for(&self, reads: Reads) -> bool {
        let rank = |reads| match reads {
            Reads::Nothing => 0,
            Reads::Signs => 1,
            Reads::Values => 2,
        };
        rank(reads) <= rank(self.serves)
    }
}

/// The encoding of the fewest bits for a storage whose coming uses read so much; without `lossy`, of those that lose nothing.
pub fn smallest(origin: &Origin, reads: Reads, lossy: Option<FloatFormat>) -> Option<Encoding> {
    let serves = |codec: &&Codec| codec.is_enough_for(reads) && (codec.lossless || lossy.is_some());
    let size_bytes = |encoding: &Encoding| encoding.size_bytes(origin.view.shape().count());
    ALL.iter()
        .filter(serves)
        .filter_map(|codec| (codec.encoding)(origin, lossy.unwrap_or_default()))
        .filter(|encoding| size_bytes(encoding) < origin.view.size_bytes())
        .min_by_key(size_bytes)
}

/// Whether a codec that loses nothing keeps values of this origin so.
pub fn keeps_exactly(origin: &Origin, encoding: Encoding) -> bool {
    let keeps = |codec: &Codec| (codec.encoding)(origin, FloatFormat::default()) == Some(encoding);
    ALL.iter().any(|codec| codec.lossless && keeps(codec))
}

/// An encoding, if it is one of such values and takes no more than a part `most` of what they do: two passes over them are to be
/// worth while.
fn worthwhile(encoding: Encoding, origin: &Origin, most: f64) -> Option<Encoding> {
    let (encoded_bytes, bytes) = (encoding.size_bytes(origin.view.shape().count()), origin.view.size_bytes());
    (encoding.takes(origin.view.dtype) && encoded_bytes as f64 <= most * bytes as f64).then_some(encoding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{ArgReduce, Compare, Counts, Dtype, Op, Pool2d, Shape, Unary, View};

    fn origin(op: Op, dtype: Dtype, place: usize) -> Origin {
        let view = |dtype| View::contiguous(dtype, Shape::new(&[2, 3, 8, 8]));
        Origin { op, input: Some(view(Dtype::F32)), place, view: view(dtype), counts: Counts::default() }
    }

    #[test]
    fn what_is_kept_follows_from_what_is_read() {
        let relu = origin(Op::Unary(Unary::Relu), Dtype::F32, 0);
        assert_eq!(smallest(&relu, Reads::Signs, None), Some(Encoding::Signs));
        assert_eq!(smallest(&relu, Reads::Values, None), None);
        let half = Some(FloatFormat::F16);
        assert_eq!(smallest(&relu, Reads::Signs, half), Some(Encoding::Signs));
        assert_eq!(smallest(&relu, Reads::Values, half), Some(Encoding::Reduced(FloatFormat::F16)));
        let narrow = origin(Op::Unary(Unary::Relu), Dtype::F16, 0);
        assert_eq!(smallest(&narrow, Reads::Values, half), None);
        let mask = origin(Op::Compare(Compare::Lower), Dtype::Bool, 0);
        assert_eq!(smallest(&mask, Reads::Values, None), Some(Encoding::Bools));
    }

    #[test]
    fn what_is_mostly_zero_is_kept_without_the_zeros() {
        let counted = |of: usize| {
            let relu = origin(Op::Unary(Unary::Relu), Dtype::F32, 0);
            Origin { counts: Counts { nonzeros: Some(2 * 3 * 8 * 8 / of), units: None }, ..relu }
        };
        let kept = |of, lossy| smallest(&counted(of), Reads::Values, lossy);
        assert!(matches!(kept(4, None), Some(Encoding::Sparse(sparse)) if !sparse.has_columns()));
        assert!(matches!(kept(16, None), Some(Encoding::Sparse(sparse)) if sparse.has_columns()));
        assert_eq!(kept(1, None), None, "what is dense is left alone");
        let half = Some(FloatFormat::F16);
        assert!(matches!(kept(4, half), Some(Encoding::Sparse(_))));
        assert_eq!(kept(2, half), Some(Encoding::Reduced(FloatFormat::F16)));
        assert_eq!(smallest(&counted(4), Reads::Signs, half), Some(Encoding::Signs));
    }

    #[test]
    fn what_is_much_alike_is_kept_in_planes_unless_fewer_bits_will_do() {
        let counted = |dtype, units| {
            let sum = origin(Op::Unary(Unary::Tanh), dtype, 0);
            Origin { counts: Counts { units: Some(units), nonzeros: None }, ..sum }
        };
        // Two rows of 32 or 64 units.
        let kept = |dtype, units, lossy| smallest(&counted(dtype, units), Reads::Values, lossy);
        assert!(matches!(kept(Dtype::F32, 40, None), Some(Encoding::Planes(planes)) if planes.width == 4));
        assert!(matches!(kept(Dtype::I64, 20, None), Some(Encoding::Planes(planes)) if planes.width == 8));
        assert_eq!(kept(Dtype::F32, 63, None), None, "what saves next to nothing is left alone");
        let half = Some(FloatFormat::F16);
        assert_eq!(kept(Dtype::F32, 40, half), Some(Encoding::Reduced(FloatFormat::F16)));
        assert!(matches!(kept(Dtype::F32, 16, half), Some(Encoding::Planes(_))));
    }

    #[test]
    fn integers_take_the_bits_that_their_op_can_make() {
        let kept = |op, place| smallest(&origin(op, Dtype::I64, place), Reads::Values, None);
        let places = |axis, values| Op::ArgReduce { kind: ArgReduce::Max, axis, dtype: Dtype::I64, values };
        // Of axes of 8, 3 and 2.
        assert_eq!(kept(places(2, false), 0), Some(Encoding::Integers { bits: 4 }));
        assert_eq!(kept(places(1, true), 1), Some(Encoding::Integers { bits: 2 }));
        assert_eq!(kept(places(0, false), 0), Some(Encoding::Integers { bits: 1 }));
        let sorted = Op::ArgSort { axis: 3, descending: false, count: 8, dtype: Dtype::I64 };
        assert_eq!(kept(sorted, 0), Some(Encoding::Integers { bits: 4 }));
        // Of floats nothing is known.
        assert_eq!(kept(Op::Copy { dtype: Dtype::I64 }, 0), None);
    }

    #[test]
    fn places_of_maxima_take_four_bits_in_windows_of_three() {
        let pool = Pool2d {
            kernel: [3, 3],
            stride: [2, 2],
            padding: [0, 0],
            dilation: [1, 1],
            ceil_mode: false,
            count_include_pad: false,
        };
        let op = Op::MaxPool2d { pool, indices: Some(Dtype::I32) };
        let encoding = smallest(&origin(op, Dtype::I32, 1), Reads::Values, None).unwrap();
        assert_eq!(encoding.per_word(), Some(8));
        assert_eq!(smallest(&origin(op, Dtype::F32, 0), Reads::Values, None), None);
    }
}
