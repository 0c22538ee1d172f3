//! Functions that newer versions of Burn ask for give what Burn's own device gives, and so do their gradients.

use std::fs;
use std::path::Path;

use crate::face::{Config, OvercommitDevice, device_on, recording};
use crate::same::{made, same};
use burn::tensor::Tensor;
use burn::tensor::module::{
    adaptive_avg_pool3d, attention, avg_pool2d, avg_pool3d, max_pool3d, max_pool3d_with_indices,
};
use burn::tensor::ops::{AttentionModuleOptions, AvgPoolOptions, CausalAlignment, MaxPoolOptions};

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
fn averages_of_windows_with_gaps() {
    for (stride, padding) in [([2, 2], [1, 1]), ([3, 2], [0, 1]), ([3, 3], [1, 0])] {
        let mean = AvgPoolOptions::new([2, 2]).with_stride(stride).with_padding(padding).with_ceil_mode(true);
        same([2, 3, 9, 8], |x| avg_pool2d(x, mean.clone().with_dilation([2, 3])));
    }
}

#[test]
fn queries_may_share_keys() {
    for is_causal in [false, true] {
        let options = AttentionModuleOptions { is_causal, ..Default::default() };
        same([2, 4, 32, 8], |query| {
            let key = made([2, 2, 32, 8], &query.device());
            attention(query, key.clone(), key * 0.5 + 1.0, None, None, options)
        });
        same([2, 2, 32, 8], |key| {
            let query = made([2, 4, 32, 8], &key.device());
            attention(query, key.clone(), key * 0.5 + 1.0, None, None, options)
        });
    }
}

#[test]
fn a_causal_attention_may_begin_at_the_first_key() {
    let options = AttentionModuleOptions {
        is_causal: true,
        causal_alignment: CausalAlignment::TopLeft,
        ..Default::default()
    };
    for (queries, keys) in [(32, 32), (32, 48), (5, 9)] {
        same([2, 4, queries, 8], |query| {
            let key = made([2, 4, keys, 8], &query.device());
            attention(query, key.clone(), key * 0.5 + 1.0, None, None, options)
        });
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
