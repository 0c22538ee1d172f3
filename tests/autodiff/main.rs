//! The crate's own differentiable operations: exact, and saving memory.

mod attention;
mod cases;
mod checkpoint;
mod exact;
mod gradients;
mod memory;
mod memory_saving;
mod modules;
mod networks;
