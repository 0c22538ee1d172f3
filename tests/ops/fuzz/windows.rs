//! Convolutions, pools and matrix products of random shapes, through random views, against burn-flex.
//!
//! Values are small multiples of an eighth, so that sums of products are exact in any order and results must be equal.

use burn::backend::Flex;
use burn::tensor::backend::Backend;
use burn::tensor::module::{
    adaptive_avg_pool2d, avg_pool2d, conv_transpose2d, conv2d, max_pool2d_with_indices,
};
use burn::tensor::ops::{ConvOptions, ConvTransposeOptions};
use burn::tensor::{Slice, Tensor, TensorData};
use proptest::prelude::*;
use std::any::TypeId;

use super::{Ours, devices};

/// How a tensor is laid out: the same elements, other strides.
#[derive(Clone, Copy, Debug)]
enum Form {
    Contiguous,
    /// The last two dimensions are stored in the other order.
    Transposed,
    /// Every second element of a row that is twice as long, from the end.
    Backward,
}

fn form() -> impl Strategy<Value = Form> {
    prop_oneof![Just(Form::Contiguous), Just(Form::Transposed), Just(Form::Backward)]
}

/// The same numbers on every backend and in every form; the reference has them contiguous.
fn tensor<B: Backend, const D: usize>(sizes: [usize; D], form: Form, device: &B::Device) -> Tensor<B, D> {
    let count: usize = sizes.iter().product();
    let value = |i: usize| ((i * 7919 + 13) % 33) as f32 / 8.0 - 2.0;
    let x = Tensor::from_data(TensorData::new((0..count).map(value).collect(), sizes), device);
    match form {
        _ if TypeId::of::<B>() == TypeId::of::<Flex>() => x,
        Form::Contiguous => x,
        Form::Transposed => x.swap_dims(D - 2, D - 1).mul_scalar(1.0).swap_dims(D - 2, D - 1),
        Form::Backward if count == 0 => x,
        Form::Backward => {
            let twice = x.flip([D as isize - 1]).reshape([count, 1]).repeat_dim(1, 2);
            let mut wide = sizes;
            wide[D - 1] *= 2;
            twice.reshape(wide).slice_dim(D - 1, Slice::new(0, None, -2))
        }
    }
}

/// What burn-flex and both our devices answer.
fn answers(ask: impl Fn(&mut dyn FnMut(TensorData), usize)) -> Vec<Vec<TensorData>> {
    (0..=devices().len())
        .map(|who| {
            let mut answers = Vec::new();
            ask(&mut |data| answers.push(data), who);
            answers
        })
        .collect()
}

/// Asks `$question::<B>(device, arguments)` of everyone and compares.
macro_rules! agree {
    ($question:ident($($argument:expr),*)) => {{
        let all = answers(|answer, who| match who.checked_sub(1) {
            None => $question::<Flex>(&Default::default(), answer, $($argument),*),
            Some(which) => $question::<Ours>(&devices()[which], answer, $($argument),*),
        });
        for ours in &all[1..] {
            for (ours, reference) in ours.iter().zip(&all[0]) {
                prop_assert_eq!(&ours.shape, &reference.shape);
                prop_assert_eq!(ours.iter::<f64>().collect::<Vec<_>>(), reference.iter::<f64>().collect::<Vec<_>>());
            }
        }
    }};
}

#[derive(Clone, Debug)]
struct Convolution {
    images: usize,
    groups: usize,
    channels: usize,
    filters: usize,
    size: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    bias: bool,
    forms: [Form; 2],
}

fn pair(range: std::ops::Range<usize>) -> impl Strategy<Value = [usize; 2]> {
    [range.clone(), range]
}

fn convolution() -> impl Strategy<Value = Convolution> {
    let counts = (0usize..3, 1usize..4, 1usize..4, 1usize..4);
    let window = (pair(1..9), pair(1..4), pair(1..4), pair(0..3), pair(1..3));
    (counts, window, any::<bool>(), [form(), form()]).prop_map(|(counts, window, bias, forms)| {
        let (images, groups, channels, filters) = counts;
        let (size, kernel, stride, padding, dilation) = window;
        // Large enough for one window.
        let size = std::array::from_fn(|k| size[k].max((kernel[k] - 1) * dilation[k] + 1));
        Convolution {
            images,
            groups,
            channels,
            filters,
            size,
            kernel,
            stride,
            padding,
            dilation,
            bias,
            forms,
        }
    })
}

fn convolve<B: Backend>(device: &B::Device, answer: &mut dyn FnMut(TensorData), c: &Convolution) {
    let [height, width] = c.size;
    let x = tensor::<B, 4>([c.images, c.channels * c.groups, height, width], c.forms[0], device);
    let sizes = [c.filters * c.groups, c.channels, c.kernel[0], c.kernel[1]];
    let weight = tensor::<B, 4>(sizes, c.forms[1], device);
    let bias = c.bias.then(|| tensor::<B, 1>([sizes[0]], Form::Contiguous, device));
    let options = ConvOptions::new(c.stride, c.padding, c.dilation, c.groups);
    let y = conv2d(x, weight.clone(), bias, options);
    answer(y.clone().into_data());
    // Back through the transposed convolution, whose input is shaped as the output, where that leaves anything.
    let left = |k: usize| {
        let out = (c.size[k] + 2 * c.padding[k] - (c.kernel[k] - 1) * c.dilation[k] - 1) / c.stride[k];
        out * c.stride[k] + (c.kernel[k] - 1) * c.dilation[k] + 1 > 2 * c.padding[k]
    };
    if c.images > 0 && left(0) && left(1) {
        let options = ConvTransposeOptions::new(c.stride, c.padding, [0, 0], c.dilation, c.groups);
        answer(conv_transpose2d(y.div_scalar(64.0).floor(), weight, None, options).into_data());
    }
}

#[derive(Clone, Debug)]
struct Pool {
    size: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil: bool,
    count_include_pad: bool,
    adaptive: [usize; 2],
    form: Form,
}

fn pool() -> impl Strategy<Value = Pool> {
    let window = (pair(1..12), pair(1..4), pair(1..4), pair(0..2), pair(1..3));
    (window, any::<[bool; 2]>(), pair(1..6), form()).prop_map(
        |(window, [ceil, count_include_pad], adaptive, form)| {
            let (size, kernel, stride, padding, dilation) = window;
            let size = std::array::from_fn(|k| size[k].max((kernel[k] - 1) * dilation[k] + 1));
            // Burn asks for at most half a window of padding.
            let padding = std::array::from_fn(|k| padding[k].min(kernel[k] / 2));
            Pool { size, kernel, stride, padding, dilation, ceil, count_include_pad, adaptive, form }
        },
    )
}

fn pooled<B: Backend>(device: &B::Device, answer: &mut dyn FnMut(TensorData), p: &Pool) {
    let x = tensor::<B, 4>([2, 3, p.size[0], p.size[1]], p.form, device);
    let (values, places) =
        max_pool2d_with_indices(x.clone(), p.kernel, p.stride, p.padding, p.dilation, p.ceil);
    // In ceil mode a window may lie outside, where there is no place.
    answer(places.mask_fill(values.clone().is_inf(), 0).into_data());
    answer(values.into_data());
    // Rounded to what is exact: averages are quotients.
    let exact = |x: Tensor<B, 4>| x.mul_scalar(1024.0).round().into_data();
    answer(exact(avg_pool2d(x.clone(), p.kernel, p.stride, p.padding, p.count_include_pad, p.ceil)));
    answer(exact(adaptive_avg_pool2d(x, p.adaptive)));
}

fn product<B: Backend>(
    device: &B::Device,
    answer: &mut dyn FnMut(TensorData),
    [batch, rows, inner, columns]: [usize; 4],
    forms: [Form; 2],
    shared: bool,
) {
    let a = tensor::<B, 3>([batch, rows, inner], forms[0], device);
    let b = tensor::<B, 3>([if shared { 1 } else { batch }, inner, columns], forms[1], device);
    answer(a.matmul(b).into_data());
}

proptest! {
    #[test]
    fn convolutions_agree(convolution in convolution()) {
        agree!(convolve(&convolution));
    }

    #[test]
    fn pools_agree(pool in pool()) {
        agree!(pooled(&pool));
    }

    #[test]
    fn products_agree(
        sizes in [1usize..4, 1usize..20, 1usize..20, 1usize..20],
        forms in [form(), form()],
        shared in any::<bool>(),
    ) {
        agree!(product(sizes, forms, shared));
    }
}
