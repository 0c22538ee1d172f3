//! The host engine.
mod columns;
mod conv;
mod kernels;
mod matmul;

#[cfg(test)]
mod testing;

use crate::engine::{Call, EngineError};

/// A failure of the call's op.
fn failure(call: &Call, reason: &str) -> EngineError {
    EngineError::Kernel {
        op: call.op.name(),
        reason: reason.to_string(),
    }
}
