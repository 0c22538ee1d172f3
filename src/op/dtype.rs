use std::fmt;

use serde::{Deserialize, Serialize};

use super::named::named;

named! {
    /// Element type of a tensor, as the kernels know it.
    #[derive(Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    Dtype {
        /// 64-bit IEEE float.
        F64 = "f64",
        /// 32-bit IEEE float.
        F32 = "f32",
        /// 16-bit IEEE float; computed in 32 bits and rounded after each op.
        F16 = "f16",
        /// 16-bit float of 8 exponent bits; computed in 32 bits and rounded after each op.
        BF16 = "bf16",
        /// 64-bit signed integer; arithmetic wraps, as for all integers.
        I64 = "i64",
        /// 32-bit signed integer.
        I32 = "i32",
        /// 16-bit signed integer.
        I16 = "i16",
        /// 8-bit signed integer.
        I8 = "i8",
        /// 64-bit unsigned integer.
        U64 = "u64",
        /// 32-bit unsigned integer.
        U32 = "u32",
        /// 16-bit unsigned integer.
        U16 = "u16",
        /// 8-bit unsigned integer.
        U8 = "u8",
        /// One byte, 0 or 1.
        Bool = "b8",
        /// As `Bool`; Burn tells them apart.
        Bool8 = "b8",
        /// Four bytes, 0 or 1.
        Bool32 = "b32",
    }
}

impl Dtype {
    /// The floats, widest first.
    pub const FLOATS: [Dtype; 4] = [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16];

    /// The integers, signed before unsigned, widest first.
    pub const INTEGERS: [Dtype; 8] =
        [Dtype::I64, Dtype::I32, Dtype::I16, Dtype::I8, Dtype::U64, Dtype::U32, Dtype::U16, Dtype::U8];

    /// The integers that name positions: what indices are of, once they reach an op.
    pub const INDICES: [Dtype; 2] = [Dtype::I32, Dtype::I64];

    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            Dtype::F64 | Dtype::I64 | Dtype::U64 => 8,
            Dtype::F32 | Dtype::I32 | Dtype::U32 | Dtype::Bool32 => 4,
            Dtype::F16 | Dtype::BF16 | Dtype::I16 | Dtype::U16 => 2,
            Dtype::I8 | Dtype::U8 | Dtype::Bool | Dtype::Bool8 => 1,
        }
    }

    /// The unsigned integer of the same size: for kernels that only move elements.
    pub const fn raw(self) -> Dtype {
        match self.size_bytes() {
            8 => Dtype::U64,
            4 => Dtype::U32,
            2 => Dtype::U16,
            _ => Dtype::U8,
        }
    }

    /// The type whose kernels serve this one.
    pub const fn stored(self) -> Dtype {
        match self {
            Dtype::Bool8 => Dtype::Bool,
            other => other,
        }
    }

    /// Whether elements are floats.
    pub const fn is_float(self) -> bool {
        matches!(self, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16)
    }

    /// Whether elements are floats of 16 bits.
    pub const fn is_half(self) -> bool {
        matches!(self, Dtype::F16 | Dtype::BF16)
    }

    /// Whether elements are 0 or 1 only.
    pub const fn is_bool(self) -> bool {
        matches!(self, Dtype::Bool | Dtype::Bool8 | Dtype::Bool32)
    }

    /// Whether elements are integers.
    pub const fn is_integer(self) -> bool {
        !self.is_float() && !self.is_bool()
    }

    /// The least and the greatest element of an integer or bool type.
    pub const fn range(self) -> (i128, i128) {
        let bits = 8 * self.size_bytes() as u32;
        match self {
            Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8 => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
            Dtype::Bool | Dtype::Bool8 | Dtype::Bool32 => (0, 1),
            _ => (0, (1 << bits) - 1),
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dtype::Bool => "bool",
            Dtype::Bool8 => "bool8",
            Dtype::Bool32 => "bool32",
            other => other.name(),
        })
    }
}

/// A number inside an op. Floats are kept as bits, so that ops are `Eq` and `Hash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// The bits of an `f64`.
    Float(u64),
    /// An integer or a bool.
    Int(i64),
    /// An integer beyond `i64`.
    Unsigned(u64),
}

impl Scalar {
    /// The value as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Scalar::Float(bits) => f64::from_bits(bits),
            Scalar::Int(value) => value as f64,
            Scalar::Unsigned(value) => value as f64,
        }
    }

    /// The value as an integer; a float is truncated toward zero and saturates.
    pub fn as_int(self) -> i128 {
        match self {
            Scalar::Float(bits) => f64::from_bits(bits) as i128,
            Scalar::Int(value) => value.into(),
            Scalar::Unsigned(value) => value.into(),
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

impl From<u64> for Scalar {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Scalar::Unsigned(value), Scalar::Int)
    }
}
