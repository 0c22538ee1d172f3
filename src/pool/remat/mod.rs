//! What is known of storages: their records, how each is made again, and what that keeps known.

pub mod components;
pub mod ids;
pub mod needs;
pub mod neighbourhood;
pub mod recipe;
pub mod release;
pub mod rematerialize;
pub mod remembered_cost;
pub mod storage;
pub mod table;
