//! The crate's own differentiable operations: exact, and sparing.

mod cases;
mod checkpoint;
mod exact;
mod gradients;
mod memory;
mod modules;
mod networks;
mod sparing;
