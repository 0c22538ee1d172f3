//! Bits of integers.

use crate::case::{EACH, Fill::*};

cases! {
    {int} bitwise_and(x: own(Any, EACH), y: own(Any, EACH));
    {int} bitwise_or(x: own(Any, EACH), y: own(Any, EACH));
    {int} bitwise_xor(x: own(Any, EACH), y: own(Any, EACH));
    {int} bitwise_not(x: own(Any, EACH));
    {int} bitwise_and_scalar(x: own(Any, EACH)) => bitwise_and_scalar(x, 6.into());
    {int} bitwise_or_scalar(x: own(Any, EACH)) => bitwise_or_scalar(x, 6.into());
    {int} bitwise_xor_scalar(x: own(Any, EACH)) => bitwise_xor_scalar(x, 6.into());
    {int} bitwise_left_shift(x: own(Any, EACH), y: own(Below(8), EACH));
    {int} bitwise_right_shift(x: own(Any, EACH), y: own(Below(8), EACH));
    {int} bitwise_left_shift_scalar(x: own(Any, EACH)) => bitwise_left_shift_scalar(x, 3.into());
    {int} bitwise_right_shift_scalar(x: own(Any, EACH)) => bitwise_right_shift_scalar(x, 3.into());
}
