//! How a storage leaves device memory, and in what order.

use serde::{Deserialize, Serialize};

use crate::op::Encoding;

/// When a storage leaves device memory, relative to other candidates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum EvictionOrder {
    /// Before the others.
    First,
    /// When a rule picks it.
    #[default]
    Any,
    /// After the others.
    Last,
}

/// The eviction method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Eviction {
    /// The host tier keeps the bytes.
    Offload,
    /// The bytes are forgotten; the recipe brings them back.
    Drop,
    /// The bytes are kept in fewer bits.
    Encode(Encoding),
}

/// How much time counts in a rule that weighs costs against gains, as exponents. With `idle` 1 and `until_next` 0 this is
/// `h_DTR` of `dtr`. With 0 and 1 it is Belady's rule with costs. The best exponents lie in between and differ from program to
/// program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WeightedRule {
    /// The exponent of the time since the last use.
    pub idle: f64,
    /// The exponent of the number of ops until the next use.
    pub until_next: f64,
}
