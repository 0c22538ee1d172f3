//! How and when a storage leaves device memory.

use crate::op::Encoding;

/// When a storage leaves device memory, among others that can.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Turn {
    /// Before them.
    First,
    /// When a rule says so.
    #[default]
    Any,
    /// After them.
    Last,
}

/// How to evict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eviction {
    /// Keep the bytes in the host tier.
    Offload,
    /// Forget the bytes; the recipe brings them back.
    Drop,
    /// Keep the bytes in fewer bits.
    Encode(Encoding),
}

/// How much time counts, as powers: with `idle` 1 and `until_next` 0 this is `h_DTR` of `dtr`; with 0 and 1 it
/// is Belady's rule with costs; in between lies what is best, and that differs from program to program.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Weighed {
    /// Of the time since the last use.
    pub idle: f64,
    /// Of the ops until the next.
    pub until_next: f64,
}
