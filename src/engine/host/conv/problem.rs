//! A convolution's sizes, and its operands in memory.

use super::super::call::{Operand, collapse};
use super::super::columns::{ColumnsArgs, Real};
use super::super::matmul::{Matrix, PARALLEL_WORK};
use super::super::spread::for_each;
use crate::op::{Conv, View};

/// The sizes of a convolution. Channels and filters are those of one group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem {
    pub images: usize,
    pub groups: usize,
    pub channels: usize,
    pub filters: usize,
    pub size: [usize; 3],
    pub kernel: [usize; 3],
    pub out: [usize; 3],
    pub stride: [usize; 3],
    pub padding: [usize; 3],
    pub dilation: [usize; 3],
}

/// Groups of so many pairs of a channel and a filter, or fewer: their column matrix costs more than its product.
const DEPTHWISE_PAIRS: usize = 4;

impl Problem {
    /// From the forward's image shape `[n, c, d, h, w]`, number of filters, and kernel.
    pub fn new(conv: &Conv, image: [usize; 5], filters: usize, kernel: [usize; 3]) -> Self {
        let [images, channels, depth, height, width] = image;
        let size = [depth, height, width];
        Problem {
            images,
            groups: conv.groups,
            channels: channels / conv.groups,
            filters: filters / conv.groups,
            size,
            kernel,
            out: conv.output_size(size, kernel),
            stride: conv.stride,
            padding: conv.padding,
            dilation: conv.dilation,
        }
    }

    /// Elements of a window in one channel.
    pub fn taps(&self) -> usize {
        self.kernel.iter().product()
    }

    /// Rows of the column matrix of one group.
    pub fn rows(&self) -> usize {
        self.channels * self.taps()
    }

    /// Rows of one output channel, through all its planes.
    pub fn out_rows(&self) -> usize {
        self.out[0] * self.out[1]
    }

    /// Pixels of one row of output.
    pub fn width(&self) -> usize {
        self.out[2]
    }

    /// Pixels of one output channel.
    pub fn pixels(&self) -> usize {
        self.out.iter().product()
    }

    /// Pixels of one channel of the image.
    pub fn image_pixels(&self) -> usize {
        self.size.iter().product()
    }

    /// Multiply-adds of one image.
    pub fn image_work(&self) -> usize {
        self.groups * self.filters * self.rows() * self.pixels()
    }

    /// Whether the column matrix of an image is the image.
    pub fn is_pointwise(&self) -> bool {
        self.kernel == [1; 3] && self.stride == [1; 3] && self.padding == [0; 3]
    }

    /// Whether groups have so few channels and filters that they are convolved without a column matrix.
    pub fn is_depthwise(&self) -> bool {
        self.channels * self.filters <= DEPTHWISE_PAIRS && self.kernel != [1; 3]
    }

    /// Elements of the part of one plane that the windows of `out_rows` output rows cover.
    pub fn plane_count(&self, out_rows: usize) -> usize {
        let covered = |k: usize, count: usize| {
            count.saturating_sub(1) * self.stride[k] + self.kernel[k].saturating_sub(1) * self.dilation[k] + 1
        };
        covered(1, out_rows.min(self.out[1])) * covered(2, self.out[2])
    }

    /// Kernel arguments but for what moves: pointers, rows, band.
    pub fn columns_args<T>(&self, image: &Image<T>) -> ColumnsArgs<T> {
        let sizes = |values: [usize; 3]| values.map(|value| value as i64);
        ColumnsArgs {
            image: image.start,
            columns: std::ptr::null_mut(),
            plane: std::ptr::null_mut(),
            weights: std::ptr::null_mut(),
            weight_step: 1,
            strides: [1, 2, 3, 4].map(|axis| image.strides[axis] as i64),
            size: sizes(self.size),
            kernel: sizes(self.kernel),
            stride: sizes(self.stride),
            padding: sizes(self.padding),
            dilation: sizes(self.dilation),
            rows: [0, self.rows() as i64],
            out_begin: 0,
            out_rows: self.out_rows() as i64,
            out: [self.out[1] as i64, self.out[2] as i64],
            pitch: self.pixels() as i64,
        }
    }
}

/// Output rows in equal bands, so that what one needs stays small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bands {
    pub count: usize,
    pub rows: usize,
    total: usize,
}

impl Bands {
    /// Bands of at most about `most` of `total` rows, and at least one.
    pub fn new(total: usize, most: usize) -> Self {
        let count = total.div_ceil(most.max(1)).max(1);
        Bands { count, rows: total.div_ceil(count), total }
    }

    /// First row of a band and number of its rows; the last may be short.
    pub fn get(&self, band: usize) -> (usize, usize) {
        let begin = (band * self.rows).min(self.total);
        (begin, self.rows.min(self.total - begin))
    }
}

/// A tensor `[n, c, d, h, w]` in memory.
#[derive(Debug)]
pub(super) struct Image<T> {
    pub start: *mut T,
    pub strides: [isize; 5],
}

impl<T> Clone for Image<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Image<T> {}

// SAFETY: an address and strides; whoever reads or writes through it answers for the access.
unsafe impl<T: Send> Send for Image<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Image<T> {}

impl<T: Real> Image<T> {
    pub fn new(operand: &Operand) -> Self {
        let layout = &operand.view.layout;
        Image {
            start: (operand.span.address as *mut T).wrapping_add(layout.offset()),
            strides: std::array::from_fn(|axis| layout.strides()[axis]),
        }
    }

    /// Row-major images of so many `channels` and of `size`.
    pub fn contiguous(start: *mut T, channels: usize, size: [usize; 3]) -> Self {
        let [depth, height, width] = size;
        let strides = [channels * depth * height * width, depth * height * width, height * width, width, 1];
        Image { start, strides: strides.map(|step| step as isize) }
    }

    /// From `image` and `channel` on.
    pub fn at(self, image: usize, channel: usize) -> Self {
        let elements = image as isize * self.strides[0] + channel as isize * self.strides[1];
        Image { start: self.start.wrapping_offset(elements), ..self }
    }

    /// Channel by pixel, from the pixel numbered `first` on, where pixels are `step` apart.
    pub fn matrix(self, first: usize, step: isize) -> Matrix<T> {
        Matrix {
            start: self.start.wrapping_offset(first as isize * step),
            row: self.strides[1],
            column: step,
        }
    }

    /// Rows `begin..begin + rows` of channels, counted through planes of `plane`: `[height, width]`, copied to `to`,
    /// where channels are `pitch` apart.
    ///
    /// # Safety
    /// The rows of the image are readable and those of the copy writable.
    pub unsafe fn copy_rows(
        self,
        channels: usize,
        [begin, rows]: [usize; 2],
        [height, width]: [usize; 2],
        to: *mut T,
        pitch: usize,
    ) {
        let [_, channel_step, z_step, y_step, x_step] = self.strides;
        for (channel, row) in (0..channels).flat_map(|channel| (0..rows).map(move |row| (channel, row))) {
            let (z, y) = ((begin + row) / height, (begin + row) % height);
            let offset = channel as isize * channel_step + z as isize * z_step + y as isize * y_step;
            let from = self.start.wrapping_offset(offset);
            // SAFETY: a row of the image and of the copy, which the caller keeps readable and writable.
            unsafe {
                let to = to.add(channel * pitch + row * width);
                if x_step == 1 {
                    to.copy_from_nonoverlapping(from, width);
                } else {
                    (0..width).for_each(|x| to.add(x).write(*from.offset(x as isize * x_step)));
                }
            }
        }
    }
}

/// Steps between pixels of a view's channels, if they are even.
pub(super) fn pixel_step(view: &View) -> Option<isize> {
    collapse(&view.shape().dims()[2..], &view.layout.strides()[2..])
}

/// Where weight `(group, filter, channel, z, y, x)` lies: `offset + sum(index * strides)`, in elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeightLayout {
    pub offset: isize,
    pub strides: [isize; 6],
}

impl WeightLayout {
    pub fn new(view: &View, problem: &Problem) -> Self {
        let layout = &view.layout;
        let [filter, channel, z, y, x] = std::array::from_fn(|axis| layout.strides()[axis]);
        WeightLayout {
            offset: layout.offset() as isize,
            strides: [problem.filters as isize * filter, filter, channel, z, y, x],
        }
    }

    /// The step along the rows of the column matrix, if it is even.
    fn step(&self, problem: &Problem) -> Option<isize> {
        let [depth, height, width] = problem.kernel;
        collapse(&[problem.channels, depth, height, width], &self.strides[2..])
    }

    /// Elements of the copy that [`matrices`](Self::matrices) makes.
    pub fn copy_count(&self, problem: &Problem) -> usize {
        match self.step(problem) {
            Some(_) => 0,
            None => problem.groups * problem.filters * problem.rows(),
        }
    }

    /// Weights as matrices, filter by row of the column matrix, one per group; copied to `copy` where that is needed.
    ///
    /// # Safety
    /// The weights are readable; `copy` is writable for [`copy_count`](Self::copy_count) elements.
    pub unsafe fn matrices<T: Real>(
        &self,
        weights: *mut T,
        copy: *mut T,
        problem: &Problem,
    ) -> (Matrix<T>, isize) {
        let start = weights.wrapping_offset(self.offset);
        if let Some(column) = self.step(problem) {
            let row = self.strides[1];
            return (Matrix { start, row, column }, self.strides[0]);
        }
        let rows = problem.rows();
        let (from, to) =
            (Matrix { start, row: 0, column: 0 }, Matrix { start: copy, row: rows as isize, column: 1 });
        let [group_step, filter_step, channel_step, z_step, y_step, x_step] = self.strides;
        let copy_filter = |index: usize| {
            let (group, filter) = (index / problem.filters, index % problem.filters);
            let from = from.offset(group as isize * group_step + filter as isize * filter_step);
            let to = to.offset((index * rows) as isize);
            let [depth, height, width] = problem.kernel.map(|size| size as isize);
            for row in 0..rows as isize {
                let (x, y, z) = (row % width, row / width % height, row / (width * height) % depth);
                let channel = row / (width * height * depth);
                let elements = channel * channel_step + z * z_step + y * y_step + x * x_step;
                // SAFETY: the index is inside the weights, and the row inside this filter's part of the copy.
                unsafe { *to.start.offset(row) = *from.start.offset(elements) };
            }
        };
        let filters = problem.groups * problem.filters;
        for_each(filters, filters * rows >= PARALLEL_WORK / 16, copy_filter);
        (to, (problem.filters * rows) as isize)
    }
}
