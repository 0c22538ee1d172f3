//! Whether inputs fit an op: how many they are, their element types, shapes and layouts. The runtime asks for each op of a program
//! before anything else, so that what lies behind it, kernels among it, trusts its arguments.

use super::{
    Attention, COUNTED_RUN, Conv, Deform2d, Dtype, Encoding, Inputs, MAX_ELEMENTS, MAX_FUSED_INPUTS, Op,
    Pool2d, Program, Source, StepKind, View,
};

/// The most that a place in an image, its border included, may be: kernels count places with 32 bits.
const MAX_PLACE: usize = i32::MAX as usize;

/// Why inputs do not fit an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Their element types do not fit the op or each other.
    Dtypes,
    /// Their number, shapes or layouts are not these.
    Shapes(&'static str),
    /// An output would have more elements than [`MAX_ELEMENTS`](super::MAX_ELEMENTS).
    TooLarge,
}

/// The inputs that an op takes, as messages and documents say it, and whether these are such.
type Fit = (&'static str, bool);

impl Op {
    /// Whether the inputs fit the op, in number, element types, shapes and layouts.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn check(&self, inputs: &[&View]) -> Result<(), Misfit> {
        let dims: Inputs<&[usize]> = inputs.iter().map(|view| view.shape().dims()).collect();
        let (expected, fits) = self.fit(inputs, &dims);
        if !fits {
            return Err(Misfit::Shapes(expected));
        }
        let in_order =
            |(input, view): (usize, &&View)| !self.reads_in_order(input) || view.layout.is_contiguous();
        if !inputs.iter().enumerate().all(in_order) {
            return Err(Misfit::Shapes("row-major inputs, which Op::Copy makes"));
        }
        if !self.makes_its_type() || !self.accepts(inputs.iter().copied()) {
            return Err(Misfit::Dtypes);
        }
        // Elementwise ops, which are most, make what is no larger than an input.
        let views = || inputs.iter().map(|&&view| view).collect::<Inputs<View>>();
        match StepKind::of(self) {
            None if self.try_outputs(&views()).is_none() => Err(Misfit::TooLarge),
            _ => Ok(()),
        }
    }

    /// Whether kernels take the elements of an input to lie in row-major order.
    fn reads_in_order(&self, input: usize) -> bool {
        match self {
            Op::AttentionBackward(_) => input == 4,
            Op::ArgWhere { .. } | Op::DeformBackwardImage { .. } | Op::MaxPool2dBackwardTaps { .. } => {
                input == 1
            }
            Op::DeformBackwardOffset(_) => input == 2,
            Op::ReluBackwardSigns | Op::ConvBackwardWeightEncoded { .. } => input == 0,
            Op::Encode(_) | Op::Decode { .. } | Op::Tally(_) => true,
            _ => false,
        }
    }

    fn fit(&self, inputs: &[&View], dims: &[&[usize]]) -> Fit {
        match self {
            Op::Fill { .. } | Op::Unset { .. } | Op::Arange { .. } | Op::Random { .. } => {
                ("no input", dims.is_empty())
            }
            Op::Copy { .. } | Op::Unary(_) | Op::BinaryScalar(..) | Op::Clamp(..) | Op::CompareScalar(..) => {
                ("one input", dims.len() == 1)
            }
            Op::Binary(_) | Op::Compare(_) | Op::MaskFill(_) => {
                ("two inputs of one shape", dims.len() == 2 && are_equal(dims))
            }
            Op::Where => ("three inputs of one shape", dims.len() == 3 && are_equal(dims)),
            Op::Reduce { axis, .. } | Op::Softmax { axis, .. } | Op::Cumulative { axis, .. } => {
                ("one input that has the axis", matches!(dims, [x] if *axis < x.len()))
            }
            Op::ArgReduce { .. } | Op::Sort { .. } | Op::ArgSort { .. } => self.fit_order(dims),
            Op::AttentionWeights { .. } => (
                "scores[.., queries, keys], and perhaps a mask of that shape",
                matches!(dims.len(), 1 | 2) && dims[0].len() >= 2 && are_equal(dims),
            ),
            Op::Attention(_) | Op::AttentionBackward(_) => self.fit_attention(inputs, dims),
            Op::SoftmaxBackward { axis, .. } => (
                "output and gradient of one shape that has the axis",
                dims.len() == 2 && are_equal(dims) && *axis < dims[0].len(),
            ),
            Op::Norm { .. } | Op::NormBackward { .. } => self.fit_norm(dims),
            Op::RealFft { axis, length } | Op::InverseRealFft { axis, length } => {
                let count = if matches!(self, Op::RealFft { .. }) { 1 } else { 2 };
                let fits = dims.len() == count && are_equal(dims) && *axis < dims[0].len();
                (
                    "parts of one shape that has the axis, and a power of two as length",
                    fits && length.is_power_of_two(),
                )
            }
            Op::SliceAssign { .. }
            | Op::Gather { .. }
            | Op::Scatter { .. }
            | Op::Select { .. }
            | Op::SelectUpdate { .. } => self.fit_index(dims),
            Op::CountSet => ("a mask", dims.len() == 1),
            Op::ArgWhere { .. } => (
                "a mask and the ends of its runs",
                matches!(dims, [mask, [ends]] if *ends == count(mask).div_ceil(COUNTED_RUN)),
            ),
            Op::Matmul => ("a[.., m, k], b[.., k, n], and perhaps bias[n]", fits_product(dims)),
            Op::Conv(_) | Op::ConvBackwardInput { .. } | Op::ConvBackwardWeight { .. } => self.fit_conv(dims),
            Op::MaxPool2d { .. }
            | Op::MaxPool2dBackward { .. }
            | Op::AvgPool2d(_)
            | Op::AvgPool2dBackward { .. } => self.fit_pool(dims),
            Op::AdaptiveAvgPool2d { size } | Op::AdaptiveAvgPool2dBackward { size } => (
                "images[n, c, h, w]",
                matches!(dims, [[_, _, h, w]] if are_places(&[*h, *w]) && are_places(size)),
            ),
            Op::Interpolate { size, .. } | Op::InterpolateBackward { size, .. } => {
                let is_there = |h: usize, w: usize| (h > 0 && w > 0) || matches!(size, [0, _] | [_, 0]);
                let fits = matches!(dims, [[_, _, h, w]] if are_places(&[*h, *w]) && is_there(*h, *w));
                ("images[n, c, h, w] that are not empty", fits && are_places(size))
            }
            Op::CtcLoss { blank } | Op::CtcLossBackward { blank } => (
                "log_probs[steps, n, classes], targets[n, labels], input_lengths[n], target_lengths[n], and a blank that is a class",
                matches!(dims, [[_, n, classes], [of_targets, _], [of_inputs], [of_lengths]]
                    if blank < classes && [of_targets, of_inputs, of_lengths].iter().all(|other| *other == n)),
            ),
            Op::GridSample(_) => (
                "images[n, c, h, w] that are not empty, grid[n, h, w, 2]",
                matches!(dims, [[n, _, h, w], [of_grid, high, wide, 2]]
                    if n == of_grid && are_places(&[*h, *w, *high, *wide]) && (h * w > 0 || high * wide == 0)),
            ),
            Op::DeformColumns(deform)
            | Op::DeformBackwardOffset(deform)
            | Op::DeformBackwardImage { deform, .. } => self.fit_deform(deform, dims),
            Op::Encode(_)
            | Op::Decode { .. }
            | Op::Tally(_)
            | Op::ReluBackwardSigns
            | Op::MaxPool2dBackwardTaps { .. }
            | Op::ConvBackwardWeightEncoded { .. } => self.fit_encoded(inputs, dims),
            Op::Fused { program, .. } => {
                ("as many inputs of one shape as the program reads", program.fits(dims))
            }
            Op::Traced(_) => ("any inputs", true),
        }
    }

    fn fit_order(&self, dims: &[&[usize]]) -> Fit {
        let expected = "one input that has the axis, with enough elements along it";
        let [x] = dims else { return (expected, false) };
        let is_enough = match *self {
            Op::ArgReduce { axis, .. } => {
                let others = || count(&x[..axis]).saturating_mul(count(&x[axis + 1..]));
                x.get(axis).is_some_and(|&size| size > 0 || others() == 0)
            }
            Op::Sort { axis, count, .. } => x.get(axis).is_some_and(|&size| count <= size),
            Op::ArgSort { axis, count, .. } => {
                x.get(axis).is_some_and(|&size| count <= size && size <= u32::MAX as usize)
            }
            _ => false,
        };
        (expected, is_enough)
    }

    fn fit_attention(&self, inputs: &[&View], dims: &[&[usize]]) -> Fit {
        let expected = "query[b, h, q, w], key[b, h, k, w], value[b, h, k, v], if backward out[b, h, q, v], sums[b, h, q] and \
                        gradient[b, h, q, v], and perhaps mask[b, h, q, k]; widths of 128 at the most, rows without gaps";
        let before = if matches!(self, Op::Attention(_)) { 3 } else { 6 };
        let [query, key, value, ..] = *dims else { return (expected, false) };
        if dims.len() < before {
            return (expected, false);
        }
        let (&[b, h, q, w], &[kb, kh, k, kw], &[vb, vh, vk, v]) = (query, key, value) else {
            return (expected, false);
        };
        let is_side_by_side = |view: &View| match (view.shape().dims(), view.layout.strides()) {
            ([.., size], [.., stride]) => *size <= 1 || *stride == 1,
            _ => false,
        };
        let made = [b, h, q, v];
        let fits = [kb, kh, kw, vb, vh, vk] == [b, h, w, b, h, k]
            && w.max(v) <= Attention::MAX_WIDTH
            && (before == 3 || dims[3] == made && dims[4] == &made[..3] && dims[5] == made)
            && (dims.len() == before || dims.len() == before + 1 && dims[before] == [b, h, q, k]);
        let rows = inputs[..before].iter().enumerate().filter(|(input, _)| *input != 4);
        (expected, fits && rows.map(|(_, view)| *view).all(is_side_by_side))
    }

    fn fit_norm(&self, dims: &[&[usize]]) -> Fit {
        match (self, dims) {
            (Op::NormBackward { .. }, _) => (
                "x[rows, width], gamma[width], gradient[rows, width]",
                matches!(dims, [x @ [_, width], [of_gamma], gradient] if width == of_gamma && x == gradient),
            ),
            _ => (
                "x[.., width], gamma[width], and perhaps beta[width]",
                matches!(dims, [[.., width], weights @ ..]
                    if matches!(weights.len(), 1 | 2) && weights.iter().all(|weight| *weight == [*width])),
            ),
        }
    }

    fn fit_index(&self, dims: &[&[usize]]) -> Fit {
        let reaches = |x: &[usize], index: &[usize], along: usize| {
            let others = (0..x.len()).filter(|&axis| axis != along);
            along < x.len() && x.len() == index.len() && { others }.all(|axis| index[axis] <= x[axis])
        };
        match *self {
            Op::SliceAssign { starts, steps } => (
                "a destination, and a value of as many dimensions that lies inside it",
                matches!(dims, [x, value] if x.len() == value.len()
                && (count(value) == 0 || (0..x.len()).all(|axis| {
                    let last = steps[axis].checked_mul(value[axis] as isize - 1);
                    let last = last.and_then(|last| starts[axis].checked_add_signed(last));
                    starts[axis] < x[axis] && last.is_some_and(|last| last < x[axis])
                }))),
            ),
            Op::Gather { axis } => (
                "x and an index of as many dimensions that has the axis, none of the others larger",
                matches!(dims, [x, index] if reaches(x, index, axis)),
            ),
            Op::Scatter { axis, .. } => (
                "x, an index of as many dimensions that has the axis, none of the others larger, and a value of its shape",
                matches!(dims, [x, index, value] if reaches(x, index, axis) && index == value),
            ),
            Op::Select { axis } => {
                ("x that has the axis, and index[n]", matches!(dims, [x, [_]] if axis < x.len()))
            }
            Op::SelectUpdate { axis, .. } => (
                "x that has the axis, index[n], and a value that has n elements along it and the others of x",
                matches!(dims, [x, [n], value] if axis < x.len() && x.len() == value.len()
                    && (0..x.len()).all(|other| value[other] == if other == axis { *n } else { x[other] })),
            ),
            _ => ("an op with indices", false),
        }
    }

    fn fit_conv(&self, dims: &[&[usize]]) -> Fit {
        match (*self, dims) {
            (Op::Conv(conv), _) => (
                "x[n, c, d, h, w], weight[o, c / groups, kd, kh, kw], and perhaps bias[o], with a window that moves",
                matches!(*dims, [&[_, c, d, h, w], &[o, each, kd, kh, kw], ref bias @ ..]
                    if conv.splits(c, o) && each == c / conv.groups
                    && matches!(bias, [] | [[_]]) && bias.iter().all(|bias| bias[0] == o)
                    && conv.moves([d, h, w], [kd, kh, kw]).is_some()),
            ),
            (Op::ConvBackwardInput { conv, size }, _) => (
                "weight[o, c / groups, kd, kh, kw], and gradient[n, o, od, oh, ow] of what the convolution makes",
                matches!(*dims, [&[o, _, kd, kh, kw], &[_, of_gradient, d, h, w]]
                    if conv.splits(conv.groups, o) && of_gradient == o
                    && conv.moves(size, [kd, kh, kw]) == Some([d, h, w])),
            ),
            (Op::ConvBackwardWeight { conv, kernel }, _) => (
                "x[n, c, d, h, w], and gradient[n, o, od, oh, ow] of what the convolution makes",
                matches!(*dims, [&[n, c, d, h, w], &[of_gradient, o, od, oh, ow]]
                    if conv.splits(c, o) && of_gradient == n
                    && conv.moves([d, h, w], kernel) == Some([od, oh, ow])),
            ),
            _ => ("a convolution", false),
        }
    }

    fn fit_pool(&self, dims: &[&[usize]]) -> Fit {
        match (*self, dims) {
            (Op::MaxPool2d { pool, .. } | Op::AvgPool2d(pool), _) => (
                "images[n, c, h, w], with a window that moves",
                matches!(*dims, [&[_, _, h, w]] if pool.moves([h, w]).is_some()),
            ),
            (Op::MaxPool2dBackward { pool, size }, _) => (
                "gradient[n, c, oh, ow] of what the pool makes, and indices of that shape",
                matches!(*dims, [gradient @ &[_, _, h, w], indices] if gradient == indices && pool.moves(size) == Some([h, w])),
            ),
            (Op::AvgPool2dBackward { pool, size }, _) => (
                "gradient[n, c, oh, ow] of what the pool makes",
                matches!(*dims, [&[_, _, h, w]] if pool.moves(size) == Some([h, w])),
            ),
            _ => ("a pool", false),
        }
    }

    fn fit_deform(&self, deform: &Deform2d, dims: &[&[usize]]) -> Fit {
        let expected = "x[n, c, h, w], offset[n, 2 * groups * kh * kw, oh, ow], if backward the gradient of the columns \
                        [c * kh * kw, n * oh * ow], and perhaps mask[n, groups * kh * kw, oh, ow]";
        let taps = deform.kernel[0].saturating_mul(deform.kernel[1]);
        let each = deform.offset_groups.saturating_mul(taps);
        let mut rest = dims;
        let mut next = || rest.split_off_first().copied();
        let image = match self {
            Op::DeformBackwardImage { size, .. } => Some([None, None, Some(size[0]), Some(size[1])]),
            _ => next().and_then(|image| <[usize; 4]>::try_from(image).ok()).map(|image| image.map(Some)),
        };
        let (Some([n, c, Some(h), Some(w)]), Some(&[of_offset, offsets, oh, ow])) = (image, next()) else {
            return (expected, false);
        };
        let columns = match self {
            Op::DeformColumns(_) => Some((c.unwrap_or(0).saturating_mul(taps), count(&[of_offset, oh, ow]))),
            _ => next()
                .and_then(|columns| <[usize; 2]>::try_from(columns).ok())
                .map(|[rows, pixels]| (rows, pixels)),
        };
        let Some((rows, pixels)) = columns else { return (expected, false) };
        let channels = rows / taps.max(1);
        let fits = taps > 0
            && deform.offset_groups > 0
            && channels.is_multiple_of(deform.offset_groups)
            && rows == channels.saturating_mul(taps)
            && c.is_none_or(|c| c == channels)
            && n.is_none_or(|n| n == of_offset)
            && pixels == count(&[of_offset, oh, ow])
            && offsets == each.saturating_mul(2)
            && (rest.is_empty() || rest.len() == 1 && rest[0] == [of_offset, each, oh, ow]);
        let window =
            [&deform.kernel, &deform.stride, &deform.padding, &deform.dilation].map(<[usize; 2]>::as_slice);
        let moves = window_moves(&[h, w], window);
        (expected, fits && moves && are_places(&[oh, ow]))
    }

    fn fit_encoded(&self, inputs: &[&View], dims: &[&[usize]]) -> Fit {
        let is_possible = |encoding: &Encoding, values: usize| encoding.is_sound() && values <= MAX_ELEMENTS;
        let are_words = |form: &[usize], encoding: &Encoding, values: usize| {
            is_possible(encoding, values) && form == [encoding.words(values)]
        };
        // A form has room for some of its values; the others overflow.
        let overflows = |encoding: &Encoding, dtype: Dtype, values: usize, rest: &[&View]| {
            let overflow = is_possible(encoding, values).then(|| encoding.overflow(dtype, values)).flatten();
            rest.is_empty() && !encoding.is_counted()
                || overflow.is_some_and(|overflow| rest.len() == 1 && *rest[0] == overflow)
        };
        match (*self, dims) {
            (Op::Encode(encoding), [x, ..]) => (
                "the values, and their overflow if the encoding has one",
                is_possible(&encoding, count(x))
                    && overflows(&encoding, inputs[0].dtype, count(x), &inputs[1..]),
            ),
            (Op::Decode { encoding, dtype, count }, [form, ..]) => (
                "the words of so many values, and their overflow if the encoding has one",
                are_words(form, &encoding, count) && overflows(&encoding, dtype, count, &inputs[1..]),
            ),
            (Op::Tally(_), _) => ("the values, and a word for the count", matches!(dims, [_, [1]])),
            (Op::ReluBackwardSigns, _) => (
                "the signs' words, and the gradient",
                matches!(dims, [signs, gradient] if are_words(signs, &Encoding::Signs, count(gradient))),
            ),
            (Op::MaxPool2dBackwardTaps { taps, size }, _) => (
                "the gradient of what the pool makes, and the words of its places",
                matches!(*dims, [gradient @ &[_, _, h, w], form]
                    if taps.pool.moves(size) == Some([h, w]) && taps.pooled == [h, w] && taps.width == size[1]
                    && are_words(form, &Encoding::Taps(taps), count(gradient))),
            ),
            (Op::ConvBackwardWeightEncoded { conv, kernel, image: [c, z, y, x], encoding }, _) => (
                "the words of the images, the gradient of what the convolution makes, and the overflow if there is one",
                matches!(*dims, [form, &[n, o, od, oh, ow], ..]
                    if conv.splits(c, o) && conv.moves([z, y, x], kernel) == Some([od, oh, ow])
                    && are_words(form, &encoding.into(), count(&[n, c, z, y, x]))
                    && overflows(&encoding.into(), inputs[1].dtype, count(&[n, c, z, y, x]), &inputs[2..])),
            ),
            _ => ("words of encoded values", false),
        }
    }
}

/// Elements of a tensor of these sizes; more than there can be, if they would be that many.
fn count(dims: &[usize]) -> usize {
    dims.iter().fold(1, |count: usize, &size| count.saturating_mul(size))
}

fn are_equal(dims: &[&[usize]]) -> bool {
    dims.iter().all(|other| *other == dims[0])
}

fn are_places(sizes: &[usize]) -> bool {
    sizes.iter().all(|&size| size <= MAX_PLACE)
}

fn fits_product(dims: &[&[usize]]) -> bool {
    let [a, b, bias @ ..] = dims else { return false };
    let ([outer @ .., _, k], [others @ .., of_b, n]) = (a, b) else { return false };
    outer == others && k == of_b && (bias.is_empty() || bias.len() == 1 && bias[0] == [*n])
}

/// Whether a window moves along each dimension of an image, and kernels can count all places that it comes to.
fn window_moves(size: &[usize], [kernel, stride, padding, dilation]: [&[usize]; 4]) -> bool {
    (0..size.len()).all(|k| {
        let reach = dilation[k].checked_mul(kernel[k].max(1) - 1);
        let border = padding[k].checked_mul(2).and_then(|both| both.checked_add(size[k]));
        let all = reach.zip(border).and_then(|(reach, border)| reach.checked_add(border));
        dilation[k] > 0 && (1..=MAX_PLACE).contains(&stride[k]) && all.is_some_and(|all| all < MAX_PLACE)
    })
}

impl Conv {
    /// Whether the groups divide both kinds of channels.
    fn splits(&self, channels: usize, filters: usize) -> bool {
        self.groups > 0 && channels.is_multiple_of(self.groups) && filters.is_multiple_of(self.groups)
    }

    /// [`Conv::output_size`], if the window can move over the image.
    fn moves(&self, size: [usize; 3], kernel: [usize; 3]) -> Option<[usize; 3]> {
        let window = [&kernel, &self.stride, &self.padding, &self.dilation].map(<[usize; 3]>::as_slice);
        window_moves(&size, window).then(|| self.output_size(size, kernel))
    }
}

impl Pool2d {
    /// [`Pool2d::output_size`], if the window can move over the image.
    fn moves(&self, size: [usize; 2]) -> Option<[usize; 2]> {
        let window = [&self.kernel, &self.stride, &self.padding, &self.dilation].map(<[usize; 2]>::as_slice);
        window_moves(&size, window).then(|| self.output_size(size))
    }
}

impl Program {
    /// Whether the inputs are as many as it reads, and of one shape.
    fn fits(&self, dims: &[&[usize]]) -> bool {
        let is_there = |source: &Source| match *source {
            Source::Input(place) => usize::from(place) < dims.len(),
            Source::Scalar(_) | Source::Step(_) => true,
        };
        if !(1..=MAX_FUSED_INPUTS).contains(&dims.len()) {
            return false;
        }
        let ends = self.ending().map(|ending| &ending.source);
        let mut sources = self.steps().iter().flat_map(|step| &step.sources).chain(ends);
        let ending = self.ending().is_none_or(|ending| {
            let mut order = ending.order;
            let rank = dims[0].len();
            order[..rank].sort_unstable();
            usize::from(ending.reduced[1]) <= rank && (0..rank).all(|axis| usize::from(order[axis]) == axis)
        });
        let has_rows = dims[0].last().is_some_and(|&width| width > 0);
        are_equal(dims) && sources.all(is_there) && ending && (!self.has_rows() || has_rows)
    }
}
