//! Views and copies of parts.

use burn_backend::{Shape, Slice, TensorMetadata};

use crate::case::{EACH, Fill::*, ROWS};

/// Every other element of each axis, or all of them backwards.
fn everywhere(rank: usize, step: isize) -> Vec<Slice> {
    vec![Slice::with_step(0, None, step); rank]
}

fn part(start: isize, end: isize, step: isize) -> Slice {
    Slice::with_step(start, Some(end), step)
}

fn reversed(shape: Shape) -> Vec<usize> {
    (0..shape.num_dims()).rev().collect()
}

cases! {
    [float int bool] reshape(x: own(Any, EACH)) => { let count = x.shape().num_elements(); reshape(x, Shape::new([count, 1])) };
    [float int bool] reshape: split(x: own(Any, [4, 6], [1024, 1024])) => { let n = x.shape().num_elements(); reshape(x, Shape::new([2, n / 2])) };
    [float int bool] swap_dims(x: own(Any, [3, 4, 5], [8, 512, 256])) => swap_dims(x, 0, 2);
    [float int bool] transpose(x: own(Any, [3, 4, 5], [4, 512, 512]));
    [float int bool] permute(x: own(Any, EACH)) => { let axes = reversed(x.shape()); permute(x, &axes) };
    [float int bool] flip(x: own(Any, EACH)) => { let axes = reversed(x.shape()); flip(x, &axes) };
    [float int bool] flip: one(x: own(Any, ROWS); axis) => flip(x, &[axis]);
    [float int bool] expand(x: own(Any, [3, 1, 4], [16, 1, 512])) => { let [a, _, c] = x.shape().dims(); expand(x, Shape::new([a, 64, c])) };
    [float int bool] expand: new_axes(x: own(Any, [3, 1])) => expand(x, Shape::new([2, 5, 3, 4]));
    [float int bool] unfold(x: own(Any, [3, 4, 5], [64, 128, 128])) => unfold(x, 2, 3, 1);
    [float int bool] unfold: row(x: own(Any, [9])) => unfold(x, 0, 4, 2);
    [float int bool] unfold: gaps(x: own(Any, [2, 9, 3], [64, 513, 32])) => unfold(x, 1, 3, 4);

    [float int bool] slice(x: own(Any, EACH)) => { let all = everywhere(x.rank(), 1); slice(x, &all) };
    [float int bool] slice: part(x: own(Any, [5, 6], [1024, 1024])) => slice(x, &[part(1, -1, 1), part(2, -2, 1)]);
    [float int bool] slice: steps(x: own(Any, EACH)) => { let all = everywhere(x.rank(), 2); slice(x, &all) };
    [float int bool] slice: backwards(x: own(Any, EACH)) => { let all = everywhere(x.rank(), -1); slice(x, &all) };
    [float int bool] slice: back_steps(x: own(Any, [7, 9], [1024, 1024])) => slice(x, &[part(1, 6, -2), part(0, 9, -3)]);
    [float int bool] slice: fewer_axes(x: own(Any, [5, 6])) => slice(x, &[part(1, 4, 1)]);
    [float int bool] slice: nothing(x: own(Any, [5, 6])) => slice(x, &[part(2, 2, 1)]);
    [float int bool] slice_assign(x: own(Any, [5, 6], [1024, 1024]), y: own(Any, [3, 2], [1022, 1020])) =>
        slice_assign(x, &[part(1, -1, 1), part(2, -2, 1)], y);
    [float int bool] slice_assign: steps(x: own(Any, [6, 7]), y: own(Any, [3, 3])) =>
        slice_assign(x, &[part(0, 6, 2), part(1, 7, 2)], y);
    [float int bool] slice_assign: backwards(x: own(Any, [6, 7]), y: own(Any, [4, 3])) =>
        slice_assign(x, &[part(1, 5, -1), part(0, 7, -3)], y);

    [float int bool] cat(x: own(Any, ROWS), y: own(Any, ROWS), z: own(Any, ROWS); axis) => cat(vec![x, y, z], axis);
    [float int bool] cat: sizes(x: own(Any, [2, 1], [512, 600]), y: own(Any, [2, 3], [512, 424])) => cat(vec![x, y], 1);
    [float int bool] cat: one(x: own(Any, [2, 3])) => cat(vec![x], 1);
    [float int bool] repeat_dim(x: own(Any, ROWS); axis) => repeat_dim(x, axis, 3);
    [float int bool] repeat_dim: once(x: own(Any, [2, 3])) => repeat_dim(x, 1, 1);
}
