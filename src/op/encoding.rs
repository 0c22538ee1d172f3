//! How values are kept in fewer bits between their uses: how many bits, in words of 32.

use serde::{Deserialize, Serialize};

use super::named::named;
use super::{Counts, Dtype, FormParts, Op, Planes, Pool2d, ROW, Shape, Sparse, Tally, Unary, View};

named! {
    /// A float format of fewer bits: sign, exponent and mantissa as in IEEE 754, subnormals, infinities and NaN among them.
    ///
    /// ```
    /// use burn_overcommit::{Config, FloatFormat, OvercommitDevice, Policy, configure};
    ///
    /// let config = Config::new().policy(Policy::Gist).gist_format(FloatFormat::Fp8E4m3);
    /// configure(&OvercommitDevice::Host(0), config)?;
    /// # Ok::<(), burn_overcommit::Error>(())
    /// ```
    #[derive(Default, Serialize, Deserialize)]
    FloatFormat {
        /// 5 bits of exponent, 10 of mantissa.
        #[default]
        F16 = "f16",
        /// 8 and 7.
        Bf16 = "bf16",
        /// 5 and 4; three values to four bytes.
        Fp10 = "fp10",
        /// 4 and 3.
        Fp8E4m3 = "fp8_e4m3",
        /// 5 and 2.
        Fp8E5m2 = "fp8_e5m2",
        /// [`Fp10`](FloatFormat::Fp10), in blocks of [`SCALED`] values that are each scaled by a power of two.
        Fp10Scaled = "fp10_scaled",
        /// [`Fp8E4m3`](FloatFormat::Fp8E4m3), so too.
        Fp8E4m3Scaled = "fp8_e4m3_scaled",
        /// [`Fp8E5m2`](FloatFormat::Fp8E5m2), so too.
        Fp8E5m2Scaled = "fp8_e5m2_scaled",
    }
}

impl std::str::FromStr for FloatFormat {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        FloatFormat::ALL.iter().copied().find(|format| format.name() == text).ok_or(())
    }
}

impl FloatFormat {
    /// Bits of exponent and mantissa.
    pub const fn layout(self) -> (u32, u32) {
        match self {
            FloatFormat::F16 => (5, 10),
            FloatFormat::Bf16 => (8, 7),
            FloatFormat::Fp10 | FloatFormat::Fp10Scaled => (5, 4),
            FloatFormat::Fp8E4m3 | FloatFormat::Fp8E4m3Scaled => (4, 3),
            FloatFormat::Fp8E5m2 | FloatFormat::Fp8E5m2Scaled => (5, 2),
        }
    }

    /// Whether each block of [`SCALED`] values has a scale of its own.
    pub const fn has_scales(self) -> bool {
        matches!(self, FloatFormat::Fp10Scaled | FloatFormat::Fp8E4m3Scaled | FloatFormat::Fp8E5m2Scaled)
    }

    /// Bits of a value.
    pub const fn bits(self) -> u32 {
        let (exponent, mantissa) = self.layout();
        1 + exponent + mantissa
    }
}

/// Values that have a scale together. Their codes fill words, whether two, three or four go into one.
pub const SCALED: usize = 96;

/// Where the codes of so many scaled values begin, in words: first comes a byte for each block.
pub fn scale_words(count: usize) -> usize {
    count.div_ceil(SCALED).div_ceil(size_of::<u32>())
}

/// Places of maxima, each in the window of its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Taps {
    /// The window.
    pub pool: Pool2d,
    /// Width of the pool's input.
    pub width: usize,
    /// Height and width of its output.
    pub pooled: [usize; 2],
}

impl Taps {
    /// Elements of a window.
    pub fn window(&self) -> usize {
        self.pool.kernel[0] * self.pool.kernel[1]
    }

    /// Whether the window is one that images can be pooled with.
    fn is_sound(&self) -> bool {
        let Pool2d { kernel, stride, padding, dilation, .. } = self.pool;
        let window = [kernel, stride, dilation].into_iter().flatten();
        let is_small = |size: usize| size < 1 << 15;
        let are_places = |size: usize| (1..=i32::MAX as usize).contains(&size);
        { window }.all(|size| size > 0 && is_small(size))
            && padding.into_iter().all(is_small)
            && are_places(self.width)
            && are_places(self.pooled[0].saturating_mul(self.pooled[1]))
    }

    /// What a place can be: an element of the window, or none, where a window may lie outside the image.
    fn codes(&self) -> usize {
        let Pool2d { kernel, padding, dilation, ceil_mode, .. } = self.pool;
        let outside = |axis: usize| padding[axis] > (kernel[axis].max(1) - 1) * dilation[axis];
        self.window() + usize::from(ceil_mode || outside(0) || outside(1))
    }

    /// Bits of a place: 1, 2, 4, 8, 16 or 32.
    pub fn bits(&self) -> u32 {
        self.codes().max(2).next_power_of_two().ilog2().next_power_of_two()
    }
}

/// How the values of a storage are kept in fewer bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Encoding {
    /// A bit for each float: whether it is greater than zero. There is no way back to the values.
    Signs,
    /// A bit for each bool.
    Bools,
    /// The indices that a max-pool makes, by the place in the window.
    Taps(Taps),
    /// Integers from zero on, of so many bits: 1, 2, 4, 8, 16 or 32.
    Integers {
        /// Bits of each.
        bits: u8,
    },
    /// Floats, those that are not zero. What finds no room is kept in the host tier.
    Sparse(Sparse),
    /// Floats or integers, without the bits that all of a row share in. What finds no room is kept in the host tier.
    Planes(Planes),
    /// Floats, rounded to nearest even; beyond the largest number, that.
    Reduced(FloatFormat),
}

impl Encoding {
    /// Whether there are kernels for it, wherever it comes from.
    pub fn is_sound(&self) -> bool {
        match self {
            Encoding::Signs | Encoding::Bools | Encoding::Reduced(_) => true,
            Encoding::Integers { bits } => bits.is_power_of_two() && *bits <= 32,
            Encoding::Sparse(Sparse { width, .. }) | Encoding::Planes(Planes { width, .. }) => {
                width.is_power_of_two() && *width <= 8
            }
            Encoding::Taps(taps) => taps.is_sound(),
        }
    }

    /// How many values there are to a word, if all take as much and nothing else is there.
    pub fn per_word(&self) -> Option<usize> {
        let bits = match self {
            Encoding::Signs | Encoding::Bools => 1,
            Encoding::Taps(taps) => taps.bits(),
            Encoding::Integers { bits } => u32::from(*bits),
            Encoding::Sparse(_) | Encoding::Planes(_) => return None,
            Encoding::Reduced(format) if format.has_scales() => return None,
            Encoding::Reduced(format) => format.bits(),
        };
        Some((u32::BITS / bits) as usize)
    }

    /// Words that so many values take.
    pub fn words(&self, count: usize) -> usize {
        match (self, self.per_word()) {
            _ if self.is_counted() => self.parts(count).map_or(0, |parts| parts.words),
            (Encoding::Reduced(format), None) => {
                let block_words = SCALED / (u32::BITS / format.bits()) as usize;
                scale_words(count) + count.div_ceil(SCALED) * block_words
            }
            (_, per_word) => count.div_ceil(per_word.unwrap_or(1)),
        }
    }

    /// The overflow of the encoded form of so many values, if it can have one: a block in the host tier.
    pub fn overflow(&self, dtype: Dtype, count: usize) -> Option<View> {
        Some(View::contiguous(dtype, Shape::new(&[self.parts(count)?.uncertain()])))
    }

    /// The parts of so many values, if they take as much as they need.
    pub fn parts(&self, count: usize) -> Option<FormParts> {
        match self {
            Encoding::Sparse(sparse) => Some(sparse.parts(count)),
            Encoding::Planes(planes) => Some(planes.parts(count)),
            _ => None,
        }
    }

    /// Whether what they take is to be counted, since it depends on what they are.
    pub fn is_counted(&self) -> bool {
        matches!(self, Encoding::Sparse(_) | Encoding::Planes(_))
    }

    /// Bytes that so many values take.
    pub fn size_bytes(&self, count: usize) -> usize {
        size_of::<u32>() * self.words(count)
    }

    /// Whether what reads the values reads the encoded form as it is: [`Op::on_encoded`].
    pub fn is_read_as_it_is(&self) -> bool {
        matches!(self, Encoding::Signs | Encoding::Taps(_))
    }

    /// Whether values of this type can be kept so.
    pub fn takes(&self, dtype: Dtype) -> bool {
        match self {
            Encoding::Signs | Encoding::Reduced(_) => dtype.is_float(),
            Encoding::Sparse(sparse) => dtype.is_float() && dtype.size_bytes() == usize::from(sparse.width),
            Encoding::Planes(planes) => !dtype.is_bool() && dtype.size_bytes() == usize::from(planes.width),
            Encoding::Bools => dtype.is_bool(),
            Encoding::Taps(_) | Encoding::Integers { .. } => Dtype::INDICES.contains(&dtype),
        }
    }

    /// The name of the op that encodes.
    pub(super) fn encode_name(&self) -> &'static str {
        match self {
            Encoding::Signs => "encode_signs",
            Encoding::Bools => "encode_bools",
            Encoding::Taps(_) => "encode_taps",
            Encoding::Integers { .. } => "encode_integers",
            Encoding::Sparse(_) => "encode_sparse",
            Encoding::Planes(_) => "encode_planes",
            Encoding::Reduced(_) => "encode_reduced",
        }
    }

    /// The name of the op that decodes.
    pub(super) fn decode_name(&self) -> &'static str {
        match self {
            Encoding::Signs => "decode_signs",
            Encoding::Bools => "decode_bools",
            Encoding::Taps(_) => "decode_taps",
            Encoding::Integers { .. } => "decode_integers",
            Encoding::Sparse(_) => "decode_sparse",
            Encoding::Planes(_) => "decode_planes",
            Encoding::Reduced(_) => "decode_reduced",
        }
    }
}

/// Encodings of floats of which some can be decoded without the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InParts {
    /// [`Encoding::Sparse`].
    Sparse(Sparse),
    /// [`Encoding::Planes`].
    Planes(Planes),
    /// [`Encoding::Reduced`].
    Reduced(FloatFormat),
}

impl InParts {
    /// The encoding, if it is one of these.
    pub fn of(encoding: &Encoding) -> Option<Self> {
        match *encoding {
            Encoding::Sparse(sparse) => Some(InParts::Sparse(sparse)),
            Encoding::Planes(planes) => Some(InParts::Planes(planes)),
            Encoding::Reduced(format) => Some(InParts::Reduced(format)),
            _ => None,
        }
    }
}

impl From<InParts> for Encoding {
    fn from(encoding: InParts) -> Self {
        match encoding {
            InParts::Sparse(sparse) => Encoding::Sparse(sparse),
            InParts::Planes(planes) => Encoding::Planes(planes),
            InParts::Reduced(format) => Encoding::Reduced(format),
        }
    }
}

/// Values of which fewer are not packed into planes.
const MIN_PACKED: usize = 4 * ROW;

/// How a storage was made: what the ways to encode it follow from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The op.
    pub op: Op,
    /// How it read its first input, if it has one.
    pub input: Option<View>,
    /// Which of its outputs the storage is.
    pub place: usize,
    /// The output.
    pub view: View,
    /// What was counted of its values.
    pub counts: Counts,
}

impl Origin {
    /// Whether many of its values are likely to be zero, so that it is worth while to count them: it is what a rectifier or a
    /// max-pool makes.
    pub fn may_be_sparse(op: &Op, place: usize) -> bool {
        match op {
            Op::Unary(Unary::Relu) | Op::MaxPool2d { .. } => place == 0,
            Op::Fused { program, .. } => program.rectifies(place),
            _ => false,
        }
    }

    /// What is worth while to be counted of an output.
    pub fn tallies(op: &Op, place: usize, view: &View) -> impl Iterator<Item = Tally> {
        let sparse = Origin::may_be_sparse(op, place) && view.dtype.is_float();
        let planes = !view.dtype.is_bool() && view.shape().count() >= MIN_PACKED;
        let of = |tally, is: bool| is.then_some(tally);
        [of(Tally::Nonzeros, sparse), of(Tally::Units, planes)].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_hold_as_many_values_as_fit() {
        let pool = |side: usize, ceil_mode| Pool2d {
            kernel: [side; 2],
            stride: [2; 2],
            padding: [0; 2],
            dilation: [1; 2],
            ceil_mode,
            count_include_pad: false,
        };
        let taps = |side, ceil_mode| Taps { pool: pool(side, ceil_mode), width: 9, pooled: [4; 2] };
        let bits = [(2, false, 2), (2, true, 4), (3, false, 4), (4, false, 4), (4, true, 8), (17, false, 16)];
        for (side, ceil_mode, bits) in bits {
            assert_eq!(taps(side, ceil_mode).bits(), bits, "{side} {ceil_mode}");
        }
        assert_eq!(Encoding::Reduced(FloatFormat::Fp10).words(7), 3);
        assert_eq!(Encoding::Signs.words(33), 2);
        assert_eq!(Encoding::Integers { bits: 8 }.words(5), 2);
        // Two blocks of 32 words, and a word of scales.
        assert_eq!(Encoding::Reduced(FloatFormat::Fp10Scaled).words(97), 65);
    }
}
