//! Pools over volumes, built from other ops: every window is copied.

use super::arguments::Slice;
use super::{create, index, linear, pointwise, reduce, view};
use crate::OvercommitDevice;
use crate::op::{ArgReduce, Binary, Dtype, Reduce, Scalar, Shape, Update};
use crate::runtime::Tensor;

/// How windows move over `[images, channels, depth, height, width]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool3d {
    /// Sizes of a window.
    pub kernel: [usize; 3],
    /// Steps of the window.
    pub stride: [usize; 3],
    /// Border around the volume.
    pub padding: [usize; 3],
    /// Distance of the window's elements.
    pub dilation: [usize; 3],
    /// Whether a last, partly outside window counts.
    pub ceil_mode: bool,
    /// Averages only: whether the border counts as elements.
    pub count_include_pad: bool,
}

impl Pool3d {
    fn reach(&self, k: usize) -> usize {
        self.dilation[k] * (self.kernel[k].max(1) - 1) + 1
    }

    /// Windows along each axis of a volume of `size`. With `ceil_mode` none starts in the border after the volume.
    fn windows(&self, size: [usize; 3]) -> [usize; 3] {
        std::array::from_fn(|k| {
            let room = (size[k] + 2 * self.padding[k]).saturating_sub(self.reach(k));
            let floor = room / self.stride[k] + 1;
            let starts_inside = floor * self.stride[k] < size[k] + self.padding[k];
            let is_partial = self.ceil_mode && !room.is_multiple_of(self.stride[k]) && starts_inside;
            floor + usize::from(is_partial)
        })
    }

    /// Border before the volume, and sizes with the borders that windows reach into.
    fn bordered_size(&self, size: [usize; 3]) -> [usize; 3] {
        let windows = self.windows(size);
        std::array::from_fn(|k| {
            let reached = (windows[k] - 1) * self.stride[k] + self.reach(k);
            reached.max(size[k] + self.padding[k])
        })
    }

    /// `[planes, d, h, w]` inside a border of `value`.
    #[track_caller]
    fn bordered(&self, x: Tensor, value: f64) -> Tensor {
        let size = size(&x);
        let shape = Shape::new(&[&[x.shape()[0]], self.bordered_size(size).as_slice()].concat());
        let border = create::full(shape, value, &x.device(), x.dtype());
        let inside = (0..3).map(|k| Slice::of(self.padding[k], size[k]));
        let slices: Vec<Slice> = [Slice::FULL].into_iter().chain(inside).collect();
        view::slice_assign(border, &slices, x)
    }

    /// `[planes, windows, elements of a window]` of what [`bordered`](Self::bordered) gives.
    #[track_caller]
    fn elements(&self, bordered: Tensor, windows: [usize; 3]) -> Tensor {
        let planes = bordered.shape()[0];
        let x = (0..3).fold(bordered, |x, k| {
            let x = view::windows(x, 1 + k, self.reach(k), self.stride[k]);
            let layout = x.layout().slice(1 + k, 0, windows[k], 1);
            let layout = layout.slice(4 + k, 0, self.kernel[k], self.dilation[k] as isize);
            x.with_layout(layout)
        });
        view::reshape_to(x, &[planes, windows.iter().product(), self.kernel.iter().product()])
    }

    /// Where the elements of each window are in a bordered volume, `[1, windows, elements of a window]`.
    #[track_caller]
    fn places(&self, size: [usize; 3], device: &OvercommitDevice) -> Tensor {
        let bordered = self.bordered_size(size);
        let count: usize = bordered.iter().product();
        let places = create::arange(0..count as i64, 1, device, Dtype::I64);
        let places = view::reshape_to(places, &[&[1], bordered.as_slice()].concat());
        self.elements(places, self.windows(size))
    }

    /// How many elements an average divides by, `[1, windows]`.
    #[track_caller]
    fn counts(&self, x: &Tensor) -> Tensor {
        let size = size(x);
        let dtype = if x.dtype() == Dtype::F64 { Dtype::F64 } else { Dtype::F32 };
        let ones = |sizes: &[usize]| create::full(Shape::new(sizes), 1, &x.device(), dtype);
        let [d, h, w] = size;
        let counted = if self.count_include_pad {
            // The border that was asked for counts, and not what the last windows reach beyond it.
            let all = self.bordered_size(size);
            let whole: [usize; 3] = std::array::from_fn(|k| all[k].min(size[k] + 2 * self.padding[k]));
            let zeros = create::zeros(Shape::new(&[&[1], all.as_slice()].concat()), &x.device(), dtype);
            let inside: Vec<Slice> = [1].iter().chain(&whole).map(|&length| Slice::of(0, length)).collect();
            view::slice_assign(zeros, &inside, ones(&[1, whole[0], whole[1], whole[2]]))
        } else {
            self.bordered(ones(&[1, d, h, w]), 0.0)
        };
        let sums = reduce::dim(Reduce::Sum, self.elements(counted, self.windows(size)), 2);
        let windows = sums.shape()[1];
        super::cast(view::reshape_to(sums, &[1, windows]), x.dtype())
    }
}

/// `[images, channels, d, h, w]` as `[planes, d, h, w]`.
#[track_caller]
fn planes(x: Tensor) -> Tensor {
    let dims = x.shape().dims();
    let sizes = [&[dims[0] * dims[1]], &dims[2..]].concat();
    view::reshape_to(x, &sizes)
}

/// Depth, height and width, the last three sizes.
fn size(x: &Tensor) -> [usize; 3] {
    let first = x.shape().rank() - 3;
    [0, 1, 2].map(|k| x.shape()[first + k])
}

/// `[planes, ..]` with the images and channels of `like` in front of the sizes of a volume.
#[track_caller]
fn volumes(x: Tensor, like: &Shape, size: [usize; 3]) -> Tensor {
    view::reshape_to(x, &[&like.dims()[..2], size.as_slice()].concat())
}

/// The greatest element of each window.
#[track_caller]
pub fn max_pool3d(x: Tensor, pool: Pool3d) -> Tensor {
    let (shape, windows) = (*x.shape(), pool.windows(size(&x)));
    let elements = pool.elements(pool.bordered(planes(x), f64::NEG_INFINITY), windows);
    volumes(reduce::dim(Reduce::Max, elements, 2), &shape, windows)
}

/// The greatest element of each window, and its row-major place in its volume.
#[track_caller]
pub fn max_pool3d_with_indices(x: Tensor, pool: Pool3d, dtype: Dtype) -> [Tensor; 2] {
    let (shape, size, device) = (*x.shape(), size(&x), x.device());
    let windows = pool.windows(size);
    let elements = pool.elements(pool.bordered(planes(x), f64::NEG_INFINITY), windows);
    let (values, winners) = reduce::with_indices(ArgReduce::Max, elements, 2, Dtype::I64);
    let places = pool.places(size, &device);
    let each = winners.shape().with(2, places.shape()[2]);
    let places = index::gather(2, view::expand(places, each), winners);
    let places = unbordered(places, pool, size);
    [volumes(values, &shape, windows), volumes(super::cast(places, dtype), &shape, windows)]
}

/// Places in a bordered volume as places in the volume itself.
#[track_caller]
fn unbordered(places: Tensor, pool: Pool3d, size: [usize; 3]) -> Tensor {
    let [_, rows, columns] = pool.bordered_size(size).map(|length| Scalar::from(length as i64));
    let [d, h, w] = pool.padding.map(|border| Scalar::from(border as i64));
    let by = |kind, x, scalar| super::run(crate::op::Op::BinaryScalar(kind, scalar), [x]);
    let column = by(Binary::Remainder, places.clone(), columns);
    let above = by(Binary::Div, places, columns);
    let row = by(Binary::Remainder, above.clone(), rows);
    let slice = by(Binary::Div, above, rows);
    let inside = |x, border| by(Binary::Sub, x, border);
    let of = |x, length: usize| by(Binary::Mul, x, Scalar::from(length as i64));
    let place = pointwise::binary(Binary::Add, of(inside(slice, d), size[1]), inside(row, h));
    pointwise::binary(Binary::Add, of(place, size[2]), inside(column, w))
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn max_pool3d_backward(x: Tensor, gradient: Tensor, indices: Tensor) -> Tensor {
    let (shape, size, device) = (*x.shape(), size(&x), x.device());
    drop(x);
    let [planes, volume] = [shape[0] * shape[1], size.iter().product()];
    let windows = gradient.shape().count() / planes.max(1);
    let zeros = create::zeros(Shape::new(&[planes, volume]), &device, gradient.dtype());
    let [gradient, indices] = [gradient, indices].map(|x| view::reshape_to(x, &[planes, windows]));
    view::reshape(index::scatter(1, zeros, indices, gradient, Update::Add), shape)
}

/// The mean of each window.
#[track_caller]
pub fn avg_pool3d(x: Tensor, pool: Pool3d) -> Tensor {
    let (shape, windows, counts) = (*x.shape(), pool.windows(size(&x)), pool.counts(&x));
    let sums = reduce::dim(Reduce::Sum, pool.elements(pool.bordered(planes(x), 0.0), windows), 2);
    let sums = view::reshape_to(sums, &[shape[0] * shape[1], windows.iter().product()]);
    volumes(pointwise::binary(Binary::Div, sums, counts), &shape, windows)
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn avg_pool3d_backward(x: Tensor, gradient: Tensor, pool: Pool3d) -> Tensor {
    let (shape, size, device) = (*x.shape(), size(&x), x.device());
    let counts = pool.counts(&x);
    drop(x);
    let (planes, bordered) = (shape[0] * shape[1], pool.bordered_size(size));
    let places = pool.places(size, &device);
    let (windows, elements) = (places.shape()[1], places.shape()[2]);
    let gradient = view::reshape_to(gradient, &[planes, windows]);
    let each = view::reshape_to(pointwise::binary(Binary::Div, gradient, counts), &[planes, windows, 1]);
    let flat = |x| view::reshape_to(x, &[planes, windows * elements]);
    let each = flat(view::expand_to(each, &[planes, windows, elements]));
    let places = flat(view::expand_to(places, &[planes, windows, elements]));
    let zeros = create::zeros(Shape::new(&[planes, bordered.iter().product()]), &device, each.dtype());
    let sums = index::scatter(1, zeros, places, each, Update::Add);
    let sums = view::reshape_to(sums, &[&[planes], bordered.as_slice()].concat());
    let inside = (0..3).fold(sums, |x, k| view::narrow(x, 1 + k, pool.padding[k], size[k]));
    view::reshape(inside, shape)
}

/// The mean of each of `out` parts of every axis: a product with a matrix for each.
#[track_caller]
pub fn adaptive_avg_pool3d(x: Tensor, out: [usize; 3]) -> Tensor {
    let size = size(&x);
    (0..3).fold(x, |x, k| along(x, 2 + k, &parts(size[k], out[k]), out[k]))
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn adaptive_avg_pool3d_backward(x: Tensor, gradient: Tensor) -> Tensor {
    let size_of_x = size(&x);
    drop(x);
    let out = size(&gradient);
    (0..3).fold(gradient, |gradient, k| {
        let (rows, columns) = (out[k], size_of_x[k]);
        let parts = parts(columns, rows);
        let turned: Vec<f64> = (0..columns * rows).map(|at| parts[at % rows * columns + at / rows]).collect();
        along(gradient, 2 + k, &turned, columns)
    })
}

/// A matrix of `out` rows whose product with a column of `length` numbers gives the means of its parts.
fn parts(length: usize, out: usize) -> Vec<f64> {
    let rows = (0..out).flat_map(|row| {
        let (start, end) = (row * length / out, ((row + 1) * length).div_ceil(out));
        let weight = 1.0 / (end - start) as f64;
        (0..length).map(move |at| if (start..end).contains(&at) { weight } else { 0.0 })
    });
    rows.collect()
}

/// The product of a matrix of `rows` rows with the columns that lie along an axis.
#[track_caller]
fn along(x: Tensor, axis: usize, matrix: &[f64], rows: usize) -> Tensor {
    let (dtype, device, last) = (x.dtype(), x.device(), x.shape().rank() - 1);
    let length = x.shape()[axis];
    let bytes: Vec<u8> = matrix.iter().flat_map(|weight| weight.to_ne_bytes()).collect();
    let data = create::Data { bytes, dtype: Dtype::F64, shape: Shape::new(&[rows, length]) };
    let matrix = super::cast(
        match create::float_from_data(data, &device) {
            Ok(matrix) => matrix,
            Err(refused) => super::fail(&refused.error),
        },
        dtype,
    );
    let turned = view::swap_dims(x, axis, last);
    view::swap_dims(linear::matmul(turned, view::swap_dims(matrix, 0, 1)), axis, last)
}
