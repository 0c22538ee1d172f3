//! A matrix product as cuBLASLt is told of it: sizes, how the matrices lie, how many there are.

use arrayvec::ArrayVec;

use crate::engine::ALIGN_BYTES;
use crate::engine::call::collapse;
use crate::engine::cuda::scratch::copies_bytes;
use crate::op::{Dtype, Layout, MAX_RANK, View};

/// An operand as the library can read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// Whether it lies column by column, not row by row.
    pub transposed: bool,
    /// Elements from one row (or column) to the next.
    pub leading: usize,
    /// Elements from one matrix to the next.
    pub batch_stride: usize,
    /// Its addresses are multiples of this, a power of two.
    pub align_bytes: u32,
}

/// What becomes of the bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bias {
    None,
    /// The library adds it.
    Epilogue,
    /// The output begins as it, and the product is added.
    InOutput,
}

/// All that an algorithm is chosen by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    pub dtype: Dtype,
    /// Rows, inner, columns.
    pub sizes: [usize; 3],
    pub batches: usize,
    pub left: Matrix,
    pub right: Matrix,
    pub out_align_bytes: u32,
    pub bias: Bias,
}

/// An op as products by the library, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Product {
    pub problem: Problem,
    /// Views of the operands that no strides of the library's fit: copied first.
    pub copies: [Option<View>; 2],
    /// Dimensions that the library does not step through: sizes, and steps of left, right and output in bytes.
    outer: ArrayVec<(usize, [isize; 3]), MAX_RANK>,
}

/// How an operand is read.
struct Reading {
    layout: Layout,
    copy: Option<View>,
}

/// Whether a matrix of these sizes and strides lies by columns, and from one row or column to the next; nothing if neither.
fn matrix([rows, columns]: [usize; 2], [row, column]: [isize; 2]) -> Option<(bool, usize)> {
    let leading = |outer: usize, inner: usize, outer_step: isize, inner_step: isize| {
        let leading = if outer == 1 { inner } else { usize::try_from(outer_step).ok()? };
        (leading >= inner && (inner == 1 || inner_step == 1)).then_some(leading)
    };
    let by_rows = leading(rows, columns, row, column).map(|leading| (false, leading));
    by_rows.or_else(|| leading(columns, rows, column, row).map(|leading| (true, leading)))
}

impl Reading {
    /// As it lies, if its last two dimensions are a matrix; else a copy, of repeated matrices once.
    fn new(view: &View) -> Self {
        let layout = view.layout;
        let lead = layout.shape().rank() - 2;
        let last_two = |layout: &Layout| {
            let (sizes, strides) = (layout.shape().dims(), layout.strides());
            matrix([sizes[lead], sizes[lead + 1]], [strides[lead], strides[lead + 1]])
        };
        if last_two(&layout).is_some() {
            return Reading { layout, copy: None };
        }
        let repeated = (0..lead).filter(|&axis| layout.strides()[axis] == 0);
        let once = repeated.fold(layout, |layout, axis| layout.slice(axis, 0, 1, 1));
        let made = Layout::contiguous(*once.shape()).expand(*layout.shape());
        Reading { layout: made, copy: Some(View { dtype: view.dtype, layout: once }) }
    }
}

/// The largest power of two that all are multiples of, as far as memory is aligned at all.
pub fn alignment(bytes: impl IntoIterator<Item = usize>) -> u32 {
    let any = bytes.into_iter().fold(ALIGN_BYTES, |any, bytes| any | bytes);
    1 << any.trailing_zeros()
}

impl Product {
    /// Of the op's inputs; nothing if the library is not to be asked: for integers, and where nothing is added up.
    pub fn new(inputs: &[View]) -> Option<Self> {
        let (dtype, lead) = (inputs[0].dtype, inputs[0].shape().rank() - 2);
        let dims = inputs[0].shape().dims();
        let sizes = [dims[lead], dims[lead + 1], inputs[1].shape()[lead + 1]];
        if !Dtype::FLOATS.contains(&dtype) || dims[..lead].iter().chain(&sizes).any(|&size| size == 0) {
            return None;
        }
        let readings = [Reading::new(&inputs[0]), Reading::new(&inputs[1])];
        let mut product =
            folded(&readings, sizes, dtype).map_or_else(|| batched(&readings, sizes, dtype), Some)?;
        product.problem.bias = inputs.get(2).map_or(Bias::None, |bias| bias_of(bias, sizes[2]));
        Some(product)
    }

    pub fn copies_bytes(&self) -> usize {
        copies_bytes(&self.copies)
    }

    /// Where left, right and output of each product begin, in bytes from the first.
    pub fn offsets(&self) -> impl Iterator<Item = [isize; 3]> {
        let count: usize = self.outer.iter().map(|(size, _)| size).product();
        (0..count).map(|mut index| {
            let mut offsets = [0; 3];
            for (size, steps) in self.outer.iter().rev() {
                let place = (index % size) as isize;
                offsets.iter_mut().zip(steps).for_each(|(offset, step)| *offset += place * step);
                index /= size;
            }
            offsets
        })
    }
}

/// The library adds a bias whose elements are side by side, but not to doubles.
fn bias_of(bias: &View, columns: usize) -> Bias {
    let is_dense = columns == 1 || bias.layout.strides()[0] == 1;
    let offset_bytes = bias.layout.offset() * bias.dtype.size_bytes();
    match is_dense && bias.dtype != Dtype::F64 && offset_bytes.is_multiple_of(16) {
        true => Bias::Epilogue,
        false => Bias::InOutput,
    }
}

fn problem(dtype: Dtype, sizes: [usize; 3], batches: usize, matrices: [Matrix; 2]) -> Problem {
    let [left, right] = matrices;
    let out_align_bytes = ALIGN_BYTES as u32;
    Problem { dtype, sizes, batches, left, right, out_align_bytes, bias: Bias::None }
}

fn copies(readings: &[Reading; 2]) -> [Option<View>; 2] {
    [readings[0].copy, readings[1].copy]
}

fn offset_bytes(reading: &Reading, dtype: Dtype) -> usize {
    reading.layout.offset() * dtype.size_bytes()
}

/// One product, where one right matrix serves all batches and the rows of the left are evenly apart across them.
fn folded(readings: &[Reading; 2], [rows, inner, columns]: [usize; 3], dtype: Dtype) -> Option<Product> {
    let [left, right] = readings;
    let lead = left.layout.shape().rank() - 2;
    let dims = left.layout.shape().dims();
    let is_shared = (0..lead).all(|axis| dims[axis] == 1 || right.layout.strides()[axis] == 0);
    let row = collapse(&dims[..=lead], &left.layout.strides()[..=lead]).filter(|_| is_shared)?;
    let rows = dims[..lead].iter().product::<usize>() * rows;
    let of = |reading: &Reading, sizes: [usize; 2], row: isize| {
        let (transposed, leading) = matrix(sizes, [row, reading.layout.strides()[lead + 1]])?;
        let align_bytes = alignment([offset_bytes(reading, dtype)]);
        Some(Matrix { transposed, leading, batch_stride: 0, align_bytes })
    };
    let right = of(right, [inner, columns], right.layout.strides()[lead])?;
    let matrices = [of(left, [rows, inner], row)?, right];
    let problem = problem(dtype, [rows, inner, columns], 1, matrices);
    Some(Product { problem, copies: copies(readings), outer: ArrayVec::new() })
}

/// As many batches at once as strides allow.
fn batched(readings: &[Reading; 2], sizes: [usize; 3], dtype: Dtype) -> Option<Product> {
    let [rows, inner, columns] = sizes;
    let lead = readings[0].layout.shape().rank() - 2;
    let dims = readings[0].layout.shape().dims();
    let step = |reading: &Reading, from: usize| {
        collapse(&dims[from..lead], &reading.layout.strides()[from..lead])
            .and_then(|step| usize::try_from(step).ok())
    };
    let steps = |from: usize| Some([step(&readings[0], from)?, step(&readings[1], from)?]);
    let (from, strides) = (0..=lead).find_map(|from| steps(from).map(|steps| (from, steps)))?;
    let batches = dims[from..lead].iter().product::<usize>();
    let size_bytes = dtype.size_bytes() as isize;
    let mut outer = ArrayVec::<(usize, [isize; 3]), MAX_RANK>::new();
    let mut out_step = (batches * rows * columns) as isize * size_bytes;
    for axis in (0..from).rev() {
        let [left, right] = [0, 1].map(|of: usize| readings[of].layout.strides()[axis] * size_bytes);
        outer.insert(0, (dims[axis], [left, right, out_step]));
        out_step *= dims[axis] as isize;
    }
    let outer_bytes = |of: usize| outer.iter().map(move |(_, steps)| steps[of].unsigned_abs());
    let of = |which: usize, matrix_sizes: [usize; 2]| {
        let layout = &readings[which].layout;
        let (transposed, leading) =
            matrix(matrix_sizes, [layout.strides()[lead], layout.strides()[lead + 1]])?;
        let align_bytes = alignment(outer_bytes(which).chain([offset_bytes(&readings[which], dtype)]));
        Some(Matrix { transposed, leading, batch_stride: strides[which], align_bytes })
    };
    let matrices = [of(0, [rows, inner])?, of(1, [inner, columns])?];
    let problem =
        Problem { out_align_bytes: alignment(outer_bytes(2)), ..problem(dtype, sizes, batches, matrices) };
    Some(Product { problem, copies: copies(readings), outer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Shape;

    fn view(sizes: &[usize]) -> View {
        View::contiguous(Dtype::F32, Shape::new(sizes))
    }

    fn with(view: View, change: impl FnOnce(&Layout) -> Layout) -> View {
        View { layout: change(&view.layout), ..view }
    }

    fn product(left: View, right: View) -> Product {
        Product::new(&[left, right]).expect("floats")
    }

    #[test]
    fn transposes_and_rows_of_a_larger_matrix_are_read_as_they_lie() {
        let left = with(view(&[5, 3]), |layout| layout.permute(&[1, 0]));
        let right = with(view(&[5, 9]), |layout| layout.slice(1, 2, 4, 1));
        let product = product(left, right);
        let Problem { sizes, left, right, .. } = product.problem;
        assert_eq!((sizes, product.copies), ([3, 5, 4], [None, None]));
        assert_eq!((left.transposed, left.leading), (true, 3));
        assert_eq!((right.transposed, right.leading, right.align_bytes), (false, 9, 8));
        assert_eq!(product.offsets().collect::<Vec<_>>(), [[0; 3]]);
    }

    #[test]
    fn rows_of_all_batches_are_one_matrix() {
        let right = with(view(&[6, 7]), |layout| layout.expand(Shape::new(&[2, 4, 6, 7])));
        let product = product(view(&[2, 4, 5, 6]), right);
        assert_eq!((product.problem.sizes, product.problem.batches), ([40, 6, 7], 1));
    }

    #[test]
    fn batches_are_stepped_through_where_strides_are_even() {
        // Heads of attention: [batch, rows, head, inner], seen as [batch, head, rows, inner].
        let heads = with(view(&[2, 5, 3, 4]), |layout| layout.permute(&[0, 2, 1, 3]));
        let right = with(view(&[3, 4, 6]), |layout| layout.expand(Shape::new(&[2, 3, 4, 6])));
        let product = product(heads, right);
        let Problem { batches, left, right, .. } = product.problem;
        assert_eq!((batches, left.leading, left.batch_stride, right.batch_stride), (3, 12, 4, 24));
        let offsets: Vec<_> = product.offsets().collect();
        assert_eq!(offsets, [[0; 3], [5 * 3 * 4 * 4, 0, 3 * 5 * 6 * 4]]);
        assert_eq!(product.problem.out_align_bytes, 8, "360 bytes apart");
    }

    #[test]
    fn what_is_no_matrix_is_copied_and_repeated_ones_once() {
        let flipped = with(view(&[4, 6]), |layout| layout.flip(1).expand(Shape::new(&[3, 4, 6])));
        let product = product(flipped, view(&[3, 6, 2]));
        let copy = product.copies[0].expect("a copy");
        assert_eq!(copy.shape().dims(), [1, 4, 6]);
        assert_eq!((product.problem.left.batch_stride, product.problem.right.batch_stride), (0, 12));
        assert_eq!(product.copies_bytes(), ALIGN_BYTES);
        // Windows that overlap, and a row that is repeated.
        let windows = with(view(&[10]), |layout| layout.windows(0, 3, 1));
        assert!(product_copies(windows, view(&[3, 2]))[0].is_some());
        let repeated = with(view(&[1, 3]), |layout| layout.expand(Shape::new(&[5, 3])));
        assert!(product_copies(repeated, view(&[3, 2]))[0].is_some());
    }

    fn product_copies(left: View, right: View) -> [Option<View>; 2] {
        product(left, right).copies
    }

    #[test]
    fn integers_and_empty_sums_are_not_for_the_library() {
        let integers = View::contiguous(Dtype::I32, Shape::new(&[2, 2]));
        assert!(Product::new(&[integers, integers]).is_none());
        assert!(Product::new(&[view(&[2, 0]), view(&[0, 2])]).is_none());
        assert!(Product::new(&[view(&[0, 2, 2]), view(&[0, 2, 2])]).is_none());
    }

    #[test]
    fn a_bias_is_added_by_the_library_where_it_can() {
        let bias = |view: View| {
            Product::new(&[view_of(view.dtype, 2), view_of(view.dtype, 4), view]).unwrap().problem.bias
        };
        let dense = View::contiguous(Dtype::F16, Shape::new(&[4]));
        assert_eq!(bias(dense), Bias::Epilogue);
        assert_eq!(bias(with(view(&[8]), |layout| layout.slice(0, 0, 4, 2))), Bias::InOutput);
        assert_eq!(bias(with(view(&[8]), |layout| layout.slice(0, 1, 4, 1))), Bias::InOutput);
        assert_eq!(bias(View::contiguous(Dtype::F64, Shape::new(&[4]))), Bias::InOutput);
    }

    fn view_of(dtype: Dtype, columns: usize) -> View {
        View::contiguous(dtype, Shape::new(&[2, columns]))
    }
}
