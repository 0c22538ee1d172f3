//! Convolutions as products with the column matrix of one image after the other (im2col; Chellapilla, Puri, Simard,
//! 2006), by cuBLASLt: for `f32` and `f64` on devices without cuDNN, but for groups of one channel. The kernels are in
//! `direct.cu`.
//!
//! Halves are not covered: parts of a sum would be rounded to 16 bits on their way.

use super::problem::bias_over;
use crate::engine::call::{Call, Operand};
use crate::engine::cuda::driver::{Called, Stream};
use crate::engine::cuda::products::{Addresses, Bias, Matrix, Problem, Products, alignment};
use crate::engine::cuda::scratch::{Copier, Scratch, copies_bytes};
use crate::engine::{Span, aligned};
use crate::op::lower::{Columns, KernelCall, Placed};
use crate::op::{Conv, Dtype, Inputs, Op, View};

/// Puts a kernel into the stream of the call.
pub type Kernels<'a> = dyn Fn(&KernelCall) -> Called<()> + 'a;

/// Elements that a block of the columns' kernels makes.
const CHUNK: usize = 1024;

/// What a pass multiplies with what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    /// Weight with columns.
    Forward,
    /// Weight, transposed, with the output's gradient: the columns of the image's gradient.
    Input,
    /// The output's gradient with columns, transposed, added up over images.
    Weight,
}

/// A convolution by columns.
#[derive(Clone, Copy, Debug)]
struct ByColumns {
    pass: Pass,
    conv: Conv,
    dtype: Dtype,
    images: usize,
    kernel: [usize; 3],
    /// Of a group: filters, rows of the column matrix, and its columns.
    sizes: [usize; 3],
    /// Views of the weight and the output's gradient that are no matrices: copied first.
    copies: [Option<View>; 2],
}

impl ByColumns {
    fn new(op: &Op, inputs: &[View], output: &View) -> Option<Self> {
        let (pass, conv, [image, weight, result]) = match *op {
            Op::Conv(conv) => (Pass::Forward, conv, [&inputs[0], &inputs[1], output]),
            Op::ConvBackwardInput { conv, .. } => (Pass::Input, conv, [output, &inputs[0], &inputs[1]]),
            Op::ConvBackwardWeight { conv, .. } => (Pass::Weight, conv, [&inputs[0], output, &inputs[1]]),
            _ => return None,
        };
        let dtype = output.dtype;
        let is_empty = inputs.iter().chain([output]).any(|view| view.shape().count() == 0);
        // A group of one channel is no product worth a matrix.
        if !matches!(dtype, Dtype::F32 | Dtype::F64)
            || is_empty
            || (weight.shape()[1] == 1 && conv.groups > 1)
        {
            return None;
        }
        let space = |view: &View| [2, 3, 4].map(|axis| view.shape()[axis]);
        if conv.output_size(space(image), space(weight)) != space(result) {
            return None;
        }
        let rows = weight.shape().dims()[1..].iter().product();
        let sizes = [weight.shape()[0] / conv.groups, rows, space(result).iter().product()];
        let copy = |view: &View| (!view.layout.is_contiguous()).then_some(*view);
        let copies = match pass {
            Pass::Forward => [None, copy(weight)],
            Pass::Input => [copy(weight), copy(result)],
            Pass::Weight => [None, copy(result)],
        };
        Some(ByColumns { pass, conv, dtype, images: image.shape()[0], kernel: space(weight), sizes, copies })
    }

    /// Elements of all groups' column matrices.
    fn columns_count(&self) -> usize {
        self.conv.groups * self.sizes[1] * self.sizes[2]
    }

    /// The product of one image, in all groups.
    fn problem(&self, is_added: bool, aligned_to: u32) -> Problem {
        let [filters, rows, places] = self.sizes;
        let matrix = |[outer, inner]: [usize; 2], transposed: bool| Matrix {
            transposed,
            leading: inner,
            batch_stride: outer * inner,
            align_bytes: aligned_to,
        };
        let (weight, columns, result) = ([filters, rows], [rows, places], [filters, places]);
        let (sizes, left, right) = match self.pass {
            Pass::Forward => ([filters, rows, places], matrix(weight, false), matrix(columns, false)),
            Pass::Input => ([rows, filters, places], matrix(weight, true), matrix(result, false)),
            Pass::Weight => ([filters, places, rows], matrix(result, false), matrix(columns, true)),
        };
        Problem {
            dtype: self.dtype,
            sizes,
            batches: self.conv.groups,
            left,
            right,
            out_align_bytes: aligned_to,
            bias: if is_added { Bias::InOutput } else { Bias::None },
        }
    }

    /// What all addresses are multiples of: images follow each other without gaps, and views begin anywhere.
    fn alignment(&self, inputs: &[View]) -> u32 {
        let element_bytes = self.dtype.size_bytes();
        let result_bytes = self.conv.groups * self.sizes[0] * self.sizes[2] * element_bytes;
        let starts = inputs.iter().map(|view| view.layout.offset() * element_bytes);
        alignment(starts.chain([result_bytes]))
    }

    /// Products of the first image and of the others, where these are others.
    fn problems(&self, inputs: &[View]) -> [Problem; 2] {
        let align_bytes = self.alignment(inputs);
        let has_bias = inputs.len() > 2;
        [
            self.problem(has_bias, align_bytes),
            self.problem(has_bias || self.pass == Pass::Weight, align_bytes),
        ]
    }

    fn workspace_bytes(&self, products: &Products, inputs: &[View]) -> Option<usize> {
        let [first, others] =
            self.problems(inputs).map(|problem| products.library().workspace_bytes(&problem));
        Some(first?.max(others?))
    }
}

/// Workspace of a convolution by columns; nothing if it is not for these.
pub fn scratch_bytes(products: &Products, op: &Op, inputs: &[View], output: &View) -> Option<usize> {
    let by_columns = ByColumns::new(op, inputs, output)?;
    let columns_bytes = aligned(by_columns.columns_count() * by_columns.dtype.size_bytes());
    let workspace_bytes = by_columns.workspace_bytes(products, inputs)?;
    Some(copies_bytes(&by_columns.copies) + columns_bytes + workspace_bytes)
}

/// Puts a convolution into a stream; false, and nothing is done, if it is not for these.
///
/// # Safety
/// As for [`Engine::launch`](crate::engine::Engine::launch).
pub unsafe fn run(
    products: &Products,
    stream: &Stream,
    call: &Call,
    copy: &Copier,
    kernels: &Kernels,
) -> Called<bool> {
    let views: Inputs<View> = call.inputs.iter().map(|input| input.view).collect();
    let out = call.outputs[0];
    let Some(by_columns) = ByColumns::new(&call.op, &views, &out.view) else { return Ok(false) };
    let Some(workspace_bytes) = by_columns.workspace_bytes(products, &views) else { return Ok(false) };
    let mut scratch = Scratch::new(call.scratch);
    let mut operands = [0; 2];
    for (index, operand) in operands.iter_mut().enumerate() {
        *operand = scratch.place(&call.inputs[index], by_columns.copies[index], copy)?;
    }
    let matrix = scratch.take(by_columns.columns_count() * by_columns.dtype.size_bytes())?;
    let workspace = scratch.take(workspace_bytes)?;
    if let Some(bias) = call.inputs.get(2) {
        copy(Operand { view: bias_over(&bias.view, &out.view)?, ..*bias }, out)?;
    }
    let images = match by_columns.pass {
        Pass::Input => out.placed(),
        _ => call.inputs[0].placed(),
    };
    let each =
        Each { by_columns, images, matrix: matrix.address, out: out.placed().first(), operands, workspace };
    let [first, others] = by_columns.problems(&views);
    for index in 0..by_columns.images {
        let problem = if index == 0 { first } else { others };
        // SAFETY: the caller's; the operands are those of the call, or copies of them, and its workspace.
        unsafe { each.run(products, stream, index, &problem, kernels) }?;
    }
    Ok(true)
}

/// What all images have in common.
struct Each {
    by_columns: ByColumns,
    images: Placed,
    matrix: u64,
    out: u64,
    operands: [u64; 2],
    workspace: Span,
}

impl Each {
    /// One image.
    ///
    /// # Safety
    /// As for [`run`].
    unsafe fn run(
        &self,
        products: &Products,
        stream: &Stream,
        index: usize,
        problem: &Problem,
        kernels: &Kernels,
    ) -> Called<()> {
        let ByColumns { pass, conv, kernel, sizes: [filters, _, places], dtype, .. } = self.by_columns;
        let (images, matrix) = (self.images, self.matrix);
        let columns = Columns { conv, images, index, kernel, matrix, chunk: CHUNK };
        let result_bytes = conv.groups * filters * places * dtype.size_bytes();
        let of_image = |address: u64| address + (index * result_bytes) as u64;
        let [first, second] = self.operands;
        let (left, right, out) = match pass {
            Pass::Forward => (second, matrix, of_image(self.out)),
            Pass::Input => (first, of_image(second), matrix),
            Pass::Weight => (of_image(second), matrix, self.out),
        };
        if pass != Pass::Input {
            kernels(&columns.lay_out())?;
        }
        let addresses = Addresses { left, right, out, bias: 0, workspace: self.workspace };
        // SAFETY: the caller's.
        unsafe { products.library().multiply(stream, problem, &addresses) }?;
        if pass == Pass::Input {
            kernels(&columns.add_up())?;
        }
        Ok(())
    }
}
