use super::*;

const DTYPES: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::BF16];

/// Batch, heads, queries, keys, width, width of values: less than a tile, whole ones, some and a part; each kernel.
const SIZES: [[usize; 6]; 6] = [
    [2, 3, 5, 7, 4, 3],
    [1, 2, 64, 64, 32, 32],
    [1, 2, 65, 130, 64, 64],
    [2, 1, 130, 65, 33, 64],
    [1, 1, 3, 200, 128, 96],
    [1, 2, 70, 1, 65, 128],
];

fn op(causal: bool) -> Attention {
    Attention { scale: Scalar::from(0.125), causal, dropout: None }
}

/// Queries, keys and values: in order, and with their heads side by side.
fn inputs(dtype: Dtype, [batch, heads, queries, keys, width, value_width]: [usize; 6]) -> Vec<Vec<Data>> {
    let sizes = [[queries, width], [keys, width], [keys, value_width]];
    let plain = |(seed, [rows, width]): (u64, [usize; 2])| {
        Data::new(dtype, Shape::new(&[batch, heads, rows, width]), seed)
    };
    let turned = |(seed, [rows, width]): (u64, [usize; 2])| {
        let there = Data::new(dtype, Shape::new(&[batch, rows, heads, width + 1]), seed);
        there.with_layout(|layout| layout.slice(3, 1, width, 1).permute(&[0, 2, 1, 3]))
    };
    vec![(1..).zip(sizes).map(plain).collect(), (1..).zip(sizes).map(turned).collect()]
}

/// No mask, one for each score, one for each key, and one that hides all.
fn masks([batch, heads, queries, keys, ..]: [usize; 6]) -> Vec<Option<Data>> {
    let shape = Shape::new(&[batch, heads, queries, keys]);
    let of_keys = Data::new(Dtype::Bool, shape.with(1, 1).with(2, 1), 5);
    vec![
        None,
        Some(Data::new(Dtype::Bool, shape, 4)),
        Some(of_keys.with_layout(|layout| layout.expand(shape))),
        Some(Data::from(Dtype::Bool, shape.dims(), &vec![1.0; shape.count()])),
    ]
}

#[test]
fn attention_and_its_gradients() {
    for (dtype, sizes) in DTYPES.into_iter().flat_map(|dtype| SIZES.map(|sizes| (dtype, sizes))) {
        for (mut inputs, causal) in
            inputs(dtype, sizes).into_iter().flat_map(|inputs| [(inputs.clone(), false), (inputs, true)])
        {
            for mask in masks(sizes) {
                inputs.truncate(3);
                inputs.extend(mask);
                check(Op::Attention(op(causal)), &inputs);
                check(Op::AttentionBackward(op(causal)), &with_gradient(&inputs, causal));
            }
        }
    }
}

/// What the backward pass reads.
fn with_gradient(inputs: &[Data], causal: bool) -> Vec<Data> {
    let made = run_on(Op::Attention(op(causal)), inputs, None).expect("the op runs");
    let (dtype, shape) = (inputs[0].view.dtype, *inputs[0].view.shape());
    let [batch, heads, queries] = [shape[0], shape[1], shape[2]];
    let width = inputs[2].view.shape()[3];
    let out = Data::from(dtype, &[batch, queries, heads, width], &made[0]);
    let out = out.with_layout(|layout| layout.permute(&[0, 2, 1, 3]));
    let sums = Data::from(Dtype::F32, &[batch, heads, queries], &made[1]);
    let gradient = Data::new(dtype, Shape::new(&[batch, heads, queries, width]), 8);
    inputs[..3].iter().cloned().chain([out, sums, gradient]).chain(inputs.get(3).cloned()).collect()
}

#[test]
fn attention_to_what_is_not_a_number() {
    let sizes = [1, 1, 20, 70, 8, 8];
    for (value, n) in [(f64::NAN, 0), (f64::NAN, 1), (f64::INFINITY, 1)] {
        let mut inputs = inputs(Dtype::F32, sizes).swap_remove(0);
        inputs[n].storage[9] = value;
        let made = values(Op::Attention(op(false)), &inputs);
        let expected = reference::outputs(Op::Attention(op(false)), &inputs).swap_remove(0);
        let is_lost = |values: &[f64]| values.iter().map(|x| x.is_nan()).collect::<Vec<_>>();
        assert_eq!(is_lost(&made), is_lost(&expected), "{value} in input {n}");
    }
}
