//! Products of two matrices in memory.

use gemm::Parallelism;

use super::super::columns::Real;

/// A matrix in memory: element `(i, j)` is at `start + i * row + j * column`.
#[derive(Debug)]
pub struct Matrix<T> {
    pub start: *mut T,
    pub row: isize,
    pub column: isize,
}

impl<T> Clone for Matrix<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Matrix<T> {}

// SAFETY: a matrix is an address and two numbers; whoever reads or writes through it answers for the access.
unsafe impl<T: Send> Send for Matrix<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Matrix<T> {}

impl<T> Matrix<T> {
    /// The same strides, `elements` further.
    pub fn offset(self, elements: isize) -> Self {
        Matrix { start: self.start.wrapping_offset(elements), ..self }
    }

    /// Rows as columns.
    pub fn transposed(self) -> Self {
        Matrix { row: self.column, column: self.row, ..self }
    }
}

/// `[rows, inner, columns]` of a product.
pub type Sizes = [usize; 3];

/// `to = left * right`, or `to += left * right`.
///
/// # Safety
/// `left` and `right` are readable and `to` is writable, and read where `accumulate`, for the sizes; nothing else
/// touches the elements of `to` meanwhile, and `to` overlaps neither operand.
pub unsafe fn gemm<T: Real>(
    [rows, inner, columns]: Sizes,
    to: Matrix<T>,
    left: Matrix<T>,
    right: Matrix<T>,
    accumulate: bool,
    parallel: bool,
) {
    let (scale, parallelism) = (
        if accumulate { T::ONE } else { T::ZERO },
        if parallel { Parallelism::Rayon(0) } else { Parallelism::None },
    );
    // SAFETY: the caller upholds what is read and written; the strides and sizes are passed on as they are.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            to.start,
            to.column,
            to.row,
            accumulate,
            left.start,
            left.column,
            left.row,
            right.start,
            right.column,
            right.row,
            scale,
            T::ONE,
            false,
            false,
            false,
            parallelism,
        );
    }
}
