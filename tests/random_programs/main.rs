//! Random programs: the bits that a plain interpreter computes, or one clean error, whatever a device is set to and whatever fails.
//!
//! `RANDOM_SECONDS=3600 RANDOM_SEED=123 cargo test --release --all-features --test random_programs worlds -- --nocapture` runs the
//! [simulator] for an hour, from another seed on; `RANDOM_PROGRAMS=1` runs one world. A failure prints the line that replays its world
//! alone, and the world made smaller.

mod check;
#[allow(dead_code, reason = "the kernels' tests use the rest")]
#[path = "../../src/engine/host/kernels/tests/data.rs"]
mod data;
mod generate;
mod interpreter;
mod kept;
mod ledger;
mod networks;
mod ops;
mod program;
mod recorded;
#[allow(dead_code, reason = "the kernels' tests use the rest")]
#[path = "../../src/engine/host/kernels/tests/reference/mod.rs"]
mod reference;
mod simulate;
mod simulator;
mod sizes;
mod totals;
mod training;
mod turns;
mod world;

use burn_overcommit::op;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    let parse = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}: \"{text}\" is not a number"));
    std::env::var(name).map_or(default, parse)
}
