use bytemuck::{Pod, Zeroable};

use super::image::{Image, size};
use super::{Calls, KernelCall, KernelName, Request};
use crate::op::{Dtype, Interpolation, Resize, View};

/// Arguments of the kernels that fill the tables of weights (`Tables` in `interpolate.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Tables {
    weights: [u64; 2],
    indices: [u64; 2],
    input: [i32; 2],
    made: [i32; 2],
    mode: u64,
    align_corners: u64,
    taps: u64,
    count: u64,
    chunk: u64,
}

/// Arguments of the kernels that use them (`Interpolate` in `interpolate.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Interpolate {
    out: u64,
    x: Image,
    chunk: u64,
    channels: u64,
    count: u64,
    tables: Tables,
}

const TABLES: &str = "tables";
const FORWARD: &str = "forward";
const BACKWARD: &str = "backward";

/// Entries of a table that a block fills: each may take a dozen sines.
const TABLE_CHUNK: u64 = 256;
/// Bytes of an index in a table.
const INDEX_BYTES: usize = 4;

pub fn forward(request: &Request, resize: Resize, calls: &mut Calls) {
    let (read, made) = (request.inputs[0].view.shape(), request.outputs[0].view.shape());
    push(request, resize, [size(read), size(made)], FORWARD, calls);
}

pub fn backward(request: &Request, resize: Resize, calls: &mut Calls) {
    let (read, made) = (request.inputs[0].view.shape(), request.outputs[0].view.shape());
    push(request, resize, [size(made), size(read)], BACKWARD, calls);
}

/// `input` and `made` are sizes of the forward.
fn push(
    request: &Request,
    resize: Resize,
    [input, made]: [[i32; 2]; 2],
    kind: &'static str,
    calls: &mut Calls,
) {
    let (x, out) = (&request.inputs[0], &request.outputs[0]);
    if out.view.shape().count() == 0 {
        return;
    }
    let mut tables = tables(request, resize, [input, made]);
    let weights = weight_dtype(&x.view);
    KernelCall::push(
        calls,
        KernelName::new("interpolate", TABLES, weights),
        tables.count,
        TABLE_CHUNK,
        &tables,
    );
    tables.count = 0;
    tables.chunk = 0;
    let shape = out.view.shape();
    let (rows, columns) = (shape.count() / shape[3], shape[3]);
    // A row is a weighted sum of rows and another of columns; backward, of all that were made of it.
    let taps = resize.mode.taps() * x.view.shape().count().div_ceil(shape.count());
    let chunk = (request.chunk / (2 * taps * columns)).max(1) as u64;
    let args = Interpolate {
        out: out.first(),
        x: Image::of(x),
        chunk,
        channels: shape[1] as u64,
        count: rows as u64,
        tables,
    };
    let name = KernelName::new("interpolate", kind, x.view.dtype);
    KernelCall::push(calls, name, args.count, chunk, &args);
}

/// Weights come first in the scratch, so that they are aligned.
fn tables(request: &Request, resize: Resize, [input, made]: [[i32; 2]; 2]) -> Tables {
    let taps = resize.mode.taps();
    let entries = made.map(|size| (taps * size as usize) as u64);
    let bytes = weight_dtype(&request.inputs[0].view).size_bytes() as u64;
    let weights = [request.scratch, request.scratch + entries[0] * bytes];
    let indices = weights[1] + entries[1] * bytes;
    Tables {
        weights,
        indices: [indices, indices + entries[0] * INDEX_BYTES as u64],
        input,
        made,
        mode: resize.mode as u64,
        align_corners: u64::from(resize.align_corners),
        taps: taps as u64,
        count: made[0] as u64 + made[1] as u64,
        chunk: TABLE_CHUNK,
    }
}

/// What a kernel computes with.
fn weight_dtype(view: &View) -> Dtype {
    if view.dtype.is_half() { Dtype::F32 } else { view.dtype }
}

/// Room for the tables of a resize to `made`, a size of the forward.
pub fn scratch_bytes(x: &View, mode: Interpolation, made: &View) -> usize {
    let entries = mode.taps() * (made.shape()[2] + made.shape()[3]);
    (entries * (weight_dtype(x).size_bytes() + INDEX_BYTES)).next_multiple_of(8)
}

/// Size of the argument struct of a kernel of the family.
#[cfg(test)]
pub fn args_size(kind: &str) -> usize {
    if kind == TABLES { size_of::<Tables>() } else { size_of::<Interpolate>() }
}

pub fn names(names: &mut Vec<KernelName>) {
    names.extend([Dtype::F64, Dtype::F32].map(|dtype| KernelName::new("interpolate", TABLES, dtype)));
    for kind in [FORWARD, BACKWARD] {
        names.extend(Dtype::FLOATS.map(|dtype| KernelName::new("interpolate", kind, dtype)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Shape;

    #[test]
    fn tables_have_room_for_every_row_and_column() {
        let view = |sizes: [usize; 2]| View::contiguous(Dtype::F32, Shape::new(&[1, 1, sizes[0], sizes[1]]));
        let bytes = |made| scratch_bytes(&view([5, 1]), Interpolation::Lanczos, &view(made));
        let each_bytes = bytes([1, 1]) / 2;
        // More than 31 bits count.
        assert_eq!(bytes([i32::MAX as usize, 1]), each_bytes << 31);
    }
}
