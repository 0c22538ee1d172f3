//! The backward pass of the weights.

use super::super::columns::{ColumnsArgs, Real};
use super::super::matmul::{Matrix, gemm};
use super::problem::{Bands, Image, Problem, pixel_step};
use super::source::{Channels, Coding, Source};
use super::workspace::{Workspace, aligned};
use crate::op::View;

/// About as many pixels are multiplied at a time.
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
    plane_count: usize,
    /// Of an image's decoded channels; zero where images are not encoded.
    decoded_count: usize,
    pub workspace: Workspace,
}

impl GradientPlan {
    /// The image as it is, or as it will be once it is decoded by `coding`.
    pub fn new(
        problem: Problem,
        [image, gradient]: [&View; 2],
        coding: Option<Coding>,
        whole_batch: bool,
        workers: usize,
    ) -> Self {
        let most_pixels = if whole_batch { usize::MAX } else { PIECE_PIXELS };
        let bands = Bands::new(problem.out_rows(), most_pixels / problem.width().max(1));
        let images = most_pixels / problem.pixels().max(1);
        let piece_images = images.clamp(1, problem.images.max(1));
        let piece_pixels = piece_images * bands.rows * problem.width();
        let block_rows = problem.rows().div_ceil(4).next_multiple_of(8).clamp(8, 128);
        let one = piece_images == 1;
        let image_step = (one && problem.is_pointwise()).then(|| pixel_step(image)).flatten();
        // A band is copied: its rows lie a whole plane apart, often a power of two, where they evict each other.
        let gradient_step = (one && bands.count == 1).then(|| pixel_step(gradient)).flatten();
        let columns_count = image_step.map_or(aligned(block_rows * piece_pixels), |_| 0);
        let copy_count = gradient_step.map_or(aligned(problem.filters * piece_pixels), |_| 0);
        let sums_count = aligned(block_rows * problem.filters);
        let plane_count = aligned(problem.plane_count(bands.rows));
        let block_channels = (block_rows.div_ceil(problem.taps().max(1)) + 1).min(problem.channels);
        let decoded_count = coding.map_or(0, |coding| coding.room(block_channels * problem.image_pixels()));
        let each = columns_count + copy_count + sums_count + plane_count + piece_images * decoded_count;
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
            plane_count,
            decoded_count,
            workspace: Workspace::new(0, each, tasks, work, workers),
        }
    }

    /// # Safety
    /// The operands fit the plan; `scratch` is as large as the workspace; nothing else touches it or the output.
    pub unsafe fn run<T: Real>(&self, image: Source<T>, gradient: Image<T>, output: *mut T, scratch: *mut T) {
        let problem = &self.problem;
        let (rows, filters) = (problem.rows(), problem.filters);
        if problem.images * problem.pixels() == 0 {
            // SAFETY: the caller's output, of so many floats.
            unsafe { output.write_bytes(0, problem.groups * filters * rows) };
            return;
        }
        let blocks = rows.div_ceil(self.block_rows);
        let output = Matrix { start: output, row: rows as isize, column: 1 };
        let body = |task: usize, scratch: *mut T| {
            let (group, begin) = (task / blocks, task % blocks * self.block_rows);
            let block = [begin, self.block_rows.min(rows - begin)];
            let (first, gradient) = (group * problem.channels, gradient.at(0, group * filters));
            // SAFETY: scratch is this worker's, and these columns of the group's weights are this task's.
            unsafe {
                let sums = self.add_up(&image, first, gradient, block, scratch);
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

    /// The sums of a block of rows of the column matrix, `[rows][filters]`, in `scratch`; `first`: the group's first channel.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `scratch` is one worker's.
    unsafe fn add_up<T: Real>(
        &self,
        source: &Source<T>,
        first_channel: usize,
        gradient: Image<T>,
        block: [usize; 2],
        scratch: *mut T,
    ) -> *mut T {
        let taps = self.problem.taps();
        let range = block[0] / taps..(block[0] + block[1]).div_ceil(taps);
        let (problem, filters) = (&self.problem, self.problem.filters);
        let sums = scratch.wrapping_add(self.columns_count + self.copy_count);
        let to = Matrix { start: sums, row: filters as isize, column: 1 };
        let decoded = sums.wrapping_add(self.sums_count + self.plane_count);
        let mut first = true;
        for index in (0..problem.images).step_by(self.piece_images) {
            let images = self.piece_images.min(problem.images - index);
            let image = |place: usize| {
                let channels = Channels { image: index + place, first: first_channel, range: range.clone() };
                (channels, decoded.wrapping_add(place * self.decoded_count))
            };
            for (channels, at) in (0..images).map(image) {
                // SAFETY: the form is the caller's, and the plan made room for these channels.
                unsafe { source.decode(problem, &channels, at) };
            }
            let image = |place: usize| {
                let (channels, at) = image(place);
                source.image(problem, &channels, at)
            };
            for band in 0..self.bands.count {
                let (begin, out_rows) = self.bands.get(band);
                let band = [begin, out_rows];
                let pixels = images * out_rows * problem.width();
                // SAFETY: the plan sized the worker's elements for a whole piece.
                unsafe {
                    let (left, right) =
                        self.piece(image, gradient.at(index, 0), images, band, block, scratch);
                    gemm([block[1], pixels, filters], to, left, right, !first, false);
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
    unsafe fn piece<T: Real>(
        &self,
        image: impl Fn(usize) -> Image<T>,
        gradient: Image<T>,
        images: usize,
        [begin, out_rows]: [usize; 2],
        [row, rows]: [usize; 2],
        scratch: *mut T,
    ) -> (Matrix<T>, Matrix<T>) {
        let (problem, width) = (&self.problem, self.problem.width());
        let (each, pitch) = (out_rows * width, images * out_rows * width);
        let copy = scratch.wrapping_add(self.columns_count);
        let mut left = Matrix { start: scratch, row: pitch as isize, column: 1 };
        let mut right = Matrix { start: copy, ..left };
        for index in 0..images {
            let (image, gradient) = (image(index), gradient.at(index, 0));
            // SAFETY: this image's pixels of the columns and of the copy, which the plan made room for.
            unsafe {
                if let Some(step) = self.gradient_step {
                    right = gradient.matrix(begin * width, step);
                } else {
                    let (to, plane) = (copy.wrapping_add(index * each), [problem.out[1], width]);
                    gradient.copy_rows(problem.filters, [begin, out_rows], plane, to, pitch);
                }
                if let Some(step) = self.image_step {
                    left = image.at(0, row).matrix(begin * width, step);
                    continue;
                }
                T::columns().im2col(&ColumnsArgs {
                    columns: scratch.add(index * each),
                    plane: scratch.add(self.columns_count + self.copy_count + self.sums_count),
                    rows: [row as i64, (row + rows) as i64],
                    out_begin: begin as i64,
                    out_rows: out_rows as i64,
                    pitch: pitch as i64,
                    ..problem.columns_args(&image)
                });
            }
        }
        (left, right.transposed())
    }
}
