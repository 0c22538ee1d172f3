//! Products on tensor cores as a CPU makes them, fragment by fragment, beside sums of products.

use half::{bf16, f16};
use serial_test::serial;

use crate::driver;

/// Small numbers that every half holds; the sums of their products are exact.
fn matrix(salt: usize) -> [f32; 256] {
    std::array::from_fn(|i| ((i * 7919 + salt * 104_729) % 33) as f32 - 16.0)
}

#[test]
#[serial]
fn fragments_multiply_as_matrices_do() {
    let driver = driver();
    let (left, right) = (matrix(1), matrix(2));
    let sum = |row: usize, column: usize| (0..16).map(|k| left[16 * row + k] * right[16 * k + column]).sum();
    let expected: [f32; 256] = std::array::from_fn(|i| sum(i / 16, i % 16));
    for is_bf16 in [false, true] {
        let halves = |matrix: [f32; 256]| {
            matrix.map(|x| if is_bf16 { bf16::from_f32(x).to_bits() } else { f16::from_f32(x).to_bits() })
        };
        assert_eq!(driver.multiply(&halves(left), &halves(right), is_bf16), expected, "bf16: {is_bf16}");
    }
}
