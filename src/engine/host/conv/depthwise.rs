//! The backward pass of the weights where groups have few channels and filters.

use super::super::columns::{ColumnsArgs, Real};
use super::super::matmul::Matrix;
use super::forward::depthwise_bands;
use super::problem::{Bands, Image, Problem, pixel_step};
use super::source::{Channels, Coding, Source};
use super::workspace::{Workspace, aligned};
use crate::op::View;

/// The sums of a filter's weights, without a column matrix, in the order of images and bands.
#[derive(Debug)]
pub(super) struct DepthwiseGradientPlan {
    problem: Problem,
    /// Whether the gradient's pixels are no neighbours.
    copies: bool,
    bands: Bands,
    copy_count: usize,
    /// Where the channels of a group are decoded, in a worker's elements.
    decoded_at: usize,
    pub workspace: Workspace,
}

impl DepthwiseGradientPlan {
    pub fn new(problem: Problem, gradient: &View, coding: Option<Coding>, workers: usize) -> Self {
        let bands = depthwise_bands(&problem);
        let copies = pixel_step(gradient) != Some(1);
        let copy_count = if copies { aligned(bands.rows * problem.width()) } else { 0 };
        let decoded_at = aligned(copy_count + problem.plane_count(bands.rows));
        let group = problem.channels * problem.image_pixels();
        let each = decoded_at + coding.map_or(0, |coding| coding.room(group));
        let (tasks, work) = (problem.groups * problem.filters, problem.images * problem.image_work());
        let workspace = Workspace::new(0, each, tasks, work, workers);
        DepthwiseGradientPlan { problem, copies, bands, copy_count, decoded_at, workspace }
    }

    /// # Safety
    /// The operands fit the plan; `scratch` is as large as the workspace; nothing else touches it or the output.
    pub unsafe fn run<T: Real>(&self, image: Source<T>, gradient: Image<T>, output: *mut T, scratch: *mut T) {
        let problem = &self.problem;
        let output = Matrix { start: output, row: problem.rows() as isize, column: 1 };
        let bands = if problem.pixels() == 0 { 0 } else { self.bands.count };
        let body = |filter: usize, scratch: *mut T| {
            let first = filter / problem.filters * problem.channels;
            let sums = output.offset(filter as isize * output.row).start;
            let decoded = scratch.wrapping_add(self.decoded_at);
            // SAFETY: the filter's weights are this task's alone, and scratch is this worker's.
            unsafe {
                sums.write_bytes(0, problem.rows());
                for index in 0..if bands == 0 { 0 } else { problem.images } {
                    let channels = Channels { image: index, first, range: 0..problem.channels };
                    image.decode(problem, &channels, decoded);
                    let image = image.image(problem, &channels, decoded);
                    for band in 0..bands {
                        self.add(image, gradient.at(index, filter), band, sums, scratch);
                    }
                }
            }
        };
        self.workspace.run(scratch, problem.groups * problem.filters, body);
    }

    /// Adds one band of one image.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `scratch` is one worker's.
    unsafe fn add<T: Real>(
        &self,
        image: Image<T>,
        gradient: Image<T>,
        band: usize,
        sums: *mut T,
        scratch: *mut T,
    ) {
        let problem = &self.problem;
        let ((begin, rows), width) = (self.bands.get(band), problem.width());
        // SAFETY: the plan sized the worker's elements for copy and plane of a whole band.
        unsafe {
            let columns = if self.copies {
                gradient.copy_rows(1, [begin, rows], [problem.out[1], width], scratch, 0);
                scratch
            } else {
                gradient.start.add(begin * width)
            };
            T::columns().depthwise_weight(&ColumnsArgs {
                columns,
                plane: scratch.add(self.copy_count),
                weights: sums,
                out_begin: begin as i64,
                out_rows: rows as i64,
                ..problem.columns_args(&image)
            });
        }
    }
}
