//! From an op to kernel calls: which kernels, how many blocks, which arguments. Pure; allocates nothing.
//!
//! Convolutions and the products of floats are not lowered: every engine has its own way with them.

mod argwhere;
mod attention;
mod call;
mod coded;
mod create;
mod ctc;
mod cumulative;
mod direct;
mod fft;
mod form;
mod fused;
pub mod generated;
pub mod gpu;
mod image;
mod index;
mod interpolate;
mod matmul;
mod name;
mod norm;
mod norm_backward;
mod pointwise;
mod pool;
mod reduce;
mod sample;
mod scaled;
mod sort;
mod space;
mod transpose;

pub use call::{Args, Calls, KernelCall, NO_FAULT, Placed, Request, check_launch};
pub use direct::Columns;
pub(crate) use index::update_teams;
pub use name::KernelName;
pub(crate) use pointwise::bits;
use reduce::TEAM;

use std::ops::Range;

use super::{Dtype, Encoding, Inputs, Op, ROW, SCALED, View};

/// The kernel calls that compute an op; `None` for convolutions and the products of floats.
pub fn lower(request: &Request) -> Option<Calls> {
    let mut calls = Calls::new();
    match *request.op {
        Op::Fill { value, .. } => create::fill(request, value, &mut calls),
        Op::Unset { .. } => {}
        Op::Arange { start, step, .. } => create::arange(request, start, step, &mut calls),
        Op::Random { distribution, seed, .. } => create::random(request, distribution, seed, &mut calls),
        Op::Copy { .. } => pointwise::copy(request, &mut calls),
        Op::Unary(kind) => pointwise::unary(request, kind, &mut calls),
        Op::Binary(kind) => pointwise::binary(request, kind, &mut calls),
        Op::BinaryScalar(kind, value) => pointwise::binary_scalar(request, kind, value, &mut calls),
        Op::Clamp(low, high) => pointwise::clamp(request, low, high, &mut calls),
        Op::Compare(kind) => pointwise::compare(request, kind, &mut calls),
        Op::CompareScalar(kind, value) => pointwise::compare_scalar(request, kind, value, &mut calls),
        Op::Where => pointwise::choose(request, &mut calls),
        Op::MaskFill(value) => pointwise::mask_fill(request, value, &mut calls),
        Op::Reduce { kind, axis } => reduce::reduce(request, kind, axis, &mut calls),
        Op::ArgReduce { kind, axis, .. } => reduce::arg_reduce(request, kind, axis, &mut calls),
        Op::Softmax { kind, axis } => norm::softmax(request, kind, axis, &mut calls),
        Op::AttentionWeights { scale, causal } => norm::attention_weights(request, scale, causal, &mut calls),
        Op::Attention(ref attention) => attention::forward(request, attention, &mut calls),
        Op::AttentionBackward(ref attention) => attention::backward(request, attention, &mut calls),
        Op::Norm { kind, epsilon } => norm::norm(request, kind, epsilon, &mut calls),
        Op::SoftmaxBackward { kind, axis, scale } => {
            norm_backward::softmax(request, kind, axis, scale, &mut calls);
        }
        Op::NormBackward { kind, epsilon, .. } => norm_backward::norm(request, kind, epsilon, &mut calls),
        Op::RealFft { axis, length } => fft::forward(request, axis, length, &mut calls),
        Op::InverseRealFft { axis, length } => fft::inverse(request, axis, length, &mut calls),
        Op::SliceAssign { starts, steps } => index::slice_assign(request, &starts, &steps, &mut calls),
        Op::Gather { axis } => index::gather(request, axis, &mut calls),
        Op::Select { axis } => index::select(request, axis, &mut calls),
        Op::Scatter { axis, update } => index::scatter(request, axis, update, &mut calls),
        Op::SelectUpdate { axis, update } => index::select_update(request, axis, update, &mut calls),
        Op::Cumulative { kind, axis } => cumulative::scan(request, kind, axis, &mut calls),
        Op::Sort { axis, descending, .. } | Op::ArgSort { axis, descending, .. } => {
            sort::sort(request, axis, descending, &mut calls);
        }
        Op::CountSet => argwhere::count_set(request, &mut calls),
        Op::ArgWhere { .. } => argwhere::argwhere(request, &mut calls),
        Op::MaxPool2d { pool, .. } => pool::max(request, &pool, &mut calls),
        Op::MaxPool2dBackward { pool, .. } => pool::max_backward(request, &pool, &mut calls),
        Op::AvgPool2d(pool) => pool::average(request, &pool, &mut calls),
        Op::AvgPool2dBackward { pool, .. } => pool::average_backward(request, &pool, &mut calls),
        Op::AdaptiveAvgPool2d { .. } => pool::adaptive(request, &mut calls),
        Op::AdaptiveAvgPool2dBackward { .. } => pool::adaptive_backward(request, &mut calls),
        Op::Interpolate { resize, .. } => interpolate::forward(request, resize, &mut calls),
        Op::InterpolateBackward { resize, .. } => interpolate::backward(request, resize, &mut calls),
        Op::CtcLoss { blank } => ctc::loss(request, blank, &mut calls),
        Op::CtcLossBackward { blank } => ctc::gradient(request, blank, &mut calls),
        Op::GridSample(how) => sample::grid(request, how, &mut calls),
        Op::DeformColumns(deform) => sample::columns(request, &deform, &mut calls),
        Op::DeformBackwardOffset(deform) => sample::backward_offset(request, &deform, &mut calls),
        Op::DeformBackwardImage { deform, .. } => sample::backward_image(request, &deform, &mut calls),
        Op::Matmul if request.inputs[0].view.dtype.is_integer() => matmul::product(request, &mut calls),
        Op::Matmul | Op::Conv(_) | Op::ConvBackwardInput { .. } | Op::ConvBackwardWeight { .. } => {
            return None;
        }
        Op::ConvBackwardWeightEncoded { .. } => return None,
        Op::Tally(tally) => form::tally(request, tally, &mut calls),
        Op::Encode(encoding) | Op::Decode { encoding, .. } => code(request, encoding, &mut calls),
        Op::MaxPool2dBackwardTaps { taps, .. } => pool::max_backward_taps(request, &taps, &mut calls),
        Op::ReluBackwardSigns => pointwise::relu_backward_signs(request, &mut calls),
        Op::Fused { program, scalars } => fused::fused(request, &program, &scalars, &mut calls),
        Op::Traced(_) => return None,
    }
    Some(calls)
}

/// Encodes or decodes.
fn code(request: &Request, encoding: Encoding, calls: &mut Calls) {
    let encodes = matches!(request.op, Op::Encode(_));
    let values = if encodes { &request.inputs[0] } else { &request.outputs[0] };
    match (encoding, encoding.parts(values.view.shape().count())) {
        (_, Some(parts)) if encodes => form::encode(request, encoding, &parts, calls),
        (_, Some(parts)) => form::decode(request, encoding, &parts, calls),
        (Encoding::Reduced(format), _) if format.has_scales() && encodes => {
            scaled::encode(request, format, calls);
        }
        (Encoding::Reduced(format), _) if format.has_scales() => scaled::decode(request, format, calls),
        _ if encodes => coded::encode(request, encoding, calls),
        _ => coded::decode(request, encoding, calls),
    }
}

/// The kernel calls that compute a convolution or a product of floats where there is no better way.
pub fn lower_directly(request: &Request) -> Calls {
    let mut calls = Calls::new();
    match request.op {
        Op::Matmul => matmul::product(request, &mut calls),
        _ => direct::convolution(request, &mut calls),
    }
    calls
}

/// The kernel that decodes some neighbours of `count` values, in one block; it writes at most [`decoded_count`] values, of which
/// the first that is wanted is the [`decoded_at`]th. Addresses: of what it writes, of the form, and of what lies beside it.
pub fn decode_some(
    encoding: Encoding,
    dtype: Dtype,
    count: usize,
    some: &Range<usize>,
    addresses: [u64; 3],
) -> Calls {
    let mut calls = Calls::new();
    match (encoding, encoding.parts(count)) {
        (_, Some(parts)) => {
            form::decode_some((encoding, &parts), dtype, count, some, addresses, &mut calls);
        }
        (Encoding::Reduced(format), _) if format.has_scales() => {
            scaled::decode_some(format, dtype, count, some, addresses, &mut calls);
        }
        _ => coded::decode_some(encoding, dtype, count, some, addresses, &mut calls),
    }
    calls
}

/// How many values are decoded before the one with that number, since they are together with it.
pub fn decoded_at(encoding: Encoding, first: usize) -> usize {
    first % grain(encoding)
}

/// The most values that are decoded together with `some` neighbours, these included.
pub fn decoded_count(encoding: Encoding, some: usize) -> usize {
    let grain = grain(encoding);
    some.next_multiple_of(grain) + grain
}

/// Values that are decoded together.
fn grain(encoding: Encoding) -> usize {
    match encoding {
        Encoding::Sparse(_) | Encoding::Planes(_) => ROW,
        Encoding::Reduced(format) if format.has_scales() => SCALED,
        _ => encoding.per_word().unwrap_or(1),
    }
}

/// Workspace that the kernels of an op need: a function of shapes alone.
pub fn scratch_bytes(op: &Op, inputs: &[View], outputs: &[View]) -> usize {
    match *op {
        Op::Reduce { kind, axis } => reduce::scratch_bytes(kind, &inputs[0], axis, &outputs[0]),
        Op::ArgReduce { axis, .. } => reduce::arg_scratch_bytes(&inputs[0], axis, &outputs[0]),
        Op::RealFft { axis, length } | Op::InverseRealFft { axis, length } => {
            fft::scratch_bytes(&inputs[0], axis, length)
        }
        Op::AttentionBackward(_) => attention::backward_scratch_bytes(&inputs[0]),
        Op::NormBackward { kind, weights, .. } => norm_backward::scratch_bytes(kind, weights, &inputs[0]),
        Op::CtcLoss { .. } => ctc::loss_scratch_bytes(inputs),
        Op::CtcLossBackward { .. } => ctc::gradient_scratch_bytes(inputs),
        Op::Sort { axis, .. } => sort::scratch_bytes(&inputs[0], axis, false),
        Op::ArgSort { axis, .. } => sort::scratch_bytes(&inputs[0], axis, true),
        Op::Interpolate { resize, .. } => interpolate::scratch_bytes(&inputs[0], resize.mode, &outputs[0]),
        Op::InterpolateBackward { resize, .. } => {
            interpolate::scratch_bytes(&inputs[0], resize.mode, &inputs[0])
        }
        Op::Fused { program, .. } => fused::scratch_bytes(&program, inputs, outputs),
        Op::Tally(_) => form::tally_scratch_bytes(inputs[0].shape().count()),
        Op::Traced(traced) => traced.facts().scratch_bytes,
        _ => 0,
    }
}

impl KernelName {
    /// Every kernel that [`lower`] can ask for.
    pub fn all() -> Vec<KernelName> {
        let mut names = Vec::new();
        pointwise::names(&mut names);
        create::names(&mut names);
        reduce::names(&mut names);
        norm::names(&mut names);
        attention::names(&mut names);
        norm_backward::names(&mut names);
        fft::names(&mut names);
        fused::names(&mut names);
        index::names(&mut names);
        matmul::names(&mut names);
        direct::names(&mut names);
        cumulative::names(&mut names);
        ctc::names(&mut names);
        sort::names(&mut names);
        argwhere::names(&mut names);
        transpose::names(&mut names);
        pool::names(&mut names);
        interpolate::names(&mut names);
        sample::names(&mut names);
        coded::names(&mut names);
        form::names(&mut names);
        scaled::names(&mut names);
        names
    }
}

/// Every kernel and the size that Rust gives its argument struct.
#[cfg(test)]
pub(crate) fn args_sizes() -> Vec<(KernelName, usize)> {
    let size = |name: &KernelName| match name.family {
        "fill" | "arange" | "random" => create::args_size(name.family),
        "reduce" | "best" => size_of::<reduce::Reduction>(),
        "attention" => size_of::<attention::Arguments>(),
        "softmax" | "layer_norm" | "rms_norm" => norm::args_size(name.family),
        family if name::is_norm_backward(family) => norm_backward::args_size(family),
        "fft" => size_of::<fft::Fourier>(),
        "fused" => fused::args_size(name.kind),
        "gather" | "scatter" => size_of::<index::Indexed>(),
        "direct" => size_of::<direct::Direct>(),
        "matmul" => size_of::<matmul::Product>(),
        "ctc" => size_of::<ctc::Ctc>(),
        "cumulative" => size_of::<cumulative::Scan>(),
        "sort" | "argsort" => size_of::<sort::Sort>(),
        "count_set" | "argwhere" => size_of::<argwhere::ArgWhere>(),
        "transpose" => size_of::<transpose::Transpose>(),
        "pool" => size_of::<pool::Pool>(),
        "interpolate" => interpolate::args_size(name.kind),
        "grid_sample" => size_of::<sample::Grid>(),
        "deform" => size_of::<sample::Deform>(),
        "signs" if name.kind == pointwise::RELU_BACKWARD => size_of::<pointwise::Pointwise>(),
        "sparse" | "planes" => size_of::<form::FormArgs>(),
        "scaled" => size_of::<scaled::ScaledArgs>(),
        "signs" | "bools" | "taps" | "integers" | "reduced" => size_of::<coded::Coded>(),
        _ => size_of::<pointwise::Pointwise>(),
    };
    KernelName::all().into_iter().map(|name| (name, size(&name))).collect()
}
