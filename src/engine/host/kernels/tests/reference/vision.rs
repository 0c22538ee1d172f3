//! Images between their pixels, place by place.

use super::super::data::{Data, indices};
use super::flat;
use crate::op::{Deform2d, GridPadding, GridSample, Interpolation, Resize, View};

/// The weights of every input index for every output index along one dimension.
fn weights(resize: Resize, from: usize, to: usize) -> Vec<Vec<f64>> {
    let row = |o: usize| {
        let ratio = from as f64 / to as f64;
        let place = match resize {
            Resize { mode: Interpolation::Nearest, .. } => (o as f64 * ratio).floor(),
            Resize { align_corners: true, .. } => o as f64 * (from as f64 - 1.0) / (to.max(2) as f64 - 1.0),
            _ => (o as f64 + 0.5) * ratio - 0.5,
        };
        let mut row = vec![0.0; from];
        let last = from as isize - 1;
        for i in place.floor() as isize - 3..=place.floor() as isize + 4 {
            let distance = (place - i as f64).abs();
            let weight = match resize.mode {
                Interpolation::Nearest => f64::from(distance == 0.0),
                Interpolation::Bilinear => (1.0 - distance).max(0.0),
                Interpolation::Bicubic => cubic(distance),
                Interpolation::Lanczos if i < 0 || i > last => 0.0,
                Interpolation::Lanczos => lanczos(distance),
            };
            row[i.clamp(0, last) as usize] += weight;
        }
        let total: f64 = row.iter().sum();
        row.iter().map(|weight| weight / total).collect()
    };
    (0..to).map(row).collect()
}

/// Keys' kernel with a = -3/4, in powers of the distance.
fn cubic(t: f64) -> f64 {
    match t {
        t if t < 1.0 => 1.25 * t.powi(3) - 2.25 * t.powi(2) + 1.0,
        t if t < 2.0 => -0.75 * t.powi(3) + 3.75 * t.powi(2) - 6.0 * t + 3.0,
        _ => 0.0,
    }
}

fn lanczos(t: f64) -> f64 {
    let sinc =
        |x: f64| if x == 0.0 { 1.0 } else { (std::f64::consts::PI * x).sin() / (std::f64::consts::PI * x) };
    if t < 3.0 { sinc(t) * sinc(t / 3.0) } else { 0.0 }
}

pub fn interpolate(inputs: &[Data], resize: Resize, view: &View) -> Vec<f64> {
    let (x, from, to) = (inputs[0].elements(), inputs[0].view.shape(), view.shape());
    let [down, across] = [2, 3].map(|axis| weights(resize, from[axis], to[axis]));
    let value = |index: Vec<usize>| {
        let plane = flat(from, &[index[0], index[1], 0, 0]);
        let pixel = |at: usize| {
            let (y, column) = (at / from[3], at % from[3]);
            down[index[2]][y] * across[index[3]][column] * x[plane + at]
        };
        (0..from[2] * from[3]).map(pixel).sum()
    };
    indices(to).map(value).collect()
}

pub fn interpolate_backward(inputs: &[Data], resize: Resize, view: &View) -> Vec<f64> {
    let (gradient, from, to) = (inputs[0].elements(), view.shape(), inputs[0].view.shape());
    let [down, across] = [2, 3].map(|axis| weights(resize, from[axis], to[axis]));
    let mut out = vec![0.0; from.count()];
    for (n, index) in indices(to).enumerate() {
        let plane = flat(from, &[index[0], index[1], 0, 0]);
        for at in 0..from[2] * from[3] {
            out[plane + at] += down[index[2]][at / from[3]] * across[index[3]][at % from[3]] * gradient[n];
        }
    }
    out
}

/// The four pixels around a place by `[row, column]`, and the weight of each with its derivatives along both axes.
fn around(y: f64, x: f64) -> [([isize; 2], [f64; 3]); 4] {
    [[0, 0], [0, 1], [1, 0], [1, 1]].map(|[i, j]| {
        let (row, column) = (y.floor() as isize + i, x.floor() as isize + j);
        let weights = [1.0 - (y - row as f64).abs(), 1.0 - (x - column as f64).abs()];
        let slopes = [2.0 * i as f64 - 1.0, 2.0 * j as f64 - 1.0];
        ([row, column], [weights[0] * weights[1], slopes[0] * weights[1], weights[0] * slopes[1]])
    })
}

/// The flat position of a pixel, if it is in the image.
fn pixel(image: &View, plane: [usize; 2], [row, column]: [isize; 2]) -> Option<usize> {
    let shape = image.shape();
    let inside = (0..shape[2] as isize).contains(&row) && (0..shape[3] as isize).contains(&column);
    inside.then(|| flat(shape, &[plane[0], plane[1], row as usize, column as usize]))
}

pub fn grid_sample(inputs: &[Data], how: GridSample, view: &View) -> Vec<f64> {
    let (x, grid, image) = (inputs[0].elements(), inputs[1].elements(), &inputs[0].view);
    let place = |coordinate: f64, size: usize| {
        let last = size as f64 - 1.0;
        let (low, high) = if how.align_corners { (0.0, last) } else { (-0.5, last + 0.5) };
        let mut place = low + (coordinate + 1.0) / 2.0 * (high - low);
        if how.padding == GridPadding::Reflection {
            while high > low && !(low..=high).contains(&place) {
                place = if place < low { 2.0 * low - place } else { 2.0 * high - place };
            }
        }
        if how.nearest {
            place = place.round();
        }
        if how.padding == GridPadding::Zeros { place } else { place.clamp(0.0, last) }
    };
    let value = |index: Vec<usize>| {
        let point = flat(inputs[1].view.shape(), &[index[0], index[2], index[3], 0]);
        let [row, column] = [(1, 2), (0, 3)].map(|(n, axis)| place(grid[point + n], image.shape()[axis]));
        let values = around(row, column)
            .map(|(at, weights)| pixel(image, [index[0], index[1]], at).map_or(0.0, |at| weights[0] * x[at]));
        values.iter().sum()
    };
    indices(view.shape()).map(value).collect()
}

/// Calls `visit(position in the columns, position of the offset along y, position of the mask, plane, place)` for
/// every element of the column matrix that reads the image.
fn deformed(
    deform: &Deform2d,
    image: &View,
    offset: &Data,
    mut visit: impl FnMut(usize, usize, usize, [usize; 2], [f64; 2]),
) {
    let (places, sizes, shape) = (offset.elements(), image.shape(), offset.view.shape());
    let taps = deform.kernel[0] * deform.kernel[1];
    let pixels = shape[2] * shape[3];
    for index in indices(&crate::op::Shape::new(&[sizes[1], taps, sizes[0], shape[2], shape[3]])) {
        let [channel, tap, n, oy, ox] = index[..] else { unreachable!() };
        let row = channel / (sizes[1] / deform.offset_groups) * taps + tap;
        let at = flat(shape, &[n, 2 * row, oy, ox]);
        let place = |d: usize, o: usize, tap: usize| {
            (o * deform.stride[d] + tap * deform.dilation[d]) as f64 - deform.padding[d] as f64
                + places[at + d * pixels]
        };
        let y = place(0, oy, tap / deform.kernel[1]);
        let x = place(1, ox, tap % deform.kernel[1]);
        if y > -1.0 && y < sizes[2] as f64 && x > -1.0 && x < sizes[3] as f64 {
            let column = ((channel * taps + tap) * sizes[0] + n) * pixels + oy * shape[3] + ox;
            let mask = (n * deform.offset_groups * taps + row) * pixels + oy * shape[3] + ox;
            visit(column, at, mask, [n, channel], [y, x]);
        }
    }
}

/// The values of a mask; ones if there is none.
fn mask(inputs: &[Data], n: usize, offset: &Data) -> Vec<f64> {
    inputs.get(n).map_or_else(|| vec![1.0; offset.view.shape().count() / 2], Data::elements)
}

pub fn deform_columns(inputs: &[Data], deform: &Deform2d, view: &View) -> Vec<f64> {
    let (x, image, mask) = (inputs[0].elements(), inputs[0].view, mask(inputs, 2, &inputs[1]));
    let mut out = vec![0.0; view.shape().count()];
    deformed(deform, &image, &inputs[1], |column, _, factor, plane, [y, column_place]| {
        for (at, weights) in around(y, column_place) {
            out[column] += pixel(&image, plane, at).map_or(0.0, |at| mask[factor] * weights[0] * x[at]);
        }
    });
    out
}

pub fn deform_backward_offset(inputs: &[Data], deform: &Deform2d) -> Vec<Vec<f64>> {
    let (x, image, columns) = (inputs[0].elements(), inputs[0].view, inputs[2].elements());
    let factors = mask(inputs, 3, &inputs[1]);
    let pixels = inputs[1].view.shape().dims()[2..].iter().product::<usize>();
    let mut out = vec![0.0; inputs[1].view.shape().count()];
    let mut out_mask = vec![0.0; factors.len()];
    deformed(deform, &image, &inputs[1], |column, offset, factor, plane, [y, column_place]| {
        for (at, weights) in around(y, column_place) {
            let sent = pixel(&image, plane, at).map_or(0.0, |at| columns[column] * x[at]);
            out_mask[factor] += weights[0] * sent;
            out[offset] += weights[1] * factors[factor] * sent;
            out[offset + pixels] += weights[2] * factors[factor] * sent;
        }
    });
    if inputs.len() > 3 { vec![out, out_mask] } else { vec![out] }
}

pub fn deform_backward_image(inputs: &[Data], deform: &Deform2d, view: &View) -> Vec<f64> {
    let (columns, mask) = (inputs[1].elements(), mask(inputs, 2, &inputs[0]));
    let mut out = vec![0.0; view.shape().count()];
    deformed(deform, view, &inputs[0], |column, _, factor, plane, [y, x]| {
        for (at, weights) in around(y, x) {
            if let Some(at) = pixel(view, plane, at) {
                out[at] += weights[0] * mask[factor] * columns[column];
            }
        }
    });
    out
}
