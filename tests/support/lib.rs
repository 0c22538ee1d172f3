//! What test programs share.

pub mod labels;
pub mod process;
