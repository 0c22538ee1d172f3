//! Gradients and training steps on the backend against burn-ndarray's.

use crate::support::{Answers, Ours, Reference, assert_same, floats, ints};
use burn::backend::Autodiff;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::{BatchNorm, BatchNormConfig, Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams, Optimizer};
use burn::tensor::backend::{AutodiffBackend, Backend};
use burn::tensor::module::{
    adaptive_avg_pool1d, adaptive_avg_pool2d, attention, avg_pool1d, avg_pool2d, conv_transpose1d,
    conv_transpose2d, conv_transpose3d, conv1d, conv2d, conv3d, deform_conv2d, embedding, interpolate,
    linear, max_pool1d, max_pool2d, unfold4d,
};
use burn::tensor::ops::{
    AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConvOptions, InterpolateMode,
    InterpolateOptions, UnfoldOptions,
};
use burn::tensor::{IndexingUpdateOp, Int, Tensor, TensorData, TensorPrimitive, activation, s};
use burn_overcommit::OvercommitDevice;

/// The gradients of a weighted sum of `f(x, w)`, so that no two output elements count alike.
fn gradients<B, const X: usize, const W: usize, const Y: usize>(
    name: &'static str,
    x: [usize; X],
    w: [usize; W],
    f: impl Fn(Tensor<B, X>, Tensor<B, W>) -> Tensor<B, Y>,
    device: &B::Device,
    out: &mut Answers,
) where
    B: AutodiffBackend,
{
    let (x, w) = (floats::<B, X>(x, device).require_grad(), floats::<B, W>(w, device).require_grad());
    let y = f(x.clone(), w.clone());
    let weights = floats::<B, Y>(y.dims(), device);
    let grads = (y * weights).sum().backward();
    for gradient in [x.grad(&grads).map(Tensor::into_data), w.grad(&grads).map(Tensor::into_data)] {
        let data = gradient.unwrap_or_else(|| TensorData::new(Vec::<f32>::new(), [0]));
        out.0.push((name, data.shape.to_vec(), data.iter::<f64>().collect()));
    }
}

fn all_gradients<B: AutodiffBackend>(device: &B::Device, out: &mut Answers) {
    macro_rules! table {
        ($($x:expr, $w:expr => $f:expr;)*) => { $(gradients::<B, _, _, _>(stringify!($f), $x, $w, $f, device, out);)* };
    }
    let conv = |groups| ConvOptions::new([2, 1], [1, 0], [1, 2], groups);
    let causal = AttentionModuleOptions { is_causal: true, ..Default::default() };
    let back = ConvTransposeOptions::new([2, 1], [1, 0], [1, 0], [1, 1], 1);
    let deform = |weight, offset| DeformConvOptions::new([1, 1], [0, 0], [1, 1], weight, offset);
    let resize = |mode, align| InterpolateOptions::new(mode).with_align_corners(align);
    let near = |sizes: [usize; 4]| floats::<B, 4>(sizes, device).mul_scalar(1.4);
    table! {
        [3, 4], [3, 4] => |x, w| x * w;
        [3, 4], [1, 4] => |x, w| x / w;
        [3, 4], [3, 1] => |x, w| x.exp() - w.tanh();
        [3, 4], [3, 4] => |x, w| activation::relu(x) + activation::sigmoid(w);
        [3, 4], [3, 4] => |x, w| activation::gelu(x) + activation::log_sigmoid(w);
        [3, 4], [3, 4] => |x, w| activation::softmax(x, 1) * activation::log_softmax(w, 0);
        [3, 70], [3, 70] => |x, w| activation::softmin(x, 1) * activation::softmax(w, 0);
        [2, 3, 40], [40] => |x, w| {
            let (x, w) = (x.into_primitive().tensor(), w.into_primitive().tensor());
            Tensor::<B, 3>::from_primitive(TensorPrimitive::Float(B::layer_norm(x, w.clone(), Some(w), 1e-5)))
        };
        [2, 3, 5, 8], [2, 3, 7, 8] => |x, w| attention(x, w.clone(), w, None, None, causal);
        [3, 4], [3, 4] => |x, w| x.prod_dim(1) + w.max_abs_dim(1);
        [3, 4], [4, 5] => |x, w| x.matmul(w);
        [2, 3, 4], [4, 5] => |x, w| linear(x, w, None);
        [2, 3, 4], [5] => |x, w| linear(x, floats([4, 5], device), Some(w));
        [2, 1, 3, 4], [1, 2, 4, 5] => |x, w| x.matmul(w);
        [3, 4], [2, 4] => |x, w| Tensor::cat(vec![x, w], 0);
        [3, 4], [3, 4] => |x, w| x.max_dim(1) + w.clone().min_dim(0) + w.mean_dim(1);
        [3, 4], [3, 4] => |x, w| x.slice(s![0..2, 1..4]).repeat_dim(0, 2) + w.slice(s![1..2, 0..3]);
        [3, 4], [3, 4] => |x, w| x.clone().clamp(-0.5, 0.5) + w.powi_scalar(2) + x.abs().sqrt();
        [5, 4], [2, 4] => |x, w| x.select(0, Tensor::from_ints([4, 1, 4], device)).sum_dim(0) + w;
        [5, 4], [5, 2] => |x, w| x.gather(1, ints([5, 2], 4, device)) + w;
        [6, 4], [2, 3, 4] => |x, w| embedding(x, ints([2, 3], 6, device)) + w;
        [3, 4], [3, 4] => |x, w| x.cumsum(1) + w.cumsum(0);
        [3, 4], [3, 4] => |x, w| x.add_scalar(2.0).cumprod(0) + w.cummax(1);
        [3, 7], [3, 7] => |x, w| x.sort(1) + w.sort_descending(0);
        [5, 4], [2, 4] => |x, w| x.scatter_nd(Tensor::<_, 2, Int>::from_ints([[3], [0]], device), w, IndexingUpdateOp::Add);
        [2, 4, 7, 6], [6, 4, 3, 2] => |x, w| conv2d(x, w, None, conv(1));
        [2, 4, 7, 6], [6, 2, 3, 2] => |x, w| conv2d(x, w, None, conv(2));
        [2, 4, 7, 6], [6] => |x, w| conv2d(x, floats([6, 4, 3, 2], device), Some(w), conv(1));
        [2, 4, 9], [6, 4, 3] => |x, w| conv1d(x, w, None, ConvOptions::new([2], [1], [1], 1));
        [2, 4, 9], [6] => |x, w| conv1d(x, floats([6, 4, 3], device), Some(w), ConvOptions::new([1], [1], [1], 1));
        [2, 4, 9, 6], [8, 1, 3, 3] => |x, w| conv2d(x, w, None, ConvOptions::new([2, 1], [1, 1], [1, 1], 4));
        [2, 4, 4, 5, 6], [6, 2, 2, 3, 2] => |x, w| conv3d(x, w, None, ConvOptions::new([1, 2, 1], [1, 0, 1], [1, 1, 2], 2));
        [2, 4, 4, 5, 6], [6] => |x, w| conv3d(x, floats([6, 4, 2, 3, 3], device), Some(w), ConvOptions::new([1; 3], [1; 3], [1; 3], 1));
        [2, 4, 5, 6], [4, 3, 3, 2] => |x, w| conv_transpose2d(x, w, None, back.clone());
        [2, 4, 9], [4, 3, 3] => |x, w| conv_transpose1d(x, w, None, ConvTransposeOptions::new([2], [1], [1], [1], 1));
        [2, 4, 3, 4, 5], [4, 3, 2, 3, 2] => |x, w| conv_transpose3d(x, w, None, ConvTransposeOptions::new([2, 1, 2], [1, 1, 0], [1, 0, 1], [1, 2, 1], 1));
        [2, 4, 3, 4, 5], [3] => |x, w| conv_transpose3d(x, floats([4, 3, 2, 3, 2], device), Some(w), ConvTransposeOptions::new([1; 3], [0; 3], [0; 3], [1; 3], 1));
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| max_pool2d(x, [3, 2], [2, 2], [1, 0], [1, 1], false) * w;
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| avg_pool2d(x, [3, 2], [2, 2], [1, 1], true, false) * w;
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| avg_pool2d(x, [3, 2], [2, 2], [1, 1], false, false) * w;
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| adaptive_avg_pool2d(x, [3, 4]) * w;
        [2, 3, 9], [1, 1, 1] => |x, w| max_pool1d(x, 3, 2, 1, 1, false) * w;
        [2, 3, 9], [1, 1, 1] => |x, w| avg_pool1d(x, 3, 1, 1, false, false) * w;
        [2, 3, 9], [1, 1, 1] => |x, w| adaptive_avg_pool1d(x, 4) * w;
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| max_pool2d(x, [3, 3], [1, 1], [1, 1], [1, 1], false) * w;
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| adaptive_avg_pool2d(x, [1, 1]) * w;
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| unfold4d(x, [2, 3], UnfoldOptions::new([1, 2], [1, 0], [2, 1])).reshape([2, 6, -1, 3]) * w;
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| interpolate(x, [9, 4], resize(InterpolateMode::Nearest, true)) * w;
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| interpolate(x, [9, 4], resize(InterpolateMode::Bilinear, true)) * w;
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| interpolate(x, [5, 13], resize(InterpolateMode::Bilinear, false)) * w;
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| interpolate(x, [9, 4], resize(InterpolateMode::Bicubic, true)) * w;
        [2, 3, 7, 6], [1, 1, 1, 1] => |x, w| interpolate(x, [5, 13], resize(InterpolateMode::Bicubic, false)) * w;
        [2, 3, 7, 6], [2, 4, 5, 2] => |x, w| x.grid_sample_2d(w.mul_scalar(1.3), InterpolateMode::Bilinear);
        [2, 4, 7, 6], [6, 4, 3, 2] => |x, w| deform_conv2d(x, near([2, 12, 5, 5]), w, None, None, deform(1, 1));
        [2, 4, 7, 6], [2, 24, 5, 5] => |x, w| deform_conv2d(x, w.mul_scalar(1.4), floats([6, 2, 3, 2], device), None, None, deform(2, 2));
        [2, 4, 7, 6], [2, 12, 5, 5] => |x, w| deform_conv2d(x, near([2, 24, 5, 5]), floats([6, 4, 3, 2], device), Some(w), None, deform(1, 2));
        [2, 4, 7, 6], [6] => |x, w| deform_conv2d(x, near([2, 12, 5, 5]), floats([6, 4, 3, 2], device), Some(floats([2, 6, 5, 5], device)), Some(w), deform(1, 1));
    }
}

#[test]
fn gradients_of_ops() {
    let (mut ours, mut reference) = (Answers::default(), Answers::default());
    all_gradients::<Autodiff<Ours>>(&OvercommitDevice::Host(0), &mut ours);
    all_gradients::<Autodiff<Reference>>(&Default::default(), &mut reference);
    assert_same(ours, reference, 1e-4);
}

#[derive(Module, Debug)]
struct Net<B: Backend> {
    conv: Conv2d<B>,
    norm: BatchNorm<B>,
    head: Linear<B>,
}

impl<B: Backend> Net<B> {
    fn new(device: &B::Device) -> Self {
        let net = Net {
            conv: Conv2dConfig::new([3, 8], [3, 3]).init(device),
            norm: BatchNormConfig::new(8).init(device),
            head: LinearConfig::new(8 * 9, 5).init(device),
        };
        net.map(&mut SameWeights)
    }

    fn forward(&self, images: Tensor<B, 4>) -> Tensor<B, 2> {
        let x = activation::relu(self.norm.forward(self.conv.forward(images)));
        self.head.forward(max_pool2d(x, [2, 2], [2, 2], [0, 0], [1, 1], false).flatten(1, 3))
    }
}

/// Replaces the random weights, which differ between backends.
struct SameWeights;

impl<B: Backend> ModuleMapper<B> for SameWeights {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        param.map(|tensor| floats(tensor.dims(), &tensor.device()).mul_scalar(0.2).require_grad())
    }
}

impl<B: Backend> ModuleVisitor<B> for Answers {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        self.add("a parameter", param.val());
    }
}

fn train<B: AutodiffBackend>(device: &B::Device, out: &mut Answers) {
    let mut net = Net::<B>::new(device);
    let mut adam = AdamConfig::new().init();
    let images = floats::<B, 4>([4, 3, 8, 8], device);
    let classes = ints::<B, 2>([4, 1], 5, device);
    for _ in 0..3 {
        let scores = activation::log_softmax(net.forward(images.clone()), 1);
        let loss = scores.gather(1, classes.clone()).mean().neg();
        out.add("the loss", loss.clone());
        let grads = GradientsParams::from_grads(loss.backward(), &net);
        net = adam.step(1e-3, net, grads);
    }
    net.visit(out);
}

#[test]
fn a_small_network_trains_alike() {
    let (mut ours, mut reference) = (Answers::default(), Answers::default());
    train::<Autodiff<Ours>>(&OvercommitDevice::Host(0), &mut ours);
    train::<Autodiff<Reference>>(&Default::default(), &mut reference);
    assert_same(ours, reference, 1e-3);
}
