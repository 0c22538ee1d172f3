use bytemuck::{Pod, Zeroable};

use super::call::RAW;
use super::space::{Dim, MAX_OPERANDS, Space};
use super::{Calls, KernelCall, KernelName};
use crate::op::Dtype;

/// Arguments of a transposing copy (`Transpose` in `move.cu`).
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub struct Transpose {
    out: u64,
    x: u64,
    chunk: u64,
    sizes: [u64; 2],
    steps: [i64; 2],
    space: Space,
}

/// Elements of the side of a tile (`TILE` in `move.cu`).
const TILE: u64 = 32;
/// Both dimensions have at least this many elements, or a copy in the output's order does as well.
const MIN_SIZE: u64 = 8;

/// Pushes the copy of elements of type `dtype` over a space of input and output, if the input runs along another
/// dimension than the output does.
pub fn push(space: &Space, dtype: Dtype, [x, out]: [u64; 2], chunk: usize, calls: &mut Calls) -> bool {
    let rank = space.rank as usize;
    let [input, output, _] = &space.strides;
    if output[0] != 1 || input[0].abs() < MIN_SIZE as i64 || space.sizes[0] < MIN_SIZE {
        return false;
    }
    let Some(along) = (1..rank).find(|&axis| input[axis] == 1 && space.sizes[axis] >= MIN_SIZE) else {
        return false;
    };
    let others = (1..rank).rev().filter(|&axis| axis != along).map(|axis| {
        let mut steps = [0; MAX_OPERANDS];
        (steps[0], steps[1]) = (input[axis] as isize, output[axis] as isize);
        Dim { size: space.sizes[axis] as usize, steps }
    });
    let args = Transpose {
        out,
        x,
        chunk: (chunk as u64 / (TILE * TILE)).max(1),
        sizes: [space.sizes[0], space.sizes[along]],
        steps: [input[0], output[along]],
        space: Space::new(others),
    };
    let tiles = args.sizes.map(|size| size.div_ceil(TILE)).iter().product::<u64>();
    KernelCall::push(calls, name(dtype), args.space.count * tiles, args.chunk, &args);
    true
}

fn name(dtype: Dtype) -> KernelName {
    KernelName::new("transpose", "", dtype.raw())
}

pub fn names(names: &mut Vec<KernelName>) {
    names.extend(RAW.map(name));
}
