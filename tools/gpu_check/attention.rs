//! Attention by tiles as in the layers of GPT-2 medium, forward and backward, with and without dropout.

use anyhow::Result;
use burn_overcommit::op::{Attention, AttentionDropout, Dtype, Op, Scalar, Shape, View};
use clap::Args;
use serde_json::json;

use crate::bed::{Bed, engine};
use crate::say;

#[derive(Args)]
pub struct Options {
    /// Which of the driver's devices.
    #[arg(long, default_value_t = 0)]
    index: u16,
    /// Sequences.
    #[arg(long, default_value_t = 4)]
    batch: usize,
    /// Heads.
    #[arg(long, default_value_t = 16)]
    heads: usize,
    /// Length of the sequences.
    #[arg(long, default_value_t = 1024)]
    length: usize,
    /// Width of a head.
    #[arg(long, default_value_t = 64)]
    width: usize,
}

/// Launches in a row.
const LAUNCHES: usize = 10;
/// The most bytes that an operand takes in `f32`, twelve times: those of both passes and their workspace.
const OPERANDS: usize = 12;

pub fn run(options: &Options) -> Result<()> {
    let Options { index, batch, heads, length, width } = *options;
    let shape = Shape::new(&[batch, heads, length, width]);
    let most_bytes = OPERANDS * View::contiguous(Dtype::F32, shape).size_bytes() + (64 << 20);
    let bed = Bed::new(engine(index)?, most_bytes)?;
    let kept = AttentionDropout { of_weights: true, keep: Scalar::from(0.9), seed: 7 };
    for dtype in [Dtype::F32, Dtype::BF16] {
        for dropout in [None, Some(kept)] {
            let view = View::contiguous(dtype, shape);
            let scale = Scalar::from(1.0 / (width as f64).sqrt());
            let attention = Attention { scale, causal: true, dropout };
            let forward = bed.launch(Op::Attention(attention), &[view; 3])?;
            let [mut out, sums] = [0, 1].map(|place| forward.instruction.outputs[place]);
            out.layout = out.layout.permute(&[0, 2, 1, 3]);
            let backward =
                bed.launch(Op::AttentionBackward(attention), &[view, view, view, out, sums, view])?;
            let [forward_us, backward_us] =
                [bed.seconds(&forward, LAUNCHES)? * 1e6, bed.seconds(&backward, LAUNCHES)? * 1e6];
            say(
                json!({ "kind": "attention", "system": "burn-overcommit", "dtype": dtype.name(), "dropout": dropout.is_some(),
                "forward_us": forward_us, "backward_us": backward_us }),
            );
        }
    }
    Ok(())
}
