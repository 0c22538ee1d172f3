//! Elementwise ops. Operands are broadcast to each other's shape by zero strides, never by copies.

use super::{cast, convert, create, fail, run};
use crate::op::{Binary, Compare, Dtype, Op, Shape, Unary};
use crate::runtime::Tensor;
use burn_backend::{BoolStore, Scalar};

pub fn unary(kind: Unary, x: Tensor) -> Tensor {
    run(Op::Unary(kind), [x])
}

pub fn binary(kind: Binary, a: Tensor, b: Tensor) -> Tensor {
    run(Op::Binary(kind), broadcast([a, b]))
}

/// `a kind scalar`.
pub fn scalar(kind: Binary, a: Tensor, value: impl Into<Scalar>) -> Tensor {
    let value = convert::scalar(value.into(), a.dtype());
    run(Op::BinaryScalar(kind, value), [a])
}

pub fn compare(kind: Compare, a: Tensor, b: Tensor, store: BoolStore) -> Tensor {
    native(store);
    run(Op::Compare(kind), broadcast([a, b]))
}

pub fn compare_scalar(kind: Compare, a: Tensor, value: Scalar, store: BoolStore) -> Tensor {
    native(store);
    let value = convert::scalar(value, a.dtype());
    run(Op::CompareScalar(kind, value), [a])
}

/// `mask ? value : x`.
pub fn mask_where(x: Tensor, mask: Tensor, value: Tensor) -> Tensor {
    run(Op::Where, broadcast([mask, value, x]))
}

/// `mask ? value : x`.
pub fn mask_fill(x: Tensor, mask: Tensor, value: Scalar) -> Tensor {
    let value = convert::scalar(value, x.dtype());
    run(Op::MaskFill(value), broadcast([x, mask]))
}

/// Limits from below and above. NaN stays, as `Max` and `Min` let it win.
pub fn clamp(x: Tensor, low: Scalar, high: Scalar) -> Tensor {
    scalar(Binary::Max, scalar(Binary::Min, x, high), low)
}

/// Powers with a constant exponent. The exponents that `Pow` would round otherwise take the product itself; a square
/// root does not, as it differs from `pow` for negative zero and infinity.
pub fn power(x: Tensor, exponent: Scalar) -> Tensor {
    let float = x.dtype() == Dtype::F32;
    let value = exponent.elem::<f64>();
    if value == 0.0 {
        let one = convert::scalar(Scalar::Int(1), x.dtype());
        return create::fill(*x.shape(), one, &x.device(), x.dtype());
    } else if value == 1.0 {
        return x;
    } else if value == 2.0 {
        return unary(Unary::Square, x);
    } else if float && value == -1.0 {
        return unary(Unary::Recip, x);
    } else if float && value == -2.0 {
        return unary(Unary::Recip, unary(Unary::Square, x));
    }
    scalar(Binary::Pow, x, exponent)
}

/// Whether bools are equal: the comparison kernels are for numbers.
pub fn bool_equal(a: Tensor, b: Tensor) -> Tensor {
    unary(Unary::Not, binary(Binary::Xor, a, b))
}

/// Whether each bool equals `value`.
pub fn bool_equal_scalar(a: Tensor, value: bool) -> Tensor {
    if value { a } else { unary(Unary::Not, a) }
}

/// The derivative of `x * P(X <= x)`, X standard normal: `P(X <= x) + x * density(x)`. Burn's default approximates it.
pub fn gelu_backward(x: Tensor, gradient: Tensor) -> Tensor {
    use std::f64::consts::{FRAC_1_SQRT_2, PI};
    let erf = unary(Unary::Erf, scalar(Binary::Mul, x.clone(), FRAC_1_SQRT_2));
    let probability = scalar(Binary::Mul, scalar(Binary::Add, erf, 1.0), 0.5);
    let bell = unary(Unary::Exp, scalar(Binary::Mul, unary(Unary::Square, x.clone()), -0.5));
    let density = scalar(Binary::Mul, bell, 1.0 / (2.0 * PI).sqrt());
    let slope = binary(Binary::Add, probability, binary(Binary::Mul, x, density));
    binary(Binary::Mul, gradient, slope)
}

/// The gradient of a sigmoid from its output.
pub fn sigmoid_backward(output: Tensor, gradient: Tensor) -> Tensor {
    let rest = scalar(Binary::ReverseSub, output.clone(), 1.0);
    binary(Binary::Mul, binary(Binary::Mul, output, rest), gradient)
}

/// To another element type of the same or another kind.
pub fn convert_to(x: Tensor, dtype: impl Into<burn_backend::DType>) -> Tensor {
    cast(x, convert::dtype(dtype))
}

/// Refuses bools that are not one byte of zero or one.
pub fn native(store: BoolStore) {
    convert::dtype(store);
}

/// The operands expanded to their common shape.
pub fn broadcast<const N: usize>(tensors: [Tensor; N]) -> [Tensor; N] {
    let shapes = || tensors.iter().map(|tensor| tensor.shape());
    let common = shapes().fold(Shape::new(&[]), |common, shape| {
        common_shape(&common, shape).unwrap_or_else(|| {
            fail(format!("burn-overcommit: shapes do not broadcast: {:?}", shapes().collect::<Vec<_>>()))
        })
    });
    tensors.map(|tensor| {
        if *tensor.shape() == common {
            return tensor;
        }
        let layout = tensor.layout().expand(common);
        tensor.with_layout(layout)
    })
}

/// The shape that both expand to.
pub fn common_shape(a: &Shape, b: &Shape) -> Option<Shape> {
    let (long, short) = if a.rank() < b.rank() { (b, a) } else { (a, b) };
    let lead = long.rank() - short.rank();
    let mut common = *long;
    for (axis, &size) in short.dims().iter().enumerate() {
        match (common[lead + axis], size) {
            (x, y) if x == y || y == 1 => {}
            (1, y) => common = common.with(lead + axis, y),
            _ => return None,
        }
    }
    Some(common)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_broadcast_from_the_right() {
        let shape = Shape::new;
        let table = [
            (shape(&[2, 3]), shape(&[2, 3]), Some(shape(&[2, 3]))),
            (shape(&[2, 1]), shape(&[1, 3]), Some(shape(&[2, 3]))),
            (shape(&[3]), shape(&[2, 1]), Some(shape(&[2, 3]))),
            (shape(&[]), shape(&[4]), Some(shape(&[4]))),
            (shape(&[0, 3]), shape(&[1, 3]), Some(shape(&[0, 3]))),
            (shape(&[2, 3]), shape(&[2, 4]), None),
        ];
        for (a, b, expected) in table {
            assert_eq!(common_shape(&a, &b), expected, "{a:?} {b:?}");
            assert_eq!(common_shape(&b, &a), expected, "{b:?} {a:?}");
        }
    }
}
