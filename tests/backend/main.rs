//! Burn 0.21's backend: its ops and gradients, its errors, and what it tells.

#[macro_use]
mod support;

mod extremes;
mod failures;
mod gradients;
mod messages;
mod misuse;
mod ops;
mod order;
mod quantized;
mod refusals;
mod server;
mod vision;
