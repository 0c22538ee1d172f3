//! Random shapes, strides and slices: chains of views and ops against plain arrays, windows against burn-flex.
//!
//! A few hundred cases here; `PROPTEST_CASES=1000000 cargo test --release --test fuzz` for hours by hand. A failure is
//! shrunk and printed, and its seed kept beside this file, where later runs replay it first.

mod array;
mod chain;
mod windows;

use burn_overcommit::{Config, OvercommitDevice, configure};
use std::sync::Once;

type Ours = burn_overcommit::Overcommit<f32, i32>;

/// All memory it wants, and so little that almost every op evicts.
fn devices() -> [OvercommitDevice; 2] {
    static TIGHT: Once = Once::new();
    let tight = OvercommitDevice::Host(1);
    TIGHT.call_once(|| configure(&tight, Config::new().budget("64 KiB")).expect("a valid configuration"));
    [OvercommitDevice::Host(0), tight]
}
