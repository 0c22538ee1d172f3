//! Fourier transforms of real numbers.

use super::{fail, ok, run};
use crate::op::Op;
use crate::runtime::{self, Tensor};

/// Real and imaginary part of the first half of the coefficients of `x`, cut or extended by zeros to `length`.
#[track_caller]
pub fn real(x: Tensor, axis: usize, length: Option<usize>) -> (Tensor, Tensor) {
    let length = power_of_two(length.unwrap_or(x.shape()[axis]));
    let [real, imaginary] = ok(runtime::run_pair(Op::RealFft { axis, length }, [x]));
    (real, imaginary)
}

/// The reals that have these coefficients; without `length`, twice as many as all but the first.
#[track_caller]
pub fn inverse_real(real: Tensor, imaginary: Tensor, axis: usize, length: Option<usize>) -> Tensor {
    let length = power_of_two(length.unwrap_or(2 * real.shape()[axis].saturating_sub(1)));
    run(Op::InverseRealFft { axis, length }, [real, imaginary])
}

#[track_caller]
fn power_of_two(length: usize) -> usize {
    if !length.is_power_of_two() {
        fail(format!(
            "burn-overcommit: a Fourier transform of {length} elements, which is no power of two: ask for a length that is \
             (the signal is then cut, or extended by zeros)"
        ));
    }
    length
}
