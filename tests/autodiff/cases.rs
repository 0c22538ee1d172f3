//! Each operation as ours and as Burn's, as a function of flat tensors.

use burn::module::{Param, RunningState};
use burn::nn::{BatchNorm, RmsNorm};
use burn::tensor::{Bool, Int, Tensor, TensorData, TensorPrimitive, activation, module};
use burn_overcommit::autodiff::{self, AttentionModuleOptions, SavesLess};

type Function<B> = fn(Vec<Tensor<B, 1>>) -> Tensor<B, 1>;

pub struct Case<B: SavesLess> {
    pub name: &'static str,
    /// Lengths of the inputs; the first is what multiples are of.
    pub inputs: Vec<usize>,
    pub ours: Function<B>,
    pub burns: Function<B>,
    /// What may be held beside leaves and output, in multiples of the first input: by ours, and by Burn's at least.
    pub held: [f64; 2],
}

/// A batch of rows for the norms; large enough that a page is little.
pub const ROWS: [usize; 3] = [4, 6, 10];
/// Batch, heads, length, width.
pub const HEADS: [usize; 4] = [2, 2, 5, 3];
pub const EPSILON: f64 = 1e-3;

fn rows<B: SavesLess>(x: Tensor<B, 1>) -> Tensor<B, 3> {
    let rows = x.dims()[0] / (ROWS[1] * ROWS[2]);
    x.reshape([rows, ROWS[1], ROWS[2]])
}

fn flat<B: SavesLess, const D: usize>(x: Tensor<B, D>) -> Tensor<B, 1> {
    let count = x.shape().num_elements();
    x.reshape([count])
}

fn heads<B: SavesLess>(x: Tensor<B, 1>) -> Tensor<B, 4> {
    let [_, heads, length, width] = HEADS;
    let batch = x.dims()[0] / (heads * length * width);
    x.reshape([batch, heads, length, width])
}

fn bias<B: SavesLess>(x: Tensor<B, 1>) -> Tensor<B, 4> {
    x.reshape([1, HEADS[1], HEADS[2], HEADS[2]])
}

/// True at some places, never in a whole row.
fn mask<B: SavesLess>(like: &Tensor<B, 4>) -> Tensor<B, 4, Bool> {
    let [batch, heads, length, _] = like.dims();
    let places = (0..length * length).map(|i| i32::from(i % 7 == 3)).collect();
    let places =
        Tensor::<B, 2, Int>::from_data(TensorData::new::<i32, _>(places, [length, length]), &like.device());
    places.equal_elem(1).reshape([1, 1, length, length]).expand([batch, heads, length, length])
}

fn burns_rms_norm<B: SavesLess>(x: Tensor<B, 3>, gamma: Tensor<B, 1>) -> Tensor<B, 3> {
    let gamma = Param::initialized(burn::module::ParamId::new(), gamma);
    RmsNorm { gamma, epsilon: EPSILON }.forward(x)
}

fn burns_layer_norm<B: SavesLess>(
    x: Tensor<B, 3>,
    gamma: Tensor<B, 1>,
    beta: Option<Tensor<B, 1>>,
) -> Tensor<B, 3> {
    let primitive = |x: Tensor<B, 1>| x.into_primitive().tensor();
    let (gamma, beta) = (primitive(gamma), beta.map(primitive));
    let out = B::layer_norm(x.into_primitive().tensor(), gamma, beta, EPSILON);
    Tensor::from_primitive(TensorPrimitive::Float(out))
}

fn burns_batch_norm<B: SavesLess>(x: Tensor<B, 3>, gamma: Tensor<B, 1>, beta: Tensor<B, 1>) -> Tensor<B, 3> {
    let param = |x| Param::initialized(burn::module::ParamId::new(), x);
    let moments = || RunningState::new(Tensor::zeros([x.dims()[1]], &x.device()));
    BatchNorm {
        gamma: param(gamma),
        beta: param(beta),
        running_mean: moments(),
        running_var: moments(),
        momentum: 0.1,
        epsilon: EPSILON,
    }
    .forward(x)
}

fn with_options(scale: f64) -> AttentionModuleOptions {
    AttentionModuleOptions { scale: Some(scale), softcap: Some(1.5), is_causal: true }
}

/// The inputs under these names, in their order.
macro_rules! case {
    ($name:literal, [$($input:ident: $length:expr),*], $ours:expr, $burns:expr, $held:expr) => {
        Case {
            name: $name,
            inputs: vec![$($length),*],
            ours: |inputs| { let [$($input),*] = <[_; _]>::try_from(inputs).unwrap(); flat($ours) },
            burns: |inputs| { let [$($input),*] = <[_; _]>::try_from(inputs).unwrap(); flat($burns) },
            held: $held,
        }
    };
}

/// Every operation, on `times` as many rows or batches.
pub fn cases<B: SavesLess>(times: usize) -> Vec<Case<B>> {
    let x = times * ROWS.iter().product::<usize>();
    let [channels, width] = [ROWS[1], ROWS[2]];
    let [_, head_count, length, _] = HEADS;
    let scores = head_count * length * length;
    let q = times * HEADS.iter().product::<usize>();

    vec![
        case!("softmax", [x: x], autodiff::softmax(rows(x), 2), activation::softmax(rows(x), 2), [0.0, 1.9]),
        case!("softmax of columns", [x: x], autodiff::softmax(rows(x), 1), activation::softmax(rows(x), 1), [0.0, 1.9]),
        case!("log_softmax", [x: x], autodiff::log_softmax(rows(x), 2), activation::log_softmax(rows(x), 2), [0.0, 0.9]),
        case!("layer_norm", [x: x, gamma: width, beta: width],
            autodiff::layer_norm(rows(x), gamma, Some(beta), EPSILON),
            burns_layer_norm(rows(x), gamma, Some(beta)), [1.0, 1.9]),
        case!("layer_norm unshifted", [x: x, gamma: width],
            autodiff::layer_norm(rows(x), gamma, None, EPSILON), burns_layer_norm(rows(x), gamma, None), [1.0, 1.9]),
        case!("rms_norm", [x: x, gamma: width],
            autodiff::rms_norm(rows(x), gamma, EPSILON), burns_rms_norm(rows(x), gamma), [1.0, 1.9]),
        case!("batch_norm", [x: x, gamma: channels, beta: channels],
            autodiff::batch_norm(rows(x), gamma, beta, EPSILON).0,
            burns_batch_norm(rows(x), gamma, beta), [1.0, 1.9]),
        case!("attention", [q: q, k: q, v: q],
            autodiff::attention(heads(q), heads(k), heads(v), None, None, Default::default(), None),
            module::attention(heads(q), heads(k), heads(v), None, None, Default::default()), [3.0, 6.0]),
        case!("attention with a mask", [q: q, k: q, v: q], {
            let (q, options) = (heads(q), AttentionModuleOptions { is_causal: true, ..Default::default() });
            let mask = mask(&q);
            autodiff::attention(q, heads(k), heads(v), Some(mask), None, options, None)
        }, {
            let (q, options) = (heads(q), AttentionModuleOptions { is_causal: true, ..Default::default() });
            let mask = mask(&q);
            module::attention(q, heads(k), heads(v), Some(mask), None, options)
        }, [3.0, 6.0]),
        case!("attention with everything", [q: q, k: q, v: q, b: scores],
            autodiff::attention(heads(q), heads(k), heads(v), None, Some(bias(b)), with_options(0.4), None),
            module::attention(heads(q), heads(k), heads(v), None, Some(bias(b)), with_options(0.4)), [3.0, 6.0]),
        case!("dropout", [x: x], autodiff::dropout(rows(x), 0.3),
            burn::nn::DropoutConfig::new(0.3).init().forward(rows(x)), [0.0, 0.9]),
    ]
}
