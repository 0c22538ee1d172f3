//! Values, ops and refusals that the fuzz targets share.

pub mod json;
pub mod ops;
pub mod session;
pub mod values;

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo, catch_unwind};

/// The beginning of each panic by which the crate refuses what a caller asks for.
const REFUSAL: &str = "burn-overcommit: ";

fn is_refusal(payload: &dyn Any) -> bool {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).is_some_and(|text| text.starts_with(REFUSAL))
}

/// From now on, a panic by which the crate refuses something is passed on to [`unless_refused`]. libFuzzer ends the process at all others.
pub fn let_refusals_pass(also: fn(&PanicHookInfo) -> bool) {
    let end = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !is_refusal(info.payload()) && !also(info) {
            end(info);
        }
    }));
}

/// The outcome of a call, unless the crate refuses it by a panic.
pub fn unless_refused<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}
