use super::{Dtype, Scalar};

macro_rules! named {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$doc])* $variant,)* }
        impl $name {
            /// Every kind, in table order.
            pub const ALL: &[$name] = &[$($name::$variant,)*];
            /// The kernel's name without its dtype.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $text,)* }
            }
        }
    };
}

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
        /// Bools only: `!x`.
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
        /// Bools only.
        And = "and",
        /// Bools only.
        Or = "or",
        /// Bools only.
        Xor = "xor",
        /// `(output or input of relu, gradient)`: the gradient where the first is above zero, else zero.
        ReluBackward = "relu_backward",
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

/// How a two-dimensional convolution's window moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv2d {
    /// Step of the window, `[vertical, horizontal]`.
    pub stride: [usize; 2],
    /// Zeros around the image.
    pub padding: [usize; 2],
    /// Distance of the window's elements.
    pub dilation: [usize; 2],
    /// Channels are split into this many independent groups.
    pub groups: usize,
}

impl Conv2d {
    /// Output height and width for an image of `size` under a window of `kernel`.
    pub fn output_size(&self, size: [usize; 2], kernel: [usize; 2]) -> [usize; 2] {
        std::array::from_fn(|k| {
            let span = self.dilation[k] * (kernel[k].max(1) - 1) + 1;
            (size[k] + 2 * self.padding[k]).checked_sub(span).map_or(0, |room| room / self.stride[k] + 1)
        })
    }
}

/// A two-dimensional pooling window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
            if !self.ceil_mode {
                return room / self.stride[k] + 1;
            }
            let count = room.div_ceil(self.stride[k]) + 1;
            // The last window must begin inside the image or its leading border.
            let begins_inside = (count - 1) * self.stride[k] < size[k] + self.padding[k];
            if begins_inside { count } else { count - 1 }
        })
    }
}

impl Unary {
    /// Element types this has a kernel for.
    pub fn supports(self, dtype: Dtype) -> bool {
        match self {
            Unary::Not => dtype == Dtype::Bool,
            Unary::Neg | Unary::Abs | Unary::Sign | Unary::Square | Unary::Relu => dtype != Dtype::Bool,
            _ => dtype == Dtype::F32,
        }
    }
}

impl Binary {
    /// Element types this has a kernel for.
    pub fn supports(self, dtype: Dtype) -> bool {
        match self {
            Binary::And | Binary::Or | Binary::Xor => dtype == Dtype::Bool,
            Binary::Atan2 => dtype == Dtype::F32,
            _ => dtype != Dtype::Bool,
        }
    }
}
