//! burn-overcommit in the place of `burn-tch`: what Burn's dispatch calls `LibTorch` is this crate's backend. A program takes it by
//! `[patch.crates-io]`; the [README of burn-overcommit-022](https://github.com/burn-overcommit/burn-overcommit/tree/main/faces/burn-0.22)
//! says how.
#![deny(missing_docs)]

pub use burn_overcommit_022_backend::{Member as LibTorchDevice, Overcommit as LibTorch};
