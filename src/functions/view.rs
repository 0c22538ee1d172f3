//! Shape changes: views where strides can say it, copies where they cannot.

use super::arguments::{Region, Slice};
use super::{create, fail, run};
use crate::op::{Layout, MAX_RANK, Op, Shape};
use crate::runtime::Tensor;

#[track_caller]
fn seen(x: Tensor, change: impl FnOnce(&Layout) -> Layout) -> Tensor {
    let layout = change(x.layout());
    x.with_layout(layout)
}

/// The same elements in row-major order under another shape; copies only what cannot be a view.
#[track_caller]
pub fn reshape(x: Tensor, shape: Shape) -> Tensor {
    if x.shape().count() != shape.count() {
        fail(format!(
            "burn-overcommit: cannot reshape {:?} to {shape:?}: the number of elements differs",
            x.shape()
        ));
    }
    if let Some(layout) = x.layout().reshape(shape) {
        return x.with_layout(layout);
    }
    let dtype = x.dtype();
    seen(run(Op::Copy { dtype }, [x]), |_| Layout::contiguous(shape))
}

/// [`reshape`] to the sizes of a slice.
#[track_caller]
pub fn reshape_to(x: Tensor, sizes: &[usize]) -> Tensor {
    reshape(x, Shape::new(sizes))
}

#[track_caller]
pub fn permute(x: Tensor, axes: &[usize]) -> Tensor {
    seen(x, |layout| layout.permute(axes))
}

#[track_caller]
pub fn swap_dims(x: Tensor, first: usize, second: usize) -> Tensor {
    let other = |axis| match axis {
        axis if axis == first => second,
        axis if axis == second => first,
        axis => axis,
    };
    let axes: Vec<usize> = (0..x.shape().rank()).map(other).collect();
    permute(x, &axes)
}

#[track_caller]
pub fn flip(x: Tensor, axes: &[usize]) -> Tensor {
    seen(x, |layout| axes.iter().fold(*layout, |layout, &axis| layout.flip(axis)))
}

#[track_caller]
pub fn expand(x: Tensor, shape: Shape) -> Tensor {
    seen(x, |layout| layout.expand(shape))
}

/// [`expand`] to the sizes of a slice.
#[track_caller]
pub fn expand_to(x: Tensor, sizes: &[usize]) -> Tensor {
    expand(x, Shape::new(sizes))
}

/// The dimensions sorted by their steps, so that elements follow each other as they lie in memory.
#[track_caller]
pub fn in_memory_order(x: Tensor) -> Tensor {
    let mut axes: Vec<usize> = (0..x.shape().rank()).collect();
    axes.sort_by_key(|&axis| std::cmp::Reverse(x.layout().strides()[axis].unsigned_abs()));
    permute(x, &axes)
}

/// Overlapping windows of `size` along `axis`, as a last dimension.
#[track_caller]
pub fn windows(x: Tensor, axis: usize, size: usize, step: usize) -> Tensor {
    if x.shape().rank() == MAX_RANK {
        fail(format!("burn-overcommit: unfold of {:?} would have {} dimensions", x.shape(), MAX_RANK + 1));
    }
    seen(x, |layout| layout.windows(axis, size, step))
}

/// Indices `start..start + size` of one axis.
#[track_caller]
pub fn narrow(x: Tensor, axis: usize, start: usize, size: usize) -> Tensor {
    seen(x, |layout| layout.slice(axis, start, size, 1))
}

/// One slice for each of the first axes; the others are whole.
#[track_caller]
pub fn slice(x: Tensor, slices: &[Slice]) -> Tensor {
    seen(x, |layout| {
        let regions = regions(layout.shape(), slices);
        (regions.iter().enumerate()).fold(*layout, |layout, (axis, region)| {
            layout.slice(axis, region.start, region.size, region.step)
        })
    })
}

/// `x` with the sliced region replaced by `value`.
#[track_caller]
pub fn slice_assign(x: Tensor, slices: &[Slice], value: Tensor) -> Tensor {
    let regions = regions(x.shape(), slices);
    let sizes: Vec<usize> = regions.iter().map(|region| region.size).collect();
    let value = if value.shape().dims() == sizes { value } else { expand_to(value, &sizes) };
    let (mut starts, mut steps) = ([0; MAX_RANK], [1; MAX_RANK]);
    for (axis, region) in regions.iter().enumerate() {
        (starts[axis], steps[axis]) = (region.start, region.step);
    }
    assign(x, starts, steps, value)
}

#[track_caller]
fn assign(x: Tensor, starts: [usize; MAX_RANK], steps: [isize; MAX_RANK], value: Tensor) -> Tensor {
    if value.shape().count() == 0 {
        return x;
    }
    run(Op::SliceAssign { starts, steps }, [x, value])
}

/// What slices take of a shape; axes without a slice are whole.
fn regions(shape: &Shape, slices: &[Slice]) -> Vec<Region> {
    let sizes = shape.dims().iter().enumerate();
    sizes.map(|(axis, &length)| slices.get(axis).unwrap_or(&Slice::FULL).region(length)).collect()
}

/// The tensors one after another along `axis`: one copy per input into a common destination, which is theirs to
/// consume, so that no input outlives its copy.
#[track_caller]
pub fn cat(tensors: Vec<Tensor>, axis: usize) -> Tensor {
    let Some(first) = tensors.first() else { fail("burn-overcommit: nothing to concatenate") };
    let (whole, rank) = (first.shape(), first.shape().rank());
    let fits = |shape: &Shape| {
        shape.rank() == rank && (0..rank).all(|other| other == axis || shape[other] == whole[other])
    };
    // Elements that no input covers would be what was in that memory before.
    if axis >= rank || !tensors.iter().all(|tensor| fits(tensor.shape())) {
        let shapes: Vec<&Shape> = tensors.iter().map(Tensor::shape).collect();
        fail(format!(
            "burn-overcommit: cat along dimension {axis} of shapes {shapes:?}: expected shapes that have it and differ in it alone"
        ));
    }
    let length = tensors.iter().map(|tensor| tensor.shape()[axis]).sum();
    if first.shape()[axis] == length {
        return tensors.into_iter().next().unwrap_or_else(|| fail("burn-overcommit: nothing to concatenate"));
    }
    let shape = first.shape().with(axis, length);
    let out = create::unset(shape, &first.device(), first.dtype());
    let (mut starts, steps) = ([0; MAX_RANK], [1; MAX_RANK]);
    tensors.into_iter().fold(out, |out, tensor| {
        let size = tensor.shape()[axis];
        let out = assign(out, starts, steps, tensor);
        starts[axis] += size;
        out
    })
}

/// The tensor `times` times along `axis`: a view if the axis has size one, else one copy.
#[track_caller]
pub fn repeat_dim(x: Tensor, axis: usize, times: usize) -> Tensor {
    let (shape, size) = (*x.shape(), x.shape()[axis]);
    let repeated = shape.with(axis, size * times);
    if size == 1 {
        return expand(x, repeated);
    }
    // Three dimensions do for any rank: what is outside, the repeats, and what is repeated.
    let outside: usize = shape.dims()[..axis].iter().product();
    let inside: usize = shape.dims()[axis..].iter().product();
    let x = reshape(x, Shape::new(&[outside, 1, inside]));
    reshape(expand_to(x, &[outside, times, inside]), repeated)
}
