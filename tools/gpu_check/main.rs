//! What `scripts/gpu-check` runs on a GPU: each command is a step, or some of its parts, in a process of its own. What a command
//! finds it prints as lines of JSON, as it finds it; `kind` says what a line is of.

mod attention;
mod bed;
mod compare;
mod convolutions;
mod costs;
mod kernels;
#[path = "../../benches/peers/src/lib.rs"]
mod peers;
mod prepare;
#[path = "../../benches/gpu_model/steps.rs"]
mod steps;
mod train;

use anyhow::Result;
use clap::Parser;
use serde_json::Value;

/// Measurements and comparisons on a GPU, for `scripts/gpu-check`.
#[derive(Parser)]
enum Command {
    /// NVIDIA's libraries, and sums, products and convolutions held against the host engine's.
    Compare(compare::Options),
    /// What launches, pages, pinned memory, copies and an op's submission take; writes a device profile that `sim` reads.
    Costs(costs::Options),
    /// Times of this crate's kernels on the operands of training steps, beside the model's.
    Kernels(kernels::Options),
    /// Times and workspaces of every algorithm for the convolutions of training steps.
    Convolutions(convolutions::Options),
    /// Attention by tiles in the layers of a language model.
    Attention(attention::Options),
    /// Compiles the kernels that are generated for training steps, and keeps them where the engine looks.
    Prepare(prepare::Options),
    /// Training steps of a network.
    Train(train::Options),
}

/// The training steps whose kernels are compiled and timed.
const CELLS: &str =
    "resnet-50:64:f32,resnet-50:64:bf16,gpt2-medium:4:f32,gpt2-medium:4:bf16,unet:4:f32,unet:4:bf16";

/// Prints a line.
fn say(line: Value) {
    println!("{line}");
}

fn main() -> Result<()> {
    match Command::parse() {
        Command::Compare(options) => compare::run(&options),
        Command::Costs(options) => costs::run(&options),
        Command::Kernels(options) => kernels::run(&options),
        Command::Convolutions(options) => convolutions::run(&options),
        Command::Attention(options) => attention::run(&options),
        Command::Prepare(options) => prepare::run(&options),
        Command::Train(options) => train::run(&options),
    }
}
