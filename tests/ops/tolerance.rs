//! How far from the reference a float may be.

use burn_backend::DType;

use crate::case::Form;

/// A few units in the last place, relative to the larger of one and the expected magnitude.
fn of_dtype(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-12,
        DType::F32 => 1e-5,
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        _ => 0.0,
    }
}

/// The cases that need more than their dtype's, how many times more, and why.
const LOOSER: &[(&str, DType, f64, &str)] = &[
    ("hard_sigmoid", DType::F64, 1e6, "Burn's own goes by f32"),
    ("float_cumsum", DType::F32, 10.0, "a running sum keeps the errors of all sums before"),
    ("deform_conv2d_backward", DType::F64, 1e7, "burn-flex's goes by f32"),
    ("float_grid_sample_2d", DType::F16, 4.0, "places in the image are rounded too"),
    ("float_grid_sample_2d", DType::BF16, 4.0, "places in the image are rounded too"),
];

/// For an output of a case; what was computed in a narrow dtype is no closer for being returned in a wider one.
pub fn of(case: &str, own: DType, output: DType, form: &Form) -> f64 {
    // The error of a sum of n elements grows with n, and the sum itself is small.
    let long = if form.is_long() { 10.0 } else { 1.0 };
    let factor = LOOSER
        .iter()
        .find(|(name, dtype, ..)| case.starts_with(name) && *dtype == own)
        .map_or(1.0, |row| row.2);
    of_dtype(own).max(of_dtype(output)) * factor * long
}
