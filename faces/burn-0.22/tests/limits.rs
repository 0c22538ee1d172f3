//! What [this](../../tests/limits.rs) says holds for this version of Burn.

#[path = "../../tests/support.rs"]
mod support;
#[path = "../../tests/limits.rs"]
mod tests;

use burn_overcommit_022 as face;
