//! Convolutions as products with a column matrix that is laid out a bounded piece at a time.
//!
//! Every size here, the scratch included, is a function of shapes, layouts and the engine's number of workers; the
//! order of every sum is a function of shapes and layouts alone.

mod backward;
mod forward;

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::columns::ColumnsArgs;
use super::failure;
use super::matmul::{Matrix, PARALLEL_WORK, collapse};
use crate::engine::{Algorithm, Call, EngineError, Operand};
use crate::op::{Conv2d, Dtype, Op, View};
use backward::{GradientPlan, ScatterPlan};
use forward::ForwardPlan;

/// The sizes of a convolution. Channels and filters are those of one group.
#[derive(Clone, Copy, Debug)]
struct Problem {
    images: usize,
    groups: usize,
    channels: usize,
    filters: usize,
    size: [usize; 2],
    kernel: [usize; 2],
    out: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
}

impl Problem {
    /// From the forward's image shape `[n, c, h, w]`, number of filters, and kernel.
    fn new(conv: &Conv2d, image: [usize; 4], filters: usize, kernel: [usize; 2]) -> Self {
        let [images, channels, height, width] = image;
        Problem {
            images,
            groups: conv.groups,
            channels: channels / conv.groups,
            filters: filters / conv.groups,
            size: [height, width],
            kernel,
            out: conv.output_size([height, width], kernel),
            stride: conv.stride,
            padding: conv.padding,
            dilation: conv.dilation,
        }
    }

    /// Rows of the column matrix of one group.
    fn rows(&self) -> usize {
        self.channels * self.kernel[0] * self.kernel[1]
    }

    /// Pixels of one output channel.
    fn pixels(&self) -> usize {
        self.out[0] * self.out[1]
    }

    /// Multiply-adds of one image.
    fn image_work(&self) -> usize {
        self.groups * self.filters * self.rows() * self.pixels()
    }

    /// Whether the column matrix of an image is the image.
    fn is_pointwise(&self) -> bool {
        self.kernel == [1, 1] && self.stride == [1, 1] && self.padding == [0, 0]
    }

    /// Elements of the part of one channel that the windows of `out_rows` output rows cover.
    fn plane_count(&self, out_rows: usize) -> usize {
        let covered = |k: usize, count: usize| {
            count.saturating_sub(1) * self.stride[k] + self.kernel[k].saturating_sub(1) * self.dilation[k] + 1
        };
        covered(0, out_rows) * covered(1, self.out[1])
    }

    /// Kernel arguments but for what moves: pointers, rows, band.
    fn columns_args(&self, image: &Image) -> ColumnsArgs {
        let pair = |values: [usize; 2]| values.map(|value| value as i64);
        ColumnsArgs {
            image: image.start,
            columns: std::ptr::null_mut(),
            plane: std::ptr::null_mut(),
            strides: [1, 2, 3].map(|axis| image.strides[axis] as i64),
            size: pair(self.size),
            kernel: pair(self.kernel),
            stride: pair(self.stride),
            padding: pair(self.padding),
            dilation: pair(self.dilation),
            rows: [0, self.rows() as i64],
            out_begin: 0,
            out_rows: self.out[0] as i64,
            out_width: self.out[1] as i64,
            pitch: self.pixels() as i64,
        }
    }
}

/// Output rows in equal bands, so that what one needs stays small.
#[derive(Clone, Copy, Debug)]
struct Bands {
    count: usize,
    rows: usize,
}

impl Bands {
    /// Bands of at most about `most` of `total` rows, and at least one.
    fn new(total: usize, most: usize) -> Self {
        let count = total.div_ceil(most.max(1)).max(1);
        Bands { count, rows: total.div_ceil(count) }
    }

    /// First row of a band and number of its rows; the last may be short.
    fn get(&self, band: usize, total: usize) -> (usize, usize) {
        let begin = (band * self.rows).min(total);
        (begin, self.rows.min(total - begin))
    }
}

/// A tensor of four dimensions in memory.
#[derive(Clone, Copy, Debug)]
struct Image {
    start: *mut f32,
    strides: [isize; 4],
}

// SAFETY: an address and strides; whoever reads or writes through it answers for the access.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    fn new(operand: &Operand) -> Self {
        let layout = &operand.view.layout;
        Image {
            start: (operand.span.address as *mut f32).wrapping_add(layout.offset()),
            strides: std::array::from_fn(|axis| layout.strides()[axis]),
        }
    }

    /// From `image` and `channel` on.
    fn at(self, image: usize, channel: usize) -> Self {
        let elements = image as isize * self.strides[0] + channel as isize * self.strides[1];
        Image { start: self.start.wrapping_offset(elements), ..self }
    }

    /// Rows from `begin` on, channel by pixel, where pixels are `step` apart.
    fn matrix(self, begin: usize, step: isize) -> Matrix<f32> {
        Matrix {
            start: self.start.wrapping_offset(begin as isize * self.strides[2]),
            row: self.strides[1],
            column: step,
        }
    }
}

/// Steps between pixels of a view's planes, if they are even.
fn pixel_step(view: &View) -> Option<isize> {
    collapse(&view.shape().dims()[2..], &view.layout.strides()[2..])
}

/// Where weight `(group, filter, channel, y, x)` lies: `offset + sum(index * strides)`, in elements.
#[derive(Clone, Copy, Debug)]
struct WeightLayout {
    offset: isize,
    strides: [isize; 5],
}

impl WeightLayout {
    fn new(view: &View, problem: &Problem) -> Self {
        let layout = &view.layout;
        let strides: [isize; 4] = std::array::from_fn(|axis| layout.strides()[axis]);
        let [filter, channel, y, x] = strides;
        WeightLayout {
            offset: layout.offset() as isize,
            strides: [problem.filters as isize * filter, filter, channel, y, x],
        }
    }

    /// The step along the rows of the column matrix, if it is even.
    fn step(&self, problem: &Problem) -> Option<isize> {
        let sizes = [problem.channels, problem.kernel[0], problem.kernel[1]];
        collapse(&sizes, &self.strides[2..])
    }

    /// Weights as matrices, filter by row of the column matrix, one per group; copied to `copy` where that is needed.
    ///
    /// # Safety
    /// The weights are readable; `copy` is writable for all of them where [`step`](Self::step) is `None`.
    unsafe fn matrices(&self, weights: *mut f32, copy: *mut f32, problem: &Problem) -> (Matrix<f32>, isize) {
        let start = weights.wrapping_offset(self.offset);
        if let Some(column) = self.step(problem) {
            let row = self.strides[1];
            return (Matrix { start, row, column }, self.strides[0]);
        }
        let rows = problem.rows();
        let (from, to) =
            (Matrix { start, row: 0, column: 0 }, Matrix { start: copy, row: rows as isize, column: 1 });
        let copy_filter = |index: usize| {
            let (group, filter) = (index / problem.filters, index % problem.filters);
            let [group_step, filter_step, channel_step, y_step, x_step] = self.strides;
            let from = from.offset(group as isize * group_step + filter as isize * filter_step);
            let mut to = to.offset((index * rows) as isize).start;
            for channel in 0..problem.channels as isize {
                for y in 0..problem.kernel[0] as isize {
                    for x in 0..problem.kernel[1] as isize {
                        let elements = channel * channel_step + y * y_step + x * x_step;
                        // SAFETY: the index is inside the weights; `to` advances once per weight of this filter.
                        unsafe {
                            to.write(*from.start.offset(elements));
                            to = to.add(1);
                        }
                    }
                }
            }
        };
        let filters = problem.groups * problem.filters;
        if filters * rows < PARALLEL_WORK / 16 {
            (0..filters).for_each(copy_filter);
        } else {
            (0..filters).into_par_iter().for_each(copy_filter);
        }
        (to, (problem.filters * rows) as isize)
    }
}

/// Scratch shared out: the same number of elements for each worker, after what they share.
#[derive(Clone, Copy, Debug)]
struct Workspace {
    shared: usize,
    each: usize,
    workers: usize,
}

/// Elements rounded up to a whole number of [`ALIGN_BYTES`](crate::engine::ALIGN_BYTES).
fn aligned(elements: usize) -> usize {
    elements.next_multiple_of(64)
}

impl Workspace {
    /// `workers` bounds those that are used; `tasks` that need `work` multiply-adds together may want fewer.
    fn new(shared: usize, each: usize, tasks: usize, work: usize, workers: usize) -> Self {
        let wanted = if work < PARALLEL_WORK { 1 } else { tasks.max(1) };
        Workspace { shared: aligned(shared), each: aligned(each), workers: wanted.min(workers.max(1)) }
    }

    fn size_bytes(&self) -> usize {
        (self.shared + self.each * self.workers) * size_of::<f32>()
    }

    /// Runs `body(task, its worker's elements)` for every task, on as many threads as there are workers.
    fn run(&self, scratch: *mut f32, tasks: usize, body: impl Fn(usize, *mut f32) + Sync) {
        let scratch = Matrix { start: scratch, row: 0, column: 0 };
        let own = |worker: usize| scratch.offset((self.shared + worker * self.each) as isize).start;
        if self.workers == 1 {
            return (0..tasks).for_each(|task| body(task, own(0)));
        }
        let next = AtomicUsize::new(0);
        (0..self.workers).into_par_iter().with_max_len(1).for_each(|worker| {
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    break;
                }
                body(task, own(worker));
            }
        });
    }
}

/// How a call will run.
#[derive(Debug)]
enum Plan {
    Forward(ForwardPlan),
    Scatter(ScatterPlan),
    Gradient(GradientPlan),
}

impl Plan {
    fn new(op: &Op, algorithm: Algorithm, inputs: &[View], workers: usize) -> Option<Self> {
        if inputs.iter().any(|view| view.dtype != Dtype::F32) {
            return None;
        }
        let shape = |of: usize| -> [usize; 4] { std::array::from_fn(|axis| inputs[of].shape()[axis]) };
        match *op {
            Op::Conv2d(conv) => {
                let [filters, _, height, width] = shape(1);
                let problem = Problem::new(&conv, shape(0), filters, [height, width]);
                let weights = WeightLayout::new(&inputs[1], &problem);
                Some(Plan::Forward(ForwardPlan::new(problem, &inputs[0], weights, workers)))
            }
            Op::Conv2dBackwardInput { conv, size } => {
                let [filters, channels, height, width] = shape(0);
                let image = [shape(1)[0], channels * conv.groups, size[0], size[1]];
                let problem = Problem::new(&conv, image, filters, [height, width]);
                let weights = WeightLayout::new(&inputs[0], &problem);
                Some(match backward::as_forward(&problem, weights) {
                    Some((problem, weights)) => {
                        Plan::Forward(ForwardPlan::new(problem, &inputs[1], weights, workers))
                    }
                    None => Plan::Scatter(ScatterPlan::new(problem, &inputs[1], weights, workers)),
                })
            }
            Op::Conv2dBackwardWeight { conv, kernel } => {
                let problem = Problem::new(&conv, shape(0), shape(1)[1], kernel);
                let whole_batch = algorithm == WHOLE_BATCH;
                let plan = GradientPlan::new(problem, &inputs[0], &inputs[1], whole_batch, workers);
                Some(Plan::Gradient(plan))
            }
            _ => None,
        }
    }

    fn workspace(&self) -> &Workspace {
        match self {
            Plan::Forward(plan) => &plan.workspace,
            Plan::Scatter(plan) => &plan.workspace,
            Plan::Gradient(plan) => &plan.workspace,
        }
    }
}

/// The backward pass of weights as one product over all images: another rounding, a larger workspace.
pub(super) const WHOLE_BATCH: Algorithm = Algorithm(1);

/// Workspace of a convolution in bytes, with so many `workers`.
pub(super) fn scratch_bytes(op: &Op, algorithm: Algorithm, inputs: &[View], workers: usize) -> usize {
    Plan::new(op, algorithm, inputs, workers).map_or(0, |plan| plan.workspace().size_bytes())
}

/// Runs a convolution or one of its backward passes with so many `workers`.
///
/// # Errors
/// If the op is no convolution of 32-bit floats, or the scratch is too small.
///
/// # Safety
/// As for [`Engine::launch`](crate::engine::Engine::launch).
pub(super) unsafe fn run(call: &Call, workers: usize) -> Result<(), EngineError> {
    let views: Vec<View> = call.inputs.iter().map(|operand| operand.view).collect();
    let plan = Plan::new(&call.op, call.algorithm, &views, workers)
        .ok_or_else(|| failure(call, "only convolutions of 32-bit floats are supported"))?;
    let needed_bytes = plan.workspace().size_bytes();
    if call.scratch.bytes < needed_bytes {
        let reason = format!("{} bytes of scratch, {needed_bytes} are needed", call.scratch.bytes);
        return Err(failure(call, &reason));
    }
    let scratch = call.scratch.address as *mut f32;
    let operand = |index: usize| Image::new(&call.inputs[index]);
    let weights = |index: usize| call.inputs[index].span.address as *mut f32;
    let output = call.outputs[0].span.address as *mut f32;
    // SAFETY: the caller upholds the spans, and the scratch is as large as the plan asks.
    unsafe {
        match &plan {
            Plan::Forward(plan) if matches!(call.op, Op::Conv2d(_)) => {
                let bias = call.inputs.get(2).map(|bias| {
                    let layout = &bias.view.layout;
                    let start = (bias.span.address as *const f32).wrapping_add(layout.offset());
                    (start, layout.strides()[0])
                });
                plan.run(operand(0), weights(1), bias, output, scratch);
            }
            Plan::Forward(plan) => plan.run(operand(1), weights(0), None, output, scratch),
            Plan::Scatter(plan) => plan.run(operand(1), weights(0), output, scratch),
            Plan::Gradient(plan) => plan.run(operand(0), operand(1), output, scratch),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
