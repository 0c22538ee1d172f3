//! Compiles the kernels that are generated for training steps, without a GPU.

use std::path::PathBuf;

use anyhow::{Result, anyhow};
use burn_overcommit::engine::cuda::cache_generated;
use clap::Args;

use crate::CELLS;
use crate::kernels::profile;
use crate::steps::Cell;

#[derive(Args)]
pub struct Options {
    /// The training steps: a network, a batch, f32 or bf16, and a side or a length, if not the paper's.
    #[arg(long, value_delimiter = ',', default_value = CELLS)]
    cells: Vec<Cell>,
    /// The compute capability without its point.
    #[arg(long, default_value_t = 90)]
    architecture: u32,
    /// The folder of NVRTC.
    #[arg(long)]
    folder: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
    let profile = profile("h100")?;
    let launches: Vec<_> = options.cells.iter().flat_map(|cell| cell.launches(&profile, None)).collect();
    let count = cache_generated(options.folder.as_deref(), options.architecture, &launches);
    println!("generated kernels: cached={}", count.map_err(|reason| anyhow!(reason))?);
    Ok(())
}
