//! Functions that Burn 0.21 has otherwise.

use burn::tensor::module::{attention, avg_pool2d, conv2d, max_pool2d};
use burn::tensor::ops::{AttentionModuleOptions, AvgPoolOptions, ConvOptions, MaxPoolOptions};

use crate::same::{made, same};

#[test]
fn windows_that_would_start_after_the_image_are_left_out() {
    for (stride, padding) in [([2, 2], [1, 1]), ([3, 2], [0, 1]), ([3, 3], [1, 0])] {
        let most = MaxPoolOptions::new([2, 2]).with_stride(stride).with_padding(padding).with_ceil_mode(true);
        same([2, 3, 7, 6], |x| max_pool2d(x, most.clone()));
        let mean = AvgPoolOptions::new([2, 2]).with_stride(stride).with_padding(padding).with_ceil_mode(true);
        same([2, 3, 7, 6], |x| avg_pool2d(x, mean.clone()));
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
    for (queries, keys) in [(32, 32), (32, 48), (5, 9)] {
        for is_causal in [false, true] {
            let options = AttentionModuleOptions { is_causal, ..Default::default() };
            same([2, 4, queries, 8], |query| {
                let key = made([2, 4, keys, 8], &query.device());
                attention(query, key.clone(), key * 0.5 + 1.0, None, None, options)
            });
            same([2, 4, keys, 8], |key| {
                let query = made([2, 4, queries, 8], &key.device());
                attention(query, key.clone(), key * 0.5 + 1.0, None, None, options)
            });
        }
    }
}
