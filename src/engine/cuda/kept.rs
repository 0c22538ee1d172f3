//! Kernels of instructions that are lowered once: each launch writes its addresses into arguments that exist already.

use std::sync::OnceLock;

use super::driver::{Called, Kernel, Stream};
use super::modules::Modules;
use crate::engine::lowered::Lowered;
use crate::op::lower::{KernelName, gpu};

/// The kernels of an instruction.
pub(super) type Kept = Lowered<LoadedKernel>;

/// A kernel that is loaded when it is first launched; a failure is told then, and at each launch after.
#[derive(Debug)]
pub(super) struct LoadedKernel {
    name: KernelName,
    loaded: OnceLock<Kernel>,
}

impl LoadedKernel {
    pub fn new(name: &KernelName) -> Self {
        LoadedKernel { name: *name, loaded: OnceLock::new() }
    }

    fn get(&self, modules: &Modules) -> Called<Kernel> {
        match self.loaded.get() {
            Some(kernel) => Ok(*kernel),
            None => modules.kernel(&self.name).map(|kernel| *self.loaded.get_or_init(|| kernel)),
        }
    }
}

/// Puts kernels into a stream.
///
/// # Safety
/// The addresses are those of a launch of the instruction, as [`Engine::launch`](crate::engine::Engine::launch) asks.
pub(super) unsafe fn launch(
    modules: &Modules,
    stream: &Stream,
    kernels: &Kept,
    addresses: &[u64],
) -> Called<()> {
    for kernel in kernels.kernels() {
        let (words, loaded) = (kernel.arguments(addresses), kernel.kernel.get(modules)?);
        // SAFETY: lowering made the arguments for the kernel, `scripts/check-kernels` compares the structs, from memory that the
        // caller vouches for.
        unsafe { stream.launch(loaded, kernel.blocks, gpu::THREADS as u32, bytemuck::cast_slice(&words)) }?;
    }
    Ok(())
}
