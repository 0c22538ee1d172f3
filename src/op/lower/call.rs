//! A call of a kernel, and what lowering makes it from.

use arrayvec::ArrayVec;
use bytemuck::Pod;

use super::name::KernelName;
use crate::op::{Dtype, Op, View};

/// A view and the address of the first byte of its storage.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// First byte of the storage.
    pub address: u64,
    /// Element type and layout.
    pub view: View,
}

impl Placed {
    /// Address of the element at index zero.
    pub(crate) fn first(&self) -> u64 {
        self.address + (self.view.layout.offset() * self.view.dtype.size_bytes()) as u64
    }
}

/// What [`lower`](super::lower) needs to know of a call.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What to compute.
    pub op: &'a Op,
    /// Inputs in the op's order.
    pub inputs: &'a [Placed],
    /// Outputs in the op's order.
    pub outputs: &'a [Placed],
    /// Address of [`scratch_bytes`](super::scratch_bytes) bytes.
    pub scratch: u64,
    /// Address of an `i64` that is [`NO_FAULT`], where a kernel leaves an index that was out of range.
    pub fault: u64,
    /// How many elements of cheap work make a block. Results do not depend on it.
    pub chunk: usize,
    /// Threads of a block.
    pub threads: usize,
}

impl Request<'_> {
    /// How many items make a block that cost so many times cheap work each: on a GPU at least one for every thread.
    pub(super) fn items_per_block(&self, cost: usize) -> u64 {
        (self.chunk / cost.max(1)).max(self.threads) as u64
    }
}

/// What the word at [`Request::fault`] holds while all is well.
pub const NO_FAULT: i64 = i64::MIN;

/// The most blocks of a launch: those of the first dimension of CUDA's grids.
pub const MAX_BLOCKS: u32 = i32::MAX as u32;

/// The most bytes of a kernel's arguments on every GPU.
pub const MAX_ARGS_BYTES: usize = 4096;

/// Whether an engine may launch so many blocks with so many bytes of arguments.
///
/// # Errors
/// The first limit that is exceeded, in words.
pub fn check_launch(blocks: u32, args_bytes: usize) -> Result<(), String> {
    if blocks > MAX_BLOCKS {
        return Err(format!("would take more than {MAX_BLOCKS} blocks of threads"));
    }
    if args_bytes > MAX_ARGS_BYTES {
        return Err(format!("has {args_bytes} bytes of arguments, and the most are {MAX_ARGS_BYTES}"));
    }
    Ok(())
}

/// The number of blocks of `chunk` items each; more than can be launched if 32 bits do not count them.
pub(super) fn blocks(count: u64, chunk: u64) -> u32 {
    u32::try_from(count.div_ceil(chunk)).unwrap_or(u32::MAX)
}

/// The bytes of a kernel's argument struct.
#[derive(Clone, Copy, Debug)]
pub struct Args {
    words: [u64; Args::WORDS],
    bytes: usize,
}

impl Args {
    const WORDS: usize = 215;

    pub(super) fn new<T: Pod>(args: &T) -> Self {
        const { assert!(size_of::<T>() <= size_of::<[u64; Args::WORDS]>(), "the arguments are too many") };
        let mut words = [0; Args::WORDS];
        bytemuck::cast_slice_mut(&mut words)[..size_of::<T>()].copy_from_slice(bytemuck::bytes_of(args));
        Args { words, bytes: size_of::<T>() }
    }

    /// The struct's bytes, aligned to 8.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }

    /// The same, of which an address is always a whole one.
    pub fn words(&self) -> &[u64] {
        &self.words[..self.bytes.div_ceil(size_of::<u64>())]
    }
}

/// One kernel to launch.
#[derive(Clone, Copy, Debug)]
pub struct KernelCall {
    /// Which.
    pub name: KernelName,
    /// How many blocks, never zero.
    pub blocks: u32,
    /// Its arguments.
    pub args: Args,
}

/// Kernels to launch one after the other.
pub type Calls = ArrayVec<KernelCall, 4>;

impl KernelCall {
    /// Pushes a call whose blocks take `chunk` of `count` items each; none if there are no items.
    pub(super) fn push<T: Pod>(calls: &mut Calls, name: KernelName, count: u64, chunk: u64, args: &T) {
        if count > 0 {
            calls.push(KernelCall { name, blocks: blocks(count, chunk), args: Args::new(args) });
        }
    }
}

/// The element types that have kernels of their own.
pub(super) fn dtypes() -> impl Iterator<Item = Dtype> {
    Dtype::ALL.iter().copied().filter(|&dtype| dtype.stored() == dtype)
}

/// The element types that kernels which only move elements are made for.
pub(super) const RAW: [Dtype; 4] = [Dtype::U64, Dtype::U32, Dtype::U16, Dtype::U8];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::lower::{args_sizes, lower};
    use crate::op::{Shape, Unary};

    #[test]
    fn arguments_of_kernels_fit_and_larger_ones_are_refused() {
        for (name, bytes) in args_sizes() {
            check_launch(1, bytes).unwrap_or_else(|error| panic!("{name} {error}"));
        }
        let error = check_launch(1, MAX_ARGS_BYTES + 8).unwrap_err();
        assert_eq!(error, "has 4104 bytes of arguments, and the most are 4096");
    }

    #[test]
    fn more_blocks_than_a_grid_has_are_refused() {
        check_launch(MAX_BLOCKS, 8).unwrap();
        // As many as 32 bits do not count: with a block less they would wrap to one.
        for blocks in [1 << 31, 1 << 32, (1 << 32) + 1, 1 << 40] {
            let view = View::contiguous(Dtype::F32, Shape::new(&[blocks]));
            let operand = [Placed { address: 256, view }];
            let op = Op::Unary(Unary::Exp);
            let request = Request {
                op: &op,
                inputs: &operand,
                outputs: &operand,
                scratch: 0,
                fault: 0,
                chunk: 1,
                threads: 1,
            };
            let calls = lower(&request).expect("it has a kernel");
            let error = check_launch(calls[0].blocks, calls[0].args.bytes().len()).unwrap_err();
            assert_eq!(error, "would take more than 2147483647 blocks of threads");
        }
    }
}
