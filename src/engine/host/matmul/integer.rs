//! Rows of products of integers.

use super::gemm::Matrix;

/// Wrapping arithmetic.
pub(super) trait Integer: Copy + Send + Sync {
    const ZERO: Self;
    fn multiply_add(self, a: Self, b: Self) -> Self;
}

macro_rules! integer {
    ($($type:ty)*) => {$(
        impl Integer for $type {
            const ZERO: Self = 0;
            fn multiply_add(self, a: Self, b: Self) -> Self {
                self.wrapping_add(a.wrapping_mul(b))
            }
        }
    )*};
}
integer!(i8 i16 i32 i64 u8 u16 u32 u64);

/// Adds one row of a product; the innermost loop runs along it, which vectorises where `right` is row-major.
///
/// # Safety
/// `left` is readable for `inner` elements `step` apart, `right` for `inner` rows of `to.len()` columns.
pub(super) unsafe fn add_row<T: Integer>(
    to: &mut [T],
    inner: usize,
    left: *const T,
    step: isize,
    right: Matrix<T>,
) {
    for k in 0..inner as isize {
        // SAFETY: `k` is inside both operands, which the caller keeps readable.
        unsafe {
            let (a, from) = (*left.offset(k * step), right.start.offset(k * right.row));
            if right.column == 1 {
                let row = std::slice::from_raw_parts(from, to.len());
                to.iter_mut().zip(row).for_each(|(sum, &b)| *sum = sum.multiply_add(a, b));
            } else {
                for (j, sum) in to.iter_mut().enumerate() {
                    *sum = sum.multiply_add(a, *from.offset(j as isize * right.column));
                }
            }
        }
    }
}
