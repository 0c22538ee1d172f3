//! The kernels as the C++ compiler made them: finding them, and running them over threads.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::sync::LazyLock;
use std::sync::atomic::AtomicI64;

use super::call::{Call, Operand, out_of_range};
use super::spread::spread;
use crate::engine::EngineError;
use crate::op::lower::{self, Calls, KernelCall, KernelName, NO_FAULT, Placed, Request};
use crate::op::{Inputs, Op, PerOutput, View};

/// Bytes that a block of cheap work reads or writes of its widest operand: some microseconds, about what it takes to wake
/// a thread.
const CHUNK_BYTES: usize = 256 * 1024;

/// A kernel (`Entry` in `simt.cuh`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Kernel {
    name: *const c_char,
    run: unsafe extern "C" fn(args: *const c_void, blocks: u32, begin: u32, end: u32),
    args_bytes: u64,
    args_align: u64,
}

// SAFETY: `name` points to a string literal and `run` to code; both live as long as the program and never change.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

impl Kernel {
    /// Runs blocks `begin..end` of `blocks` on this thread.
    ///
    /// # Safety
    /// `args` holds the kernel's argument struct, and what it points to may be read and written as the kernel does.
    pub(super) unsafe fn run(&self, args: &[u8], blocks: u32, begin: u32, end: u32) {
        debug_assert_eq!(args.len() as u64, self.args_bytes);
        // SAFETY: the caller upholds it.
        unsafe { (self.run)(args.as_ptr().cast(), blocks, begin, end) }
    }

    /// Whether the kernel's argument struct has the size and alignment of `Args`.
    pub(super) fn takes<Args>(&self) -> bool {
        (self.args_bytes, self.args_align) == (size_of::<Args>() as u64, align_of::<Args>() as u64)
    }

    /// Runs the kernel's only block on this thread.
    ///
    /// # Safety
    /// As for [`run`](Kernel::run); the kernel [`takes`](Kernel::takes) `Args`.
    pub(super) unsafe fn run_alone<Args>(&self, args: &Args) {
        debug_assert!(self.takes::<Args>());
        // SAFETY: the caller upholds it.
        unsafe { (self.run)(std::ptr::from_ref(args).cast(), 1, 0, 1) }
    }

    fn name(&self) -> &'static str {
        // SAFETY: the table's names are string literals, which C++ terminates by a zero and keeps for ever.
        let name = unsafe { CStr::from_ptr(self.name) };
        name.to_str().expect("kernel names are ASCII")
    }
}

type Table = unsafe extern "C" fn(count: *mut u64) -> *const Kernel;

include!(concat!(env!("OUT_DIR"), "/tables.rs"));

/// Every kernel by its C name.
static KERNELS: LazyLock<HashMap<&'static str, Kernel>> = LazyLock::new(all);

fn all() -> HashMap<&'static str, Kernel> {
    let mut kernels = HashMap::new();
    for table in TABLES {
        let mut count = 0;
        // SAFETY: `EXPORT_TABLE` defines the function with this signature; it writes the count and returns the start
        // of an array of as many entries, which was filled before `main` and never changes.
        let entries = unsafe { std::slice::from_raw_parts(table(&mut count), count as usize) };
        kernels.extend(entries.iter().map(|kernel| (kernel.name(), *kernel)));
    }
    kernels
}

/// Returns whether this processor has the instructions that the kernels are compiled to.
pub(super) fn run_here() -> bool {
    // As `-march=x86-64-v3` has them.
    #[cfg(kernels_use_avx2)]
    return is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("movbe");
    #[cfg(not(kernels_use_avx2))]
    true
}

/// The kernels that lowering asks for.
static LOWERED: LazyLock<HashMap<KernelName, Kernel>> = LazyLock::new(|| {
    let names = KernelName::all().into_iter();
    names.map(|name| (name, find(&name.to_string()))).collect()
});

/// The kernel of that C name.
///
/// # Panics
/// If there is none: callers name only kernels of this crate.
pub(super) fn find(name: &str) -> Kernel {
    *KERNELS.get(name).unwrap_or_else(|| panic!("there is no kernel `{name}`"))
}

/// Size of a kernel's argument struct.
#[cfg(feature = "cuda")]
pub(super) fn args_bytes(name: &str) -> Option<u64> {
    KERNELS.get(name).map(|kernel| kernel.args_bytes)
}

/// The kernel that lowering asks for by this name.
pub(super) fn lowered(name: &KernelName) -> Kernel {
    LOWERED[name]
}

/// The kernel calls of an op on this engine; last come the addresses of its workspace and of the word for a fault.
pub(super) fn lower(
    op: &Op,
    inputs: &[Placed],
    outputs: &[Placed],
    [scratch, fault]: [u64; 2],
) -> Option<Calls> {
    let operands = inputs.iter().chain(outputs);
    let element_bytes = operands.map(|operand| operand.view.dtype.size_bytes()).max().unwrap_or(1);
    let chunk = CHUNK_BYTES / element_bytes;
    lower::lower(&Request { op, inputs, outputs, scratch, fault, chunk, threads: 1 })
}

/// Computes a call on the calling thread and, where there is enough work, on rayon's. Convolutions and the products of
/// floats are not here.
///
/// # Safety
/// As for [`Engine::launch`](crate::engine::Engine::launch), until this returns.
pub(super) unsafe fn run(call: &Call) -> Result<(), EngineError> {
    let fault = AtomicI64::new(NO_FAULT);
    let inputs: Inputs<Placed> = call.inputs.iter().map(Operand::placed).collect();
    let outputs: PerOutput<Placed> = call.outputs.iter().map(Operand::placed).collect();
    let error = |reason: String| EngineError::Kernel { op: call.op.name(), reason };
    let calls = lower(&call.op, &inputs, &outputs, [call.scratch.address, fault.as_ptr() as u64])
        .ok_or_else(|| error("has no kernel of its own".into()))?;
    for KernelCall { name, blocks, args } in &calls {
        lower::check_launch(*blocks, args.bytes().len()).map_err(error)?;
        // SAFETY: lowering made the arguments for this kernel (a test compares the structs) from spans that the caller
        // vouches for, and from `fault`, which outlives the call.
        unsafe { run_blocks(&lowered(name), args.bytes(), *blocks) };
    }
    match fault.into_inner() {
        NO_FAULT => Ok(()),
        index => {
            let views: Inputs<View> = call.inputs.iter().map(|operand| operand.view).collect();
            Err(out_of_range(&call.op, &views, index))
        }
    }
}

/// Runs a lowered kernel of one block on this thread.
///
/// # Safety
/// As for [`Kernel::run`].
pub(super) unsafe fn run_alone(call: &KernelCall) {
    debug_assert_eq!(call.blocks, 1);
    // SAFETY: the caller upholds it.
    unsafe { LOWERED[&call.name].run(call.args.bytes(), 1, 0, 1) }
}

/// Runs all blocks of a kernel.
///
/// # Safety
/// As for [`Kernel::run`].
pub(super) unsafe fn run_blocks(kernel: &Kernel, args: &[u8], blocks: u32) {
    if blocks == 1 {
        // SAFETY: the caller upholds it.
        return unsafe { kernel.run(args, 1, 0, 1) };
    }
    spread(blocks as usize, |block| {
        let block = block as u32;
        // SAFETY: the caller upholds it; the blocks of a kernel write disjoint elements.
        unsafe { kernel.run(args, blocks, block, block + 1) }
    });
}

#[cfg(test)]
mod tests;
