//! The memory of both tiers: which ranges and pages are free, and where each block is.

pub mod address_space;
pub mod allocation_trace;
pub mod arena;
pub mod block;
pub mod free_list;
pub mod layout_cursor;
pub mod pages;
pub mod slabs;
pub mod tiers;
pub mod unbounded;
pub mod views;
