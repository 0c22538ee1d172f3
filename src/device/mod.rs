//! Where tensors live and ops run.

mod default;
mod id;

pub use id::{OvercommitDevice, SimProfile};
