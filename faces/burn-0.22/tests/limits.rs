//! What [this](../../tests/limits.rs) says holds for this version of Burn, by direct calls. Burn's server ends a session in which an op
//! fails.
#![cfg(feature = "direct")]

#[path = "../../tests/support.rs"]
mod support;
#[path = "../../tests/limits.rs"]
mod tests;

use burn_overcommit_022 as face;
