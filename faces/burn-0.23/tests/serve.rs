//! What [this](../../tests/serve.rs) says holds for this version of Burn.

#[path = "../../tests/hostile.rs"]
mod hostile;
#[path = "../../tests/serve.rs"]
mod tests;

/// The program that serves.
const PROGRAM: &str = env!("CARGO_BIN_EXE_overcommit-serve-023");
