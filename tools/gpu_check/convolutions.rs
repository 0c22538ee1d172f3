//! The convolutions of training steps, by each of the library's algorithms.

use std::time::Instant;

use anyhow::Result;
use burn_overcommit::engine::{Algorithm, Engine, Instruction, Launch};
use burn_overcommit::op::{Conv, Op};
use clap::Args;
use serde_json::{Value, json};

use crate::bed::{Bed, engine};
use crate::kernels::{distinct, operand_bytes, profile};
use crate::say;
use crate::steps::Cell;

#[derive(Args)]
pub struct Options {
    /// Which of the driver's devices.
    #[arg(long, default_value_t = 0)]
    index: u16,
    /// The training steps: a network, a batch, f32 or bf16, and a side, if not the paper's.
    #[arg(long, value_delimiter = ',', default_value = "resnet-50:64:f32,resnet-50:64:bf16,unet:4:f32")]
    cells: Vec<Cell>,
    /// Of how many convolutions all algorithms are timed: of those with the most arithmetic, of all steps together. Of others the
    /// default alone is.
    #[arg(long, default_value_t = 40)]
    most: usize,
    /// Bytes that a workspace may take.
    #[arg(long, default_value_t = 8 << 30)]
    workspace_bytes: usize,
}

/// Launches in a row.
const LAUNCHES: usize = 3;

pub fn run(options: &Options) -> Result<()> {
    let profile = profile("h100")?;
    let mut found = Vec::new();
    for cell in &options.cells {
        let launches = distinct(cell.launches(&profile, None));
        let of_cell = launches.filter(|(launch, _)| described(launch).is_some());
        found.extend(of_cell.map(|(launch, count)| (cell.to_string(), launch, count)));
    }
    let work = |launch: &Launch| {
        let instruction = &launch.instruction;
        instruction.op.work(&instruction.views, &instruction.outputs).flops
    };
    found.sort_by_key(|(_, launch, count)| std::cmp::Reverse(work(launch) * *count as u64));
    let operands = found.iter().map(|(_, launch, _)| operand_bytes(launch)).max().unwrap_or(0);
    let made = engine(options.index)?;
    let bytes = (operands + options.workspace_bytes).min(made.props().device_bytes / 10 * 9);
    let bed = Bed::new(made, bytes)?;
    for (place, (cell, launch, count)) in found.iter().enumerate() {
        let mut line = described(launch).unwrap_or_default();
        let begin = Instant::now();
        let (op, views) = (&launch.instruction.op, &launch.instruction.views);
        bed.engine.prepare(op, &mut views.iter());
        bed.engine.scratch(op, Algorithm::default(), views, &launch.instruction.outputs);
        let plan_ms = begin.elapsed().as_secs_f64() * 1e3;
        let others = if place < options.most { bed.engine.alternatives(op, views) } else { Vec::new() };
        let ways = ways(&bed, launch, others, options.workspace_bytes)?;
        if let Value::Object(fields) = &mut line {
            fields.insert("cell".into(), json!(cell));
            fields.insert("count".into(), json!(count));
            fields.insert("flops".into(), json!(work(launch)));
            fields.insert("plan_ms".into(), json!(plan_ms));
            fields.insert("ways".into(), json!(ways));
        }
        say(line);
    }
    Ok(())
}

/// Time and workspace of the default and of other algorithms.
fn ways(bed: &Bed, launch: &Launch, others: Vec<Algorithm>, most_bytes: usize) -> Result<Vec<Value>> {
    let (op, views) = (launch.instruction.op, &launch.instruction.views);
    let sizes: Vec<usize> = launch.inputs.iter().map(|span| span.bytes).collect();
    let mut ways = Vec::new();
    for algorithm in [Algorithm::default()].into_iter().chain(others) {
        let instruction = Instruction::new(&bed.engine, op, algorithm, views);
        let workspace_bytes = instruction.scratch_bytes;
        if workspace_bytes > most_bytes {
            ways.push(
                json!({ "algorithm": algorithm.0, "workspace_bytes": workspace_bytes, "too_large": true }),
            );
            continue;
        }
        let seconds = bed.place(instruction, &sizes).and_then(|launch| bed.seconds(&launch, LAUNCHES));
        ways.push(match seconds {
            Ok(seconds) => {
                json!({ "algorithm": algorithm.0, "workspace_bytes": workspace_bytes, "us": seconds * 1e6 })
            }
            Err(error) => {
                json!({ "algorithm": algorithm.0, "workspace_bytes": workspace_bytes, "error": error.to_string() })
            }
        });
    }
    Ok(ways)
}

/// What another system needs to compute the same.
fn described(launch: &Launch) -> Option<Value> {
    let instruction = &launch.instruction;
    let sizes = |place: usize| instruction.views[place].shape().dims().to_vec();
    let out = instruction.outputs[0].shape().dims().to_vec();
    let (pass, conv, image, weight): (_, Conv, _, _) = match instruction.op {
        Op::Conv(conv) => ("forward", conv, sizes(0), sizes(1)),
        Op::ConvBackwardInput { conv, .. } => ("input", conv, out, sizes(0)),
        Op::ConvBackwardWeight { conv, .. } => ("weight", conv, sizes(0), out),
        _ => return None,
    };
    Some(
        json!({ "kind": "convolution", "pass": pass, "dtype": instruction.views[0].dtype.name(), "image": image,
        "weight": weight, "stride": conv.stride, "padding": conv.padding, "dilation": conv.dilation,
        "groups": conv.groups }),
    )
}
