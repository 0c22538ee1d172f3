use super::super::columns::{ColumnsArgs, Real};
use super::super::matmul::{Matrix, gemm};
use super::problem::{Bands, Image, Problem, WeightLayout, pixel_step};
use super::workspace::Workspace;
use crate::op::View;

/// A column matrix larger than this leaves the cache before the product reads it.
const COLUMNS_COUNT: usize = 64 << 10;
/// Fewer pixels than this make the product slow.
const PIXELS: usize = 64;
/// A part of a plane larger than this leaves the cache before a depthwise convolution is through with it.
const PLANE_COUNT: usize = 8 << 10;

/// The rows of output that are laid out at a time.
pub(super) fn bands(problem: &Problem) -> Bands {
    let width = problem.width().max(1);
    let most = COLUMNS_COUNT / (problem.rows().max(1) * width);
    Bands::new(problem.out_rows(), most.max(PIXELS.div_ceil(width)))
}

/// The rows of output that a depthwise convolution makes at a time.
pub(super) fn depthwise_bands(problem: &Problem) -> Bands {
    let row = problem.width() * problem.stride[1] * problem.stride[2];
    Bands::new(problem.out_rows(), PLANE_COUNT / row.max(1))
}

/// `output = weights * columns`, for each image, band of rows, and group.
#[derive(Debug)]
pub(super) struct ForwardPlan {
    problem: Problem,
    weights: WeightLayout,
    way: Way,
    bands: Bands,
    pub workspace: Workspace,
}

#[derive(Clone, Copy, Debug)]
enum Way {
    /// The image is its own column matrix, with pixels so far apart.
    Pointwise { step: isize },
    /// A column matrix of so many elements.
    Columns { count: usize },
    /// Without a column matrix.
    Depthwise,
}

impl ForwardPlan {
    pub fn new(problem: Problem, image: &View, weights: WeightLayout, workers: usize) -> Self {
        let step = problem.is_pointwise().then(|| pixel_step(image)).flatten();
        let bands = if problem.is_depthwise() { depthwise_bands(&problem) } else { bands(&problem) };
        let way = match step {
            Some(step) => Way::Pointwise { step },
            None if problem.is_depthwise() => Way::Depthwise,
            None => Way::Columns { count: problem.rows() * bands.rows * problem.width() },
        };
        let each = match way {
            Way::Pointwise { .. } => 0,
            Way::Columns { count } => count + problem.plane_count(bands.rows),
            Way::Depthwise => problem.plane_count(bands.rows),
        };
        let shared = weights.copy_count(&problem);
        let (tasks, work) = (problem.images * bands.count, problem.images * problem.image_work());
        let workspace = Workspace::new(shared, each, tasks, work, workers);
        ForwardPlan { problem, weights, way, bands, workspace }
    }

    /// # Safety
    /// The operands fit the plan; `scratch` is as large as the workspace; nothing else touches it or the output.
    pub unsafe fn run<T: Real>(
        &self,
        image: Image<T>,
        weights: *mut T,
        bias: Option<(*mut T, isize)>,
        output: *mut T,
        scratch: *mut T,
    ) {
        let problem = &self.problem;
        let (filters, pixels, width) = (problem.filters, problem.pixels(), problem.width());
        if problem.images * problem.groups * filters * pixels == 0 {
            return;
        }
        let tasks = problem.images * self.bands.count;
        let parallel_inside = tasks < rayon::current_num_threads();
        // SAFETY: the caller's weights; the shared part of the scratch is as large as the plan found them to be.
        let (weights, group_step) = unsafe { self.weights.matrices(weights, scratch, problem) };
        let bias = bias.map(|(start, step)| Matrix { start, row: step, column: 0 });
        let output = Matrix { start: output, row: pixels as isize, column: 1 };
        let body = |task: usize, scratch: *mut T| {
            let (index, band) = (task / self.bands.count, task % self.bands.count);
            let (begin, rows) = self.bands.get(band);
            for group in 0..problem.groups {
                let from = image.at(index, group * problem.channels);
                let first = index * problem.groups * filters + group * filters;
                let to = output.offset((first * pixels + begin * width) as isize);
                let weights = weights.offset(group as isize * group_step);
                let bias = bias.map(|bias| bias.offset((group * filters) as isize * bias.row));
                let band = ColumnsArgs {
                    out_begin: begin as i64,
                    out_rows: rows as i64,
                    pitch: (rows * width) as i64,
                    ..problem.columns_args(&from)
                };
                // SAFETY: scratch is this worker's; each task writes its own rows of its own image's output.
                unsafe {
                    match self.way {
                        Way::Depthwise => self.depthwise(band, weights, bias, to, scratch),
                        _ => self.product(from, band, weights, bias, to, scratch, parallel_inside),
                    }
                }
            }
        };
        self.workspace.run(scratch, tasks, body);
    }

    /// One band of one image's group, as a product.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `scratch` is one worker's.
    #[allow(clippy::too_many_arguments, reason = "what differs between tasks")]
    unsafe fn product<T: Real>(
        &self,
        image: Image<T>,
        band: ColumnsArgs<T>,
        weights: Matrix<T>,
        bias: Option<Matrix<T>>,
        to: Matrix<T>,
        scratch: *mut T,
        parallel: bool,
    ) {
        let (filters, rows, pixels) = (self.problem.filters, self.problem.rows(), band.pitch as usize);
        let columns = match self.way {
            Way::Pointwise { step } => image.matrix(band.out_begin as usize * self.problem.width(), step),
            _ => Matrix { start: scratch, row: band.pitch as isize, column: 1 },
        };
        // SAFETY: the plan sized the worker's elements for columns and plane of a whole band; the rest is the caller's.
        unsafe {
            if let Way::Columns { count } = self.way {
                T::columns().im2col(&ColumnsArgs { columns: scratch, plane: scratch.add(count), ..band });
            }
            let prefilled = bias.is_some() || rows == 0;
            if prefilled {
                prefill(to, filters, pixels, bias);
            }
            if rows > 0 {
                gemm([filters, rows, pixels], to, weights, columns, prefilled, parallel);
            }
        }
    }

    /// One band of one image's group, filter by filter.
    ///
    /// # Safety
    /// As for [`product`](Self::product).
    unsafe fn depthwise<T: Real>(
        &self,
        band: ColumnsArgs<T>,
        weights: Matrix<T>,
        bias: Option<Matrix<T>>,
        to: Matrix<T>,
        scratch: *mut T,
    ) {
        // SAFETY: the plan sized the worker's elements for the plane of a whole band; the rest is the caller's.
        unsafe {
            prefill(to, self.problem.filters, band.pitch as usize, bias);
            for filter in 0..self.problem.filters as isize {
                T::columns().depthwise(&ColumnsArgs {
                    columns: to.offset(filter * to.row).start,
                    plane: scratch,
                    weights: weights.offset(filter * weights.row).start,
                    weight_step: weights.column as i64,
                    ..band
                });
            }
        }
    }
}

/// Writes what is added to: the bias, or zeros.
///
/// # Safety
/// `filters` rows of `to` are writable for `pixels` elements; the bias is readable for as many rows.
unsafe fn prefill<T: Real>(to: Matrix<T>, filters: usize, pixels: usize, bias: Option<Matrix<T>>) {
    for filter in 0..filters as isize {
        // SAFETY: the caller's rows; whatever their bytes were, they are floats.
        unsafe {
            let value = bias.map_or(T::ZERO, |bias| *bias.start.offset(filter * bias.row));
            std::slice::from_raw_parts_mut(to.start.offset(filter * to.row), pixels).fill(value);
        }
    }
}
