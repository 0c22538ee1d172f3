//! Functions that only newer versions of Burn ask for give what Burn's own device gives, and so do their gradients.

use std::fs;
use std::path::Path;

use burn::tensor::module::{
    adaptive_avg_pool3d, attention, avg_pool2d, avg_pool3d, conv2d, max_pool2d, max_pool3d,
    max_pool3d_with_indices,
};
use burn::tensor::ops::{
    AttentionModuleOptions, AvgPoolOptions, CausalAlignment, ConvOptions, MaxPoolOptions,
};
use burn::tensor::{Device, Tensor, TensorData, Tolerance};
use burn_overcommit_023::{Config, OvercommitDevice, device_on, recording};

/// Numbers that look random, each another.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|at| (at as f32 * 0.754_877_7 + 0.31).fract() * 4.0 - 2.0).collect()
}

fn made<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::from_data(TensorData::new(numbers(shape.iter().product()), shape), device)
}

/// What a function gives on both devices, and the gradient of its input for a loss that weighs every output otherwise.
fn same<const D: usize, const E: usize>(shape: [usize; D], function: impl Fn(Tensor<D>) -> Tensor<E>) {
    let ours = device_on(OvercommitDevice::Host(40), Config::new().budget_bytes(64 << 20)).unwrap();
    let [ours, burns] = [ours, Device::flex()].map(|device| {
        let x = made(shape, &device.autodiff()).require_grad();
        let made_of_x = function(x.clone());
        let weights = made(made_of_x.dims(), &made_of_x.device());
        let gradients = (made_of_x.clone() * weights).sum().backward();
        [made_of_x.into_data(), x.grad(&gradients).unwrap().into_data()]
    });
    for (ours, burns) in ours.iter().zip(&burns) {
        assert_eq!(ours.shape(), burns.shape());
        ours.assert_approx_eq::<f32>(burns, Tolerance::absolute(1e-4));
    }
}

const VOLUME: [usize; 5] = [2, 3, 5, 7, 6];

#[test]
fn maxima_over_volumes() {
    let plain = || MaxPoolOptions::new([2, 3, 2]);
    for options in [
        plain().with_stride([1, 2, 2]),
        plain().with_stride([2, 2, 1]).with_padding([1, 1, 1]),
        plain().with_stride([2, 2, 2]).with_dilation([2, 1, 2]).with_ceil_mode(true),
        plain().with_stride([2, 3, 3]).with_padding([1, 1, 0]).with_ceil_mode(true),
    ] {
        same(VOLUME, |x| max_pool3d(x, options.clone()));
        same(VOLUME, |x| {
            let (values, places) = max_pool3d_with_indices(x, options.clone());
            values + places.float() * 0.01
        });
    }
}

#[test]
fn averages_over_volumes() {
    for count_include_pad in [true, false] {
        let plain = || AvgPoolOptions::new([2, 3, 2]).with_count_include_pad(count_include_pad);
        for options in [
            plain().with_stride([1, 2, 2]),
            plain().with_stride([2, 2, 1]).with_padding([1, 1, 1]),
            plain().with_stride([2, 2, 2]).with_dilation([2, 1, 2]).with_ceil_mode(true),
            plain().with_stride([2, 3, 3]).with_padding([1, 1, 0]).with_ceil_mode(true),
        ] {
            same(VOLUME, |x| avg_pool3d(x, options.clone()));
        }
    }
    for size in [[2, 3, 4], [5, 7, 6], [1, 1, 1], [3, 2, 5]] {
        same(VOLUME, |x| adaptive_avg_pool3d(x, size));
    }
}

#[test]
fn windows_that_would_start_after_the_image_are_left_out() {
    for (stride, padding) in [([2, 2], [1, 1]), ([3, 2], [0, 1]), ([3, 3], [1, 0])] {
        let most = MaxPoolOptions::new([2, 2]).with_stride(stride).with_padding(padding).with_ceil_mode(true);
        same([2, 3, 7, 6], |x| max_pool2d(x, most.clone()));
        let mean = AvgPoolOptions::new([2, 2]).with_stride(stride).with_padding(padding).with_ceil_mode(true);
        same([2, 3, 7, 6], |x| avg_pool2d(x, mean.clone()));
        same([2, 3, 9, 8], |x| avg_pool2d(x, mean.clone().with_dilation([2, 3])));
    }
}

#[test]
fn zeros_around_a_convolution_may_differ() {
    let options = || ConvOptions::new_with_padding([1, 2], [(0, 2), (3, 1)], [1, 1], 1);
    same([2, 3, 6, 5], |x| {
        let weight = made([4, 3, 3, 2], &x.device());
        conv2d(x, weight, None, options())
    });
    same([4, 3, 3, 2], |weight| {
        let x = made([2, 3, 6, 5], &weight.device());
        conv2d(x, weight, None, options())
    });
}

#[test]
fn attention_by_tiles_and_by_scores() {
    for (queries, keys, groups) in [(32, 32, 4), (32, 48, 4), (5, 9, 4), (32, 32, 2)] {
        for is_causal in [false, true] {
            for causal_alignment in [CausalAlignment::BottomRight, CausalAlignment::TopLeft] {
                let options = AttentionModuleOptions { is_causal, causal_alignment, ..Default::default() };
                same([2, 4, queries, 8], |query| {
                    let key = made([2, groups, keys, 8], &query.device());
                    attention(query, key.clone(), key * 0.5 + 1.0, None, None, options)
                });
                same([2, groups, keys, 8], |key| {
                    let query = made([2, 4, queries, 8], &key.device());
                    attention(query, key.clone(), key * 0.5 + 1.0, None, None, options)
                });
            }
        }
    }
}

#[test]
fn an_attention_and_its_gradient_are_an_op_each() {
    let name = OvercommitDevice::Host(41);
    let device = device_on(name, Config::new().record()).unwrap().autodiff();
    let query = made([2, 4, 32, 8], &device).require_grad();
    let key = made([2, 4, 32, 8], &device);
    let out = attention(query.clone(), key.clone(), key, None, None, AttentionModuleOptions::default());
    let gradients = out.sum().backward();
    drop(query.grad(&gradients).unwrap().into_data());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("attention.jsonl");
    recording(&name).unwrap().save(&path).unwrap();
    let events = fs::read_to_string(path).unwrap();
    let count = |op: &str| events.matches(&format!("\"name\":\"{op}\"")).count();
    let counts = ["attention", "attention_backward", "matmul"].map(count);
    assert_eq!(counts, [1, 1, 0], "{events}");
}

#[test]
fn remainders_have_the_sign_of_the_dividend() {
    same([4, 8], |x| x.clone().fmod(Tensor::full([4, 8], -0.75, &x.device())));
    same([4, 8], |x| x.fmod_scalar(0.6));
}
