//! Ops of every kind, mostly with inputs that fit them.

use arbitrary::{Result, Unstructured};
use burn_overcommit::op::{
    ArgReduce, Attention, AttentionDropout, BINARY_STEPS, Binary, COUNTED_RUN, Compare, Conv, Cumulative,
    Deform2d, Distribution, Dtype, Encoding, Ending, FloatFormat, GridPadding, GridSample, InParts,
    Interpolation, MAX_FUSED_INPUTS, MAX_RANK, MAX_SCALARS, MAX_STEPS, Norm, Op, Planes, Pool2d, Program,
    ROW_STEPS, Reduce, Resize, Shape, Softmax, Source, Sparse, Step, StepKind, Tally, Taps, UNARY_STEPS,
    Unary, Update,
};

use crate::values::{axis, dtype, few, float, index, one, scalar, size, sizes};

/// The element type and the sizes of an input.
pub type Wanted = (Dtype, Vec<usize>);

/// An op, and inputs that mostly fit it.
pub fn op(u: &mut Unstructured) -> Result<(Op, Vec<Wanted>)> {
    match u.int_in_range(0..=7)? {
        0 => elementwise(u),
        1 => along_an_axis(u),
        2 => by_indices(u),
        3 => product(u),
        4 => window(u),
        5 => image(u),
        6 => encoding(u),
        _ => fused(u),
    }
}

/// An op without inputs.
pub fn creation(u: &mut Unstructured, shape: Shape) -> Result<Op> {
    let dtype = dtype(u)?;
    Ok(match u.int_in_range(0..=2)? {
        0 => Op::Fill { shape, dtype, value: scalar(u)? },
        1 => Op::Arange { count: size(u)?, dtype, start: u.arbitrary()?, step: u.arbitrary()? },
        _ => Op::Random { shape, dtype, distribution: distribution(u)?, seed: u.arbitrary()? },
    })
}

fn distribution(u: &mut Unstructured) -> Result<Distribution> {
    Ok(match u.int_in_range(0..=2)? {
        0 => Distribution::Uniform { low: scalar(u)?, high: scalar(u)? },
        1 => Distribution::Normal { mean: scalar(u)?, deviation: scalar(u)? },
        _ => Distribution::Bernoulli { probability: scalar(u)? },
    })
}

fn elementwise(u: &mut Unstructured) -> Result<(Op, Vec<Wanted>)> {
    let (dtype, shape) = (dtype(u)?, sizes(u)?);
    let of = |op, count| (op, vec![(dtype, shape.clone()); count]);
    let mask = (Dtype::Bool, shape.clone());
    Ok(match u.int_in_range(0..=10)? {
        0 => of(Op::Copy { dtype: crate::values::dtype(u)? }, 1),
        1 => of(Op::Unary(one(u, Unary::ALL)?), 1),
        2 => of(Op::Binary(one(u, Binary::ALL)?), 2),
        3 => of(Op::BinaryScalar(one(u, Binary::ALL)?, scalar(u)?), 1),
        4 => of(Op::Clamp(scalar(u)?, scalar(u)?), 1),
        5 => of(Op::Compare(one(u, Compare::ALL)?), 2),
        6 => of(Op::CompareScalar(one(u, Compare::ALL)?, scalar(u)?), 1),
        7 => (Op::Where, vec![mask, (dtype, shape.clone()), (dtype, shape.clone())]),
        8 => (Op::MaskFill(scalar(u)?), vec![(dtype, shape.clone()), mask]),
        9 => (Op::CountSet, vec![mask]),
        _ => {
            let elements = shape.iter().fold(1, |count: usize, &size| count.saturating_mul(size));
            let runs = elements.div_ceil(COUNTED_RUN);
            (Op::ArgWhere { count: few(u)?, dtype: index(u)? }, vec![mask, (Dtype::I64, vec![runs])])
        }
    })
}

fn along_an_axis(u: &mut Unstructured) -> Result<(Op, Vec<Wanted>)> {
    let (dtype, shape) = (if u.arbitrary()? { float(u)? } else { dtype(u)? }, sizes(u)?);
    let axis = axis(u, shape.len())?;
    let of = |op, count| (op, vec![(dtype, shape.clone()); count]);
    let width = shape.last().copied().unwrap_or(1);
    let (norm, epsilon) = (one(u, Norm::ALL)?, scalar(u)?);
    let (descending, count) = (u.arbitrary()?, if u.arbitrary()? { few(u)? } else { size(u)? });
    Ok(match u.int_in_range(0..=11)? {
        0 => of(Op::Reduce { kind: one(u, Reduce::ALL)?, axis }, 1),
        1 => {
            let (kind, dtype) = (one(u, ArgReduce::ALL)?, crate::values::dtype(u)?);
            of(Op::ArgReduce { kind, axis, dtype, values: u.arbitrary()? }, 1)
        }
        2 => of(Op::Softmax { kind: one(u, Softmax::ALL)?, axis }, 1),
        3 => of(Op::SoftmaxBackward { kind: one(u, Softmax::ALL)?, axis, scale: epsilon }, 2),
        4 => of(Op::Cumulative { kind: one(u, Cumulative::ALL)?, axis }, 1),
        5 => of(Op::Sort { axis, descending, count }, 1),
        6 => of(Op::ArgSort { axis, descending, count, dtype: crate::values::dtype(u)? }, 1),
        7 => {
            let (mut op, mut inputs) = of(Op::Norm { kind: norm, epsilon }, 1);
            inputs.extend(vec![(dtype, vec![width]); u.int_in_range(1..=2)?]);
            if shape.len() == 2 && u.arbitrary()? {
                op = Op::NormBackward { kind: norm, epsilon, weights: descending };
                inputs.truncate(2);
                inputs.push((dtype, shape.clone()));
            }
            (op, inputs)
        }
        8 => of(Op::RealFft { axis, length: length(u)? }, 1),
        9 => of(Op::InverseRealFft { axis, length: length(u)? }, 2),
        10 => {
            let (op, mut inputs) = of(Op::AttentionWeights { scale: epsilon, causal: descending }, 1);
            inputs.extend(vec![(Dtype::Bool, shape.clone()); u.int_in_range(0..=1)?]);
            (op, inputs)
        }
        _ => {
            let [steps, n, classes, labels] = [few(u)?, few(u)?, few(u)?, few(u)?];
            let blank = few(u)?;
            let op = if descending { Op::CtcLoss { blank } } else { Op::CtcLossBackward { blank } };
            let of = |sizes: &[usize]| (Dtype::I64, sizes.to_vec());
            (op, vec![(dtype, vec![steps, n, classes]), of(&[n, labels]), of(&[n]), of(&[n])])
        }
    })
}

fn length(u: &mut Unstructured) -> Result<usize> {
    if u.ratio(1, 8)? { size(u) } else { Ok(1 << u.int_in_range(0..=9)?) }
}

fn by_indices(u: &mut Unstructured) -> Result<(Op, Vec<Wanted>)> {
    let (dtype, of_index, shape) = (dtype(u)?, index(u)?, sizes(u)?);
    let (axis, update) = (axis(u, shape.len())?, one(u, Update::ALL)?);
    let x = || (dtype, shape.clone());
    let mut smaller = shape.clone();
    for size in &mut smaller {
        *size = (*size).min(few(u)?);
    }
    let mut along = shape.clone();
    let count = few(u)?;
    along.get_mut(axis).into_iter().for_each(|size| *size = count);
    Ok(match u.int_in_range(0..=4)? {
        0 => {
            let (mut starts, mut steps) = ([0; MAX_RANK], [1; MAX_RANK]);
            for axis in 0..shape.len() {
                (starts[axis], steps[axis]) = match u.int_in_range(0..=3)? {
                    0 => (few(u)?, u.int_in_range(-3..=3)?),
                    1 => (smaller[axis].saturating_sub(1), -1),
                    2 if u.ratio(1, 8)? => (size(u)?, size(u)? as isize),
                    _ => (0, 1),
                };
            }
            (Op::SliceAssign { starts, steps }, vec![x(), (crate::values::dtype(u)?, smaller)])
        }
        1 => (Op::Gather { axis }, vec![x(), (of_index, smaller)]),
        2 => (Op::Scatter { axis, update }, vec![x(), (of_index, smaller.clone()), (dtype, smaller)]),
        3 => (Op::Select { axis }, vec![x(), (of_index, vec![count])]),
        _ => (Op::SelectUpdate { axis, update }, vec![x(), (of_index, vec![count]), (dtype, along)]),
    })
}

fn product(u: &mut Unstructured) -> Result<(Op, Vec<Wanted>)> {
    let dtype = if u.ratio(3, 4)? { float(u)? } else { dtype(u)? };
    let [b, h, q, k, w, v] = [few(u)?, few(u)?, size(u)?, size(u)?, size(u)?, size(u)?];
    if u.arbitrary()? {
        let outer = if u.arbitrary()? { vec![b] } else { vec![] };
        let of = |sizes: [usize; 2]| (dtype, [outer.as_slice(), &sizes].concat());
        let mut inputs = vec![of([q, k]), of([k, w])];
        inputs.extend(vec![(dtype, vec![w]); u.int_in_range(0..=1)?]);
        return Ok((Op::Matmul, inputs));
    }
    let dropout = match u.arbitrary()? {
        true => Some(AttentionDropout { of_weights: u.arbitrary()?, keep: scalar(u)?, seed: u.arbitrary()? }),
        false => None,
    };
    let attention = Attention { scale: scalar(u)?, causal: u.arbitrary()?, dropout };
    let of = |rows, width| (dtype, vec![b, h, rows, width]);
    let mut inputs = vec![of(q, w), of(k, w), of(k, v)];
    let mask = vec![(Dtype::Bool, vec![b, h, q, k]); u.int_in_range(0..=1)?];
    if u.arbitrary()? {
        inputs.extend(mask);
        return Ok((Op::Attention(attention), inputs));
    }
    inputs.extend([of(q, v), (Dtype::F32, vec![b, h, q]), of(q, v)]);
    inputs.extend(mask);
    Ok((Op::AttentionBackward(attention), inputs))
}

/// A number of a window: small, and rarely extreme.
fn reach(u: &mut Unstructured, least: usize) -> Result<usize> {
    if u.ratio(1, 64)? { size(u) } else { u.int_in_range(least..=3) }
}

fn reaches<const D: usize>(u: &mut Unstructured, least: usize) -> Result<[usize; D]> {
    let mut all = [0; D];
    for each in &mut all {
        *each = reach(u, least)?;
    }
    Ok(all)
}

fn window(u: &mut Unstructured) -> Result<(Op, Vec<Wanted>)> {
    let (dtype, groups) = (float(u)?, reach(u, 1)?);
    let (stride, padding, dilation) = (reaches(u, 1)?, reaches(u, 0)?, reaches(u, 1)?);
    let conv = Conv { stride, padding, dilation, groups };
    let ([n, each, out], size, kernel): (_, [usize; 3], [usize; 3]) =
        ([few(u)?, few(u)?, few(u)?], [size(u)?, size(u)?, few(u)?], reaches(u, 1)?);
    let (channels, filters) = (each.saturating_mul(groups), out.saturating_mul(groups));
    let made = convolved(&conv, size, kernel);
    let of = |sizes: &[usize]| (dtype, sizes.to_vec());
    let image = || of(&[n, channels, size[0], size[1], size[2]]);
    let weight = || of(&[filters, each, kernel[0], kernel[1], kernel[2]]);
    let gradient = || of(&[n, filters, made[0], made[1], made[2]]);
    Ok(match u.int_in_range(0..=3)? {
        0 => {
            let mut inputs = vec![image(), weight()];
            inputs.extend(vec![of(&[filters]); u.int_in_range(0..=1)?]);
            (Op::Conv(conv), inputs)
        }
        1 => (Op::ConvBackwardInput { conv, size }, vec![weight(), gradient()]),
        2 => (Op::ConvBackwardWeight { conv, kernel }, vec![image(), gradient()]),
        _ => {
            let encoding = in_parts(u, dtype)?;
            let count =
                [n, channels, size[0], size[1], size[2]].iter().try_fold(1, |a: usize, &b| a.checked_mul(b));
            let count = count.filter(|&count| count < 1 << 20).unwrap_or(1);
            let encoded = Encoding::from(encoding);
            let image = [channels, size[0], size[1], size[2]];
            let mut inputs = vec![(Dtype::U32, vec![words(&encoded, count)]), gradient()];
            let overflow = encoded.is_sound().then(|| encoded.overflow(dtype, count)).flatten();
            inputs.extend(overflow.map(|view| of(view.shape().dims())));
            (Op::ConvBackwardWeightEncoded { conv, kernel, image, encoding }, inputs)
        }
    })
}

/// The size of a convolution's output, if its numbers are small.
fn convolved(conv: &Conv, size: [usize; 3], kernel: [usize; 3]) -> [usize; 3] {
    let all = [conv.stride, conv.padding, conv.dilation, size, kernel];
    let is_small = all.iter().flatten().all(|&number| number < 1 << 16);
    if is_small && conv.stride.iter().all(|&stride| stride > 0) {
        conv.output_size(size, kernel)
    } else {
        [1; 3]
    }
}

fn pool(u: &mut Unstructured) -> Result<Pool2d> {
    Ok(Pool2d {
        kernel: reaches(u, 0)?,
        stride: reaches(u, 1)?,
        padding: reaches(u, 0)?,
        dilation: reaches(u, 1)?,
        ceil_mode: u.arbitrary()?,
        count_include_pad: u.arbitrary()?,
    })
}

/// The size of a pool's output, if its numbers are small.
fn pooled(pool: &Pool2d, size: [usize; 2]) -> [usize; 2] {
    let all = [pool.kernel, pool.stride, pool.padding, pool.dilation, size];
    let is_small = all.iter().flatten().all(|&number| number < 1 << 16);
    if is_small && pool.stride.iter().all(|&stride| stride > 0) { pool.output_size(size) } else { [1; 2] }
}

fn image(u: &mut Unstructured) -> Result<(Op, Vec<Wanted>)> {
    let (dtype, pool) = (float(u)?, pool(u)?);
    let ([n, c], size, other) = ([few(u)?, few(u)?], [size(u)?, few(u)?], [size(u)?, few(u)?]);
    let of = |[h, w]: [usize; 2]| (dtype, vec![n, c, h, w]);
    let made = pooled(&pool, size);
    let indices = if u.arbitrary()? { Some(index(u)?) } else { None };
    let resize = Resize { mode: one(u, Interpolation::ALL)?, align_corners: u.arbitrary()? };
    Ok(match u.int_in_range(0..=10)? {
        0 => (Op::MaxPool2d { pool, indices }, vec![of(size)]),
        1 => {
            let indices = (index(u)?, vec![n, c, made[0], made[1]]);
            (Op::MaxPool2dBackward { pool, size }, vec![of(made), indices])
        }
        2 => (Op::AvgPool2d(pool), vec![of(size)]),
        3 => (Op::AvgPool2dBackward { pool, size }, vec![of(made)]),
        4 => (Op::AdaptiveAvgPool2d { size: other }, vec![of(size)]),
        5 => (Op::AdaptiveAvgPool2dBackward { size }, vec![of(other)]),
        6 => (Op::Interpolate { resize, size: other }, vec![of(size)]),
        7 => (Op::InterpolateBackward { resize, size }, vec![of(other)]),
        8 => {
            let (padding, align_corners) = (one(u, GridPadding::ALL)?, u.arbitrary()?);
            let sample = GridSample { nearest: u.arbitrary()?, padding, align_corners };
            (Op::GridSample(sample), vec![of(size), (dtype, vec![n, other[0], other[1], 2])])
        }
        9 => {
            let taps = Taps { pool, width: size[1], pooled: made };
            let words = words(&Encoding::Taps(taps), n * c * made[0] * made[1]);
            (Op::MaxPool2dBackwardTaps { taps, size }, vec![of(made), (Dtype::U32, vec![words])])
        }
        _ => deform(u, [n, c], size)?,
    })
}

fn deform(u: &mut Unstructured, [n, each]: [usize; 2], size: [usize; 2]) -> Result<(Op, Vec<Wanted>)> {
    let dtype = one(u, &[Dtype::F32, Dtype::F64])?;
    let deform = Deform2d {
        kernel: reaches(u, 1)?,
        stride: reaches(u, 1)?,
        padding: reaches(u, 0)?,
        dilation: reaches(u, 1)?,
        offset_groups: reach(u, 1)?,
    };
    let taps = deform.kernel[0].saturating_mul(deform.kernel[1]);
    let groups = taps.saturating_mul(deform.offset_groups);
    let channels = each.saturating_mul(deform.offset_groups);
    let [h, w] = [few(u)?, few(u)?];
    let image = (dtype, vec![n, channels, size[0], size[1]]);
    let offset = (dtype, vec![n, groups.saturating_mul(2), h, w]);
    let columns = (dtype, vec![channels.saturating_mul(taps), n * h * w]);
    let mask = vec![(dtype, vec![n, groups, h, w]); u.int_in_range(0..=1)?];
    let (op, mut inputs) = match u.int_in_range(0..=2)? {
        0 => (Op::DeformColumns(deform), vec![image, offset]),
        1 => (Op::DeformBackwardOffset(deform), vec![image, offset, columns]),
        _ => (Op::DeformBackwardImage { deform, size }, vec![offset, columns]),
    };
    inputs.extend(mask);
    Ok((op, inputs))
}

/// The words of an encoding, if there are kernels for it.
fn words(encoding: &Encoding, count: usize) -> usize {
    if encoding.is_sound() { encoding.words(count) } else { 1 }
}

fn width(u: &mut Unstructured, dtype: Dtype) -> Result<u8> {
    if u.ratio(1, 16)? { u.arbitrary() } else { Ok(dtype.size_bytes() as u8) }
}

fn in_parts(u: &mut Unstructured, dtype: Dtype) -> Result<InParts> {
    let room = if u.arbitrary()? { u.int_in_range(0..=300)? } else { u.arbitrary()? };
    Ok(match u.int_in_range(0..=2)? {
        0 => InParts::Sparse(Sparse { per_row: room, width: width(u, dtype)? }),
        1 => InParts::Planes(Planes { per_piece: room, width: width(u, dtype)? }),
        _ => InParts::Reduced(one(u, FloatFormat::ALL)?),
    })
}

fn encoding(u: &mut Unstructured) -> Result<(Op, Vec<Wanted>)> {
    let count = if u.ratio(1, 4)? { u.int_in_range(0..=2000)? } else { size(u)? };
    let mut dtype = dtype(u)?;
    let encoding = match u.int_in_range(0..=5)? {
        0 => Encoding::Signs,
        1 => Encoding::Bools,
        2 => Encoding::Integers {
            bits: if u.ratio(1, 8)? { u.arbitrary()? } else { 1 << u.int_in_range(0..=5)? },
        },
        3 => Encoding::Taps(Taps { pool: pool(u)?, width: size(u)?, pooled: [size(u)?, size(u)?] }),
        _ => in_parts(u, dtype)?.into(),
    };
    if !encoding.takes(dtype) {
        let fitting: Vec<Dtype> = Dtype::ALL.iter().copied().filter(|&dtype| encoding.takes(dtype)).collect();
        dtype = u.choose(&fitting).copied().unwrap_or(dtype);
    }
    let small = count.min(1 << 20);
    let overflow = encoding.is_sound().then(|| encoding.overflow(dtype, small)).flatten();
    let overflow = overflow.map(|view| (dtype, view.shape().dims().to_vec()));
    let words = (Dtype::U32, vec![words(&encoding, small)]);
    Ok(match u.int_in_range(0..=3)? {
        0 => (Op::Encode(encoding), [(dtype, vec![count])].into_iter().chain(overflow).collect()),
        1 => (Op::Decode { encoding, dtype, count }, [words].into_iter().chain(overflow).collect()),
        2 => {
            let kind = one(u, &[Tally::Nonzeros, Tally::Units])?;
            (Op::Tally(kind), vec![(dtype, vec![count]), (Dtype::U32, vec![1])])
        }
        _ => {
            let signs = (Dtype::U32, vec![Encoding::Signs.words(small)]);
            (Op::ReluBackwardSigns, vec![signs, (float(u)?, vec![count])])
        }
    })
}

fn fused(u: &mut Unstructured) -> Result<(Op, Vec<Wanted>)> {
    let (dtype, shape) = (float(u)?, sizes(u)?);
    let [most_steps, most_inputs] =
        if u.ratio(1, 16)? { [MAX_STEPS + 1, MAX_FUSED_INPUTS + 1] } else { [6, 3] };
    let (steps, inputs) = (u.int_in_range(1..=most_steps)?, u.int_in_range(1..=most_inputs)?);
    let steps: Vec<Step> = (0..steps).map(|at| step(u, at, inputs)).collect::<Result<_>>()?;
    let outputs: Vec<u8> = (0..u.int_in_range(0..=2)?)
        .map(|_| u.int_in_range(0..=steps.len() as u8 - 1))
        .collect::<Result<_>>()?;
    let ending = match u.ratio(1, 3)? {
        true => Some(ending(u, &steps, inputs, shape.len())?),
        false => None,
    };
    let mut scalars = [0; MAX_SCALARS];
    for scalar in &mut scalars {
        *scalar = if u.arbitrary()? { 0.5f64.to_bits() } else { u.arbitrary()? };
    }
    let program = crate::unless_refused(|| Program::new(&steps, &outputs, ending));
    let Some(program) = program else { return elementwise(u) };
    let wanted = |input| (if program.is_mask(input) { Dtype::Bool } else { dtype }, shape.clone());
    Ok((Op::Fused { program, scalars }, (0..inputs).map(wanted).collect()))
}

fn source(u: &mut Unstructured, at: usize, inputs: usize) -> Result<Source> {
    let most_scalars = if u.ratio(1, 32)? { 255 } else { MAX_SCALARS as u8 - 1 };
    Ok(match u.int_in_range(0..=3)? {
        0 => Source::Scalar(u.int_in_range(0..=most_scalars)?),
        1 | 2 if at > 0 => Source::Step(u.int_in_range(0..=at as u8 - 1)?),
        _ => Source::Input(u.int_in_range(0..=inputs as u8 - 1)?),
    })
}

fn step(u: &mut Unstructured, at: usize, inputs: usize) -> Result<Step> {
    let kind = match u.int_in_range(0..=5)? {
        0 if u.ratio(1, 8)? => StepKind::Unary(one(u, Unary::ALL)?),
        0 | 1 => StepKind::Unary(one(u, &UNARY_STEPS)?),
        2 if u.ratio(1, 8)? => StepKind::Binary(one(u, Binary::ALL)?),
        2 | 3 => StepKind::Binary(one(u, &BINARY_STEPS)?),
        4 if u.arbitrary()? => StepKind::MaskFill,
        4 => StepKind::Draw,
        _ if u.ratio(1, 16)? => StepKind::Row(one(u, Reduce::ALL)?),
        _ => StepKind::Row(one(u, &ROW_STEPS)?),
    };
    let mut sources = [source(u, at, inputs)?, source(u, at, inputs)?, source(u, at, inputs)?];
    if u.ratio(7, 8)? {
        match kind {
            StepKind::MaskFill => {
                sources[1..].copy_from_slice(&[Source::Input(inputs as u8 - 1), Source::Scalar(0)])
            }
            StepKind::Draw => sources = [Source::Scalar(1), Source::Scalar(2), Source::Scalar(1)],
            _ => {}
        }
    }
    let step = Step::new(kind, &sources);
    Ok(if u.ratio(1, 8)? { Step { is_row: u.arbitrary()?, ..step } } else { step })
}

fn ending(u: &mut Unstructured, steps: &[Step], inputs: usize, rank: usize) -> Result<Ending> {
    let mut order: [u8; MAX_RANK] = std::array::from_fn(|axis| axis as u8);
    if u.arbitrary()? {
        order[..rank.max(1)].rotate_left(1);
    }
    if u.ratio(1, 16)? {
        order[0] = u.arbitrary()?;
    }
    let begin = u.int_in_range(0..=rank as u8)?;
    let kind = if u.ratio(1, 16)? { one(u, Reduce::ALL)? } else { one(u, &ROW_STEPS)? };
    let source = source(u, steps.len(), inputs)?;
    Ok(Ending { kind, source, order, reduced: [begin, u.int_in_range(begin..=rank as u8)?] })
}
