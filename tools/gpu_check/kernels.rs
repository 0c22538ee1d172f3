//! This crate's kernels on the operands of training steps, one at a time, beside what the model says of them.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use burn_overcommit::engine::{Engine, Instruction, KernelRates, Launch, Span};
use burn_overcommit::{Profile, SimProfile};
use clap::Args;
use serde_json::json;

use crate::CELLS;
use crate::bed::{Bed, engine};
use crate::say;
use crate::steps::Cell;

#[derive(Args)]
pub struct Options {
    /// Which of the driver's devices.
    #[arg(long, default_value_t = 0)]
    index: u16,
    /// The training steps: a network, a batch, f32 or bf16, and a side or a length, if not the paper's.
    #[arg(long, value_delimiter = ',', default_value = CELLS)]
    cells: Vec<Cell>,
    /// How many launches are timed, of all steps together: those that the model has take the longest.
    #[arg(long, default_value_t = 60)]
    pairs: usize,
    /// Of one kernel at the most so many.
    #[arg(long, default_value_t = 4)]
    alike: usize,
    /// Launches in a row at the most.
    #[arg(long, default_value_t = 200)]
    launches: usize,
    /// Only kernels whose name contains this, a few times each and not timed: for a profiler.
    #[arg(long)]
    only: Option<String>,
    /// The simulated device whose prices go with the steps that are recorded.
    #[arg(long, default_value = "h100")]
    profile: String,
}

/// Launches are repeated until they take so long by the model.
const MOST_SECONDS: f64 = 5e-3;

/// A launch of a step.
struct Pair {
    cell: String,
    launch: Launch,
    kernel: String,
    blocks: u32,
    bytes: u64,
    modelled_ns: f64,
    count: usize,
}

/// The profile of a name, with prices for kernels.
pub fn profile(key: &str) -> Result<Profile> {
    let profile = SimProfile::named(key).and_then(SimProfile::get);
    profile.with_context(|| format!("{key} is none of the simulated devices"))
}

/// A distinct launch for each op and operands, with how often there are such.
pub fn distinct(launches: Vec<Launch>) -> impl Iterator<Item = (Launch, usize)> {
    let mut counts: HashMap<u64, usize> = HashMap::new();
    launches.iter().for_each(|launch| *counts.entry(launch.instruction.signature).or_default() += 1);
    launches
        .into_iter()
        .filter_map(move |launch| counts.remove(&launch.instruction.signature).map(|count| (launch, count)))
}

/// The same op with operands as large, on another engine.
pub fn placed(bed: &Bed, launch: &Launch) -> Result<Launch> {
    let Instruction { op, algorithm, views, .. } = &*launch.instruction;
    let sizes: Vec<usize> = launch.inputs.iter().map(|span: &Span| span.bytes).collect();
    bed.place(Instruction::new(&bed.engine, *op, *algorithm, views), &sizes)
}

/// What the operands of a launch take together.
pub fn operand_bytes(launch: &Launch) -> usize {
    let spans = launch.inputs.iter().chain(&launch.outputs).chain([&launch.scratch]);
    spans.map(|span| span.bytes + 256).sum()
}

pub fn run(options: &Options) -> Result<()> {
    let profile = profile(&options.profile)?;
    let rates =
        profile.props.kernels.with_context(|| format!("{} has no prices of kernels", options.profile))?;
    let mut pairs = Vec::new();
    for cell in &options.cells {
        pairs.extend(distinct(cell.launches(&profile, None)).filter_map(|found| pair(cell, found, &rates)));
    }
    let pairs = chosen(pairs, options);
    ensure!(!pairs.is_empty(), "no kernel of these steps is named so");
    // Twice, since workspaces may be others here.
    let bytes = 2 * pairs.iter().map(|pair| operand_bytes(&pair.launch)).max().unwrap_or(0);
    let bed = Bed::new(engine(options.index)?, bytes)?;
    let here = bed.engine.props().kernels.unwrap_or(rates);
    for pair in &pairs {
        let launch = placed(&bed, &pair.launch)?;
        if options.only.is_some() {
            (0..3).try_for_each(|_| bed.run(&launch))?;
            continue;
        }
        let instruction = &launch.instruction;
        let prices =
            here.prices(&instruction.op, &instruction.views, &instruction.outputs).unwrap_or_default();
        let modelled_us = prices.iter().map(|price| price.ns).sum::<f64>() / 1e3;
        let count = ((MOST_SECONDS / (pair.modelled_ns * 1e-9)) as usize).clamp(1, options.launches);
        let measured_us = bed.seconds(&launch, count)? * 1e6;
        say(
            json!({ "kind": "kernel", "cell": pair.cell, "kernel": pair.kernel, "count": pair.count, "blocks": pair.blocks,
            "bytes": pair.bytes, "measured_us": measured_us, "modelled_us": modelled_us,
            "measured_gbps": pair.bytes as f64 / measured_us / 1e3 }),
        );
    }
    bed.finish(burn_overcommit::engine::Lane::Compute)
}

fn pair(cell: &Cell, (launch, count): (Launch, usize), rates: &KernelRates) -> Option<Pair> {
    let instruction = &launch.instruction;
    let prices = rates.prices(&instruction.op, &instruction.views, &instruction.outputs)?;
    let (first, modelled_ns) = (prices.first()?, prices.iter().map(|price| price.ns).sum());
    let (kernel, blocks, bytes) = (first.name.clone(), first.blocks, first.bytes);
    Some(Pair { cell: cell.to_string(), launch, kernel, blocks, bytes, modelled_ns, count })
}

/// Those that take the longest in all, a few of each kernel.
fn chosen(mut pairs: Vec<Pair>, options: &Options) -> Vec<Pair> {
    pairs.retain(|pair| options.only.as_ref().is_none_or(|only| pair.kernel.contains(only.as_str())));
    pairs.sort_by(|a, b| (b.modelled_ns * b.count as f64).total_cmp(&(a.modelled_ns * a.count as f64)));
    let mut of_kernel: HashMap<String, usize> = HashMap::new();
    pairs.retain(|pair| {
        let count = of_kernel.entry(pair.kernel.clone()).or_default();
        *count += 1;
        *count <= options.alike
    });
    pairs.truncate(options.pairs);
    pairs
}
