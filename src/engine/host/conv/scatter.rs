//! The backward pass of the input.

use super::super::columns::{ColumnsArgs, Real};
use super::super::matmul::{Matrix, gemm};
use super::forward::{bands, depthwise_bands};
use super::problem::{Bands, Image, Problem, WeightLayout, pixel_step};
use super::workspace::{Workspace, aligned};
use crate::op::View;

/// A column matrix of the gradient this many times larger than that of the image is not made.
const LARGER: usize = 4;

/// The backward pass of the input as a forward pass over the gradient: windows that move one pixel at a time are
/// mirrored ones.
pub(super) fn as_forward(problem: &Problem, weights: WeightLayout) -> Option<(Problem, WeightLayout)> {
    let reach: [usize; 3] =
        std::array::from_fn(|k| problem.dilation[k] * problem.kernel[k].saturating_sub(1));
    if problem.stride != [1; 3] || (0..3).any(|k| problem.padding[k] > reach[k]) {
        return None;
    }
    if !problem.is_depthwise() && problem.filters > LARGER * problem.channels {
        return None;
    }
    let [group, filter, channel, z, y, x] = weights.strides;
    let last = |k: usize| problem.kernel[k].saturating_sub(1) as isize;
    let mirrored = WeightLayout {
        offset: weights.offset + last(0) * z + last(1) * y + last(2) * x,
        strides: [group, channel, filter, -z, -y, -x],
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

/// `columns = transposed weights * gradient`, added to the image, band after band.
#[derive(Debug)]
pub(super) struct ScatterPlan {
    problem: Problem,
    weights: WeightLayout,
    /// Of the gradient, where it needs no copy.
    pixel_step: Option<isize>,
    bands: Bands,
    columns_count: usize,
    pub workspace: Workspace,
}

impl ScatterPlan {
    pub fn new(problem: Problem, gradient: &View, weights: WeightLayout, workers: usize) -> Self {
        let depthwise = problem.is_depthwise();
        let bands = if depthwise { depthwise_bands(&problem) } else { bands(&problem) };
        let band_pixels = bands.rows * problem.width();
        let columns_count = if depthwise { 0 } else { aligned(problem.rows() * band_pixels) };
        let pixel_step = pixel_step(gradient).filter(|&step| step == 1 || !depthwise);
        let copy = pixel_step.map_or(problem.filters * band_pixels, |_| 0);
        let shared = weights.copy_count(&problem);
        let (tasks, work) = (problem.images * problem.groups, problem.images * problem.image_work());
        let workspace = Workspace::new(shared, columns_count + copy, tasks, work, workers);
        ScatterPlan { problem, weights, pixel_step, bands, columns_count, workspace }
    }

    /// # Safety
    /// The operands fit the plan; `scratch` is as large as the workspace; nothing else touches it or the output.
    pub unsafe fn run<T: Real>(&self, gradient: Image<T>, weights: *mut T, output: *mut T, scratch: *mut T) {
        let problem = &self.problem;
        // SAFETY: the caller's weights; the shared part of the scratch is as large as the plan found them to be.
        let (weights, group_step) = unsafe { self.weights.matrices(weights, scratch, problem) };
        let output = Image::contiguous(output, problem.groups * problem.channels, problem.size);
        let tasks = problem.images * problem.groups;
        let parallel_inside = tasks < rayon::current_num_threads();
        let body = |task: usize, scratch: *mut T| {
            let (index, group) = (task / problem.groups, task % problem.groups);
            let from = gradient.at(index, group * problem.filters);
            let to = output.at(index, group * problem.channels);
            let weights = weights.offset(group as isize * group_step);
            // SAFETY: a group of an image of the output is this task's alone, and scratch is this worker's.
            unsafe {
                to.start.write_bytes(0, problem.channels * problem.image_pixels());
                if problem.rows() * problem.filters * problem.pixels() > 0 {
                    self.scatter(from, to, weights, scratch, parallel_inside);
                }
            }
        };
        self.workspace.run(scratch, tasks, body);
    }

    /// Adds one group of one image.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `scratch` is one worker's.
    unsafe fn scatter<T: Real>(
        &self,
        from: Image<T>,
        to: Image<T>,
        weights: Matrix<T>,
        scratch: *mut T,
        parallel: bool,
    ) {
        let problem = &self.problem;
        let (rows, width, height) = (problem.rows(), problem.width(), problem.out[1]);
        for index in 0..self.bands.count {
            let (begin, out_rows) = self.bands.get(index);
            let pixels = out_rows * width;
            let band = ColumnsArgs {
                columns: scratch,
                out_begin: begin as i64,
                out_rows: out_rows as i64,
                pitch: pixels as i64,
                ..problem.columns_args(&to)
            };
            // SAFETY: the plan sized the worker's elements for columns and copy of a whole band.
            unsafe {
                let copy = scratch.add(self.columns_count);
                let gradient = match self.pixel_step {
                    Some(step) => from.matrix(begin * width, step),
                    None => {
                        from.copy_rows(problem.filters, [begin, out_rows], [height, width], copy, pixels);
                        Matrix { start: copy, row: pixels as isize, column: 1 }
                    }
                };
                if problem.is_depthwise() {
                    self.depthwise(band, weights, gradient);
                } else {
                    let columns = Matrix { start: scratch, row: pixels as isize, column: 1 };
                    let sizes = [rows, problem.filters, pixels];
                    gemm(sizes, columns, weights.transposed(), gradient, false, parallel);
                    T::columns().col2im(&band);
                }
            }
        }
    }

    /// Adds one band of one group of an image, filter by filter.
    ///
    /// # Safety
    /// As for [`scatter`](Self::scatter); the gradient's pixels are neighbours.
    unsafe fn depthwise<T: Real>(&self, band: ColumnsArgs<T>, weights: Matrix<T>, gradient: Matrix<T>) {
        for filter in 0..self.problem.filters as isize {
            // SAFETY: the caller's gradient and weights, of so many filters.
            unsafe {
                T::columns().depthwise_input(&ColumnsArgs {
                    columns: gradient.offset(filter * gradient.row).start,
                    weights: weights.offset(filter * weights.row).start,
                    weight_step: weights.column as i64,
                    ..band
                });
            }
        }
    }
}
