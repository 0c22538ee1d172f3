use super::super::testing::{Fixture, Float, assert_near, elements, floats, in_pools};
use super::*;
use crate::engine::Algorithm;
use crate::op::{Op, Shape, View};

fn contiguous(shape: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(shape))
}

/// Left, right and perhaps a bias, with values.
type Inputs<T> = Vec<(Vec<T>, View)>;

fn wanted<T: Float>(inputs: &Inputs<T>) -> Vec<f64> {
    let all: Vec<Vec<f64>> = (inputs.iter())
        .map(|(values, view)| elements(values, &view.layout).into_iter().map(Into::into).collect())
        .collect();
    let (shape, rank) = (*inputs[0].1.shape(), inputs[0].1.shape().rank());
    let (m, k, n) = (shape[rank - 2], shape[rank - 1], inputs[1].1.shape()[rank - 1]);
    let batches: usize = shape.dims()[..rank - 2].iter().product();
    let mut out = Vec::new();
    for (batch, i) in (0..batches).flat_map(|batch| (0..m).map(move |i| (batch, i))) {
        for j in 0..n {
            let terms = (0..k).map(|p| all[0][(batch * m + i) * k + p] * all[1][(batch * k + p) * n + j]);
            out.push(terms.sum::<f64>() + all.get(2).map_or(0.0, |bias| bias[j]));
        }
    }
    out
}

fn check_in<T: Float>(a: Layout, b: Layout, bias: Option<Layout>) {
    let inputs: Inputs<T> = [Some(a), Some(b), bias]
        .into_iter()
        .flatten()
        .zip(1..)
        .map(|(layout, seed)| {
            let values = floats(400_000, seed).into_iter().map(Float::from).collect();
            (values, View { dtype: T::DTYPE, layout })
        })
        .collect();
    let got: Vec<T> = in_pools(|| {
        // SAFETY: the fixture's memory is as large as its views need.
        Fixture::new(Op::Matmul, Algorithm(0), &inputs, |_| 0).run(|call| unsafe { run(call) })
    });
    assert_near(&got, &wanted(&inputs), T::TOLERANCE, &format!("{a:?} x {b:?} + {bias:?}"));
}

/// In both types of float, without a bias, with one, and with one number for all columns.
fn check(a: Layout, b: Layout) {
    let n = b.shape()[b.shape().rank() - 1];
    let biases = [contiguous(&[n]).flip(0), contiguous(&[1]).expand(Shape::new(&[n])), contiguous(&[n])];
    check_in::<f32>(a, b, None);
    check_in::<f64>(a, b, None);
    for bias in biases {
        check_in::<f32>(a, b, Some(bias));
    }
    check_in::<f64>(a, b, Some(biases[0]));
}

#[test]
fn shapes_match_loops() {
    for [m, k, n] in
        [[1, 1, 1], [3, 2, 5], [1, 70, 33], [65, 70, 1], [17, 300, 31], [130, 520, 257], [64, 64, 64]]
    {
        check(contiguous(&[m, k]), contiguous(&[k, n]));
        check(contiguous(&[k, m]).permute(&[1, 0]), contiguous(&[n, k]).permute(&[1, 0]));
        check(contiguous(&[m, k]).flip(1), contiguous(&[k, n]).flip(0));
        check(contiguous(&[m, 1]).expand(Shape::new(&[m, k])), contiguous(&[n]).expand(Shape::new(&[k, n])));
        check(contiguous(&[m, k]), contiguous(&[k, 1]).expand(Shape::new(&[k, n])));
        check(contiguous(&[k]).expand(Shape::new(&[m, k])), contiguous(&[k, n]));
    }
}

#[test]
fn batches_match_loops() {
    check(contiguous(&[2, 3, 7, 9]), contiguous(&[2, 3, 9, 5]));
    check(contiguous(&[40, 33, 40]), contiguous(&[40, 40, 33]));
    check(contiguous(&[2, 130, 200]), contiguous(&[2, 200, 130]));
    let shared = contiguous(&[9, 5]).expand(Shape::new(&[6, 9, 5]));
    check(contiguous(&[6, 7, 9]), shared);
    check(contiguous(&[7, 6, 9]).permute(&[1, 0, 2]), shared);
    check(contiguous(&[7, 9]).expand(Shape::new(&[6, 7, 9])), contiguous(&[6, 9, 5]));
    check(contiguous(&[3, 2, 8, 4]).permute(&[1, 0, 3, 2]), contiguous(&[2, 3, 8, 6]));
}

#[test]
fn empty_sums_are_zero() {
    check(contiguous(&[3, 0]), contiguous(&[0, 4]));
    check(contiguous(&[2, 3, 0]), contiguous(&[2, 0, 4]));
    check(contiguous(&[0, 3]), contiguous(&[3, 4]));
    check(contiguous(&[0, 3, 2]), contiguous(&[0, 2, 4]));
}

/// A product of powers of three, far beyond what the type holds, as many times as there are columns.
macro_rules! check_integers {
    ($($type:ty: $dtype:ident,)*) => {$(
        let power = |exponent: usize| (0..exponent).fold(1, |value: $type, _| value.wrapping_mul(3));
        let values: Vec<$type> = (0..60).map(|index| power(5 * index)).collect();
        for (m, k, n) in [(2, 3, 4), (3, 7, 5), (9, 5, 1), (1, 6, 9)] {
            let rights = [contiguous(&[k, n]), contiguous(&[n, k]).permute(&[1, 0]), contiguous(&[k, n]).flip(1)];
            for right in rights {
                let bias = contiguous(&[n]).flip(0);
                let view = |layout| (values.clone(), View { dtype: Dtype::$dtype, layout });
                let inputs = [contiguous(&[m, k]), right, bias].map(view).to_vec();
                let fixture = Fixture::new(Op::Matmul, Algorithm(0), &inputs, |_| 0);
                // SAFETY: the fixture's memory is as large as its views need.
                let got: Vec<$type> = fixture.run(|call| unsafe { run(call) });
                let [a, b, bias] = [0, 1, 2].map(|input: usize| elements(&values, &inputs[input].1.layout));
                for (index, got) in got.into_iter().enumerate() {
                    let (i, j) = (index / n, index % n);
                    let product = |p: usize| a[i * k + p].wrapping_mul(b[p * n + j]);
                    let wanted = (0..k).fold(bias[j], |sum, p| sum.wrapping_add(product(p)));
                    assert_eq!(got, wanted, "{} of {m}x{k}x{n}, row {i}, column {j}", Dtype::$dtype);
                }
            }
        }
    )*};
}

#[test]
fn integers_wrap() {
    check_integers! { i64: I64, i32: I32, i16: I16, i8: I8, u64: U64, u32: U32, u16: U16, u8: U8, }
}
