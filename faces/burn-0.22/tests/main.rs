//! What the faces' shared tests say holds for this version of Burn.

#[cfg(feature = "host")]
mod collective;
#[path = "../../tests/functions.rs"]
mod functions;
#[cfg(feature = "serve")]
#[path = "../../tests/hostile.rs"]
mod hostile;
// By direct calls: Burn's server ends a session in which an op fails.
#[cfg(feature = "direct")]
#[path = "../../tests/limits.rs"]
mod limits;
#[path = "../../tests/same.rs"]
mod same;
#[cfg(feature = "serve")]
#[path = "../../tests/serve.rs"]
mod serve;
#[path = "../../tests/support.rs"]
mod support;
#[path = "../../tests/training.rs"]
mod training;

use burn_overcommit_022 as face;

/// The program that serves.
#[cfg(feature = "serve")]
const PROGRAM: &str = env!("CARGO_BIN_EXE_overcommit-serve-022");
