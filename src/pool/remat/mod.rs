//! The records of storages, the recipes that rematerialize them, and which records those keep.

pub mod away;
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
