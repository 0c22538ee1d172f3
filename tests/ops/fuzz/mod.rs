//! Random shapes, strides and slices: chains of views and ops against plain arrays, windows against burn-flex.
//!
//! A few hundred cases here; `PROPTEST_CASES=10000000 cargo test --release --test ops fuzz` for hours by hand. A failure is
//! shrunk and printed, and its seed kept beside this file, where later runs replay it first.

mod array;
mod chain;
mod windows;

use burn_overcommit::{Config, OvercommitDevice, Policy, configure};
use std::sync::Once;

type Ours = burn_overcommit::Overcommit<f32, i32>;

/// One that keeps everything, and one that keeps nothing.
fn devices() -> [OvercommitDevice; 2] {
    static FORGETS: Once = Once::new();
    let forgets = OvercommitDevice::Host(901);
    let config = Config::new().policy(Policy::EvictAll);
    FORGETS.call_once(|| configure(&forgets, config).expect("a valid configuration"));
    [OvercommitDevice::Host(900), forgets]
}
