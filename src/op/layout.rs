use std::fmt;
use std::hash::{Hash, Hasher};

/// The most dimensions a tensor can have.
pub const MAX_RANK: usize = 8;

/// The most elements a tensor can have, dimensions of size zero apart: more than any memory holds, and so few that no sum of the
/// bytes of an op's tensors overflows.
pub const MAX_ELEMENTS: usize = 1 << 48;

/// Sizes of up to [`MAX_RANK`] dimensions, of [`MAX_ELEMENTS`] at the most. Unused entries are zero, so that equal shapes are equal
/// values.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    rank: u8,
    dims: [usize; MAX_RANK],
}

// By hand, because the unused entries need not be looked at.
impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dims().hash(state);
    }
}

impl Shape {
    /// A shape from its sizes, outermost first.
    ///
    /// # Panics
    /// If there are more than [`MAX_RANK`] sizes, or more elements than [`MAX_ELEMENTS`].
    #[track_caller]
    pub fn new(sizes: &[usize]) -> Self {
        match Shape::try_new(sizes) {
            Some(shape) => shape,
            None => too_large(sizes),
        }
    }

    /// A shape from its sizes, unless it has too many dimensions or elements.
    ///
    /// ```
    /// use burn_overcommit::op::Shape;
    ///
    /// assert_eq!(Shape::try_new(&[2, 3]).unwrap().count(), 6);
    /// assert!(Shape::try_new(&[1 << 62, 4]).is_none());
    /// ```
    pub fn try_new(sizes: &[usize]) -> Option<Self> {
        let mut dims = [0; MAX_RANK];
        dims.get_mut(..sizes.len())?.copy_from_slice(sizes);
        Shape { rank: sizes.len() as u8, dims }.checked()
    }

    /// The shape, if it has no more elements than a tensor can have.
    fn checked(self) -> Option<Self> {
        // As if no dimension were empty, so that products of some of them do not overflow either.
        let elements =
            self.dims().iter().try_fold(1, |count: usize, &size| count.checked_mul(size.max(1)))?;
        (elements <= MAX_ELEMENTS).then_some(self)
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The sizes, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank()]
    }

    /// Number of elements: 1 for rank 0.
    pub fn count(&self) -> usize {
        self.dims().iter().product()
    }

    /// The same shape with one size replaced.
    ///
    /// # Panics
    /// If there is no such axis, or there would be more elements than [`MAX_ELEMENTS`].
    #[track_caller]
    pub fn with(self, axis: usize, size: usize) -> Self {
        match self.try_with(axis, size) {
            Some(shape) => shape,
            None => too_large(&[&self.dims()[..axis], &[size], &self.dims()[axis + 1..]].concat()),
        }
    }

    /// The same shape with one size replaced, unless it would have too many elements.
    pub(super) fn try_with(mut self, axis: usize, size: usize) -> Option<Self> {
        self.dims[..self.rank as usize][axis] = size;
        self.checked()
    }
}

#[cold]
#[track_caller]
fn too_large(sizes: &[usize]) -> ! {
    panic!(
        "burn-overcommit: a tensor of shape {sizes:?} was asked for; the most are {MAX_RANK} dimensions and {MAX_ELEMENTS} elements"
    )
}

impl Shape {
    #[track_caller]
    fn size_mut(&mut self, axis: usize) -> &mut usize {
        if axis >= self.rank() {
            no_axis(self, axis);
        }
        &mut self.dims[axis]
    }
}

#[cold]
#[track_caller]
fn no_axis(shape: &Shape, axis: usize) -> ! {
    panic!("burn-overcommit: dimension {axis} was asked for of the shape {shape:?}, counted from 0")
}

impl std::ops::Index<usize> for Shape {
    type Output = usize;
    #[track_caller]
    fn index(&self, axis: usize) -> &usize {
        self.dims().get(axis).unwrap_or_else(|| no_axis(self, axis))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dims().fmt(f)
    }
}

/// How a tensor's elements lie in its storage: element `i` is at `offset + sum(i[k] * strides[k])`, in elements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    shape: Shape,
    strides: [isize; MAX_RANK],
    offset: usize,
}

// As for shapes.
impl Hash for Layout {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.shape.hash(state);
        self.strides().hash(state);
        self.offset.hash(state);
    }
}

impl Layout {
    /// Row-major from the storage's first element.
    pub fn contiguous(shape: Shape) -> Self {
        let mut strides = [0; MAX_RANK];
        let mut step = 1;
        for axis in (0..shape.rank()).rev() {
            strides[axis] = step as isize;
            step *= shape[axis];
        }
        Layout { shape, strides, offset: 0 }
    }

    /// The shape that indices run over.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Steps in elements, one per dimension; zero where a dimension is expanded, negative where it is flipped.
    pub fn strides(&self) -> &[isize] {
        &self.strides[..self.shape.rank()]
    }

    /// Elements before the one at index zero.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Whether the elements are row-major without gaps (from any offset). Dimensions of size one do not count.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for axis in (0..self.shape.rank()).rev() {
            if self.shape[axis] == 0 {
                return true;
            }
            if self.shape[axis] != 1 && self.strides[axis] != step {
                return false;
            }
            step *= self.shape[axis] as isize;
        }
        true
    }

    /// The same elements under another shape of equal count, without a copy; `None` where that needs one.
    pub fn reshape(&self, shape: Shape) -> Option<Self> {
        debug_assert_eq!(self.shape.count(), shape.count());
        if self.is_contiguous() {
            return Some(Layout { offset: self.offset, ..Layout::contiguous(shape) });
        }
        // Match runs of old dimensions that step evenly with runs of new ones of the same count.
        let old: Vec<(usize, isize)> = (self.shape.dims().iter().copied())
            .zip(self.strides().iter().copied())
            .filter(|&(size, _)| size != 1)
            .collect();
        let mut out = Layout { offset: self.offset, ..Layout::contiguous(shape) };
        let (mut from, mut to) = (0, 0);
        while from < old.len() && to < shape.rank() {
            let (mut count_old, mut count_new) = (old[from].0, shape[to]);
            let (first_old, first_new) = (from, to);
            while count_old != count_new {
                if count_old < count_new {
                    from += 1;
                    count_old *= old.get(from)?.0;
                } else {
                    to += 1;
                    if to == shape.rank() {
                        return None;
                    }
                    count_new *= shape[to];
                }
            }
            let even =
                (first_old..from).all(|k| old[k].1 == old[k + 1].1.wrapping_mul(old[k + 1].0 as isize));
            if !even {
                return None;
            }
            let mut step = old[from].1;
            for axis in (first_new..=to).rev() {
                out.strides[axis] = step;
                step = step.wrapping_mul(shape[axis] as isize);
            }
            from += 1;
            to += 1;
        }
        Some(out)
    }

    /// Dimension `k` of the result is dimension `axes[k]` of this.
    ///
    /// # Panics
    /// If there is no such dimension; if axes are named several times, and there would be more elements than [`MAX_ELEMENTS`].
    #[track_caller]
    pub fn permute(&self, axes: &[usize]) -> Self {
        let mut out = *self;
        for (to, &from) in axes.iter().enumerate() {
            out.shape.dims[to] = self.shape[from];
            out.strides[to] = self.strides[from];
        }
        out.of_a_tensor()
    }

    /// The layout, whose shape is one that a tensor can have.
    #[track_caller]
    fn of_a_tensor(self) -> Self {
        if self.shape.checked().is_none() {
            too_large(self.shape.dims());
        }
        self
    }

    /// Broadcast to `shape`: new leading dimensions and dimensions of size one are repeated by a zero stride.
    ///
    /// # Panics
    /// If a size neither matches nor is one.
    pub fn expand(&self, shape: Shape) -> Self {
        let lead = (shape.rank().checked_sub(self.shape.rank())).unwrap_or_else(|| {
            panic!("cannot expand {:?} to {shape:?}: it has fewer dimensions", self.shape)
        });
        let mut out = Layout { shape, strides: [0; MAX_RANK], offset: self.offset };
        for (axis, &size) in self.shape.dims().iter().enumerate() {
            let wanted = shape[lead + axis];
            if size == wanted {
                out.strides[lead + axis] = self.strides[axis];
            } else {
                assert!(
                    size == 1,
                    "cannot expand {:?} to {shape:?}: dimension {axis} is neither 1 nor equal",
                    self.shape
                );
            }
        }
        out
    }

    /// Along `axis`: `size` elements from index `start`, `step` apart (negative steps walk backward). Where they are beyond the
    /// storage, no tensor has this layout.
    ///
    /// # Panics
    /// If there is no such dimension, or there would be more elements than [`MAX_ELEMENTS`].
    #[track_caller]
    pub fn slice(&self, axis: usize, start: usize, size: usize, step: isize) -> Self {
        let mut out = *self;
        *out.shape.size_mut(axis) = size;
        out.strides[axis] = self.strides[axis].wrapping_mul(step);
        if size > 0 {
            out.offset = self.offset.wrapping_add_signed((start as isize).wrapping_mul(self.strides[axis]));
        }
        out.of_a_tensor()
    }

    /// Overlapping windows of `size` elements along `axis`, their first elements `step` apart: the axis counts the
    /// windows that fit, and a new last dimension runs inside one.
    ///
    /// # Panics
    /// If `step` is zero, or there would be more than [`MAX_RANK`] dimensions or [`MAX_ELEMENTS`] elements.
    #[track_caller]
    pub fn windows(&self, axis: usize, size: usize, step: usize) -> Self {
        let room = self.shape[axis].checked_sub(size);
        let mut out = *self;
        out.shape.rank += 1;
        out.shape.dims[self.shape.rank()] = size;
        out.strides[self.shape.rank()] = self.strides[axis];
        out.shape.dims[axis] = room.map_or(0, |room| room / step + 1);
        out.strides[axis] = self.strides[axis].wrapping_mul(step as isize);
        out.of_a_tensor()
    }

    /// Whether all elements are among the first `elements` of a storage.
    pub(crate) fn lies_within(&self, elements: usize) -> bool {
        let (Some(shape), Ok(offset)) = (self.shape.checked(), isize::try_from(self.offset)) else {
            return false;
        };
        let reach = |(&size, &stride): (&usize, &isize)| stride.checked_mul(size as isize - 1);
        let add = |[first, last]: [isize; 2], reach: Option<isize>| {
            let reach = reach?;
            Some([first.checked_add(reach.min(0))?, last.checked_add(reach.max(0))?])
        };
        let ends = shape.dims().iter().zip(self.strides()).map(reach).try_fold([offset; 2], add);
        shape.count() == 0 || ends.is_some_and(|[first, last]| first >= 0 && (last as usize) < elements)
    }

    /// The axis in reverse order.
    ///
    /// # Panics
    /// If there is no such dimension.
    #[track_caller]
    pub fn flip(&self, axis: usize) -> Self {
        let size = self.shape[axis];
        self.slice(axis, size.saturating_sub(1), size, -1)
    }
}

impl fmt::Debug for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.shape)?;
        if !self.is_contiguous() {
            write!(f, " strides {:?}", self.strides())?;
        }
        if self.offset != 0 {
            write!(f, " offset {}", self.offset)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dimension_that_is_not_there_is_named() {
        let layout = Layout::contiguous(Shape::new(&[2, 3]));
        let of_all: [fn(&Layout); 4] = [
            |layout| _ = layout.flip(2),
            |layout| _ = layout.slice(2, 0, 1, 1),
            |layout| _ = layout.windows(2, 1, 1),
            |layout| _ = layout.permute(&[0, 2]),
        ];
        for refused in of_all {
            let panic = std::panic::catch_unwind(|| refused(&layout)).expect_err("it is refused");
            let text = panic.downcast_ref::<String>().expect("our panics carry a String");
            assert!(text.starts_with("burn-overcommit: dimension 2 was asked for"), "{text}");
        }
    }

    fn elements(layout: &Layout) -> Vec<isize> {
        let mut all = vec![layout.offset() as isize];
        for (&size, &stride) in layout.shape().dims().iter().zip(layout.strides()) {
            all = (all.iter())
                .flat_map(|base| (0..size as isize).map(move |index| base + index * stride))
                .collect();
        }
        all
    }

    #[test]
    fn windows_overlap_and_leave_out_what_does_not_fit() {
        let row = Layout::contiguous(Shape::new(&[2, 5]));
        let windows = row.windows(1, 3, 2);
        assert_eq!(windows.shape().dims(), [2, 2, 3]);
        assert_eq!(elements(&windows), [0, 1, 2, 2, 3, 4, 5, 6, 7, 7, 8, 9]);
        assert_eq!(elements(&row.windows(0, 2, 1)), [0, 5, 1, 6, 2, 7, 3, 8, 4, 9]);
        assert_eq!(row.windows(1, 6, 1).shape().dims(), [2, 0, 6]);
    }
}
