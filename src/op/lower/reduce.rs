use bytemuck::{Pod, Zeroable};

use super::call::{blocks, dtypes};
use super::space::{Dim, Space};
use super::{Calls, KernelCall, KernelName, Request, create};
use crate::op::{ArgReduce, Dtype, Layout, Reduce, Scalar, View};

/// Arguments of every reduction (`Reduce` in `reduce.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Reduction {
    out: u64,
    x: u64,
    values: u64,
    places: u64,
    chunk: u64,
    size: u64,
    step: i64,
    piece: u64,
    pieces: u64,
    outputs: u64,
    divisor: u64,
    place_bytes: u64,
    space: Space,
}

/// Long rows are cut in pieces of about this many elements where there are few of them, so that threads can share them.
/// Fixed, because it decides the order of additions.
const PIECE: usize = 32 * 1024;
/// With more rows, or tiles of columns, than this there are enough to share.
const FEW: usize = 64;
/// Neighbouring outputs that are reduced side by side: whole runs of cache lines (`COLUMNS` in `rows.cuh`).
pub const COLUMNS: usize = 512;

/// Threads of a block that share rows, and the least size of such rows (`TEAM` in `simt.cuh`).
pub const TEAM: usize = 128;

/// Vectors of columns from which on a large GPU is busy if each is a thread's.
const MANY_COLUMNS: u64 = 16 * 1024;

/// The dimensions of a view but one.
pub fn others(layout: &Layout, axis: usize) -> impl DoubleEndedIterator<Item = Dim> {
    (0..layout.shape().rank()).filter(move |&other| other != axis).map(move |other| Dim::of(&[layout], other))
}

/// How many elements of the axis make a piece: all, unless there are few outputs of long rows.
fn piece(x: &View, axis: usize) -> usize {
    let layout = &x.layout;
    let (size, step) = (layout.shape()[axis], layout.strides()[axis]);
    let space = Space::new(others(layout, axis));
    let columns = match space.strides[0][0].unsigned_abs() < step.unsigned_abs() as u64 {
        true => COLUMNS.min(space.sizes[0] as usize).max(1),
        false => 1,
    };
    let piece = PIECE / columns;
    if size > piece && space.count as usize <= FEW * columns { piece } else { size }
}

fn pieces(x: &View, axis: usize) -> usize {
    x.shape()[axis].div_ceil(piece(x, axis).max(1)).max(1)
}

pub fn scratch_bytes(kind: Reduce, x: &View, axis: usize, out: &View) -> usize {
    partials(x, axis, out) * partial(kind, x.dtype).size_bytes()
}

/// Every piece has a place, an `i64`.
pub fn arg_scratch_bytes(x: &View, axis: usize, out: &View) -> usize {
    partials(x, axis, out) * size_of::<i64>()
}

/// How many results of pieces there are.
fn partials(x: &View, axis: usize, out: &View) -> usize {
    match pieces(x, axis) {
        1 => 0,
        pieces => pieces * out.shape().count(),
    }
}

/// What the results of pieces are kept as: halves are rounded once, at the end, and a sum that is to be divided does not
/// wrap before.
fn partial(kind: Reduce, dtype: Dtype) -> Dtype {
    match dtype {
        Dtype::F16 | Dtype::BF16 => Dtype::F32,
        _ if kind != Reduce::Mean || dtype.is_float() => dtype,
        _ if dtype.range().0 < 0 => Dtype::I64,
        _ => Dtype::U64,
    }
}

/// How pieces are reduced: a mean divides once, at the end.
fn of_pieces(kind: Reduce) -> Reduce {
    if kind == Reduce::Mean { Reduce::Sum } else { kind }
}

/// Bools are reduced as the integers of their size: the largest is set if one is, the smallest if all are.
fn number(dtype: Dtype) -> Dtype {
    match (dtype.is_bool(), dtype.size_bytes()) {
        (true, 1) => Dtype::U8,
        (true, _) => Dtype::U32,
        (false, _) => dtype,
    }
}

fn name(kind: Reduce, from: Dtype, to: Dtype) -> KernelName {
    let (from, to) = (number(from), number(to));
    let name = KernelName::new("reduce", kind.name(), from);
    if from.stored() == to.stored() { name } else { name.with(to) }
}

pub fn reduce(request: &Request, kind: Reduce, axis: usize, calls: &mut Calls) {
    let (dtype, size) = (request.inputs[0].view.dtype, request.inputs[0].view.shape()[axis]);
    // All of no bools are set, and none is.
    if dtype.is_bool() && size == 0 {
        return create::fill(request, Scalar::from(i64::from(kind == Reduce::Min)), calls);
    }
    reduce_by(request, kind, axis, calls, |calls, kind, to, mut rows| {
        push(calls, name(kind, dtype, to), &mut rows, request.per_block(1));
    });
}

/// A reduction whose rows, or pieces of rows, are reduced by another kernel: `push` gets what it is to make of which rows.
pub fn reduce_by(
    request: &Request,
    kind: Reduce,
    axis: usize,
    calls: &mut Calls,
    push_first: impl FnOnce(&mut Calls, Reduce, Dtype, Reduction),
) {
    let (x, out) = (&request.inputs[0], &request.outputs[0]);
    let dtype = x.view.dtype;
    let partial = partial(kind, dtype);
    let mut first = reduction(request, axis, piece(&x.view, axis));
    if first.pieces == 1 {
        return push_first(calls, kind, dtype, first);
    }
    first.out = request.scratch;
    push_first(calls, of_pieces(kind), partial, first);
    let outputs = first.outputs as usize;
    let mut second = Reduction {
        out: out.first(),
        x: request.scratch,
        size: first.pieces,
        step: outputs as i64,
        piece: first.pieces,
        space: Space::new([Dim { size: outputs, steps: [1, 0, 0] }].into_iter()),
        ..first
    };
    push(calls, name(kind, partial, dtype), &mut second, request.per_block(1));
}

pub fn arg_reduce(request: &Request, kind: ArgReduce, axis: usize, calls: &mut Calls) {
    let x = &request.inputs[0];
    let name = |family| KernelName::new(family, kind.name(), x.view.dtype);
    let (values, out) = match request.outputs {
        [values, out] => (values.first(), out),
        outputs => (0, &outputs[0]),
    };
    let place_bytes = out.view.dtype.size_bytes() as u64;
    let per_block = request.per_block(1).apart();
    let mut first = reduction(request, axis, piece(&x.view, axis));
    if first.pieces == 1 {
        let mut only = Reduction { out: out.first(), values, place_bytes, ..first };
        return push(calls, name("reduce"), &mut only, per_block);
    }
    (first.out, first.place_bytes) = (request.scratch, size_of::<i64>() as u64);
    push(calls, name("reduce"), &mut first, per_block);
    let mut second = Reduction {
        out: out.first(),
        values,
        places: request.scratch,
        pieces: first.pieces,
        place_bytes,
        ..reduction(request, axis, first.size as usize)
    };
    push(calls, name("best"), &mut second, per_block);
}

/// A reduction of `axis`, over an outermost dimension of pieces of `piece` elements.
fn reduction(request: &Request, axis: usize, piece: usize) -> Reduction {
    let x = &request.inputs[0];
    let layout = &x.view.layout;
    let (size, step) = (layout.shape()[axis], layout.strides()[axis]);
    let pieces = size.div_ceil(piece.max(1)).max(1);
    let pieces_dim = Dim { size: pieces, steps: [step * piece as isize, 0, 0] };
    Reduction {
        out: request.outputs[0].first(),
        x: x.first(),
        values: 0,
        places: 0,
        chunk: 0,
        size: size as u64,
        step: step as i64,
        piece: piece as u64,
        pieces: pieces as u64,
        outputs: layout.shape().with(axis, 1).count() as u64,
        divisor: size as u64,
        place_bytes: 0,
        space: Space::new([pieces_dim].into_iter().chain(others(layout, axis))),
    }
}

fn push(calls: &mut Calls, name: KernelName, args: &mut Reduction, per_block: PerBlock) {
    let count = args.deal(per_block);
    KernelCall::push(calls, name, count, args.chunk, args);
}

impl Reduction {
    /// Says how many rows make a block; returns how many there are.
    pub(super) fn deal(&mut self, per_block: PerBlock) -> u64 {
        self.chunk = per_block.rows(&self.space, self.step, self.piece, self.outputs);
        self.space.count
    }

    /// Rows that make a block.
    pub(super) fn chunk(&self) -> u64 {
        self.chunk
    }

    /// Whether a GPU's threads share each row (`are_shared` in `rows.cuh`).
    pub(super) fn is_shared(&self) -> bool {
        is_shared(&self.space, self.step, self.piece)
    }

    /// Whether rows lie side by side, so many and such that vectors of so many of them can be a thread's each.
    pub(super) fn are_columns_in_vectors(&self, count: usize) -> bool {
        let Space { count: all, sizes, strides: [strides, ..], .. } = &self.space;
        let width = count as i64;
        let is_whole = [sizes[0], self.outputs].iter().all(|size| size.is_multiple_of(count as u64));
        let begins = strides[1..].iter().all(|stride| stride % width == 0) && self.step % width == 0;
        strides[0] == 1 && self.step.abs() > 1 && is_whole && begins && *all >= count as u64 * MANY_COLUMNS
    }

    /// The dimension along which elements of a row follow each other, if it is one: of sizes from the innermost on.
    pub(super) fn axis_in(&self, sizes: &[u64]) -> Option<usize> {
        let mut step = 1;
        let found = sizes.iter().position(|size| {
            let is_it = step == self.step && *size == self.size;
            step *= *size as i64;
            is_it
        });
        found.filter(|_| self.size > 1)
    }

    /// Gives each block so many rows; returns how many blocks there are.
    pub(super) fn cut(&mut self, rows: u64) -> u32 {
        self.chunk = rows;
        blocks(self.space.count, rows)
    }

    /// Whether neighbours in a shared row follow each other, and every row begins at a multiple of so many elements.
    pub(super) fn is_in_vectors(&self, count: usize) -> bool {
        let begins = self.space.strides[0].iter().all(|stride| stride % count as i64 == 0);
        self.is_shared() && self.step == 1 && begins
    }
}

/// Whether a team's threads share rows: where they are long, and do not lie side by side.
fn is_shared(space: &Space, step: i64, size: u64) -> bool {
    let is_by_column = space.strides[0][0].abs() < step.abs();
    size >= TEAM as u64 && !(is_by_column && space.sizes[0] >= 32)
}

/// How rows are shared out to blocks.
#[derive(Clone, Copy, Debug)]
pub struct PerBlock {
    /// Elements that make a block.
    elements: usize,
    /// Threads of a block.
    threads: usize,
    /// Whether they may share a row.
    is_team: bool,
}

impl Request<'_> {
    /// For rows whose elements cost so many times cheap work.
    pub(super) fn per_block(&self, weight: usize) -> PerBlock {
        PerBlock { elements: self.chunk / weight, threads: self.threads, is_team: true }
    }
}

impl PerBlock {
    /// Where a row is always one thread's.
    fn apart(self) -> Self {
        PerBlock { is_team: false, ..self }
    }

    /// How many rows of `size` elements, `step` apart, make a block. A thread that is alone takes whole tiles of columns where they
    /// lie side by side, `most` of them in a row. Of several, all take one row (`are_shared` in `rows.cuh`), or each its own.
    pub fn rows(self, space: &Space, step: i64, size: u64, most: u64) -> u64 {
        let by_column = space.strides[0][0].abs() < step.abs();
        let is_shared = self.is_team && is_shared(space, step, size);
        let least = match self.threads {
            1 if by_column => most.clamp(1, COLUMNS as u64),
            1 => 1,
            _ if is_shared => 1,
            threads => threads as u64,
        };
        (self.elements as u64 / size.max(1)).max(least)
    }
}

pub fn names(names: &mut Vec<KernelName>) {
    for dtype in dtypes().filter(|dtype| !dtype.is_bool()) {
        for &kind in Reduce::ALL.iter().filter(|kind| kind.supports(dtype)) {
            let partial = partial(kind, dtype);
            names.push(name(kind, dtype, dtype));
            if partial != dtype {
                names.push(name(kind, partial, dtype));
                // The pieces of a mean of halves are those of a sum.
                if kind != Reduce::Mean || dtype.is_integer() {
                    names.push(name(of_pieces(kind), dtype, partial));
                }
            }
        }
        let kernels =
            |family| ArgReduce::ALL.iter().map(move |kind| KernelName::new(family, kind.name(), dtype));
        names.extend(kernels("reduce").chain(kernels("best")));
    }
}
