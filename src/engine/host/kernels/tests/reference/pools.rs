//! Pools, window by window.

use super::super::data::{Data, indices};
use super::flat;
use crate::op::{Pool2d, Shape, View};

/// The image's elements under a window of `[n, c, oy, ox]`, by flat position, and the count an average divides by.
fn window(pool: &Pool2d, image: &Shape, index: &[usize]) -> (Vec<usize>, f64) {
    let (mut inside, mut counted) = (Vec::new(), 0u32);
    for i in 0..pool.kernel[0] {
        for j in 0..pool.kernel[1] {
            let place = |d: usize, tap: usize| {
                (index[2 + d] * pool.stride[d] + tap * pool.dilation[d]) as isize - pool.padding[d] as isize
            };
            let at = [place(0, i), place(1, j)];
            let limit = |d: usize, border: usize| at[d] < (image[2 + d] + border) as isize;
            let in_image = (0..2).all(|d| at[d] >= 0 && limit(d, 0));
            if in_image {
                inside.push(flat(image, &[index[0], index[1], at[0] as usize, at[1] as usize]));
            }
            let in_border = (0..2).all(|d| limit(d, pool.padding[d]));
            counted += u32::from(if pool.count_include_pad { in_border } else { in_image });
        }
    }
    (inside, f64::from(counted.max(1)))
}

fn adaptive_window(pooled: &Shape, image: &Shape, index: &[usize]) -> (Vec<usize>, f64) {
    let range = |axis: usize| {
        let (i, from, to) = (index[axis], image[axis], pooled[axis]);
        i * from / to..((i + 1) * from).div_ceil(to)
    };
    let mut inside = Vec::new();
    for y in range(2) {
        inside.extend(range(3).map(|x| flat(image, &[index[0], index[1], y, x])));
    }
    let count = inside.len() as f64;
    (inside, count)
}

pub fn max(inputs: &[Data], pool: &Pool2d, view: &View, with_indices: bool) -> Vec<Vec<f64>> {
    let (x, image) = (inputs[0].elements(), *inputs[0].view.shape());
    let best = |index: Vec<usize>| {
        let (inside, _) = window(pool, &image, &index);
        let better = |best: usize, at: usize| if x[at] > x[best] { at } else { best };
        inside.into_iter().reduce(better)
    };
    // A window may lie outside the image.
    let places: Vec<Option<usize>> = indices(view.shape()).map(best).collect();
    let values = places.iter().map(|at| at.map_or(f64::NEG_INFINITY, |at| x[at])).collect();
    let plane = image[2] * image[3];
    let in_plane = places.iter().map(|at| at.map_or(-1.0, |at| (at % plane) as f64)).collect();
    if with_indices { vec![values, in_plane] } else { vec![values] }
}

pub fn max_backward(inputs: &[Data], view: &View) -> Vec<f64> {
    let (gradient, places, image) = (inputs[0].elements(), inputs[1].elements(), view.shape());
    let mut out = vec![0.0; image.count()];
    for (n, index) in indices(inputs[0].view.shape()).enumerate() {
        if places[n] >= 0.0 {
            out[flat(image, &[index[0], index[1], 0, 0]) + places[n] as usize] += gradient[n];
        }
    }
    out
}

fn forward(inputs: &[Data], view: &View, window: impl Fn(&[usize]) -> (Vec<usize>, f64)) -> Vec<f64> {
    let x = inputs[0].elements();
    let average = |index: Vec<usize>| {
        let (inside, count) = window(&index);
        inside.into_iter().map(|at| x[at]).sum::<f64>() / count
    };
    indices(view.shape()).map(average).collect()
}

fn backward(inputs: &[Data], view: &View, window: impl Fn(&[usize]) -> (Vec<usize>, f64)) -> Vec<f64> {
    let gradient = inputs[0].elements();
    let mut out = vec![0.0; view.shape().count()];
    for (n, index) in indices(inputs[0].view.shape()).enumerate() {
        let (inside, count) = window(&index);
        inside.into_iter().for_each(|at| out[at] += gradient[n] / count);
    }
    out
}

pub fn average(inputs: &[Data], pool: &Pool2d, view: &View) -> Vec<f64> {
    forward(inputs, view, |index| window(pool, inputs[0].view.shape(), index))
}

pub fn average_backward(inputs: &[Data], pool: &Pool2d, view: &View) -> Vec<f64> {
    backward(inputs, view, |index| window(pool, view.shape(), index))
}

pub fn adaptive(inputs: &[Data], view: &View) -> Vec<f64> {
    forward(inputs, view, |index| adaptive_window(view.shape(), inputs[0].view.shape(), index))
}

pub fn adaptive_backward(inputs: &[Data], view: &View) -> Vec<f64> {
    backward(inputs, view, |index| adaptive_window(inputs[0].view.shape(), view.shape(), index))
}
