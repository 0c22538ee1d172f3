//! Matrix products. Every element is summed in an order that shapes and layouts decide, never the number of threads.

use gemm::Parallelism;
use rayon::prelude::*;

use super::failure;
use crate::engine::{Call, EngineError, Operand};
use crate::op::{Dtype, Layout};

/// Multiply-adds below which work is not worth waking other threads for.
pub(super) const PARALLEL_WORK: usize = 1 << 20;

/// A matrix in memory: element `(i, j)` is at `start + i * row + j * column`.
#[derive(Debug)]
pub(super) struct Matrix<T> {
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
}

/// `[rows, inner, columns]` of a product.
pub(super) type Sizes = [usize; 3];

/// `to = left * right`, or `to += left * right`.
///
/// # Safety
/// `left` and `right` are readable and `to` is writable, and read where `accumulate`, for the sizes; nothing else
/// touches the elements of `to` meanwhile, and `to` overlaps neither operand.
pub(super) unsafe fn gemm_f32(
    [rows, inner, columns]: Sizes,
    to: Matrix<f32>,
    left: Matrix<f32>,
    right: Matrix<f32>,
    accumulate: bool,
    parallel: bool,
) {
    let (scale, parallelism) = (
        if accumulate { 1.0 } else { 0.0 },
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
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// Wrapping arithmetic of integers.
trait Integer: Copy + Send + Sync {
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
integer!(i32 i64);

/// One row of a product; the innermost loop runs along it, which vectorises where `right` is row-major.
///
/// # Safety
/// `left` is readable for `inner` elements `step` apart, `right` for `inner` rows of `to.len()` columns.
unsafe fn integer_row<T: Integer>(to: &mut [T], inner: usize, left: *const T, step: isize, right: Matrix<T>) {
    to.fill(T::ZERO);
    for k in 0..inner as isize {
        // SAFETY: `k` is inside both operands, which the caller keeps readable.
        unsafe {
            let (a, from) = (*left.offset(k * step), right.start.offset(k * right.row));
            for (j, sum) in to.iter_mut().enumerate() {
                *sum = sum.multiply_add(a, *from.offset(j as isize * right.column));
            }
        }
    }
}

/// An operand's matrices: strides of the last two dimensions; batches by the dimensions before them.
fn matrix<T>(operand: &Operand) -> Matrix<T> {
    let layout = &operand.view.layout;
    let rank = layout.shape().rank();
    Matrix {
        start: (operand.span.address as *mut T).wrapping_add(layout.offset()),
        row: layout.strides()[rank - 2],
        column: layout.strides()[rank - 1],
    }
}

/// Elements from the first matrix to matrix `batch`, counted row-major over the leading dimensions.
fn batch_offset(layout: &Layout, mut batch: usize) -> isize {
    let lead = layout.shape().rank() - 2;
    let mut offset = 0;
    for axis in (0..lead).rev() {
        let size = layout.shape()[axis];
        offset += (batch % size) as isize * layout.strides()[axis];
        batch /= size;
    }
    offset
}

/// Whether one product over all batches does: one right matrix for all, and left rows evenly spaced across batches.
fn is_one_product(left: &Layout, right: &Layout) -> bool {
    let rank = left.shape().rank();
    let shared = (0..rank - 2).all(|axis| right.strides()[axis] == 0 || right.shape()[axis] == 1);
    shared && collapse(&left.shape().dims()[..rank - 1], &left.strides()[..rank - 1]).is_some()
}

/// The stride of one dimension that runs over these dimensions in row-major order, where there is one.
pub(super) fn collapse(sizes: &[usize], strides: &[isize]) -> Option<isize> {
    let mut inner: Option<(usize, isize)> = None;
    for (&size, &stride) in sizes.iter().zip(strides).rev().filter(|&(&size, _)| size != 1) {
        match inner {
            None => inner = Some((size, stride)),
            Some((count, step)) if stride == step * count as isize => inner = Some((count * size, step)),
            Some(_) => return None,
        }
    }
    Some(inner.map_or(1, |(_, step)| step))
}

/// Runs [`Op::Matmul`](crate::op::Op::Matmul).
///
/// # Errors
/// If there is no product of these element types.
///
/// # Safety
/// As for [`Engine::launch`](crate::engine::Engine::launch).
pub(super) unsafe fn run(call: &Call) -> Result<(), EngineError> {
    let (left, right, to) = (&call.inputs[0], &call.inputs[1], &call.outputs[0]);
    let (a, b) = (&left.view.layout, &right.view.layout);
    let rank = a.shape().rank();
    let mut sizes = [a.shape()[rank - 2], a.shape()[rank - 1], b.shape()[rank - 1]];
    let mut batches: usize = a.shape().dims()[..rank - 2].iter().product();
    if batches * sizes[0] * sizes[2] == 0 {
        return Ok(());
    }
    let one = batches > 1 && is_one_product(a, b);
    let step = sizes[0] * sizes[2];
    if one {
        sizes[0] *= batches;
        batches = 1;
    }
    match left.view.dtype {
        Dtype::F32 => {
            let (mut left, right, to) = (matrix(left), matrix(right), matrix::<f32>(to));
            if one {
                left.row = collapse(&a.shape().dims()[..rank - 1], &a.strides()[..rank - 1]).unwrap_or(1);
            }
            let product = |batch: usize, parallel: bool| {
                let (left, right) =
                    (left.offset(batch_offset(a, batch)), right.offset(batch_offset(b, batch)));
                let to = Matrix { row: sizes[2] as isize, column: 1, ..to.offset((batch * step) as isize) };
                // SAFETY: the caller upholds the spans; batches write disjoint parts of the contiguous output.
                unsafe { multiply_f32(sizes, to, left, right, parallel) }
            };
            for_each_batch(batches, sizes, product);
        }
        // SAFETY: the caller's.
        Dtype::I32 => unsafe { integers::<i32>(call, sizes, batches, one) },
        // SAFETY: the caller's.
        Dtype::I64 => unsafe { integers::<i64>(call, sizes, batches, one) },
        other => return Err(failure(call, &format!("no matrix product of {other}"))),
    }
    Ok(())
}

/// # Safety
/// As for [`gemm_f32`].
unsafe fn multiply_f32(sizes: Sizes, to: Matrix<f32>, left: Matrix<f32>, right: Matrix<f32>, parallel: bool) {
    if sizes[1] == 0 {
        // SAFETY: the output is contiguous, and zeros are floats.
        unsafe { to.start.write_bytes(0, sizes[0] * sizes[2]) }
    } else {
        // SAFETY: the caller's.
        unsafe { gemm_f32(sizes, to, left, right, false, parallel) }
    }
}

/// Runs `product(batch, parallel inside)` for every batch: side by side where there are many, else each on all threads.
fn for_each_batch(batches: usize, sizes: Sizes, product: impl Fn(usize, bool) + Sync) {
    let work: usize = sizes.iter().product();
    if batches * work < PARALLEL_WORK {
        (0..batches).for_each(|batch| product(batch, false));
    } else if batches >= rayon::current_num_threads() {
        (0..batches).into_par_iter().for_each(|batch| product(batch, false));
    } else {
        (0..batches).for_each(|batch| product(batch, true));
    }
}

/// # Safety
/// As for [`run`].
unsafe fn integers<T: Integer>(call: &Call, sizes: Sizes, batches: usize, one: bool) {
    let (a, b) = (&call.inputs[0].view.layout, &call.inputs[1].view.layout);
    let (mut left, right, to) =
        (matrix::<T>(&call.inputs[0]), matrix::<T>(&call.inputs[1]), matrix::<T>(&call.outputs[0]));
    if one {
        let lead = a.shape().rank() - 1;
        left.row = collapse(&a.shape().dims()[..lead], &a.strides()[..lead]).unwrap_or(1);
    }
    let [rows, inner, columns] = sizes;
    let row = |index: usize| {
        let (batch, i) = (index / rows, (index % rows) as isize);
        let left_row = left.offset(batch_offset(a, batch) + i * left.row).start;
        let right = right.offset(batch_offset(b, batch));
        // SAFETY: the caller upholds the spans; every row of every batch of the contiguous output is lent once, and its
        // bytes, whatever they were, are integers.
        unsafe {
            let to = std::slice::from_raw_parts_mut(to.offset((index * columns) as isize).start, columns);
            integer_row(to, inner, left_row, left.column, right);
        }
    };
    if batches * rows * inner * columns < PARALLEL_WORK {
        (0..batches * rows).for_each(row);
    } else {
        (0..batches * rows).into_par_iter().for_each(row);
    }
}

#[cfg(test)]
mod tests;
