use super::super::columns::{ColumnsArgs, column_kernels};
use super::super::matmul::{Matrix, gemm_f32};
use super::forward::bands;
use super::{Bands, Image, Problem, WeightLayout, Workspace, aligned, pixel_step};
use crate::op::View;

/// The backward pass of the input as a forward pass over the gradient: windows that move one pixel at a time are
/// mirrored ones.
pub(super) fn as_forward(problem: &Problem, weights: WeightLayout) -> Option<(Problem, WeightLayout)> {
    let reach: [usize; 2] =
        std::array::from_fn(|k| problem.dilation[k] * problem.kernel[k].saturating_sub(1));
    if problem.stride != [1, 1] || (0..2).any(|k| problem.padding[k] > reach[k]) {
        return None;
    }
    let [group, filter, channel, y, x] = weights.strides;
    let last = |k: usize| problem.kernel[k].saturating_sub(1) as isize;
    let mirrored = WeightLayout {
        offset: weights.offset + last(0) * y + last(1) * x,
        strides: [group, channel, filter, -y, -x],
    };
    let problem = Problem {
        channels: problem.filters,
        filters: problem.channels,
        size: problem.out,
        out: problem.size,
        padding: std::array::from_fn(|k| reach[k] - problem.padding[k]),
        ..*problem
    };
    Some((problem, mirrored))
}

/// Rows of an image's channels as a matrix, channel by pixel: in place where pixels are evenly spaced, else copied.
///
/// # Safety
/// The image is readable; where `step` is `None`, `copy` is writable for the elements, `pitch` from channel to channel.
unsafe fn dense_rows(
    image: Image,
    channels: usize,
    [begin, rows, width]: [usize; 3],
    step: Option<isize>,
    copy: *mut f32,
    pitch: usize,
) -> Matrix<f32> {
    if let Some(step) = step {
        return image.matrix(begin, step);
    }
    for channel in 0..channels {
        for y in 0..rows {
            let from = image.at(0, channel).matrix(begin + y, 0).start;
            let step = image.strides[3];
            // SAFETY: row `begin + y` of the image is readable, and row `y` of the copy is writable.
            unsafe {
                let to = copy.add(channel * pitch + y * width);
                if step == 1 {
                    to.copy_from_nonoverlapping(from, width);
                } else {
                    (0..width).for_each(|x| to.add(x).write(*from.offset(x as isize * step)));
                }
            }
        }
    }
    Matrix { start: copy, row: pitch as isize, column: 1 }
}

/// `columns = transposed weights * gradient`, added to the image, band after band.
#[derive(Debug)]
pub(super) struct ScatterPlan {
    problem: Problem,
    weights: WeightLayout,
    pixel_step: Option<isize>,
    bands: Bands,
    columns_count: usize,
    pub workspace: Workspace,
}

impl ScatterPlan {
    pub fn new(problem: Problem, gradient: &View, weights: WeightLayout, workers: usize) -> Self {
        let bands = bands(&problem);
        let pixel_step = pixel_step(gradient);
        let columns_count = aligned(problem.rows() * bands.rows * problem.out[1]);
        let copy = match pixel_step {
            Some(_) => 0,
            None => problem.filters * bands.rows * problem.out[1],
        };
        let shared = match weights.step(&problem) {
            Some(_) => 0,
            None => problem.groups * problem.filters * problem.rows(),
        };
        let work = problem.images * problem.image_work();
        ScatterPlan {
            problem,
            weights,
            pixel_step,
            bands,
            columns_count,
            workspace: Workspace::new(shared, columns_count + copy, problem.images, work, workers),
        }
    }

    /// # Safety
    /// The operands fit the plan; `scratch` is as large as the workspace; nothing else touches it or the output.
    pub unsafe fn run(&self, gradient: Image, weights: *mut f32, output: *mut f32, scratch: *mut f32) {
        let problem = &self.problem;
        // SAFETY: the caller's weights; the shared part of the scratch is as large as the plan found them to be.
        let (weights, group_step) = unsafe { self.weights.matrices(weights, scratch, problem) };
        let plane = problem.size[0] * problem.size[1];
        let channels = problem.groups * problem.channels;
        let output = Image {
            start: output,
            strides: [channels * plane, plane, problem.size[1], 1].map(|step| step as isize),
        };
        let parallel_inside = problem.images < rayon::current_num_threads();
        let body = |index: usize, scratch: *mut f32| {
            // SAFETY: an image of the output is this task's alone.
            unsafe { output.at(index, 0).start.write_bytes(0, channels * plane) };
            for group in 0..problem.groups {
                let (from, to) =
                    (gradient.at(index, group * problem.filters), output.at(index, group * problem.channels));
                let weights = weights.offset(group as isize * group_step);
                // SAFETY: as above; scratch is this worker's.
                unsafe { self.scatter(from, to, weights, scratch, parallel_inside) };
            }
        };
        self.workspace.run(scratch, problem.images, body);
    }

    /// Adds one group of one image.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `scratch` is one worker's.
    unsafe fn scatter(
        &self,
        from: Image,
        to: Image,
        weights: Matrix<f32>,
        scratch: *mut f32,
        parallel: bool,
    ) {
        let problem = &self.problem;
        let (rows, width) = (problem.rows(), problem.out[1]);
        if rows * problem.filters * problem.pixels() == 0 {
            return;
        }
        let transposed = Matrix { row: weights.column, column: weights.row, ..weights };
        for band in 0..self.bands.count {
            let (begin, out_rows) = self.bands.get(band, problem.out[0]);
            let pixels = out_rows * width;
            let columns = Matrix { start: scratch, row: pixels as isize, column: 1 };
            // SAFETY: the plan sized the worker's elements for columns and copy of a whole band.
            unsafe {
                let copy = scratch.add(self.columns_count);
                let area = [begin, out_rows, width];
                let gradient = dense_rows(from, problem.filters, area, self.pixel_step, copy, pixels);
                let sizes = [rows, problem.filters, pixels];
                gemm_f32(sizes, columns, transposed, gradient, false, parallel);
                column_kernels().col2im(&ColumnsArgs {
                    columns: scratch,
                    out_begin: begin as i64,
                    out_rows: out_rows as i64,
                    pitch: pixels as i64,
                    ..problem.columns_args(&to)
                });
            }
        }
    }
}

/// About as many pixels are multiplied at a time in the backward pass of weights.
const PIECE_PIXELS: usize = 256;

/// `weights = gradient * transposed columns`, a block of the column matrix's rows per task, added up piece by piece in
/// the order of images and bands.
#[derive(Debug)]
pub(super) struct GradientPlan {
    problem: Problem,
    /// Of image and gradient, where they need no copy.
    image_step: Option<isize>,
    gradient_step: Option<isize>,
    /// A piece is a band of one image, or some whole images.
    bands: Bands,
    piece_images: usize,
    block_rows: usize,
    /// Elements of each part of a worker's scratch.
    columns_count: usize,
    copy_count: usize,
    sums_count: usize,
    pub workspace: Workspace,
}

impl GradientPlan {
    pub fn new(problem: Problem, image: &View, gradient: &View, whole_batch: bool, workers: usize) -> Self {
        let most_pixels = if whole_batch { usize::MAX } else { PIECE_PIXELS };
        let bands = Bands::new(problem.out[0], most_pixels / problem.out[1].max(1));
        let images = most_pixels / problem.pixels().max(1);
        let piece_images = images.clamp(1, problem.images.max(1));
        let piece_pixels = piece_images * bands.rows * problem.out[1];
        let block_rows = problem.rows().div_ceil(4).next_multiple_of(8).clamp(8, 128);
        let one = piece_images == 1;
        let image_step = (one && problem.is_pointwise()).then(|| pixel_step(image)).flatten();
        // A band is copied: its rows lie a whole plane apart, often a power of two, where they evict each other.
        let gradient_step = (one && bands.count == 1).then(|| pixel_step(gradient)).flatten();
        let columns_count = image_step.map_or(aligned(block_rows * piece_pixels), |_| 0);
        let copy_count = gradient_step.map_or(aligned(problem.filters * piece_pixels), |_| 0);
        let sums_count = aligned(block_rows * problem.filters);
        let each = columns_count + copy_count + sums_count + problem.plane_count(bands.rows);
        let tasks = problem.groups * problem.rows().div_ceil(block_rows);
        let work = problem.images * problem.image_work();
        GradientPlan {
            problem,
            image_step,
            gradient_step,
            bands,
            piece_images,
            block_rows,
            columns_count,
            copy_count,
            sums_count,
            workspace: Workspace::new(0, each, tasks, work, workers),
        }
    }

    /// # Safety
    /// The operands fit the plan; `scratch` is as large as the workspace; nothing else touches it or the output.
    pub unsafe fn run(&self, image: Image, gradient: Image, output: *mut f32, scratch: *mut f32) {
        let problem = &self.problem;
        let (rows, filters) = (problem.rows(), problem.filters);
        if problem.images * problem.pixels() == 0 {
            // SAFETY: the caller's output, of so many floats.
            unsafe { output.write_bytes(0, problem.groups * filters * rows) };
            return;
        }
        let blocks = rows.div_ceil(self.block_rows);
        let output = Matrix { start: output, row: rows as isize, column: 1 };
        let body = |task: usize, scratch: *mut f32| {
            let (group, begin) = (task / blocks, task % blocks * self.block_rows);
            let block = [begin, self.block_rows.min(rows - begin)];
            let (image, gradient) = (image.at(0, group * problem.channels), gradient.at(0, group * filters));
            // SAFETY: scratch is this worker's, and these columns of the group's weights are this task's.
            unsafe {
                let sums = self.add_up(image, gradient, block, scratch);
                let to = output.offset((group * filters * rows + begin) as isize);
                for filter in 0..filters {
                    for row in 0..block[1] {
                        *to.start.add(filter * rows + row) = *sums.add(row * filters + filter);
                    }
                }
            }
        };
        self.workspace.run(scratch, problem.groups * blocks, body);
    }

    /// The sums of a block of rows of the column matrix, `[rows][filters]`, in `scratch`.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `scratch` is one worker's.
    unsafe fn add_up(&self, image: Image, gradient: Image, block: [usize; 2], scratch: *mut f32) -> *mut f32 {
        let (problem, filters) = (&self.problem, self.problem.filters);
        let sums = scratch.wrapping_add(self.columns_count + self.copy_count);
        let to = Matrix { start: sums, row: filters as isize, column: 1 };
        let mut first = true;
        for index in (0..problem.images).step_by(self.piece_images) {
            let images = self.piece_images.min(problem.images - index);
            for band in 0..self.bands.count {
                let (begin, out_rows) = self.bands.get(band, problem.out[0]);
                let area = [begin, out_rows, problem.out[1]];
                let pixels = images * out_rows * problem.out[1];
                // SAFETY: the plan sized the worker's elements for a whole piece.
                unsafe {
                    let (left, right) =
                        self.piece(image.at(index, 0), gradient.at(index, 0), images, area, block, scratch);
                    gemm_f32([block[1], pixels, filters], to, left, right, !first, false);
                }
                first = false;
            }
        }
        sums
    }

    /// Columns and transposed gradient of one piece.
    ///
    /// # Safety
    /// As for [`add_up`](Self::add_up).
    unsafe fn piece(
        &self,
        image: Image,
        gradient: Image,
        images: usize,
        area: [usize; 3],
        [row, rows]: [usize; 2],
        scratch: *mut f32,
    ) -> (Matrix<f32>, Matrix<f32>) {
        let [begin, out_rows, width] = area;
        let (each, pitch) = (out_rows * width, images * out_rows * width);
        let copy = scratch.wrapping_add(self.columns_count);
        let mut left = Matrix { start: scratch, row: pitch as isize, column: 1 };
        let mut right = Matrix { start: copy, ..left };
        for index in 0..images {
            let (image, gradient) = (image.at(index, 0), gradient.at(index, 0));
            // SAFETY: this image's pixels of the columns and of the copy, which the plan made room for.
            unsafe {
                let to = copy.wrapping_add(index * each);
                let matrix = dense_rows(gradient, self.problem.filters, area, self.gradient_step, to, pitch);
                if self.gradient_step.is_some() {
                    right = matrix;
                }
                if let Some(step) = self.image_step {
                    left = image.at(0, row).matrix(begin, step);
                    continue;
                }
                column_kernels().im2col(&ColumnsArgs {
                    columns: scratch.add(index * each),
                    plane: scratch.add(self.columns_count + self.copy_count + self.sums_count),
                    rows: [row as i64, (row + rows) as i64],
                    out_begin: begin as i64,
                    out_rows: out_rows as i64,
                    pitch: pitch as i64,
                    ..self.problem.columns_args(&image)
                });
            }
        }
        let right = Matrix { row: right.column, column: right.row, ..right };
        (left, right)
    }
}
