//! What [this](../../tests/training.rs) says holds for this version of Burn.

#[path = "../../tests/support.rs"]
mod support;
#[path = "../../tests/training.rs"]
mod tests;

use burn_overcommit_023 as face;
