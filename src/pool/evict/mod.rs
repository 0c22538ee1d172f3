//! Making room: which storage leaves, how, and the copies for that.

pub mod candidates;
pub mod defragment;
pub mod encoding;
pub mod eviction;
pub mod transfer;
