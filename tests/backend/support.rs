//! What the backend's tests share: answers of two backends, and numbers to ask with.

// Each test file uses a part.
#![allow(dead_code, unused_macros)]

use burn::backend::Flex;
use burn::tensor::backend::Backend;
use burn::tensor::{BasicOps, Bool, Int, Tensor, TensorData};
use burn_overcommit::Overcommit;

pub type Ours = Overcommit<f32, i32>;
pub type Reference = Flex<f32, i32>;

/// Adds each expression's value under its own text.
macro_rules! answers {
    ($out:expr; $($value:expr;)*) => { $($out.add(stringify!($value), $value);)* };
}

/// One test: the same generic function on both backends.
macro_rules! compare {
    ($($name:ident, $tolerance:expr;)*) => {
        mod ops {
            use super::*;
            $(#[test]
            fn $name() {
                let (mut ours, mut reference) = (Answers::default(), Answers::default());
                super::$name::<Ours>(&OvercommitDevice::Host(0), &mut ours);
                super::$name::<Reference>(&Default::default(), &mut reference);
                assert_same(ours, reference, $tolerance);
            })*
        }
    };
}

/// What a backend answered, by expression.
#[derive(Default)]
pub struct Answers(pub Vec<(&'static str, Vec<usize>, Vec<f64>)>);

impl Answers {
    pub fn add<B: Backend, const D: usize, K: BasicOps<B>>(
        &mut self,
        name: &'static str,
        tensor: Tensor<B, D, K>,
    ) {
        let data = tensor.into_data();
        let shape = data.shape.to_vec();
        self.0.push((name, shape, data.iter::<f64>().collect()));
    }
}

#[track_caller]
pub fn assert_same(ours: Answers, reference: Answers, tolerance: f64) {
    assert_eq!(ours.0.len(), reference.0.len());
    let mut wrong = Vec::new();
    for ((name, shape, ours), (_, expected_shape, expected)) in ours.0.iter().zip(&reference.0) {
        let close = |(a, b): (&f64, &f64)| {
            a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + b.abs())
        };
        if shape != expected_shape || !ours.iter().zip(expected).all(close) {
            wrong.push(format!("{name}\n  ours {shape:?} {ours:?}\n  not  {expected_shape:?} {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), ours.0.len(), wrong.join("\n"));
}

/// Numbers in -1..1 that look random and are the same everywhere.
pub fn floats<B: Backend, const D: usize>(sizes: [usize; D], device: &B::Device) -> Tensor<B, D> {
    let count: usize = sizes.iter().product();
    let value = |i: usize| ((i * 7919 + 104_729) % 1009) as f32 / 504.5 - 1.0;
    Tensor::from_data(TensorData::new((0..count).map(value).collect(), sizes), device)
}

pub fn ints<B: Backend, const D: usize>(
    sizes: [usize; D],
    range: i32,
    device: &B::Device,
) -> Tensor<B, D, Int> {
    let count: usize = sizes.iter().product();
    let value = |i: usize| (i as i32 * 7919 + 13) % range;
    Tensor::from_data(TensorData::new((0..count).map(value).collect(), sizes), device)
}

pub fn bits<B: Backend, const D: usize>(sizes: [usize; D], device: &B::Device) -> Tensor<B, D, Bool> {
    ints(sizes, 5, device).greater_elem(2)
}
