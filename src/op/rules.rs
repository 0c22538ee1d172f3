//! Total functions of an op: what it makes, what it reads, what it may overwrite.

use super::{
    Attention, COUNTED_RUN, Distribution, Dtype, Encoding, InParts, MAX_SCALARS, Norm, Op, Outputs, Reads,
    Reduce, Scalar, Shape, Tally, View,
};

impl Op {
    /// The number of the program's calls that it stands for.
    pub(crate) fn calls(&self) -> u64 {
        if let Op::Fused { program, .. } = self { program.steps().len() as u64 } else { 1 }
    }

    /// The outputs of the op on these inputs, which [fit](Op::check) it.
    ///
    /// # Panics
    /// If they do not.
    pub fn outputs(&self, inputs: &[View]) -> Outputs {
        self.try_outputs(inputs).expect("inputs are checked before an op is run")
    }

    /// The same, unless an output has more elements than a tensor can have.
    pub(super) fn try_outputs(&self, inputs: &[View]) -> Option<Outputs> {
        let same = || (inputs[0].dtype, *inputs[0].shape());
        let planes = |of: usize, size: [usize; 2]| {
            let shape = inputs[of].shape();
            Shape::try_new(&[shape[0], shape[1], size[0], size[1]])
        };
        let plane = |of: usize| [inputs[of].shape()[2], inputs[of].shape()[3]];
        let spaces = |a: usize, b: usize, [z, y, x]: [usize; 3]| Shape::try_new(&[a, b, z, y, x]);
        let space = |of: usize| [2, 3, 4].map(|axis| inputs[of].shape()[axis]);
        let (dtype, shape) = match *self {
            Op::Fill { shape, dtype, .. } | Op::Random { shape, dtype, .. } => (dtype, shape),
            Op::Unset { shape, dtype } => (dtype, shape),
            Op::Arange { count, dtype, .. } => (dtype, Shape::try_new(&[count])?),
            Op::Copy { dtype } => (dtype, *inputs[0].shape()),
            Op::Unary(_) | Op::Binary(_) | Op::BinaryScalar(..) | Op::Clamp(..) | Op::MaskFill(_) => same(),
            Op::SliceAssign { .. } | Op::Scatter { .. } | Op::SelectUpdate { .. } => same(),
            Op::Cumulative { .. } => same(),
            Op::Compare(_) | Op::CompareScalar(..) => (Dtype::Bool, *inputs[0].shape()),
            Op::Where => (inputs[1].dtype, *inputs[1].shape()),
            Op::Reduce { axis, .. } => (inputs[0].dtype, inputs[0].shape().with(axis, 1)),
            Op::ArgReduce { axis, dtype, values, .. } => {
                let shape = inputs[0].shape().with(axis, 1);
                let extremes = values.then(|| View::contiguous(inputs[0].dtype, shape));
                return Some(extremes.into_iter().chain([View::contiguous(dtype, shape)]).collect());
            }
            Op::Softmax { .. } | Op::AttentionWeights { .. } | Op::Norm { .. } => same(),
            Op::SoftmaxBackward { .. } => same(),
            Op::Attention(_) => {
                let shape = inputs[0].shape();
                let sums = View::contiguous(Dtype::F32, Shape::try_new(&shape.dims()[..3])?);
                let made = View::contiguous(inputs[0].dtype, side_by_side(&inputs[0], &inputs[2])?);
                return Some([made, sums].into_iter().collect());
            }
            Op::AttentionBackward(_) => {
                let of = |view: &View| Some(View::contiguous(view.dtype, side_by_side(view, view)?));
                return inputs[..3].iter().map(of).collect();
            }
            Op::NormBackward { kind, weights, .. } => {
                let parts = Shape::try_new(&[if kind == Norm::Layer { 2 } else { 1 }, inputs[0].shape()[1]])?;
                let of_weights = weights.then(|| View::contiguous(inputs[0].dtype, parts));
                let of_x = View::contiguous(inputs[0].dtype, *inputs[0].shape());
                return Some([of_x].into_iter().chain(of_weights).collect());
            }
            Op::RealFft { axis, length } => {
                let shape = inputs[0].shape().try_with(axis, length / 2 + 1)?;
                let part = View::contiguous(inputs[0].dtype, shape);
                return Some([part, part].into_iter().collect());
            }
            Op::InverseRealFft { axis, length } => {
                (inputs[0].dtype, inputs[0].shape().try_with(axis, length)?)
            }
            Op::Gather { .. } => (inputs[0].dtype, *inputs[1].shape()),
            Op::Select { axis } => {
                (inputs[0].dtype, inputs[0].shape().try_with(axis, inputs[1].shape().count())?)
            }
            Op::Sort { axis, count, .. } => (inputs[0].dtype, inputs[0].shape().with(axis, count)),
            Op::ArgSort { axis, count, dtype, .. } => (dtype, inputs[0].shape().with(axis, count)),
            Op::CountSet => (Dtype::I64, Shape::try_new(&[inputs[0].shape().count().div_ceil(COUNTED_RUN)])?),
            Op::ArgWhere { count, dtype } => (dtype, Shape::try_new(&[count, inputs[0].shape().rank()])?),
            Op::Matmul => {
                let (a, b) = (inputs[0].shape(), inputs[1].shape());
                (inputs[0].dtype, a.try_with(a.rank() - 1, b[b.rank() - 1])?)
            }
            Op::Conv(conv) => {
                let size = conv.output_size(space(0), space(1));
                (inputs[0].dtype, spaces(inputs[0].shape()[0], inputs[1].shape()[0], size)?)
            }
            Op::ConvBackwardInput { conv, size } => {
                let channels = inputs[0].shape()[1].checked_mul(conv.groups)?;
                (inputs[1].dtype, spaces(inputs[1].shape()[0], channels, size)?)
            }
            Op::ConvBackwardWeight { conv, kernel } => {
                let (channels, filters) = (inputs[0].shape()[1], inputs[1].shape()[1]);
                (inputs[0].dtype, spaces(filters, channels / conv.groups, kernel)?)
            }
            Op::MaxPool2d { pool, indices } => {
                let shape = planes(0, pool.output_size(plane(0)))?;
                let values = View::contiguous(inputs[0].dtype, shape);
                let indices = indices.map(|dtype| View::contiguous(dtype, shape));
                return Some([values].into_iter().chain(indices).collect());
            }
            Op::AvgPool2d(pool) => (inputs[0].dtype, planes(0, pool.output_size(plane(0)))?),
            Op::CtcLoss { .. } => (inputs[0].dtype, Shape::try_new(&[inputs[0].shape()[1]])?),
            Op::CtcLossBackward { .. } => same(),
            Op::GridSample(_) => {
                let grid = inputs[1].shape();
                (inputs[0].dtype, planes(0, [grid[1], grid[2]])?)
            }
            Op::DeformColumns(deform) => {
                let (taps, offset) = (deform.kernel[0] * deform.kernel[1], inputs[1].shape());
                let (rows, pixels) =
                    (inputs[0].shape()[1].checked_mul(taps)?, offset[0] * offset[2] * offset[3]);
                (inputs[0].dtype, Shape::try_new(&[rows, pixels])?)
            }
            Op::DeformBackwardOffset(_) => {
                let made = [Some(&inputs[1]), inputs.get(3)].into_iter().flatten();
                return Some(made.map(|view| View::contiguous(view.dtype, *view.shape())).collect());
            }
            Op::DeformBackwardImage { deform, size } => {
                let channels = inputs[1].shape()[0] / (deform.kernel[0] * deform.kernel[1]).max(1);
                (inputs[0].dtype, Shape::try_new(&[inputs[0].shape()[0], channels, size[0], size[1]])?)
            }
            Op::Interpolate { size, .. }
            | Op::InterpolateBackward { size, .. }
            | Op::AdaptiveAvgPool2d { size }
            | Op::MaxPool2dBackward { size, .. }
            | Op::MaxPool2dBackwardTaps { size, .. }
            | Op::AvgPool2dBackward { size, .. }
            | Op::AdaptiveAvgPool2dBackward { size } => (inputs[0].dtype, planes(0, size)?),
            Op::Encode(encoding) => {
                (Dtype::U32, Shape::try_new(&[encoding.words(inputs[0].shape().count())])?)
            }
            Op::Decode { dtype, count, .. } => (dtype, Shape::try_new(&[count])?),
            Op::Tally(_) => return Some(Outputs::new()),
            Op::ReluBackwardSigns => (inputs[1].dtype, *inputs[1].shape()),
            Op::ConvBackwardWeightEncoded { conv, kernel, image, .. } => {
                (inputs[1].dtype, spaces(inputs[1].shape()[1], image[0] / conv.groups, kernel)?)
            }
            Op::Fused { program, .. } => {
                let made = View::contiguous(inputs[0].dtype, *inputs[0].shape());
                let ending = program
                    .ending()
                    .map(|ending| View::contiguous(made.dtype, ending.sizes(made.shape()).with(1, 1)));
                let output = |place| View::contiguous(made.dtype, program.made(place, made.shape()));
                return Some((0..program.outputs().len()).map(output).chain(ending).collect());
            }
            Op::Traced(traced) => return Some(traced.outputs()),
        };
        Some([View::contiguous(dtype, shape)].into_iter().collect())
    }

    /// Whether the element types of the inputs fit the op and each other.
    pub(super) fn accepts<'a>(&self, inputs: impl Iterator<Item = &'a View>) -> bool {
        let mut data = None;
        inputs.enumerate().all(|(input, view)| match (self, input) {
            (Op::Where | Op::CountSet | Op::ArgWhere { .. }, 0) => view.dtype.stored() == Dtype::Bool,
            (Op::Attention(_), 3) | (Op::AttentionBackward(_), 6) => view.dtype.stored() == Dtype::Bool,
            (Op::AttentionBackward(_), 4) => view.dtype == Dtype::F32,
            (Op::ArgWhere { .. }, 1) => view.dtype == Dtype::I64,
            (Op::MaskFill(_) | Op::AttentionWeights { .. }, 1) => view.dtype.stored() == Dtype::Bool,
            (Op::Fused { program, .. }, _) if program.is_mask(input) => view.dtype.stored() == Dtype::Bool,
            (Op::Gather { .. } | Op::Select { .. } | Op::MaxPool2dBackward { .. }, 1)
            | (Op::Scatter { .. } | Op::SelectUpdate { .. }, 1) => Dtype::INDICES.contains(&view.dtype),
            (Op::CtcLoss { .. } | Op::CtcLossBackward { .. }, 1..) => view.dtype == Dtype::I64,
            (Op::Encode(encoding), _) => encoding.takes(view.dtype),
            (Op::Decode { dtype, .. }, 1) => view.dtype == *dtype,
            (Op::Tally(Tally::Units), 0) => !view.dtype.is_bool(),
            (Op::Decode { .. } | Op::ReluBackwardSigns | Op::ConvBackwardWeightEncoded { .. }, 0)
            | (Op::MaxPool2dBackwardTaps { .. } | Op::Tally(_), 1) => view.dtype == Dtype::U32,
            // Copies convert.
            (Op::Copy { .. } | Op::SliceAssign { .. }, _) => true,
            (Op::ConvBackwardWeightEncoded { encoding, .. }, _) => {
                is_decoded_in_parts(view.dtype)
                    && Encoding::from(*encoding).takes(view.dtype)
                    && *data.get_or_insert(view.dtype) == view.dtype
            }
            _ => self.computes(view.dtype) && *data.get_or_insert(view.dtype.stored()) == view.dtype.stored(),
        })
    }

    /// Whether there are kernels that make elements of the type that the op names, if it names one.
    pub(super) fn makes_its_type(&self) -> bool {
        match *self {
            Op::Arange { dtype, .. } => dtype.is_integer(),
            Op::Random { dtype, distribution, .. } => {
                !dtype.is_bool() || matches!(distribution, Distribution::Bernoulli { .. })
            }
            Op::ArgReduce { dtype, .. }
            | Op::ArgSort { dtype, .. }
            | Op::ArgWhere { dtype, .. }
            | Op::MaxPool2d { indices: Some(dtype), .. } => Dtype::INDICES.contains(&dtype),
            Op::Decode { encoding, dtype, .. } => encoding != Encoding::Signs && encoding.takes(dtype),
            _ => true,
        }
    }

    /// Whether the op makes sense for data of this element type.
    fn computes(&self, dtype: Dtype) -> bool {
        match self {
            Op::Unary(kind) => kind.supports(dtype),
            Op::Binary(kind) | Op::BinaryScalar(kind, _) => kind.supports(dtype),
            Op::Reduce { kind, .. } => kind.supports(dtype),
            Op::Compare(_) | Op::CompareScalar(..) | Op::Where | Op::MaskFill(_) => true,
            Op::Scatter { update, .. } | Op::SelectUpdate { update, .. } => update.supports(dtype),
            Op::Gather { .. } | Op::Select { .. } => true,
            Op::Attention(_) | Op::AttentionBackward(_) => Attention::supports(dtype),
            Op::Clamp(..) | Op::ArgReduce { .. } | Op::Cumulative { .. } | Op::Matmul => !dtype.is_bool(),
            Op::Sort { .. } | Op::ArgSort { .. } => !dtype.is_bool(),
            Op::Traced(_) => true,
            Op::DeformColumns(_) | Op::DeformBackwardOffset(_) | Op::DeformBackwardImage { .. } => {
                matches!(dtype, Dtype::F32 | Dtype::F64)
            }
            _ => dtype.is_float(),
        }
    }

    /// What the op reads of input `input`.
    pub fn reads(&self, input: usize) -> Reads {
        match self {
            Op::Unary(super::Unary::Relu) => Reads::Values,
            Op::Binary(super::Binary::ReluBackward) if input == 0 => Reads::Signs,
            Op::Encode(Encoding::Signs) => Reads::Signs,
            _ => Reads::Values,
        }
    }

    /// The op that does the same with the encoded form of an input, which is `view`, whole and row-major, in its place.
    pub fn on_encoded(&self, input: usize, encoding: &Encoding, view: &View) -> Option<Op> {
        match (*self, input, *encoding) {
            (Op::Binary(super::Binary::ReluBackward), 0, Encoding::Signs) => Some(Op::ReluBackwardSigns),
            (Op::MaxPool2dBackward { pool, size }, 1, Encoding::Taps(taps)) => {
                let same = (pool, size[1]) == (taps.pool, taps.width);
                same.then_some(Op::MaxPool2dBackwardTaps { taps, size })
            }
            (Op::ConvBackwardWeight { conv, kernel }, 0, _) => {
                let image = [1, 2, 3, 4].map(|axis| view.shape()[axis]);
                let encoding = InParts::of(encoding).filter(|_| is_decoded_in_parts(view.dtype))?;
                Some(Op::ConvBackwardWeightEncoded { conv, kernel, image, encoding })
            }
            _ => None,
        }
    }

    /// The two ops that one is which decodes, where it does not do so with an element at a time: the first decodes its first
    /// input into these values, which the other reads in its place.
    pub fn in_two(&self, inputs: &[View]) -> Option<(Op, View, Op)> {
        let Op::ConvBackwardWeightEncoded { conv, kernel, image: [channels, z, y, x], encoding } = *self
        else {
            return None;
        };
        let gradient = &inputs[1];
        let shape = Shape::new(&[gradient.shape()[0], channels, z, y, x]);
        let values = View::contiguous(gradient.dtype, shape);
        let (encoding, dtype) = (encoding.into(), gradient.dtype);
        let decode = Op::Decode { encoding, dtype, count: shape.count() };
        Some((decode, values, Op::ConvBackwardWeight { conv, kernel }))
    }

    /// How many of its outputs, from the first on, may each take the span of another input.
    pub fn outputs_in_place(&self) -> usize {
        match self {
            Op::Fused { program, .. } => program.outputs().len(),
            Op::Traced(traced) => traced.facts().output_bytes.len(),
            _ => 1,
        }
    }

    /// Whether an output may take the span of input `input`, given that both views are contiguous, whole and of equal
    /// size: true where each output element is computed from input elements at its own position alone, or each
    /// row from its own row, all of which is read before.
    pub fn in_place(&self, input: usize) -> bool {
        match self {
            Op::Unary(_) | Op::Binary(_) | Op::BinaryScalar(..) | Op::Clamp(..) | Op::Copy { .. } => true,
            Op::Compare(_) | Op::CompareScalar(..) | Op::Where | Op::MaskFill(_) => true,
            Op::SliceAssign { .. } | Op::Scatter { .. } | Op::SelectUpdate { .. } => input == 0,
            Op::Softmax { .. } | Op::AttentionWeights { .. } | Op::Norm { .. } => input == 0,
            Op::SoftmaxBackward { .. } => true,
            // The weights' gradients read it all before.
            Op::NormBackward { .. } => input != 1,
            Op::ReluBackwardSigns => input == 1,
            Op::Fused { program, .. } => !program.outputs().is_empty(),
            Op::Traced(traced) => traced.facts().in_place.contains(&input),
            _ => false,
        }
    }

    /// Whether the op looks at indices, and fails after its submission where one is out of range.
    pub fn checks_indices(&self) -> bool {
        matches!(
            self,
            Op::CtcLoss { .. }
                | Op::CtcLossBackward { .. }
                | Op::Gather { .. }
                | Op::Select { .. }
                | Op::Scatter { .. }
                | Op::SelectUpdate { .. }
        )
    }

    /// Whether an output is computed from an input.
    pub fn depends(&self, output: usize, input: usize) -> bool {
        match self {
            Op::Fused { program, .. } => program.depends(output, input),
            _ => true,
        }
    }

    /// Whether running the op again on the same inputs gives the same bits. All of ours do: random ops carry their seed
    /// and no reduction depends on the number of threads.
    pub fn replays_exactly(&self) -> bool {
        !matches!(self, Op::Traced(traced) if !traced.facts().exact)
    }

    /// The op with the numbers that may change from one iteration to the next, scalars and seeds, all alike.
    pub fn template(mut self) -> Self {
        const ALIKE: Scalar = Scalar::Int(0);
        match &mut self {
            Op::Fill { value, .. } | Op::BinaryScalar(_, value) | Op::CompareScalar(_, value) => {
                *value = ALIKE
            }
            Op::MaskFill(value) | Op::AttentionWeights { scale: value, .. } => *value = ALIKE,
            Op::SoftmaxBackward { scale: value, .. } => *value = ALIKE,
            Op::Attention(attention) | Op::AttentionBackward(attention) => {
                attention.scale = ALIKE;
                attention.dropout.iter_mut().for_each(|dropout| (dropout.keep, dropout.seed) = (ALIKE, 0));
            }
            Op::Norm { epsilon, .. } | Op::NormBackward { epsilon, .. } => *epsilon = ALIKE,
            Op::Clamp(low, high) => (*low, *high) = (ALIKE, ALIKE),
            Op::Random { seed, .. } => *seed = 0,
            Op::Fused { scalars, .. } => *scalars = [0; MAX_SCALARS],
            _ => {}
        }
        self
    }

    /// A short name for messages and traces.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Fill { .. } => "fill",
            Op::Unset { .. } => "unset",
            Op::Arange { .. } => "arange",
            Op::Random { .. } => "random",
            Op::Copy { .. } => "copy",
            Op::Unary(kind) => kind.name(),
            Op::Binary(kind) => kind.name(),
            Op::BinaryScalar(kind, _) => kind.name(),
            Op::Clamp(..) => "clamp",
            Op::Compare(kind) | Op::CompareScalar(kind, _) => kind.name(),
            Op::Where => "where",
            Op::MaskFill(_) => "mask_fill",
            Op::Reduce { kind, .. } => kind.name(),
            Op::ArgReduce { kind, .. } => kind.name(),
            Op::Softmax { kind, .. } => kind.name(),
            Op::AttentionWeights { .. } => "attention_weights",
            Op::SoftmaxBackward { .. } => "softmax_backward",
            Op::Attention(_) => "attention",
            Op::AttentionBackward(_) => "attention_backward",
            Op::Norm { kind, .. } => kind.name(),
            Op::NormBackward { .. } => "norm_backward",
            Op::RealFft { .. } => "rfft",
            Op::InverseRealFft { .. } => "irfft",
            Op::SliceAssign { .. } => "slice_assign",
            Op::Gather { .. } => "gather",
            Op::Scatter { .. } => "scatter",
            Op::Select { .. } => "select",
            Op::SelectUpdate { .. } => "select_update",
            Op::Cumulative { .. } => "cumulative",
            Op::Sort { .. } => "sort",
            Op::ArgSort { .. } => "argsort",
            Op::CountSet => "count_set",
            Op::ArgWhere { .. } => "argwhere",
            Op::Matmul => "matmul",
            Op::Conv(_) => "conv",
            Op::ConvBackwardInput { .. } => "conv_backward_input",
            Op::ConvBackwardWeight { .. } => "conv_backward_weight",
            Op::CtcLoss { .. } => "ctc_loss",
            Op::CtcLossBackward { .. } => "ctc_loss_backward",
            Op::MaxPool2d { .. } => "max_pool2d",
            Op::MaxPool2dBackward { .. } => "max_pool2d_backward",
            Op::AvgPool2d(_) => "avg_pool2d",
            Op::AvgPool2dBackward { .. } => "avg_pool2d_backward",
            Op::AdaptiveAvgPool2d { .. } => "adaptive_avg_pool2d",
            Op::AdaptiveAvgPool2dBackward { .. } => "adaptive_avg_pool2d_backward",
            Op::Interpolate { .. } => "interpolate",
            Op::InterpolateBackward { .. } => "interpolate_backward",
            Op::GridSample(_) => "grid_sample",
            Op::DeformColumns(_) => "deform_columns",
            Op::DeformBackwardOffset(_) => "deform_backward_offset",
            Op::DeformBackwardImage { .. } => "deform_backward_image",
            Op::Encode(encoding) => encoding.encode_name(),
            Op::Decode { encoding, .. } => encoding.decode_name(),
            Op::Tally(_) => "tally",
            Op::ReluBackwardSigns => "relu_backward_signs",
            Op::MaxPool2dBackwardTaps { .. } => "max_pool2d_backward_taps",
            Op::ConvBackwardWeightEncoded { .. } => "conv_backward_weight_encoded",
            // One that may end a branch is to be known by that.
            Op::Fused { program, .. } => match program.ending().map(|ending| ending.kind) {
                _ if program.adds() => "fused_add",
                Some(Reduce::Mean) => "fused_mean",
                Some(Reduce::Max) => "fused_max",
                Some(_) => "fused_sum",
                None if program.has_rows() => "fused_rows",
                None => "fused",
            },
            Op::Traced(traced) => &traced.facts().name,
        }
    }
}

/// The shape `[batch, rows, heads, width]` of what attention makes: heads side by side, as the layers around it have them.
fn side_by_side(rows: &View, wide: &View) -> Option<Shape> {
    let shape = rows.shape();
    Shape::try_new(&[shape[0], shape[2], shape[1], wide.shape()[3]])
}

/// Floats of which an op decodes some at a time: 16-bit ones are widened as a whole anyway.
fn is_decoded_in_parts(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F64)
}
