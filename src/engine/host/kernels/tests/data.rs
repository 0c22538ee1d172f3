//! The operands of a test: elements, and a view of them.

use half::{bf16, f16};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::op::{Dtype, Layout, Shape, View};

/// A storage's elements and a view of them.
#[derive(Clone, Debug)]
pub struct Data {
    pub view: View,
    pub storage: Vec<f64>,
}

impl Data {
    /// Contiguous, of random small numbers.
    pub fn new(dtype: Dtype, shape: Shape, seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let value = |random: &mut ChaCha8Rng| match dtype {
            // Eighths are exact in every float.
            _ if dtype.is_float() => f64::from(random.random_range(-24..25)) / 8.0,
            _ if dtype.is_bool() => f64::from(random.random_range(0..2)),
            _ => f64::from(random.random_range(if dtype.range().0 < 0 { -4..5 } else { 0..9 })),
        };
        let storage = (0..shape.count()).map(|_| value(&mut random)).collect();
        Data { view: View::contiguous(dtype, shape), storage }
    }

    pub fn from(dtype: Dtype, shape: &[usize], values: &[f64]) -> Self {
        let view = View::contiguous(dtype, Shape::new(shape));
        assert_eq!(view.shape().count(), values.len());
        Data { view, storage: values.to_vec() }
    }

    pub fn with_layout(&self, change: impl Fn(&Layout) -> Layout) -> Self {
        let mut data = self.clone();
        data.view.layout = change(&self.view.layout);
        data
    }

    /// The same shape seen in many ways: contiguous, transposed, every second backward, expanded.
    pub fn views(dtype: Dtype, shape: Shape, seed: u64) -> Vec<Self> {
        let rank = shape.rank();
        let mut views = vec![Data::new(dtype, shape, seed)];
        if rank == 0 {
            return views;
        }
        let axes: Vec<usize> = (0..rank).rev().collect();
        let sizes: Vec<usize> = shape.dims().iter().rev().copied().collect();
        views.push(Data::new(dtype, Shape::new(&sizes), seed).with_layout(|layout| layout.permute(&axes)));
        for axis in [0, rank - 1] {
            let wider = shape.with(axis, shape[axis] * 2 + 1);
            let backward = |layout: &Layout| layout.slice(axis, shape[axis] * 2, shape[axis], -2);
            views.push(Data::new(dtype, wider, seed).with_layout(backward));
            let narrow = Data::new(dtype, shape.with(axis, 1), seed);
            views.push(narrow.with_layout(|layout| layout.expand(shape)));
        }
        views
    }

    /// The elements in the view's order.
    pub fn elements(&self) -> Vec<f64> {
        let layout = &self.view.layout;
        indices(layout.shape())
            .map(|index| {
                let steps = index.iter().zip(layout.strides()).map(|(&i, &step)| i as isize * step);
                self.storage[(layout.offset() as isize + steps.sum::<isize>()) as usize]
            })
            .collect()
    }
}

/// Every index of a shape, in row-major order.
pub fn indices(shape: &Shape) -> impl Iterator<Item = Vec<usize>> + use<> {
    let shape = *shape;
    (0..shape.count()).map(move |mut flat| {
        let mut index = vec![0; shape.rank()];
        for axis in (0..shape.rank()).rev() {
            (index[axis], flat) = (flat % shape[axis], flat / shape[axis]);
        }
        index
    })
}

/// The elements of a type in bytes.
pub fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    let number = |from: &[u8]| {
        let mut word = [0; 8];
        word[..from.len()].copy_from_slice(from);
        let word = u64::from_ne_bytes(word);
        match dtype {
            Dtype::F64 => f64::from_bits(word),
            Dtype::F32 => f64::from(f32::from_bits(word as u32)),
            Dtype::F16 => f16::from_bits(word as u16).to_f64(),
            Dtype::BF16 => bf16::from_bits(word as u16).to_f64(),
            Dtype::I64 => word as i64 as f64,
            Dtype::I32 => f64::from(word as i32),
            Dtype::I16 => f64::from(word as i16),
            Dtype::I8 => f64::from(word as i8),
            _ => word as f64,
        }
    };
    bytes.chunks_exact(dtype.size_bytes()).map(number).collect()
}
