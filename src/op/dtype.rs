use std::fmt;

/// Element type of a tensor, as the kernels know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dtype {
    /// 32-bit IEEE float.
    F32,
    /// 32-bit signed integer; arithmetic wraps.
    I32,
    /// 64-bit signed integer; arithmetic wraps.
    I64,
    /// One byte, 0 or 1.
    Bool,
}

impl Dtype {
    /// Every element type, in table order.
    pub const ALL: [Dtype; 4] = [Dtype::F32, Dtype::I32, Dtype::I64, Dtype::Bool];

    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            Dtype::F32 | Dtype::I32 => 4,
            Dtype::I64 => 8,
            Dtype::Bool => 1,
        }
    }

    /// The suffix of kernel names: `add_f32`.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "f32",
            Dtype::I32 => "i32",
            Dtype::I64 => "i64",
            Dtype::Bool => "bool",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A number inside an op. Floats are kept as bits, so that ops are `Eq` and `Hash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// The bits of an `f64`.
    Float(u64),
    /// An integer or a bool.
    Int(i64),
}

impl Scalar {
    /// The value as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(bits) => f64::from_bits(bits),
            Scalar::Int(value) => value as f64,
        }
    }

    /// The value as an integer; a float is truncated toward zero and saturates.
    pub fn as_i64(self) -> i64 {
        match self {
            Scalar::Float(bits) => f64::from_bits(bits) as i64,
            Scalar::Int(value) => value,
        }
    }
}

impl From<f64> for Scalar {
    fn from(value: f64) -> Self {
        Scalar::Float(value.to_bits())
    }
}

impl From<i64> for Scalar {
    fn from(value: i64) -> Self {
        Scalar::Int(value)
    }
}
