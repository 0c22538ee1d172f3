use super::super::columns::{ColumnsArgs, column_kernels};
use super::super::matmul::{Matrix, gemm_f32};
use super::{Bands, Image, Problem, WeightLayout, Workspace, pixel_step};
use crate::op::View;

/// A column matrix larger than this leaves the cache before the product reads it.
const COLUMNS_COUNT: usize = 64 << 10;
/// Fewer pixels than this make the product slow.
const PIXELS: usize = 64;

/// The rows of output that are laid out at a time.
pub(super) fn bands(problem: &Problem) -> Bands {
    let width = problem.out[1].max(1);
    let most = COLUMNS_COUNT / (problem.rows().max(1) * width);
    Bands::new(problem.out[0], most.max(PIXELS.div_ceil(width)))
}

/// `output = weights * columns`, for each image, band of rows, and group.
#[derive(Debug)]
pub(super) struct ForwardPlan {
    problem: Problem,
    weights: WeightLayout,
    /// Of the image, where it is its own column matrix.
    pixel_step: Option<isize>,
    bands: Bands,
    columns_count: usize,
    pub workspace: Workspace,
}

impl ForwardPlan {
    pub fn new(problem: Problem, image: &View, weights: WeightLayout, workers: usize) -> Self {
        let pixel_step = problem.is_pointwise().then(|| pixel_step(image)).flatten();
        let bands = bands(&problem);
        let columns_count = problem.rows() * bands.rows * problem.out[1];
        let each = match pixel_step {
            Some(_) => 0,
            None => columns_count + problem.plane_count(bands.rows),
        };
        let shared = match weights.step(&problem) {
            Some(_) => 0,
            None => problem.groups * problem.filters * problem.rows(),
        };
        let (tasks, work) = (problem.images * bands.count, problem.images * problem.image_work());
        ForwardPlan {
            problem,
            weights,
            pixel_step,
            bands,
            columns_count,
            workspace: Workspace::new(shared, each, tasks, work, workers),
        }
    }

    /// # Safety
    /// The operands fit the plan; `scratch` is as large as the workspace; nothing else touches it or the output.
    pub unsafe fn run(
        &self,
        image: Image,
        weights: *mut f32,
        bias: Option<(*const f32, isize)>,
        output: *mut f32,
        scratch: *mut f32,
    ) {
        let problem = &self.problem;
        let (filters, pixels, width) = (problem.filters, problem.pixels(), problem.out[1]);
        if problem.images * problem.groups * filters * pixels == 0 {
            return;
        }
        let tasks = problem.images * self.bands.count;
        let parallel_inside = tasks < rayon::current_num_threads();
        // SAFETY: the caller's weights; the shared part of the scratch is as large as the plan found them to be.
        let (weights, group_step) = unsafe { self.weights.matrices(weights, scratch, problem) };
        let bias = bias.map(|(start, step)| Matrix { start: start.cast_mut(), row: step, column: 0 });
        let output = Matrix { start: output, row: pixels as isize, column: 1 };
        let body = |task: usize, scratch: *mut f32| {
            let (index, band) = (task / self.bands.count, task % self.bands.count);
            let (begin, out_rows) = self.bands.get(band, problem.out[0]);
            for group in 0..problem.groups {
                let from = image.at(index, group * problem.channels);
                let first = index * problem.groups * filters + group * filters;
                let to = output.offset((first * pixels + begin * width) as isize);
                let weights = weights.offset(group as isize * group_step);
                let bias = bias.map(|bias| bias.offset((group * filters) as isize * bias.row));
                // SAFETY: scratch is this worker's; each task writes its own rows of its own image's output.
                unsafe {
                    let columns = self.columns(from, begin, out_rows, scratch);
                    let prefilled = prefill(to, filters, out_rows * width, bias, problem.rows());
                    if problem.rows() > 0 {
                        let sizes = [filters, problem.rows(), out_rows * width];
                        gemm_f32(sizes, to, weights, columns, prefilled, parallel_inside);
                    }
                }
            }
        };
        self.workspace.run(scratch, tasks, body);
    }

    /// The column matrix of a band of one image's group.
    ///
    /// # Safety
    /// `scratch` is one worker's; the image is readable.
    unsafe fn columns(&self, image: Image, begin: usize, out_rows: usize, scratch: *mut f32) -> Matrix<f32> {
        if let Some(step) = self.pixel_step {
            return image.matrix(begin, step);
        }
        let pitch = out_rows * self.problem.out[1];
        // SAFETY: the plan sized the worker's elements for columns and plane of a whole band.
        unsafe {
            column_kernels().im2col(&ColumnsArgs {
                columns: scratch,
                plane: scratch.add(self.columns_count),
                out_begin: begin as i64,
                out_rows: out_rows as i64,
                pitch: pitch as i64,
                ..self.problem.columns_args(&image)
            });
        }
        Matrix { start: scratch, row: pitch as isize, column: 1 }
    }
}

/// Writes what the product is added to, if anything: the bias, or zeros where there is no product.
///
/// # Safety
/// `filters` rows of `to` are writable for `pixels` elements; the bias is readable for as many rows.
unsafe fn prefill(
    to: Matrix<f32>,
    filters: usize,
    pixels: usize,
    bias: Option<Matrix<f32>>,
    rows: usize,
) -> bool {
    if bias.is_none() && rows > 0 {
        return false;
    }
    for filter in 0..filters as isize {
        // SAFETY: the caller's rows; whatever their bytes were, they are floats.
        unsafe {
            let value = bias.map_or(0.0, |bias| *bias.start.offset(filter * bias.row));
            std::slice::from_raw_parts_mut(to.start.offset(filter * to.row), pixels).fill(value);
        }
    }
    true
}
