//! Noisy images with a circle and a square in each, and what each pixel is of. The same seed gives the same images.

use burn::tensor::backend::Backend;
use burn::tensor::{ElementConversion, Int, Tensor, TensorData};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Pixels along each side of an image.
pub const SIDE: usize = 32;
/// What a pixel can be of.
pub const CLASSES: [&str; 3] = ["neither", "circle", "square"];

const PIXELS: usize = SIDE * SIDE;

/// Images and the classes of their pixels on a device.
#[derive(Clone)]
pub struct Shapes<B: Backend> {
    /// Of shape `[batch, 1, side, side]`: squares are brighter than circles, circles than the rest, by half of the noise.
    pub images: Tensor<B, 4>,
    /// Of shape `[batch * side * side]`: places in [`CLASSES`].
    pub classes: Tensor<B, 1, Int>,
}

impl<B: Backend> Shapes<B> {
    /// Draws so many images and uploads them.
    pub fn draw(batch: usize, random: &mut ChaCha8Rng, device: &B::Device) -> Self {
        let classes: Vec<i32> = (0..batch).flat_map(|_| draw_classes(random)).collect();
        let noisy = |&class: &i32| random.random_range(0.0..1.0f32) + class as f32 / 2.0;
        let images = TensorData::new(classes.iter().map(noisy).collect(), [batch, 1, SIDE, SIDE]);
        Shapes {
            images: Tensor::from_data(images, device),
            classes: Tensor::from_data(TensorData::new(classes, [batch * PIXELS]), device),
        }
    }

    /// For each class, the pixels that are of it and named so, as a part of those that are either. Scores are `[pixels, classes]`.
    pub fn intersection_over_union(&self, scores: Tensor<B, 2>) -> [f64; CLASSES.len()] {
        let named = scores.argmax(1).flatten::<1>(0, 1);
        std::array::from_fn(|class| {
            let [named, labelled] =
                [&named, &self.classes].map(|pixels| pixels.clone().equal_elem(class as i32));
            let both = named.clone().bool_and(labelled.clone());
            let [both, either] =
                [both, named.bool_or(labelled)].map(|pixels| pixels.int().sum().into_scalar());
            both.elem::<f64>() / either.elem::<f64>()
        })
    }
}

/// The class of each pixel of an image: a circle, and a square on top of it or elsewhere.
fn draw_classes(random: &mut ChaCha8Rng) -> [i32; PIXELS] {
    let mut classes = [0; PIXELS];
    for (class, &name) in CLASSES.iter().enumerate().skip(1) {
        let reach = random.random_range(3.0..8.0f32);
        let [middle_x, middle_y] = [0, 1].map(|_| random.random_range(reach..SIDE as f32 - reach));
        for (at, pixel) in classes.iter_mut().enumerate() {
            let [x, y] = [(at % SIDE) as f32 - middle_x, (at / SIDE) as f32 - middle_y].map(f32::abs);
            let distance = if name == "circle" { x.hypot(y) } else { x.max(y) };
            if distance < reach {
                *pixel = class as i32;
            }
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use burn::backend::Flex;
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn scores_that_name_each_pixel_overlap_wholly() {
        let draw = || Shapes::<Flex>::draw(4, &mut ChaCha8Rng::seed_from_u64(1), &Default::default());
        let shapes = draw();
        assert_eq!(shapes.images.to_data(), draw().images.to_data());
        let right: Tensor<Flex, 2> = shapes.classes.clone().one_hot(CLASSES.len()).float();
        assert_eq!(shapes.intersection_over_union(right.clone()), [1.0; 3]);
        let [neither, circle, square] = shapes.intersection_over_union(right.zeros_like());
        assert!(neither > 0.5 && neither < 1.0);
        assert_eq!([circle, square], [0.0; 2]);
    }
}
