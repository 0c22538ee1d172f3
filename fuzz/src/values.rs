//! Sizes, element types and values, ordinary and extreme.

use arbitrary::{Result, Unstructured};
use burn_overcommit::op::{Dtype, MAX_RANK, Scalar};

/// Sizes at which products overflow, in 32 bits, in 64, or with the bytes of an element.
const EXTREMES: [usize; 9] =
    [1 << 16, (1 << 31) - 1, 1 << 31, 1 << 32, 1 << 40, 1 << 48, 1 << 62, usize::MAX / 2, usize::MAX];

/// Sizes that some kernel treats in its own way.
const USUAL: [usize; 16] = [1, 2, 3, 4, 1, 2, 3, 4, 5, 8, 0, 1, 2, 17, 33, 257];

/// A size, rarely an extreme one.
pub fn size(u: &mut Unstructured) -> Result<usize> {
    Ok(match u.arbitrary::<u8>()? {
        byte @ 248.. => EXTREMES[usize::from(byte - 248)],
        byte => USUAL[usize::from(byte) % USUAL.len()],
    })
}

/// A few of something: none is extreme.
pub fn few(u: &mut Unstructured) -> Result<usize> {
    u.int_in_range(0..=5)
}

/// The sizes of a shape, small but for extremes.
pub fn sizes(u: &mut Unstructured) -> Result<Vec<usize>> {
    let rank = if u.ratio(1, 32)? { u.int_in_range(0..=MAX_RANK)? } else { u.int_in_range(1..=4)? };
    (0..rank).map(|_| size(u)).collect()
}

/// An axis, rarely one that is not there.
pub fn axis(u: &mut Unstructured, rank: usize) -> Result<usize> {
    if u.ratio(1, 32)? { size(u) } else { u.int_in_range(0..=rank.saturating_sub(1)) }
}

/// One of these.
pub fn one<T: Copy>(u: &mut Unstructured, all: &[T]) -> Result<T> {
    u.choose(all).copied()
}

/// A type of floats.
pub fn float(u: &mut Unstructured) -> Result<Dtype> {
    one(u, &Dtype::FLOATS)
}

/// Any element type.
pub fn dtype(u: &mut Unstructured) -> Result<Dtype> {
    one(u, Dtype::ALL)
}

/// A type of indices.
pub fn index(u: &mut Unstructured) -> Result<Dtype> {
    one(u, &Dtype::INDICES)
}

/// A number, perhaps an extreme one.
pub fn scalar(u: &mut Unstructured) -> Result<Scalar> {
    Ok(match u.int_in_range(0..=7)? {
        0 => Scalar::Int(u.arbitrary()?),
        1 => Scalar::Unsigned(u.arbitrary()?),
        2 => Scalar::Float(u.arbitrary()?),
        small => Scalar::from(f64::from(u.int_in_range(-4..=4)?) / if small < 5 { 1.0 } else { 4.0 }),
    })
}

/// The bytes of so many elements: small numbers, with some of the input's bytes among them.
pub fn bytes(u: &mut Unstructured, dtype: Dtype, count: usize) -> Result<Vec<u8>> {
    let width = dtype.size_bytes();
    let (first, modulus) = (u.int_in_range(-1..=2)?, u.int_in_range(1..=9)?);
    let number = |at: usize| first + (at as i64 * 7) % modulus;
    let element = |at: usize| -> Vec<u8> {
        let number = number(at);
        match dtype {
            Dtype::F64 => (number as f64).to_ne_bytes().into(),
            Dtype::F32 => (number as f32).to_ne_bytes().into(),
            // The upper half of a float is a bfloat16, and some number of the other format.
            Dtype::F16 | Dtype::BF16 => (number as f32).to_ne_bytes()[2..].into(),
            Dtype::Bool | Dtype::Bool8 | Dtype::Bool32 => (number & 1).to_ne_bytes()[..width].into(),
            _ => number.to_ne_bytes()[..width].into(),
        }
    };
    let mut bytes: Vec<u8> = (0..count).flat_map(element).collect();
    if !bytes.is_empty() && u.ratio(1, 4)? {
        for _ in 0..u.int_in_range(1..=8)? {
            let at = u.int_in_range(0..=count - 1)? * width;
            u.fill_buffer(&mut bytes[at..at + width])?;
        }
    }
    Ok(bytes)
}
