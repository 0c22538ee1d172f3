//! Making room: which storage leaves, how, and the copies for that.

pub mod candidates;
pub mod costs;
pub mod defragment;
pub mod drop;
pub mod encoded_inputs;
pub mod encoding;
pub mod eviction;
pub mod moves;
pub mod room;
pub mod transfer;
