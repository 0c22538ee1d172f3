//! The backend's ops against burn-ndarray's, through Burn's tensor API.

use crate::support::{Answers, Ours, Reference, assert_same, bits, floats, ints};
use burn::tensor::backend::Backend;
use burn::tensor::module::{
    attention, conv_transpose1d, conv_transpose2d, conv_transpose3d, conv1d, conv2d, conv3d, embedding,
    linear, unfold4d,
};
use burn::tensor::ops::{AttentionModuleOptions, ConvOptions, ConvTransposeOptions, UnfoldOptions};
use burn::tensor::{Bool, IndexingUpdateOp, Int, Tensor, TensorData, TensorPrimitive, activation, s, signal};
use burn_overcommit::OvercommitDevice;

compare! {
    creation, 0.0;
    float_unary, 1e-5;
    float_binary, 1e-5;
    comparisons, 0.0;
    integers, 0.0;
    bools, 0.0;
    views, 0.0;
    assignments, 0.0;
    reductions, 1e-5;
    indexing, 1e-6;
    products, 1e-5;
    activations, 1e-5;
    norms, 1e-5;
    attentions, 1e-5;
    fourier_transforms, 1e-5;
    convolutions, 1e-4;
}

fn creation<B: Backend>(device: &B::Device, out: &mut Answers) {
    let narrow = TensorData::new(vec![1u8, 200, 3], [3]);
    let wide = TensorData::new(vec![0.5f64, -2.0, 1e10], [3]);
    let half = TensorData::new(vec![burn::tensor::f16::from_f32(0.25)], [1]);
    answers! { out;
        Tensor::<B, 2>::zeros([2, 3], device);
        Tensor::<B, 2>::ones([2, 3], device);
        Tensor::<B, 2>::full([2, 3], 2.5, device);
        Tensor::<B, 2, Int>::zeros([2, 3], device);
        Tensor::<B, 2, Int>::ones([2, 3], device);
        Tensor::<B, 2, Int>::full([2, 3], -7, device);
        Tensor::<B, 2, Bool>::empty([0, 3], device);
        Tensor::<B, 1, Int>::arange(-3..5, device);
        Tensor::<B, 1, Int>::arange_step(-3..5, 3, device);
        Tensor::<B, 1, Int>::arange(5..5, device);
        Tensor::<B, 2>::eye(3, device);
        Tensor::<B, 1>::from_data(wide, device);
        Tensor::<B, 1>::from_data(half, device);
        Tensor::<B, 1, Int>::from_data(narrow, device);
        Tensor::<B, 1, Bool>::from_data([true, false], device);
        bits::<B, 2>([3, 4], device);
        bits::<B, 2>([3, 4], device).int();
        bits::<B, 2>([3, 4], device).float();
        floats::<B, 2>([3, 4], device).mul_scalar(9.0).int();
        ints::<B, 2>([3, 4], 50, device).float();
    }
}

fn float_unary<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 3>([2, 5, 7], device);
    let t = x.clone().swap_dims(0, 2);
    let positive = x.clone().abs().add_scalar(0.1);
    let odd =
        Tensor::<B, 1>::from_floats([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -2.5, 2.5], device);
    answers! { out;
        x.clone().neg();
        x.clone().abs();
        x.clone().sign();
        x.clone().exp();
        t.clone().exp();
        positive.clone().log();
        positive.clone().log1p();
        positive.clone().sqrt();
        positive.clone().recip();
        x.clone().sin();
        x.clone().cos();
        x.clone().tan();
        x.clone().sinh();
        x.clone().cosh();
        x.clone().tanh();
        x.clone().asin();
        x.clone().acos();
        x.clone().atan();
        x.clone().asinh();
        positive.clone().add_scalar(1.0).acosh();
        x.clone().mul_scalar(0.9).atanh();
        x.clone().erf();
        x.clone().mul_scalar(5.0).floor();
        x.clone().mul_scalar(5.0).ceil();
        x.clone().mul_scalar(5.0).round();
        x.clone().mul_scalar(5.0).trunc();
        x.clone().square();
        odd.clone().is_nan();
        odd.clone().is_inf();
        odd.clone().is_finite();
        odd.clone().abs();
        odd.clone().round();
        odd.clone().clamp(-1.0, 1.0);
        odd.clone().slice(3..).sign();
    }
}

fn float_binary<B: Backend>(device: &B::Device, out: &mut Answers) {
    let a = floats::<B, 3>([2, 5, 7], device);
    let b = floats::<B, 3>([1, 5, 1], device).add_scalar(2.5);
    let t = floats::<B, 3>([7, 5, 2], device).swap_dims(0, 2);
    let positive = a.clone().abs().add_scalar(0.1);
    answers! { out;
        a.clone() + t.clone();
        a.clone() + a.clone();
        a.clone() - b.clone();
        b.clone() - a.clone();
        a.clone() * b.clone();
        a.clone() / b.clone();
        a.clone().remainder(b.clone().expand([2, 5, 7]));
        a.clone().add_scalar(1.5);
        a.clone().sub_scalar(1.5);
        a.clone().mul_scalar(1.5);
        a.clone().div_scalar(1.5);
        a.clone().remainder_scalar(0.3);
        positive.clone().powf(t.clone());
        positive.clone().powf_scalar(1.7);
        a.clone().powf_scalar(2.0);
        a.clone().powi_scalar(0);
        a.clone().powi_scalar(1);
        a.clone().powi_scalar(2);
        a.clone().powi_scalar(3);
        positive.clone().powi_scalar(-1);
        positive.clone().powi_scalar(-2);
        positive.clone().powi_scalar(-3);
        a.clone().atan2(b.clone().expand([2, 5, 7]));
        a.clone().max_pair(t.clone());
        a.clone().min_pair(t.clone());
        a.clone().clamp(-0.5, 0.25);
        a.clone().clamp_min(0.1);
        a.clone().clamp_max(0.1);
        a.clone().mask_fill(bits([2, 5, 7], device), 9.0);
        a.clone().mask_where(bits([2, 5, 7], device), t.clone());
    }
}

fn comparisons<B: Backend>(device: &B::Device, out: &mut Answers) {
    let a = ints::<B, 2>([4, 6], 5, device);
    let b = ints::<B, 2>([1, 6], 3, device);
    let (x, y) = (a.clone().float(), b.clone().float());
    answers! { out;
        a.clone().equal(b.clone().expand([4, 6]));
        a.clone().not_equal(b.clone().expand([4, 6]));
        a.clone().greater(b.clone());
        a.clone().greater_equal(b.clone());
        a.clone().lower(b.clone());
        a.clone().lower_equal(b.clone());
        a.clone().equal_elem(2);
        a.clone().not_equal_elem(2);
        a.clone().greater_elem(2);
        a.clone().greater_equal_elem(2);
        a.clone().lower_elem(2);
        a.clone().lower_equal_elem(2);
        x.clone().equal(y.clone().expand([4, 6]));
        x.clone().not_equal(y.clone().expand([4, 6]));
        x.clone().greater(y.clone());
        x.clone().greater_equal(y.clone());
        x.clone().lower(y.clone());
        x.clone().lower_equal(y.clone());
        x.clone().equal_elem(2.0);
        x.clone().not_equal_elem(2.0);
        x.clone().greater_elem(2.0);
        x.clone().greater_equal_elem(2.0);
        x.clone().lower_elem(2.0);
        x.clone().lower_equal_elem(2.0);
        x.clone().sub_scalar(2.0).any();
        x.clone().sub_scalar(2.0).all();
        x.clone().sub_scalar(2.0).any_dim(1);
        x.clone().sub_scalar(2.0).all_dim(0);
        a.clone().any();
        a.clone().all();
        a.clone().any_dim(1);
        a.clone().all_dim(0);
    }
}

fn integers<B: Backend>(device: &B::Device, out: &mut Answers) {
    let a = ints::<B, 2>([4, 6], 23, device).sub_scalar(11);
    let b = ints::<B, 2>([1, 6], 7, device).add_scalar(1);
    let c = ints::<B, 2>([6, 4], 9, device);
    answers! { out;
        a.clone() + b.clone();
        a.clone() - b.clone();
        a.clone() * b.clone();
        a.clone() / b.clone();
        a.clone().remainder(b.clone().expand([4, 6]));
        a.clone().add_scalar(3);
        a.clone().sub_scalar(3);
        a.clone().mul_scalar(3);
        a.clone().div_scalar(3);
        a.clone().remainder_scalar(3);
        a.clone().neg();
        a.clone().abs();
        a.clone().sign();
        a.clone().clamp(-3, 4);
        a.clone().powi_scalar(0);
        a.clone().powi_scalar(1);
        a.clone().powi_scalar(2);
        a.clone().powi_scalar(3);
        a.clone().powi(b.clone().expand([4, 6]).remainder_scalar(3));
        a.clone().bitwise_not();
        a.clone().matmul(c.clone());
        a.clone().sum();
        a.clone().sum_dim(1);
        c.clone().slice([0..3, 0..2]).add_scalar(1).prod();
        a.clone().prod_dim(0);
        a.clone().mean_dim(0);
        a.clone().max();
        a.clone().min();
        a.clone().max_dim(1);
        a.clone().min_dim(1);
        a.clone().max_abs();
        a.clone().mask_fill(bits([4, 6], device), 5);
        a.clone().mask_where(bits([4, 6], device), c.clone().transpose());
        Tensor::cat(vec![a.clone(), b.clone()], 0);
        a.clone().repeat_dim(1, 2);
    }
}

fn bools<B: Backend>(device: &B::Device, out: &mut Answers) {
    let a = bits::<B, 2>([4, 6], device);
    let b = bits::<B, 2>([6, 4], device).transpose();
    answers! { out;
        a.clone().bool_not();
        a.clone().bool_and(b.clone());
        a.clone().bool_or(b.clone());
        a.clone().bool_xor(b.clone());
        a.clone().equal(b.clone());
        a.clone().not_equal(b.clone());
        a.clone().equal_elem(true);
        a.clone().equal_elem(false);
        a.clone().any();
        a.clone().all();
        b.clone().any_dim(0);
        b.clone().all_dim(1);
        a.clone().slice([1..3, 2..6]);
        a.clone().slice_assign([1..3, 2..4], b.clone().slice([0..2, 0..2]));
        a.clone().reshape([3, 8]);
        b.clone().reshape([3, 8]);
        a.clone().flip([0, 1]);
        Tensor::cat(vec![a.clone(), b.clone()], 1);
        a.clone().repeat_dim(0, 3);
        a.clone().mask_where(b.clone(), a.clone().bool_not());
        a.clone().mask_fill(b.clone(), true);
        a.clone().select(0, Tensor::from_ints([2, 0, 2], device));
        a.clone().gather(1, ints([4, 2], 6, device));
        a.clone().select_assign(0, Tensor::from_ints([2, 0, 2, 1], device), b.clone(), IndexingUpdateOp::Add);
        a.clone().scatter(0, ints([2, 6], 4, device), b.clone().slice(s![0..2, ..]), IndexingUpdateOp::Add);
        a.clone().argwhere();
        Tensor::<B, 2, Bool>::tril_mask([3, 4], 0, device);
    }
}

fn views<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 3>([4, 5, 6], device);
    let t = x.clone().permute([2, 0, 1]);
    answers! { out;
        x.clone().reshape([20, 6]);
        t.clone().reshape([24, 5]);
        t.clone().reshape([6, 20]);
        t.clone().permute([1, 2, 0]);
        x.clone().transpose();
        x.clone().flip([0, 2]);
        x.clone().slice(s![1..3, .., 2..6]);
        x.clone().slice(s![..;2, ..;-1, 1..6;3]);
        x.clone().slice(s![..;-3, 1..4;-2, ..]);
        t.clone().slice(s![1..5;2, .., ..;-2]);
        x.clone().slice(s![2..2, .., ..]);
        x.clone().slice(s![1..2, .., ..]).expand([3, 5, 6]);
        x.clone().slice(s![0..1, .., ..]).repeat_dim(0, 4);
        x.clone().repeat_dim(1, 3);
        t.clone().repeat_dim(2, 2);
        x.clone().repeat_dim(1, 0);
        x.clone().unfold::<4, _>(1, 3, 2);
        t.clone().unfold::<4, _>(0, 2, 1);
        Tensor::cat(vec![x.clone()], 1);
        Tensor::cat(vec![x.clone(), x.clone().slice(s![.., 1..3, ..])], 1);
        Tensor::cat(vec![x.clone(), t.clone().reshape([4, 5, 6]), x.clone()], 2);
        Tensor::stack::<4>(vec![x.clone(), x.clone().neg()], 0);
        x.clone().chunk(2, 2).remove(1);
        x.clone().triu(0);
    }
}

fn assignments<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 3>([4, 5, 6], device);
    let v = floats::<B, 3>([2, 3, 6], device).mul_scalar(10.0);
    answers! { out;
        x.clone().slice_assign(s![1..3, 2..5, ..], v.clone());
        x.clone().slice_assign(s![0..4;2, 0..5;2, ..;-1], v.clone());
        x.clone().slice_assign(s![0..4;2, 0..5;-2, ..], v.clone());
        x.clone().slice_fill(s![1..3, .., 0..1], 3.0);
        x.clone().transpose().slice_assign(s![0..2, 1..6, 0..5], floats([2, 5, 5], device));
    }
}

fn reductions<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 3>([4, 5, 6], device);
    let t = x.clone().permute([2, 0, 1]);
    let wide = x.clone().slice(s![0..1, .., ..]).expand([3, 5, 6]);
    let single = x.clone().slice(s![.., 1..2, ..]);
    let odd = Tensor::<B, 1>::from_floats([1.0, f32::INFINITY, -2.0, f32::NAN, 7.0], device);
    answers! { out;
        // A run of elementwise ops ends in the reduction of an axis of one element.
        floats::<B, 2>([1, 5], device).exp().mul_scalar(2.0).max_dim(0);
        x.clone().slice(s![0..0, .., ..]).sum();
        x.clone().sum();
        t.clone().sum();
        wide.clone().sum();
        x.clone().slice(s![.., 1..4, ..;-1]).sum();
        x.clone().sum_dim(0);
        x.clone().sum_dim(1);
        t.clone().sum_dim(2);
        x.clone().mean();
        t.clone().mean();
        x.clone().mean_dim(0);
        t.clone().mean_dim(1);
        x.clone().var(2);
        x.clone().slice(s![0..1, 0..2, ..]).prod();
        x.clone().add_scalar(1.5).prod_dim(1);
        x.clone().max();
        t.clone().min();
        x.clone().max_dim(1);
        t.clone().min_dim(0);
        x.clone().max_dim_with_indices(2).0;
        x.clone().max_dim_with_indices(2).1;
        t.clone().min_dim_with_indices(1).0;
        t.clone().min_dim_with_indices(1).1;
        x.clone().argmax(0);
        t.clone().argmin(2);
        x.clone().max_abs();
        x.clone().max_abs_dim(1);
        t.clone().max_abs();
        t.clone().prod_dim(2);
        single.clone().sum_dim(1);
        single.clone().mean_dim(1);
        single.clone().prod_dim(1);
        single.clone().min_dim(1);
        single.clone().max_abs_dim(1);
        single.clone().greater_elem(0.0).any_dim(1);
        single.clone().greater_elem(0.0).all_dim(1);
        ints::<B, 3>([4, 1, 6], 100, device).sum_dim(1);
        // Long enough to be reduced in pieces, by rows and by columns.
        floats::<B, 2>([2, 70_000], device).sum_dim(1);
        floats::<B, 2>([70_000, 2], device).mean_dim(0);
        floats::<B, 2>([70_000, 2], device).argmax(0);
        floats::<B, 2>([2, 70_000], device).max_dim_with_indices(1).1;
        ints::<B, 2>([2, 70_000], 1000, device).argmin(1);
        ints::<B, 3>([4, 5, 6], 100, device).max_dim_with_indices(1).1;
        ints::<B, 3>([4, 5, 6], 100, device).min_dim_with_indices(1).0;
        floats::<B, 2>([70_000, 2], device).greater_elem(0.9).any_dim(0);
        floats::<B, 2>([2, 70_000], device).greater_elem(-2.0).all_dim(1);
        odd.clone().min_dim(0);
        odd.clone().argmax(0);
        odd.clone().slice(0..3).sum();
    }
}

fn indexing<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 2>([5, 6], device);
    let t = floats::<B, 2>([6, 5], device).transpose();
    let rows = Tensor::<B, 1, Int>::from_ints([3, 0, 3, 4], device);
    let pairs = Tensor::<B, 2, Int>::from_ints([[3, 0], [1, 5], [3, 0]], device);
    answers! { out;
        x.clone().select(0, rows.clone());
        t.clone().select(1, rows.clone());
        ints::<B, 2>([5, 6], 40, device).select(0, rows.clone());
        x.clone().select_assign(0, rows.clone(), floats([4, 6], device), IndexingUpdateOp::Add);
        t.clone().select_assign(1, rows.clone(), floats([5, 4], device), IndexingUpdateOp::Add);
        ints::<B, 2>([5, 6], 40, device).select_assign(0, rows.clone(), ints([4, 6], 9, device), IndexingUpdateOp::Add);
        x.clone().gather(1, ints([5, 3], 6, device));
        t.clone().gather(0, ints([3, 6], 5, device));
        x.clone().scatter(1, ints([5, 3], 6, device), floats([5, 3], device), IndexingUpdateOp::Add);
        t.clone().scatter(0, ints([3, 6], 5, device), floats([3, 6], device), IndexingUpdateOp::Add);
        x.clone().gather_nd::<2, 1>(pairs.clone());
        x.clone().gather_nd::<2, 2>(pairs.clone().slice(s![.., 0..1]));
        x.clone().scatter_nd::<2, 1>(pairs.clone(), floats([3], device), IndexingUpdateOp::Add);
        x.clone().scatter_nd::<2, 1>(pairs.clone(), floats([3], device), IndexingUpdateOp::Assign);
        x.clone().scatter_nd::<2, 1>(pairs.clone(), floats([3], device), IndexingUpdateOp::Mul);
        x.clone().scatter_nd::<2, 2>(pairs.clone().slice(s![.., 0..1]), floats([3, 6], device), IndexingUpdateOp::Min);
        t.clone().scatter_nd::<2, 2>(pairs.clone().slice(s![.., 0..1]), floats([3, 6], device), IndexingUpdateOp::Max);
        ints::<B, 2>([5, 6], 40, device).scatter_nd::<2, 1>(pairs.clone(), ints([3], 50, device), IndexingUpdateOp::Mul);
        ints::<B, 2>([5, 6], 40, device).scatter_nd::<2, 1>(pairs.clone(), ints([3], 50, device), IndexingUpdateOp::Max);
        ints::<B, 2>([3, 4], 6, device).one_hot::<3>(6);
        embedding(x.clone(), ints([2, 3], 5, device));
    }
}

fn products<B: Backend>(device: &B::Device, out: &mut Answers) {
    let (a, b) = (floats::<B, 2>([5, 6], device), floats::<B, 2>([6, 7], device));
    let batch = floats::<B, 4>([2, 3, 4, 6], device);
    let one = floats::<B, 4>([1, 1, 6, 5], device);
    let row = floats::<B, 4>([1, 3, 6, 5], device);
    let (u, v) = (floats::<B, 2>([4, 3], device), floats::<B, 2>([3, 4], device).transpose());
    let causal = AttentionModuleOptions { is_causal: true, ..Default::default() };
    answers! { out;
        a.clone().matmul(b.clone());
        a.clone().matmul(floats([7, 6], device).transpose());
        floats::<B, 2>([6, 5], device).transpose().matmul(b.clone());
        batch.clone().matmul(one.clone());
        batch.clone().swap_dims(0, 1).matmul(one.clone());
        batch.clone().matmul(row.clone());
        one.clone().matmul(floats([2, 3, 5, 2], device));
        linear(floats::<B, 3>([2, 3, 6], device), b.clone(), Some(floats([7], device)));
        linear(floats::<B, 1>([6], device), b.clone(), None);
        u.clone().cross(v.clone(), 1);
        attention(batch.clone(), batch.clone(), batch.clone(), None, None, causal);
    }
}

fn activations<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 2>([5, 7], device).mul_scalar(3.0);
    let t = floats::<B, 2>([7, 5], device).transpose();
    answers! { out;
        activation::relu(x.clone());
        activation::relu(t.clone());
        activation::sigmoid(x.clone());
        activation::log_sigmoid(x.clone());
        activation::gelu(x.clone());
        activation::leaky_relu(x.clone(), 0.1);
        activation::hard_sigmoid(x.clone(), 0.2, 0.5);
        activation::silu(x.clone());
        activation::softmax(x.clone(), 1);
        activation::log_softmax(t.clone(), 0);
        activation::tanh(t.clone());
        activation::softplus(x.clone(), 1.0);
    }
}

fn norms<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 3>([4, 5, 60], device).mul_scalar(9.0);
    let t = floats::<B, 3>([60, 5, 4], device).mul_scalar(9.0).permute([2, 1, 0]);
    let far = f32::INFINITY;
    let odd = Tensor::<B, 2>::from_floats(
        [[1.0, 2.0, 3.0], [-far, 0.5, 1.0], [far, 0.5, 1.0], [-far, -far, -far], [1.0, f32::NAN, 2.0]],
        device,
    );
    let layer_norm = |x: Tensor<B, 3>, beta: Option<Tensor<B, 1>>| {
        let beta = beta.map(|beta| beta.into_primitive().tensor());
        let gamma = floats::<B, 1>([60], device).into_primitive().tensor();
        let out = B::layer_norm(x.into_primitive().tensor(), gamma, beta, 1e-5);
        Tensor::<B, 3>::from_primitive(TensorPrimitive::Float(out))
    };
    answers! { out;
        activation::softmax(x.clone(), 0);
        activation::softmax(x.clone(), 1);
        activation::softmax(x.clone(), 2);
        activation::softmax(t.clone(), 2);
        activation::softmax(x.clone().slice(s![.., 2..2, ..]), 1);
        activation::softmax(odd.clone(), 1);
        activation::log_softmax(x.clone(), 1);
        activation::log_softmax(t.clone(), 2);
        activation::log_softmax(odd.clone(), 1);
        activation::softmin(x.clone(), 2);
        activation::quiet_softmax(x.clone(), 2);
        layer_norm(x.clone(), None);
        layer_norm(x.clone(), Some(floats([60], device).mul_scalar(2.0)));
        layer_norm(t.clone(), Some(floats([60], device)));
    }
}

fn attentions<B: Backend>(device: &B::Device, out: &mut Answers) {
    let q = floats::<B, 4>([2, 3, 5, 8], device).mul_scalar(4.0);
    let k = floats::<B, 4>([2, 3, 7, 8], device).flip([2]).mul_scalar(4.0);
    let v = floats::<B, 4>([2, 3, 7, 6], device);
    let none =
        bits::<B, 4>([2, 3, 5, 7], device).equal_elem(true).bool_or(bits([2, 3, 5, 7], device).bool_not());
    let some = bits::<B, 4>([2, 3, 5, 7], device);
    let bias = floats::<B, 4>([2, 3, 5, 7], device);
    let options = |is_causal, softcap| AttentionModuleOptions { scale: None, softcap, is_causal };
    let scaled = AttentionModuleOptions { scale: Some(0.7), ..Default::default() };
    answers! { out;
        attention(q.clone(), k.clone(), v.clone(), None, None, options(false, None));
        attention(q.clone(), k.clone(), v.clone(), None, None, options(true, None));
        // More queries than keys: the first see nothing.
        attention(k.clone(), q.clone(), v.clone().slice(s![.., .., 0..5, ..]), None, None, options(true, None));
        attention(q.clone(), k.clone(), v.clone(), Some(some.clone()), None, options(false, None));
        attention(q.clone(), k.clone(), v.clone(), Some(some.clone()), None, options(true, None));
        attention(q.clone(), k.clone(), v.clone(), Some(none.clone()), None, options(false, None));
        attention(q.clone(), k.clone(), v.clone(), None, Some(bias.clone()), options(true, None));
        attention(q.clone(), k.clone(), v.clone(), Some(some.clone()), Some(bias.clone()), options(false, Some(2.0)));
        attention(q.clone(), k.clone(), v.clone(), None, None, scaled);
    }
}

fn fourier_transforms<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 3>([4, 8, 64], device);
    let t = floats::<B, 3>([64, 8, 4], device).permute([2, 1, 0]);
    let (re, im) =
        (floats::<B, 3>([4, 5, 33], device), floats::<B, 3>([33, 5, 4], device).permute([2, 1, 0]));
    answers! { out;
        signal::rfft(x.clone(), 0, None).0;
        signal::rfft(x.clone(), 1, None).1;
        signal::rfft(x.clone(), 2, None).0;
        signal::rfft(x.clone(), 2, None).1;
        signal::rfft(t.clone(), 2, Some(128)).1;
        signal::rfft(t.clone(), 1, Some(4)).1;
        signal::rfft(x.clone(), 1, Some(1)).0;
        signal::irfft(re.clone(), im.clone(), 2, None);
        signal::irfft(re.clone(), im.clone(), 1, None);
        signal::irfft(re.clone(), im.clone(), 1, Some(16));
        signal::irfft(re.clone(), im.clone(), 2, Some(16));
        signal::irfft(re.clone(), im.clone(), 0, Some(1));
    }
}

fn convolutions<B: Backend>(device: &B::Device, out: &mut Answers) {
    let x = floats::<B, 4>([2, 4, 7, 6], device);
    let w = floats::<B, 4>([6, 4, 3, 2], device);
    let grouped = floats::<B, 4>([6, 2, 3, 2], device);
    let bias = floats::<B, 1>([6], device);
    let (line, taps) = (floats::<B, 3>([2, 4, 9], device), floats::<B, 3>([6, 4, 3], device));
    let volume = floats::<B, 5>([2, 4, 4, 5, 6], device);
    let plain = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
    let general = ConvOptions::new([2, 1], [1, 2], [1, 2], 1);
    let back = floats::<B, 4>([4, 3, 3, 2], device);
    answers! { out;
        conv2d(x.clone(), w.clone(), None, plain.clone());
        conv2d(x.clone(), w.clone(), Some(bias.clone()), general.clone());
        conv2d(x.clone(), grouped.clone(), Some(bias.clone()), ConvOptions::new([1, 2], [1, 0], [1, 1], 2));
        conv2d(x.clone().permute([0, 1, 3, 2]), w.clone(), None, plain.clone());
        conv1d(line.clone(), taps.clone(), Some(bias.clone()), ConvOptions::new([2], [1], [2], 1));
        conv_transpose2d(x.clone(), back.clone(), Some(floats([3], device)), ConvTransposeOptions::new([2, 1], [1, 0], [1, 0], [1, 2], 1));
        conv_transpose2d(x.clone(), back.clone(), None, ConvTransposeOptions::new([1, 2], [0, 1], [0, 1], [1, 1], 2));
        // Output padding of a stride and more.
        conv_transpose2d(x.clone(), back.clone(), None, ConvTransposeOptions::new([1, 2], [0, 1], [1, 3], [2, 1], 1));
        conv2d(x.clone(), floats([4, 1, 3, 3], device), None, ConvOptions::new([1, 2], [1, 1], [1, 1], 4));
        conv1d(line.clone(), floats([8, 1, 3], device), None, ConvOptions::new([1], [1], [1], 4));
        conv_transpose1d(line.clone(), floats([4, 3, 3], device), None, ConvTransposeOptions::new([2], [1], [1], [1], 1));
        conv3d(volume.clone(), floats([6, 4, 2, 3, 3], device), Some(bias.clone()), ConvOptions::new([1; 3], [0, 1, 1], [1; 3], 1));
        conv3d(volume.clone(), floats([6, 2, 3, 2, 1], device), None, ConvOptions::new([2, 1, 2], [1, 1, 0], [2, 1, 1], 2));
        conv3d(volume.clone().permute([0, 1, 4, 2, 3]), floats([4, 1, 3, 3, 2], device), None, ConvOptions::new([1; 3], [1; 3], [1; 3], 4));
        conv_transpose3d(volume.clone(), floats([4, 3, 2, 3, 2], device), Some(floats([3], device)), ConvTransposeOptions::new([2, 1, 2], [1, 1, 0], [1, 0, 1], [1, 2, 1], 1));
        conv_transpose3d(volume.clone(), floats([4, 2, 2, 2, 2], device), None, ConvTransposeOptions::new([2; 3], [0; 3], [3, 0, 2], [1; 3], 2));
        unfold4d(x.clone(), [2, 3], UnfoldOptions::new([1, 2], [0, 0], [1, 1]));
        unfold4d(x.clone(), [2, 3], UnfoldOptions::new([1, 2], [1, 1], [1, 1]));
        unfold4d(x.clone(), [3, 2], UnfoldOptions::new([2, 1], [2, 0], [2, 3]));
        unfold4d(x.clone().permute([0, 1, 3, 2]), [2, 2], UnfoldOptions::new([2, 2], [0, 1], [1, 2]));
    }
}
