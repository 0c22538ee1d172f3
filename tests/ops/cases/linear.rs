//! Products of matrices, attention, sequences of labels, and transforms of signals.

use burn_backend::TensorMetadata;
use burn_backend::ops::AttentionModuleOptions;

use crate::case::Fill::*;
use crate::value::Value;

cases! {
    [float int] matmul(x: own(Any, [4, 5], [256, 256]), y: own(Any, [5, 3], [256, 256]));
    [float int] matmul: batches(x: own(Any, [2, 3, 4, 5], [4, 2, 64, 64]), y: own(Any, [2, 3, 5, 2], [4, 2, 64, 64]));
    [float int] matmul: shared(x: own(Any, [3, 4, 5], [8, 64, 64]), y: own(Any, [1, 5, 2], [1, 64, 64]));
    [float int] matmul: broadcast(x: own(Any, [2, 1, 4, 5]), y: own(Any, [1, 3, 5, 2]));
    [float int] matmul: column(x: own(Any, [7, 9], [1024, 1024]), y: own(Any, [9, 1], [1024, 1]));
    [float int] matmul: row(x: own(Any, [1, 9], [1, 1024]), y: own(Any, [9, 7], [1024, 1024]));
    [float int] matmul: outer(x: own(Any, [7, 1], [1024, 1]), y: own(Any, [1, 9], [1, 1024]));
    [float int] matmul: nothing(x: own(Any, [3, 0]), y: own(Any, [0, 2]));
    [float int] matmul: empty(x: own(Any, [0, 3]), y: own(Any, [3, 2]));
    [float] matmul: odd(x: own(Any, [33, 65], [333, 257]), y: own(Any, [65, 31], [257, 129]));
    [float] cross(x: own(Any, [4, 3], [65536, 3]), y: own(Any, [4, 3], [65536, 3])) => cross(x, y, 1);
    [float] cross: first(x: own(Any, [3, 4]), y: own(Any, [3, 4])) => cross(x, y, 0);

    {float} linear(x: own(Any, [2, 3, 4], [4, 64, 256]), w: own(Any, [4, 5], [256, 256]), b: own(Any, [5], [256])) => linear(x, w, Some(b));
    {float} linear: unbiased(x: own(Any, [3, 4]), w: own(Any, [4, 5])) => linear(x, w, None);
    {float} linear_x_backward(w: own(Any, [4, 5], [256, 256]), grad: own(Any, [2, 3, 5], [4, 64, 256]));
    {float} linear_weight_backward(x: own(Any, [2, 3, 4], [4, 64, 256]), grad: own(Any, [2, 3, 5], [4, 64, 256]));
    {float} linear_bias_backward(grad: own(Any, [2, 3, 5], [4, 64, 256]));

    {float} attention(q: own(Any, [2, 2, 3, 4], [2, 4, 64, 32]), k: own(Any, [2, 2, 5, 4], [2, 4, 64, 32]), v: own(Any, [2, 2, 5, 6], [2, 4, 64, 32])) =>
        attention(q, k, v, None, None, AttentionModuleOptions::default());
    {float} attention: causal(q: own(Any, [1, 2, 4, 3]), k: own(Any, [1, 2, 4, 3]), v: own(Any, [1, 2, 4, 3])) =>
        attention(q, k, v, None, None, AttentionModuleOptions { is_causal: true, ..Default::default() });
    {float} attention: tiled(q: own(Any, [1, 2, 20, 8], [2, 4, 80, 64]), k: own(Any, [1, 2, 70, 8], [2, 4, 130, 64]), v: own(Any, [1, 2, 70, 5], [2, 4, 130, 64])) =>
        attention(q, k, v, None, None, AttentionModuleOptions { is_causal: true, ..Default::default() });
    {float} attention: tiled_masked(q: own(Any, [1, 2, 17, 40]), k: own(Any, [1, 2, 66, 40]), v: own(Any, [1, 2, 66, 33]), m: bool(Any, [1, 2, 17, 66])) =>
        attention(q, k, v, Some(m), None, AttentionModuleOptions { scale: Some(0.2), ..Default::default() });
    {float} attention: tiled_wide(q: own(Any, [1, 1, 65, 100]), k: own(Any, [1, 1, 40, 100]), v: own(Any, [1, 1, 40, 128])) =>
        attention(q, k, v, None, None, AttentionModuleOptions { is_causal: true, ..Default::default() });
    {float} attention: biased(q: own(Any, [1, 2, 3, 4]), k: own(Any, [1, 2, 5, 4]), v: own(Any, [1, 2, 5, 6]), b: own(Any, [1, 2, 3, 5])) =>
        attention(q, k, v, None, Some(b), AttentionModuleOptions { scale: Some(0.3), ..Default::default() });
    {float} attention: masked(q: own(Any, [1, 2, 3, 4]), k: own(Any, [1, 2, 5, 4]), v: own(Any, [1, 2, 5, 6]), m: bool(Any, [1, 2, 3, 5])) =>
        attention(q, k, v, Some(m), None, AttentionModuleOptions::default());
    {float} attention: capped(q: own(Any, [1, 2, 3, 4]), k: own(Any, [1, 2, 5, 4]), v: own(Any, [1, 2, 5, 6])) =>
        attention(q, k, v, None, None, AttentionModuleOptions { softcap: Some(2.0), ..Default::default() });

    {float} layer_norm(x: own(Any, [2, 3, 8], [32, 64, 256]), gamma: own(Any, [8], [256]), beta: own(Any, [8], [256])) =>
        layer_norm(x, gamma, Some(beta), 1e-5);
    {float} layer_norm: unshifted(x: own(Any, [2, 3, 8]), gamma: own(Any, [8])) => layer_norm(x, gamma, None, 1e-5);

    {float} ctc_loss(x: own(Any, [6, 3, 4], [200, 16, 64]), labels: int(Below(4), [3, 3], [16, 40]), more: int(Below(2), [3], [16]), most: int(Below(3), [3], [16])) => {
        let [steps, targets] = [x.shape()[0], labels.shape()[1]].map(|size| size as i64);
        let input_lengths = B::int_add_scalar(more, (steps - 1).into());
        let target_lengths = B::int_add_scalar(most, (targets - 2).into());
        ctc_loss(x, labels, input_lengths, target_lengths, 1)
    };

    {float} rfft(x: own(Any, [3, 8], [256, 1024])) -> many => {
        let (real, imaginary) = rfft(x, 1, None);
        vec![Value::Float(real), Value::Float(imaginary)]
    };
    {float} rfft: first(x: own(Any, [16, 3])) -> many => {
        let (real, imaginary) = rfft(x, 0, None);
        vec![Value::Float(real), Value::Float(imaginary)]
    };
    {float} rfft: padded(x: own(Any, [2, 5])) -> many => {
        let (real, imaginary) = rfft(x, 1, Some(8));
        vec![Value::Float(real), Value::Float(imaginary)]
    };
    {float} irfft(re: own(Any, [3, 5], [256, 513]), im: own(Any, [3, 5], [256, 513])) => irfft(re, im, 1, None);
    {float} irfft: first(re: own(Any, [9, 2]), im: own(Any, [9, 2])) => irfft(re, im, 0, Some(16));
}
