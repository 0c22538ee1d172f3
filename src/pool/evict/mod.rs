//! Making room: which storage leaves, by which method, and the copies for that.

pub mod candidates;
pub mod costs;
pub mod defragment;
mod disk;
pub mod drop;
pub mod encoded_inputs;
pub mod encoding;
pub mod eviction;
pub mod moves;
pub mod room;
mod staging;
pub mod transfer;
