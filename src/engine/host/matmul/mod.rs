//! Matrix products. Every element is summed in an order that shapes and layouts decide, never the number of threads.

mod gemm;

use super::call::{Call, Operand, collapse};
use super::columns::Real;
use super::kernels;
use super::spread::for_each;
use crate::engine::EngineError;
use crate::op::{Dtype, Layout};
pub(super) use gemm::{Matrix, Sizes, gemm};

/// Multiply-adds below which work is not worth waking other threads for.
pub(super) const PARALLEL_WORK: usize = 1 << 20;
/// The same for a single product, whose parts have to meet more often.
const PARALLEL_PRODUCT: usize = 1 << 22;
/// Elements below which filling them is not worth waking other threads for.
const PARALLEL_FILL: usize = 1 << 18;

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

/// The products of a call, one per batch, with the output contiguous.
struct Products<'a, T> {
    sizes: Sizes,
    batches: usize,
    left: Matrix<T>,
    right: Matrix<T>,
    to: Matrix<T>,
    layouts: [&'a Layout; 2],
    /// Its elements `column` apart.
    bias: Option<Matrix<T>>,
}

impl<'a, T: Copy + Send + Sync> Products<'a, T> {
    fn new(call: &'a Call) -> Self {
        let (a, b) = (&call.inputs[0].view.layout, &call.inputs[1].view.layout);
        let rank = a.shape().rank();
        let sizes = [a.shape()[rank - 2], a.shape()[rank - 1], b.shape()[rank - 1]];
        let start = call.outputs[0].span.address as *mut T;
        let mut products = Products {
            sizes,
            batches: a.shape().dims()[..rank - 2].iter().product(),
            left: matrix(&call.inputs[0]),
            right: matrix(&call.inputs[1]),
            to: Matrix { start, row: sizes[2] as isize, column: 1 },
            layouts: [a, b],
            bias: call.inputs.get(2).map(|bias| {
                let layout = &bias.view.layout;
                let start = (bias.span.address as *mut T).wrapping_add(layout.offset());
                Matrix { start, row: 0, column: layout.strides()[0] }
            }),
        };
        // One right matrix for all batches, and left rows evenly spaced across them: one product does.
        let shared = (0..rank - 2).all(|axis| b.strides()[axis] == 0 || b.shape()[axis] == 1);
        let row = collapse(&a.shape().dims()[..rank - 1], &a.strides()[..rank - 1]).filter(|_| shared);
        if let Some(row) = row.filter(|_| products.batches > 1) {
            products.left.row = row;
            products.sizes[0] *= products.batches;
            products.batches = 1;
        }
        products
    }

    /// Left, right and output of one batch.
    fn batch(&self, batch: usize) -> [Matrix<T>; 3] {
        let [a, b] = self.layouts;
        [
            self.left.offset(batch_offset(a, batch)),
            self.right.offset(batch_offset(b, batch)),
            self.to.offset((batch * self.sizes[0] * self.sizes[2]) as isize),
        ]
    }

    /// Multiply-adds of one batch.
    fn work(&self) -> usize {
        self.sizes.iter().product()
    }

    /// One row of output, with what is added to: the bias, or `zero`.
    ///
    /// # Safety
    /// The bias is readable and the row writable, and lent to nobody else.
    unsafe fn filled_row(&self, index: usize, zero: T) -> &'a mut [T] {
        let columns = self.sizes[2];
        // SAFETY: the caller's row and bias; whatever the row's bytes were, they are numbers.
        unsafe {
            let row =
                std::slice::from_raw_parts_mut(self.to.offset((index * columns) as isize).start, columns);
            match self.bias {
                None => row.fill(zero),
                Some(bias) if bias.column == 1 => {
                    row.copy_from_slice(std::slice::from_raw_parts(bias.start, columns))
                }
                Some(bias) => {
                    let value = |j: usize| *bias.start.offset(j as isize * bias.column);
                    row.iter_mut().enumerate().for_each(|(j, to)| *to = value(j));
                }
            }
            row
        }
    }
}

/// # Safety
/// As for [`run`]; the call's elements are `T`.
unsafe fn floats<T: Real>(call: &Call) {
    let products = Products::<T>::new(call);
    let ([rows, inner, columns], batches, work) = (products.sizes, products.batches, products.work());
    let prefilled = products.bias.is_some() || inner == 0;
    if prefilled {
        for_each(batches * rows, batches * rows * columns >= PARALLEL_FILL, |row| {
            // SAFETY: the caller upholds the spans; every row is lent once.
            unsafe { products.filled_row(row, T::ZERO) };
        });
    }
    if inner == 0 {
        return;
    }
    // Side by side where there are many batches, else each on all threads.
    let many = batches >= rayon::current_num_threads() && batches > 1;
    let inside = !many && work >= PARALLEL_PRODUCT;
    for_each(batches, many && batches * work >= PARALLEL_WORK, |batch| {
        let [left, right, to] = products.batch(batch);
        // SAFETY: the caller upholds the spans; batches write disjoint parts of the contiguous output.
        unsafe { gemm(products.sizes, to, left, right, prefilled, inside) }
    });
}

/// Runs [`Op::Matmul`](crate::op::Op::Matmul): of floats here, of integers by a kernel.
///
/// # Errors
/// If there is no product of these element types.
///
/// # Safety
/// As for [`Engine::launch`](crate::engine::Engine::launch).
pub(super) unsafe fn run(call: &Call) -> Result<(), EngineError> {
    if call.outputs[0].view.shape().count() == 0 {
        return Ok(());
    }
    match call.inputs[0].view.dtype {
        // SAFETY: the caller's; the element type is the views'.
        Dtype::F64 => unsafe { floats::<f64>(call) },
        // SAFETY: as above.
        Dtype::F32 => unsafe { floats::<f32>(call) },
        // SAFETY: the caller's.
        _ => return unsafe { kernels::run(call) },
    }
    Ok(())
}

#[cfg(test)]
mod tests;
