//! Texts as letters, for networks that read them.

use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};

/// Letters there are: those of ASCII, the last of which stands for all others too.
pub const LETTERS: usize = 128;

/// The letters of a text.
pub fn letters(text: &str) -> Vec<i32> {
    text.bytes().map(|byte| i32::from(byte.min(LETTERS as u8 - 1))).collect()
}

/// Letters on a device, in rows of a length.
pub fn rows<B: Backend>(letters: Vec<i32>, length: usize, device: &B::Device) -> Tensor<B, 2, Int> {
    let count = letters.len() / length;
    Tensor::from_data(TensorData::new(letters, [count, length]), device)
}
