//! Training steps of this crate. Modes: `autodiff`, as Burn differentiates; `sparing`, which saves less.

use anyhow::{Result, bail};
use burn::backend::Autodiff;
use burn::tensor::bf16;
use burn_overcommit::autodiff::Sparing;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, stats};
use burn_overcommit_peers::{Floats, Options};
use clap::Parser;

const SYSTEM: &str = "burn-overcommit";

fn main() -> Result<()> {
    let options = Options::parse();
    options.say_when_out_of_memory(SYSTEM);
    let device = OvercommitDevice::default();
    let config = Config::new().tf32(options.tf32);
    configure(&device, options.cap_bytes.map_or(config.clone(), |bytes| config.budget_bytes(bytes)))?;
    let step_ms = match (options.dtype, &*options.mode) {
        (Floats::F32, "autodiff") => options.train::<Autodiff<Overcommit>>(&device, || {}),
        (Floats::F32, "sparing") => options.train::<Sparing<Overcommit>>(&device, || {}),
        (Floats::Bf16, "autodiff") => options.train::<Autodiff<Overcommit<bf16>>>(&device, || {}),
        (Floats::Bf16, "sparing") => options.train::<Sparing<Overcommit<bf16>>>(&device, || {}),
        (_, mode) => bail!("there is no mode {mode}: autodiff or sparing"),
    }?;
    options.say_time(SYSTEM, step_ms, stats(&device)?.peak_allocated_bytes);
    Ok(())
}
