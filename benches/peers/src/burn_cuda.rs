//! Training steps of burn-cuda. Modes: `autodiff`, and `balanced`, with Burn's `BalancedCheckpointing`. It has no limit of its own,
//! so memory beyond the cap is taken away before it begins. What is in use is told by the driver, with what its pools keep.

use anyhow::{Result, anyhow, bail, ensure};
use burn::backend::Autodiff;
use burn::backend::autodiff::checkpoint::strategy::BalancedCheckpointing;
use burn::tensor::bf16;
use burn_cuda::{Cuda, CudaDevice};
use burn_overcommit_peers::{Floats, Options};
use clap::Parser;
use cudarc::driver::{CudaContext, result};
use serde_json::json;

const SYSTEM: &str = "burn-cuda 0.21";

fn free_bytes() -> Result<usize> {
    result::mem_get_info().map(|(free, _)| free).map_err(|error| anyhow!("{error}"))
}

/// Takes so much memory for good.
fn take_away(bytes: usize) -> Result<()> {
    // SAFETY: nobody reads or writes it.
    unsafe { result::malloc_sync(bytes) }.map(|_| ()).map_err(|error| anyhow!("{error}"))
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(!options.tf32, "burn-cuda chooses the arithmetic of f32 itself");
    options.say_when_out_of_memory(SYSTEM);
    // Makes the context current, which burn-cuda shares.
    let _context = CudaContext::new(0).map_err(|error| anyhow!("{error}"))?;
    if let Some(cap_bytes) = options.cap_bytes {
        let free = free_bytes()?;
        take_away(free.checked_sub(cap_bytes).ok_or_else(|| anyhow!("only {free} bytes are free"))?)?;
    }
    let before = free_bytes()?;
    let mut least = before;
    let look = || least = least.min(free_bytes().unwrap_or(least));
    let device = CudaDevice::default();
    let (step_ms, _) = match (options.dtype, &*options.mode) {
        (Floats::F32, "autodiff") => options.train::<Autodiff<Cuda>>(&device, look),
        (Floats::F32, "balanced") => options.train::<Autodiff<Cuda, BalancedCheckpointing>>(&device, look),
        (Floats::Bf16, "autodiff") => options.train::<Autodiff<Cuda<bf16>>>(&device, look),
        (Floats::Bf16, "balanced") => {
            options.train::<Autodiff<Cuda<bf16>, BalancedCheckpointing>>(&device, look)
        }
        (_, mode) => bail!("there is no mode {mode}: autodiff or balanced"),
    }?;
    options.say(SYSTEM, json!({ "step_ms": step_ms, "peak_bytes": before - least }));
    Ok(())
}
