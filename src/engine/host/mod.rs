//! The host engine.

mod kernels;
