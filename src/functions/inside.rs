//! Pools over images whose windows all start inside the image or the border before it. [`Pool2d`] counts one more where, with
//! `ceil_mode`, a window starts in the border after the image; its outputs are left out here.

use super::arguments::plane;
use super::{module, view};
use crate::op::{Dtype, Pool2d};
use crate::runtime::Tensor;

/// Windows that start inside an image of `size`.
fn windows(pool: &Pool2d, size: [usize; 2]) -> [usize; 2] {
    let all = pool.output_size(size);
    std::array::from_fn(|k| {
        let starts_after = all[k] > 0 && (all[k] - 1) * pool.stride[k] >= size[k] + pool.padding[k];
        all[k] - usize::from(pool.ceil_mode && starts_after)
    })
}

/// The outputs of these windows.
#[track_caller]
fn narrowed(pooled: Tensor, windows: [usize; 2]) -> Tensor {
    (0..2).fold(pooled, |pooled, k| view::narrow(pooled, 2 + k, 0, windows[k]))
}

/// `x` for all windows of the pool, zero for those that were left out.
#[track_caller]
fn widened(x: Tensor, pool: &Pool2d, size: [usize; 2]) -> Tensor {
    let (all, windows) = (pool.output_size(size), plane(x.layout()));
    module::bordered_plane(x, std::array::from_fn(|k| [0, all[k] - windows[k]]))
}

/// The greatest element of each window.
#[track_caller]
pub fn max_pool2d(x: Tensor, pool: Pool2d) -> Tensor {
    let windows = windows(&pool, plane(x.layout()));
    narrowed(module::max_pool2d(x, pool), windows)
}

/// The greatest element of each window, and its row-major place in its image.
#[track_caller]
pub fn max_pool2d_with_indices(x: Tensor, pool: Pool2d, dtype: Dtype) -> [Tensor; 2] {
    let windows = windows(&pool, plane(x.layout()));
    module::max_pool2d_with_indices(x, pool, dtype).map(|pooled| narrowed(pooled, windows))
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn max_pool2d_backward(x: Tensor, gradient: Tensor, indices: Tensor, pool: Pool2d) -> Tensor {
    let size = plane(x.layout());
    let [gradient, indices] = [gradient, indices].map(|of_windows| widened(of_windows, &pool, size));
    module::max_pool2d_backward(x, gradient, indices, pool)
}

/// The mean of each window.
#[track_caller]
pub fn avg_pool2d(x: Tensor, pool: Pool2d) -> Tensor {
    let windows = windows(&pool, plane(x.layout()));
    narrowed(module::avg_pool2d(x, pool), windows)
}

/// Only the shape of `x` is used.
#[track_caller]
pub fn avg_pool2d_backward(x: Tensor, gradient: Tensor, pool: Pool2d) -> Tensor {
    let gradient = widened(gradient, &pool, plane(x.layout()));
    module::avg_pool2d_backward(x, gradient, pool)
}
