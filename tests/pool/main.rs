//! What a program sees of the pool: budgets, tiers, encodings, errors, figures.

mod disk;
mod gist;
mod half_of_memory;
mod host_memory;
mod memory;
mod monitor;
mod panics;
mod peers;
mod process_end;
mod telemetry;
