//! What faces share. A face is the implementation of one version of Burn's traits: methods that convert Burn's types, call
//! [`functions`](crate::functions), and convert back.
//!
//! The tables here are macros, so that each face has them with the types of its own Burn: the methods that all versions have alike,
//! and the conversions of small types. A face adds the rest. Names of types and functions in a table are looked up where the macro
//! is used; [`prelude`] has those of this crate.

mod activation;
mod bool;
mod conversions;
mod float;
mod int;
mod ir;
mod module;
mod newer;
mod quantized;

/// Implements methods that only forward, one line each: `name(arguments) -> output = expression;` In the expression the arguments
/// are of this crate's types. A panic is reported at the caller.
#[doc(hidden)]
#[macro_export]
macro_rules! face_forward {
    ($($name:ident($($argument:ident: $type:ty),* $(,)?) -> $output:ty = $body:expr;)*) => {
        $(#[allow(clippy::too_many_arguments)]
        #[track_caller]
        fn $name($($argument: $type),*) -> $output {
            $(let $argument = IntoCore::into_core($argument);)*
            FromCore::from_core($body)
        })*
    };
}

pub use crate::{
    face_activation_ops as activation_ops, face_bool_ops as bool_ops, face_conversions as conversions,
    face_float_ops as float_ops, face_forward as forward, face_int_ops as int_ops, face_ir_ops as ir_ops,
    face_module_ops as module_ops, face_newer_backend as newer_backend, face_newer_ops as newer_ops,
    face_newer_quantized as newer_quantized, face_newer_types as newer_types,
    face_quantized_ops as quantized_ops,
};

/// The names that the tables use.
pub mod prelude {
    pub use crate::functions::arguments::{Number, Random};
    pub use crate::functions::ctc::{self, Sequences};
    pub use crate::functions::module::*;
    pub use crate::functions::pointwise::*;
    pub use crate::functions::vision::{self, Deformed};
    pub use crate::functions::{attention, cast, create, fourier, index, linear, norm, reduce, sort, view};
    pub use crate::op::{ArgReduce, Binary, Compare, Cumulative, Reduce, Softmax, Unary, Update};
}
