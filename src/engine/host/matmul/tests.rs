use super::super::testing::{Fixture, assert_near, elements, floats, in_pools};
use super::*;
use crate::engine::Algorithm;
use crate::op::{Op, Shape, View};

fn contiguous(shape: &[usize]) -> Layout {
    Layout::contiguous(Shape::new(shape))
}

fn operands(a: Layout, b: Layout) -> [(Vec<f32>, View); 2] {
    [(a, 1), (b, 2)].map(|(layout, seed)| {
        let dtype = Dtype::F32;
        (floats(400_000, seed), View { dtype, layout })
    })
}

fn wanted(inputs: &[(Vec<f32>, View); 2]) -> Vec<f64> {
    let [a, b] = [0, 1].map(|of| elements(&inputs[of].0, &inputs[of].1.layout));
    let (shape, rank) = (*inputs[0].1.shape(), inputs[0].1.shape().rank());
    let (m, k, n) = (shape[rank - 2], shape[rank - 1], inputs[1].1.shape()[rank - 1]);
    let batches: usize = shape.dims()[..rank - 2].iter().product();
    let mut out = Vec::new();
    for (batch, i) in (0..batches).flat_map(|batch| (0..m).map(move |i| (batch, i))) {
        for j in 0..n {
            let terms = (0..k).map(|p| a[(batch * m + i) * k + p] as f64 * b[(batch * k + p) * n + j] as f64);
            out.push(terms.sum());
        }
    }
    out
}

fn check(a: Layout, b: Layout) {
    let inputs = operands(a, b);
    let got = in_pools(|| {
        // SAFETY: the fixture's memory is as large as its views need.
        Fixture::new(Op::Matmul, Algorithm(0), &inputs, |_| 0).run(|call| unsafe { run(call) })
    });
    assert_near(&got, &wanted(&inputs), 1e-4, &format!("{a:?} x {b:?}"));
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

#[test]
fn integers_wrap() {
    let layout = contiguous(&[2, 2]);
    let call = |dtype| View { dtype, layout };
    let values = vec![i32::MAX, 2, 3, -4];
    let inputs = [(values.clone(), call(Dtype::I32)), (values, call(Dtype::I32).transposed())];
    // SAFETY: the fixture's memory is as large as its views need.
    let got: Vec<i32> =
        Fixture::new(Op::Matmul, Algorithm(0), &inputs, |_| 0).run(|call| unsafe { run(call) });
    let off = i32::MAX.wrapping_mul(3).wrapping_sub(8);
    assert_eq!(got, [1 + 4, off, off, 25]);

    let values = vec![1_i64 << 40, 2, 3, -4];
    let inputs = [(values.clone(), call(Dtype::I64)), (values, call(Dtype::I64))];
    // SAFETY: the fixture's memory is as large as its views need.
    let got: Vec<i64> =
        Fixture::new(Op::Matmul, Algorithm(0), &inputs, |_| 0).run(|call| unsafe { run(call) });
    assert_eq!(got, [6, (2 << 40) - 8, (3 << 40) - 12, 22]);
}

#[test]
fn bools_have_no_product() {
    let view = View::contiguous(Dtype::Bool, Shape::new(&[2, 2]));
    let inputs = [(vec![1_u8; 4], view), (vec![1_u8; 4], view)];
    let fixture = Fixture::new(Op::Matmul, Algorithm(0), &inputs, |_| 0);
    // SAFETY: the fixture's memory is as large as its views need.
    assert!(unsafe { run(&fixture.call) }.is_err());
}

trait Transposed {
    fn transposed(self) -> Self;
}

impl Transposed for View {
    fn transposed(mut self) -> Self {
        self.layout = self.layout.permute(&[1, 0]);
        self
    }
}
