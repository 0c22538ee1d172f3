//! Matrix products.

use super::arguments::plane;
use super::{fail, pointwise, reduce, run, view};
use crate::op::{Binary, Op, Reduce, Shape};
use crate::runtime::Tensor;

/// `a[.., m, k] b[.., k, n]`; batch dimensions are broadcast.
#[track_caller]
pub fn matmul(a: Tensor, b: Tensor) -> Tensor {
    product(a, b, None)
}

/// [`matmul`], with a bias added to every row.
#[track_caller]
fn product(a: Tensor, b: Tensor, bias: Option<Tensor>) -> Tensor {
    let ([m, k], [inner, n]) = (plane(a.layout()), plane(b.layout()));
    let lead = pointwise::common_shape(&lead(&a), &lead(&b));
    let Some(lead) = lead.filter(|_| k == inner) else {
        fail(format!("burn-overcommit: matmul of {:?} and {:?} does not fit", a.shape(), b.shape()))
    };
    let bias = bias.map(|bias| view::expand_to(bias, &[n]));
    let multiply = |a, b| run(Op::Matmul, [a, b].into_iter().chain(bias));
    // One matrix on the right serves all batches at once, if the rows on the left are one run.
    let flat = a.layout().reshape(Shape::new(&[a.shape().count() / k.max(1), k]));
    match flat {
        Some(flat) if b.shape().count() == k * n && a.shape().rank() > 2 && k > 0 => {
            let b = view::reshape_to(b, &[k, n]);
            view::reshape(multiply(a.with_layout(flat), b), with_plane(&lead, m, n))
        }
        _ => {
            let a = view::expand(a, with_plane(&lead, m, k));
            let b = view::expand(b, with_plane(&lead, k, n));
            multiply(a, b)
        }
    }
}

#[track_caller]
fn lead(x: &Tensor) -> Shape {
    Shape::new(&x.shape().dims()[..x.shape().rank() - 2])
}

#[track_caller]
fn with_plane(lead: &Shape, rows: usize, columns: usize) -> Shape {
    Shape::new(&[lead.dims(), &[rows, columns]].concat())
}

/// `x[.., i] weight[i, o] + bias[o]`.
#[track_caller]
pub fn linear(x: Tensor, weight: Tensor, bias: Option<Tensor>) -> Tensor {
    product(x, weight, bias)
}

#[track_caller]
pub fn linear_x_backward(weight: Tensor, gradient: Tensor) -> Tensor {
    matmul(gradient, view::swap_dims(weight, 0, 1))
}

/// One product over the rows of all batches.
#[track_caller]
pub fn linear_weight_backward(x: Tensor, gradient: Tensor) -> Tensor {
    matmul(view::swap_dims(rows(x), 0, 1), rows(gradient))
}

#[track_caller]
pub fn linear_bias_backward(gradient: Tensor) -> Tensor {
    let sum = reduce::dim(Reduce::Sum, rows(gradient), 0);
    let width = sum.shape().count();
    view::reshape_to(sum, &[width])
}

/// All but the last dimension as one.
#[track_caller]
fn rows(x: Tensor) -> Tensor {
    let [_, width] = plane(x.layout());
    let count = x.shape().count() / width.max(1);
    view::reshape_to(x, &[count, width])
}

/// The vector product along an axis of size three.
#[track_caller]
pub fn cross(a: Tensor, b: Tensor, axis: usize) -> Tensor {
    let part = |x: &Tensor, index: usize| view::narrow(x.clone(), axis, index % 3, 1);
    let product =
        |first: usize, second: usize| pointwise::binary(Binary::Mul, part(&a, first), part(&b, second));
    let parts = (0..3).map(|k| {
        let (next, last) = (k + 1, k + 2);
        pointwise::binary(Binary::Sub, product(next, last), product(last, next))
    });
    view::cat(parts.collect(), axis)
}
