//! What the tools that compile kernels are told alike.

use std::path::PathBuf;

use burn_overcommit::engine::cuda::Selection;
use clap::Args;

/// Which kernels, and by which NVRTC.
#[derive(Args)]
pub struct Chosen {
    /// The folder that NVRTC is in; by default it is looked for.
    #[arg(long)]
    pub folder: Option<PathBuf>,
    /// Files of `kernels/` without their ending; by default all.
    #[arg(long, value_delimiter = ',')]
    files: Vec<String>,
    /// Of each file one type of element alone, another for each architecture.
    #[arg(long)]
    sample: bool,
}

impl Chosen {
    /// These kernels for some architectures.
    pub fn selection(&self, architectures: &[u32]) -> Selection {
        Selection { architectures: architectures.to_vec(), files: self.files.clone(), sample: self.sample }
    }
}
