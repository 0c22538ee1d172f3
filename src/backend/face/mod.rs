//! Burn 0.21's traits, one file each. Methods that are not here keep Burn's default, which is built from those that
//! are.

/// Implements methods that only forward, one line each: `name(arguments) -> output = expression;` A panic is reported
/// at the caller.
macro_rules! forward {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) -> $output:ty = $body:expr;)*) => {
        $(#[allow(clippy::too_many_arguments)]
        #[track_caller]
        fn $name($($argument: $type),*) -> $output { $body })*
    };
}

mod activation;
mod backend;
mod bool;
mod float;
mod int;
mod module;
mod quantized;
#[cfg(feature = "server")]
mod server;
mod transaction;

use crate::OvercommitDevice as Device;
use crate::runtime::Tensor;
