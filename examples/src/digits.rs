//! The handwritten digits: read, checked, split and batched. The same seed gives the same batches.

use burn::tensor::backend::Backend;
use burn::tensor::{Int, Tensor, TensorData};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

/// Pixels along each side of an image.
pub const SIDE: usize = 8;
/// Digits there are.
pub const CLASSES: usize = 10;

const PIXELS: usize = SIDE * SIDE;
const RECORD_BYTES: usize = PIXELS + 1;
const PIXEL_MAX: u8 = 16;
/// Of so many images one is held out: other images than the network has seen, by the same writers.
pub const FOLDS: usize = 6;

static FILE: &[u8] = include_bytes!("../../data/optdigits.bin");

/// What can be wrong with the file of digits.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum DataError {
    /// The file is not a whole number of records.
    #[error("the digits take {0} bytes, which is not a positive number of {RECORD_BYTES}-byte records")]
    Size(usize),
    /// A pixel is brighter than white.
    #[error("image {image} has a pixel of {pixel}, more than {PIXEL_MAX}")]
    Pixel {
        /// The image's place in the file.
        image: usize,
        /// The pixel.
        pixel: u8,
    },
    /// A label is no digit.
    #[error("image {image} is labelled {label}, which is not a digit")]
    Label {
        /// The image's place in the file.
        image: usize,
        /// The label.
        label: u8,
    },
}

/// One image and the digit it shows.
#[derive(Clone, Copy, Debug)]
pub struct Digit {
    pixels: &'static [u8],
    label: u8,
}

/// Images to learn from, and images to be judged by.
pub struct Digits {
    /// Images to learn from.
    pub train: Vec<Digit>,
    /// Images to be judged by.
    pub held_out: Vec<Digit>,
}

impl Digits {
    /// The digits that ship with the crate.
    pub fn load() -> Result<Self, DataError> {
        Digits::without_fold(FOLDS - 1)
    }

    /// The same with another of the [`FOLDS`] held out.
    pub fn without_fold(fold: usize) -> Result<Self, DataError> {
        let (mut train, mut held_out) = (Vec::new(), Vec::new());
        for (image, digit) in parse(FILE)?.into_iter().enumerate() {
            if image % FOLDS == fold { &mut held_out } else { &mut train }.push(digit);
        }
        Ok(Digits { train, held_out })
    }
}

fn parse(bytes: &'static [u8]) -> Result<Vec<Digit>, DataError> {
    let (records, rest) = bytes.as_chunks::<RECORD_BYTES>();
    if records.is_empty() || !rest.is_empty() {
        return Err(DataError::Size(bytes.len()));
    }
    records.iter().enumerate().map(|(image, record)| digit(image, record)).collect()
}

fn digit(image: usize, record: &'static [u8; RECORD_BYTES]) -> Result<Digit, DataError> {
    let [pixels @ .., label] = record;
    if let Some(&pixel) = pixels.iter().find(|&&pixel| pixel > PIXEL_MAX) {
        return Err(DataError::Pixel { image, pixel });
    }
    if usize::from(*label) >= CLASSES {
        return Err(DataError::Label { image, label: *label });
    }
    Ok(Digit { pixels, label: *label })
}

/// The order of one epoch: shuffled by the seed and the epoch alone, so that a run can be replayed.
pub fn shuffled(digits: &[Digit], seed: u64, epoch: usize) -> Vec<Digit> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(epoch as u64);
    let mut digits = digits.to_vec();
    digits.shuffle(&mut random);
    digits
}

/// Images and labels on a device.
#[derive(Clone, Debug)]
pub struct Batch<B: Backend> {
    /// Of shape `[batch, 1, side, side]`, from 0 to 1.
    pub images: Tensor<B, 4>,
    /// Of shape `[batch]`.
    pub labels: Tensor<B, 1, Int>,
}

impl<B: Backend> Batch<B> {
    /// Uploads digits.
    pub fn new(digits: &[Digit], device: &B::Device) -> Self {
        let pixels = digits.iter().flat_map(|digit| digit.pixels);
        let images = pixels.map(|&pixel| f32::from(pixel) / f32::from(PIXEL_MAX)).collect();
        let labels = digits.iter().map(|digit| i32::from(digit.label)).collect();
        Batch {
            images: Tensor::from_data(
                TensorData::new::<f32, _>(images, [digits.len(), 1, SIDE, SIDE]),
                device,
            ),
            labels: Tensor::from_data(TensorData::new::<i32, _>(labels, [digits.len()]), device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_file_is_whole() {
        let digits = Digits::load().expect("the shipped file is well formed");
        assert_eq!((digits.train.len(), digits.held_out.len()), (1498, 299));
        let zeros = digits.train.iter().chain(&digits.held_out).filter(|digit| digit.label == 0);
        assert_eq!(zeros.count(), 178);
    }

    #[test]
    fn a_damaged_file_is_refused() {
        assert_eq!(parse(&[]).err(), Some(DataError::Size(0)));
        assert_eq!(parse(&[0; RECORD_BYTES + 1]).err(), Some(DataError::Size(RECORD_BYTES + 1)));
        assert_eq!(parse(&[17; RECORD_BYTES]).err(), Some(DataError::Pixel { image: 0, pixel: 17 }));
        assert_eq!(parse(&[10; RECORD_BYTES]).err(), Some(DataError::Label { image: 0, label: 10 }));
    }

    #[test]
    fn an_epoch_is_replayed_by_its_seed() {
        let digits = Digits::load().expect("the shipped file is well formed").train;
        let order = |seed, epoch| -> Vec<_> {
            shuffled(&digits, seed, epoch).iter().map(|digit| digit.pixels.as_ptr()).collect()
        };
        assert_eq!(order(42, 1), order(42, 1));
        assert_ne!(order(42, 1), order(42, 2));
        assert_ne!(order(42, 1), order(43, 1));
    }
}
