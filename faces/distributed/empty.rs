//! Tests of data parallel training with Burn 0.21, which need its feature `distributed`.

/// The book's listing compiles.
#[cfg(doctest)]
#[doc = include_str!("../../docs/book/src/several-devices.md")]
mod several_devices {}
