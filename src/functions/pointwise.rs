//! Elementwise ops. Operands are broadcast to each other's shape by zero strides, never by copies.

use super::arguments::Number;
use super::{cast, create, fail, run};
use crate::op::{Binary, Compare, Dtype, Op, Shape, Unary};
use crate::runtime::Tensor;

#[track_caller]
pub fn unary(kind: Unary, x: Tensor) -> Tensor {
    run(Op::Unary(kind), [x])
}

#[track_caller]
pub fn binary(kind: Binary, a: Tensor, b: Tensor) -> Tensor {
    run(Op::Binary(kind), broadcast([a, b]))
}

/// `a kind scalar`.
#[track_caller]
pub fn scalar(kind: Binary, a: Tensor, value: impl Into<Number>) -> Tensor {
    let value = value.into().of(a.dtype());
    run(Op::BinaryScalar(kind, value), [a])
}

#[track_caller]
pub fn compare(kind: Compare, a: Tensor, b: Tensor, store: Dtype) -> Tensor {
    cast(run(Op::Compare(kind), broadcast([a, b])), store)
}

/// An integer that the element type cannot hold compares the same with every element.
#[track_caller]
pub fn compare_scalar(kind: Compare, a: Tensor, value: Number, store: Dtype) -> Tensor {
    let value = value.of(a.dtype());
    let (least, greatest) = if a.dtype().is_float() { (i128::MIN, i128::MAX) } else { a.dtype().range() };
    let holds = match kind {
        Compare::Equal => false,
        Compare::NotEqual => true,
        Compare::Greater | Compare::GreaterEqual => value.as_int() < least,
        Compare::Lower | Compare::LowerEqual => value.as_int() > greatest,
    };
    if (least..=greatest).contains(&value.as_int()) {
        return cast(run(Op::CompareScalar(kind, value), [a]), store);
    }
    create::fill(*a.shape(), Number::Bool(holds).of(store), &a.device(), store)
}

/// `mask ? value : x`.
#[track_caller]
pub fn mask_where(x: Tensor, mask: Tensor, value: Tensor) -> Tensor {
    run(Op::Where, broadcast([cast(mask, Dtype::Bool), value, x]))
}

/// `mask ? value : x`.
#[track_caller]
pub fn mask_fill(x: Tensor, mask: Tensor, value: Number) -> Tensor {
    let value = value.of(x.dtype());
    run(Op::MaskFill(value), broadcast([x, cast(mask, Dtype::Bool)]))
}

/// Limits from below and above. NaN stays.
#[track_caller]
pub fn clamp(x: Tensor, low: Number, high: Number) -> Tensor {
    let [low, high] = [low, high].map(|limit| limit.of(x.dtype()));
    run(Op::Clamp(low, high), [x])
}

/// Powers with a constant exponent. Small whole exponents and -1/2 take functions that can be steps of fused programs. The
/// exponent 1/2 does not, as a square root differs from `pow` for negative zero and infinity.
#[track_caller]
pub fn power(x: Tensor, exponent: Number) -> Tensor {
    let float = x.dtype().is_float();
    let value = exponent.as_float();
    if value == 0.0 {
        let one = Number::Int(1).of(x.dtype());
        return create::fill(*x.shape(), one, &x.device(), x.dtype());
    } else if value == 1.0 {
        return x;
    } else if value == 2.0 {
        return unary(Unary::Square, x);
    } else if value == 3.0 {
        return unary(Unary::Cube, x);
    } else if float && value == -1.0 {
        return unary(Unary::Recip, x);
    } else if float && value == -2.0 {
        return unary(Unary::Recip, unary(Unary::Square, x));
    } else if float && value == -0.5 {
        return unary(Unary::InverseSqrt, x);
    }
    scalar(Binary::Pow, x, exponent)
}

/// What division truncated towards zero leaves, of the sign of `a`.
#[track_caller]
pub fn fmod(a: Tensor, b: Tensor) -> Tensor {
    let size = binary(Binary::Remainder, unary(Unary::Abs, a.clone()), unary(Unary::Abs, b));
    binary(Binary::Mul, unary(Unary::Sign, a), size)
}

/// [`fmod`] by a number.
#[track_caller]
pub fn fmod_scalar(a: Tensor, b: Number) -> Tensor {
    let size = scalar(Binary::Remainder, unary(Unary::Abs, a.clone()), b.as_float().abs());
    binary(Binary::Mul, unary(Unary::Sign, a), size)
}

/// Whether each bool equals `value`.
#[track_caller]
pub fn bool_equal_scalar(a: Tensor, value: bool) -> Tensor {
    if value { a } else { unary(Unary::Not, a) }
}

/// The operands expanded to their common shape.
#[track_caller]
pub fn broadcast<const N: usize>(tensors: [Tensor; N]) -> [Tensor; N] {
    if tensors.iter().all(|tensor| tensor.shape() == tensors[0].shape()) {
        return tensors;
    }
    let shapes = || tensors.iter().map(|tensor| tensor.shape());
    let common = shapes().try_fold(Shape::new(&[]), |common, shape| common_shape(&common, shape));
    let Some(common) = common else {
        fail(format!("burn-overcommit: shapes do not broadcast: {:?}", shapes().collect::<Vec<_>>()))
    };
    tensors.map(|tensor| {
        if *tensor.shape() == common {
            return tensor;
        }
        let layout = tensor.layout().expand(common);
        tensor.with_layout(layout)
    })
}

/// The shape that both expand to.
#[track_caller]
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
