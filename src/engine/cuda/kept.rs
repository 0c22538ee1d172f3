//! Kernels of instructions that are lowered once: each launch writes its addresses into arguments that exist already.

use std::sync::OnceLock;

use super::driver::{Called, Kernel, Stream};
use super::fallbacks::Fallbacks;
use super::modules::Modules;
use crate::engine::lowered::Lowered;
use crate::messages;
use crate::op::lower::generated::Generated;
use crate::op::lower::{KernelCall, KernelName, gpu};

/// The kernels of an instruction.
pub(super) type Kept = Lowered<LoadedKernel>;

/// A kernel that is loaded when it is first launched; a failure is told then, and at each launch after.
#[derive(Debug)]
pub(super) struct LoadedKernel {
    name: KernelName,
    /// The kernel that takes its place, if there is one.
    generated: Option<Box<Generated>>,
    loaded: OnceLock<Kernel>,
}

impl LoadedKernel {
    pub fn new(call: &KernelCall) -> Self {
        let generated = Generated::of(call).map(Box::new);
        LoadedKernel { name: call.name, generated, loaded: OnceLock::new() }
    }

    fn get(&self, modules: &Modules, fallbacks: &Fallbacks) -> Called<Kernel> {
        if let Some(kernel) = self.loaded.get() {
            return Ok(*kernel);
        }
        let kernel = match self.generated.as_ref().map(|generated| modules.generated(generated)) {
            Some(Ok(kernel)) => kernel,
            Some(Err(error)) => {
                messages::tell(log::Level::Warn, format_args!("a fused program is interpreted: {error}"));
                fallbacks.note("fused", NOT_COMPILED);
                modules.kernel(&self.name)?
            }
            None => modules.kernel(&self.name)?,
        };
        Ok(*self.loaded.get_or_init(|| kernel))
    }
}

const NOT_COMPILED: &str = "NVRTC does not compile its program";

/// Puts kernels into a stream.
///
/// # Safety
/// The addresses are those of a launch of the instruction, as [`Engine::launch`](crate::engine::Engine::launch) asks.
pub(super) unsafe fn launch(
    (modules, fallbacks): (&Modules, &Fallbacks),
    stream: &Stream,
    kernels: &Kept,
    addresses: &[u64],
) -> Called<()> {
    for kernel in kernels.kernels() {
        let (words, loaded) = (kernel.arguments(addresses), kernel.kernel.get(modules, fallbacks)?);
        // SAFETY: lowering made the arguments for the kernel, `scripts/check-kernels` compares the structs, from memory that the
        // caller vouches for.
        unsafe { stream.launch(loaded, kernel.blocks, gpu::THREADS as u32, bytemuck::cast_slice(&words)) }?;
    }
    Ok(())
}
