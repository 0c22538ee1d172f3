use bytemuck::{Pod, Zeroable};

use super::Placed;
use crate::op::Shape;

/// A view of `[n, c, h, w]` (`Image` in `image.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Image {
    pub data: u64,
    pub strides: [i64; 4],
}

impl Image {
    pub fn of(placed: &Placed) -> Self {
        let strides = placed.view.layout.strides();
        Image { data: placed.first(), strides: std::array::from_fn(|axis| strides[axis] as i64) }
    }
}

/// Two numbers, vertical and horizontal, as kernels take them.
pub fn pair(numbers: [usize; 2]) -> [i32; 2] {
    numbers.map(|number| number as i32)
}

/// Height and width of an image.
pub fn size(shape: &Shape) -> [i32; 2] {
    pair([shape[2], shape[3]])
}
