use serde::{Deserialize, Serialize};

use super::named::named;
use super::{Dtype, Scalar};

named! {
    /// Elementwise functions of one value.
    Unary {
        /// `-x`
        Neg = "neg",
        /// `|x|`
        Abs = "abs",
        /// -1, 0 or 1; NaN stays.
        Sign = "sign",
        /// `x * x`
        Square = "square",
        /// `x * x * x`
        Cube = "cube",
        /// `e^x`
        Exp = "exp",
        /// Natural logarithm.
        Log = "log",
        /// `ln(1 + x)`
        Log1p = "log1p",
        /// Square root.
        Sqrt = "sqrt",
        /// `1 / x`
        Recip = "recip",
        /// `x^(-1/2)`
        InverseSqrt = "inverse_sqrt",
        /// Sine.
        Sin = "sin",
        /// Cosine.
        Cos = "cos",
        /// Tangent.
        Tan = "tan",
        /// Hyperbolic sine.
        Sinh = "sinh",
        /// Hyperbolic cosine.
        Cosh = "cosh",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// Inverse sine.
        Asin = "asin",
        /// Inverse hyperbolic sine.
        Asinh = "asinh",
        /// Inverse cosine.
        Acos = "acos",
        /// Inverse hyperbolic cosine.
        Acosh = "acosh",
        /// Inverse tangent.
        Atan = "atan",
        /// Inverse hyperbolic tangent.
        Atanh = "atanh",
        /// Error function.
        Erf = "erf",
        /// Largest integer not above.
        Floor = "floor",
        /// Smallest integer not below.
        Ceil = "ceil",
        /// Nearest integer, halves to even.
        Round = "round",
        /// Toward zero.
        Trunc = "trunc",
        /// `max(x, 0)`; NaN stays.
        Relu = "relu",
        /// `1 / (1 + e^-x)`
        Sigmoid = "sigmoid",
        /// `ln(1 / (1 + e^-x))`
        LogSigmoid = "log_sigmoid",
        /// `x * P(X <= x)`, X standard normal.
        Gelu = "gelu",
        /// Bools: `!x`; integers: every bit.
        Not = "not",
    }
}

named! {
    /// Elementwise functions of two values.
    Binary {
        /// `a + b`
        Add = "add",
        /// `a - b`
        Sub = "sub",
        /// `a * b`
        Mul = "mul",
        /// `a / b`; integers truncate, and by zero give 0.
        Div = "div",
        /// `a - b * floor(a / b)`; integers by zero give 0.
        Remainder = "remainder",
        /// `a^b`
        Pow = "pow",
        /// Angle of the point `(b, a)`.
        Atan2 = "atan2",
        /// Larger; NaN wins.
        Max = "max",
        /// Smaller; NaN wins.
        Min = "min",
        /// Of bools, or of the bits of integers.
        And = "and",
        /// Of bools, or of the bits of integers.
        Or = "or",
        /// Of bools, or of the bits of integers.
        Xor = "xor",
        /// Integers only: `a << b`, `b` taken modulo the number of bits.
        ShiftLeft = "shift_left",
        /// Integers only: `a >> b`, `b` taken modulo the number of bits; signed ones keep their sign.
        ShiftRight = "shift_right",
        /// `(output or input of relu, gradient)`: the gradient where the first is above zero, else zero.
        ReluBackward = "relu_backward",
        /// `(output of sigmoid, gradient)`
        SigmoidBackward = "sigmoid_backward",
        /// `(input of log-sigmoid, gradient)`
        LogSigmoidBackward = "log_sigmoid_backward",
        /// `(input of gelu, gradient)`
        GeluBackward = "gelu_backward",
        /// `a > 0 ? a : a * b`; NaN stays.
        LeakyRelu = "leaky_relu",
        /// `b - a`: subtraction with its operands exchanged, for `scalar - x`.
        ReverseSub = "reverse_sub",
        /// `b / a`: division with its operands exchanged, for `scalar / x`.
        ReverseDiv = "reverse_div",
    }
}

named! {
    /// Elementwise comparisons; with NaN only `NotEqual` holds.
    Compare {
        /// `a == b`
        Equal = "equal",
        /// `a != b`
        NotEqual = "not_equal",
        /// `a > b`
        Greater = "greater",
        /// `a >= b`
        GreaterEqual = "greater_equal",
        /// `a < b`
        Lower = "lower",
        /// `a <= b`
        LowerEqual = "lower_equal",
    }
}

named! {
    /// What a reduction keeps.
    Reduce {
        /// Sum.
        Sum = "sum",
        /// Sum over count; floats only.
        Mean = "mean",
        /// Product.
        Prod = "prod",
        /// Largest; NaN wins.
        Max = "max",
        /// Smallest; NaN wins.
        Min = "min",
        /// Largest of the absolute values; NaN wins.
        MaxAbs = "max_abs",
    }
}

named! {
    /// Which index a reduction finds.
    ArgReduce {
        /// Of the largest.
        Max = "argmax",
        /// Of the smallest.
        Min = "argmin",
    }
}

named! {
    /// What a softmax gives.
    Softmax {
        /// `e^x` over its sum.
        Plain = "softmax",
        /// The logarithm of that.
        Log = "log_softmax",
    }
}

named! {
    /// What a row is freed of before it is scaled.
    Norm {
        /// Its mean and its deviation from it.
        Layer = "layer_norm",
        /// The root of its mean square.
        Rms = "rms_norm",
    }
}

named! {
    /// How elements come together up to each of them.
    Cumulative {
        /// Sum.
        Sum = "sum",
        /// Product.
        Prod = "prod",
        /// Largest; NaN wins.
        Max = "max",
        /// Smallest; NaN wins.
        Min = "min",
    }
}

named! {
    /// What becomes of an element that an index names.
    Update {
        /// The value.
        Assign = "assign",
        /// Its sum with the value; of bools, `or`.
        Add = "add",
        /// Its product with the value.
        Mul = "mul",
        /// The smaller; NaN wins.
        Min = "min",
        /// The larger; NaN wins.
        Max = "max",
    }
}

/// What random numbers follow. Integers take the floor of the float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Uniform in `[low, high)`.
    Uniform {
        /// Lower bound, included.
        low: Scalar,
        /// Upper bound, excluded.
        high: Scalar,
    },
    /// Normal, by Box and Muller.
    Normal {
        /// Mean.
        mean: Scalar,
        /// Standard deviation.
        deviation: Scalar,
    },
    /// One with the given probability, else zero.
    Bernoulli {
        /// Probability of one.
        probability: Scalar,
    },
}

/// How many of the 2^32 random words mean that something of this probability happens: those below it.
pub fn words_below(probability: Scalar) -> u64 {
    (probability.as_f64().clamp(0.0, 1.0) * 2f64.powi(32)).ceil() as u64
}

/// How an attention comes from its scores to its weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Factor of the scores.
    pub scale: Scalar,
    /// Whether a query sees only the keys up to its own, the last query the last key.
    pub causal: bool,
    /// What is dropped.
    pub dropout: Option<AttentionDropout>,
}

/// Scores or weights that an attention drops: a pure function of the seed and of their place in the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AttentionDropout {
    /// Whether weights become zero; otherwise scores do, before a mask.
    pub of_weights: bool,
    /// The probability with which a number is kept; it is then divided by it.
    pub keep: Scalar,
    /// Key of the generator, as of [`Op::Random`](super::Op::Random).
    pub seed: u64,
}

impl Attention {
    /// The widest rows of queries, keys and values that there are kernels for.
    pub const MAX_WIDTH: usize = 128;

    /// Whether there are kernels for this element type.
    pub fn supports(dtype: Dtype) -> bool {
        dtype.is_float() && dtype != Dtype::F64
    }
}

/// How a convolution's window moves over `[depth, height, width]`. With fewer dimensions the missing ones, outermost
/// first, are of size one, stepped over once, and without padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv {
    /// Step of the window.
    pub stride: [usize; 3],
    /// Zeros on both sides of the image.
    pub padding: [usize; 3],
    /// Distance of the window's elements.
    pub dilation: [usize; 3],
    /// Channels are split into this many independent groups.
    pub groups: usize,
}

impl Conv {
    /// Output size for an image of `size` under a window of `kernel`.
    pub fn output_size(&self, size: [usize; 3], kernel: [usize; 3]) -> [usize; 3] {
        std::array::from_fn(|k| {
            let span = self.dilation[k] * (kernel[k].max(1) - 1) + 1;
            (size[k] + 2 * self.padding[k]).checked_sub(span).map_or(0, |room| room / self.stride[k] + 1)
        })
    }
}

/// A two-dimensional pooling window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pool2d {
    /// Height and width.
    pub kernel: [usize; 2],
    /// Step of the window.
    pub stride: [usize; 2],
    /// Border around the image.
    pub padding: [usize; 2],
    /// Distance of the window's elements.
    pub dilation: [usize; 2],
    /// Whether a last, partly outside window counts.
    pub ceil_mode: bool,
    /// Averages only: whether the border counts as elements.
    pub count_include_pad: bool,
}

impl Pool2d {
    /// Output height and width for an image of `size`.
    pub fn output_size(&self, size: [usize; 2]) -> [usize; 2] {
        std::array::from_fn(|k| {
            let span = self.dilation[k] * (self.kernel[k].max(1) - 1) + 1;
            let Some(room) = (size[k] + 2 * self.padding[k]).checked_sub(span) else {
                return 0;
            };
            // In ceil mode the last window may lie wholly outside, as Burn counts them.
            if self.ceil_mode { room.div_ceil(self.stride[k]) + 1 } else { room / self.stride[k] + 1 }
        })
    }
}

named! {
    /// How an image's values between its pixels are found.
    Interpolation {
        /// The pixel that the place rounds down to.
        Nearest = "nearest",
        /// By the distance to two pixels a dimension.
        Bilinear = "bilinear",
        /// Cubic convolution over four pixels a dimension.
        Bicubic = "bicubic",
        /// Windowed sine over six pixels a dimension.
        Lanczos = "lanczos",
    }
}

impl Interpolation {
    /// Pixels read along a dimension.
    pub const fn taps(self) -> usize {
        match self {
            Interpolation::Nearest => 1,
            Interpolation::Bilinear => 2,
            Interpolation::Bicubic => 4,
            Interpolation::Lanczos => 6,
        }
    }
}

/// How an image gets another size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resize {
    /// What a value between pixels is.
    pub mode: Interpolation,
    /// Whether the middles of corner pixels stay where they are, and not the image's edges; `Nearest` keeps edges.
    pub align_corners: bool,
}

named! {
    /// What there is outside an image.
    GridPadding {
        /// Zeros.
        Zeros = "zeros",
        /// The nearest pixel.
        Border = "border",
        /// The image, mirrored.
        Reflection = "reflection",
    }
}

/// How an image is read at the places of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GridSample {
    /// The nearest pixel alone, or else by the distance to four.
    pub nearest: bool,
    /// What is outside.
    pub padding: GridPadding,
    /// Whether -1 and 1 are the middles of corner pixels, and not the image's edges.
    pub align_corners: bool,
}

/// The window of a deformable convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deform2d {
    /// Height and width.
    pub kernel: [usize; 2],
    /// Step of the window.
    pub stride: [usize; 2],
    /// Zeros around the image.
    pub padding: [usize; 2],
    /// Distance of the window's elements.
    pub dilation: [usize; 2],
    /// Channels are split into this many groups that share offsets.
    pub offset_groups: usize,
}

impl Unary {
    /// Element types this has a kernel for.
    pub fn supports(self, dtype: Dtype) -> bool {
        match self {
            Unary::Not => !dtype.is_float(),
            Unary::Neg | Unary::Abs | Unary::Sign | Unary::Square | Unary::Cube | Unary::Relu => {
                !dtype.is_bool()
            }
            _ => dtype.is_float(),
        }
    }
}

impl Binary {
    /// Element types this has a kernel for.
    pub fn supports(self, dtype: Dtype) -> bool {
        match self {
            Binary::And | Binary::Or | Binary::Xor => !dtype.is_float(),
            Binary::ShiftLeft | Binary::ShiftRight => dtype.is_integer(),
            Binary::Atan2 | Binary::LeakyRelu => dtype.is_float(),
            Binary::SigmoidBackward | Binary::LogSigmoidBackward | Binary::GeluBackward => dtype.is_float(),
            _ => !dtype.is_bool(),
        }
    }

    /// Whether an integer scalar counts modulo the size of the type, as the result does; else it saturates.
    pub fn wraps(self) -> bool {
        use Binary::{Add, And, Mul, Or, ReverseSub, Sub, Xor};
        matches!(self, Add | Sub | Mul | ReverseSub | And | Or | Xor)
    }
}

impl Update {
    /// Element types this has a kernel for.
    pub fn supports(self, dtype: Dtype) -> bool {
        matches!(self, Update::Assign | Update::Add) || !dtype.is_bool()
    }
}

impl Reduce {
    /// Element types this has a kernel for.
    pub fn supports(self, dtype: Dtype) -> bool {
        matches!(self, Reduce::Max | Reduce::Min) || !dtype.is_bool()
    }
}
