//! Making room: which storage leaves, by which method, and the copies for that.

pub mod candidates;
pub mod costs;
pub mod defragment;
pub mod drop;
pub mod encoded_inputs;
pub mod encoding;
pub mod eviction;
pub mod moves;
mod other_tiers;
pub mod room;
mod staging;
pub mod transfer;
