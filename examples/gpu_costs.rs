//! What a GPU's link, mapping, launches, compiler and arithmetic cost: for `scripts/gpu-check costs`.
//!
//! The last line is a row for the table of simulated devices (`src/engine/sim/profiles.rs`).

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use burn_overcommit::engine::cuda::{CudaEngine, CudaOptions};
use burn_overcommit::engine::{Algorithm, Engine, Instruction, Lane, Launch, Span, Tier};
use burn_overcommit::op::{Binary, Dtype, Op, Shape, View};
use clap::Parser;

/// What a GPU's link, mapping, launches, compiler and arithmetic cost.
#[derive(Parser)]
struct Options {
    /// Which of the driver's devices.
    #[arg(long, default_value_t = 0)]
    index: u16,
    /// The folders of NVIDIA's libraries, separated as in PATH; else OVERCOMMIT_CUDA_LIBRARIES.
    #[arg(long)]
    libraries: Option<PathBuf>,
    /// Rows and columns of the matrices that are multiplied.
    #[arg(long, default_value_t = 4096)]
    size: usize,
    /// MiB of each copy.
    #[arg(long, default_value_t = 256)]
    copy_mib: usize,
}

/// Times each figure is measured; the least counts.
const ROUNDS: usize = 5;
/// Launches in a row.
const LAUNCHES: usize = 2000;
/// Pages mapped in a row.
const PAGES: usize = 64;

/// The least time of some rounds, in seconds.
fn least(mut round: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        round()?;
        least = least.min(begin.elapsed().as_secs_f64());
    }
    Ok(least)
}

fn finish(engine: &CudaEngine, lane: Lane) -> Result<()> {
    Ok(engine.sync(engine.mark(lane))?)
}

/// Seconds that a copy takes.
fn copy(engine: &CudaEngine, lane: Lane, from: Span, to: Span) -> Result<f64> {
    least(|| {
        // SAFETY: both are mapped, as large and apart, and the copy is waited for.
        unsafe { engine.copy(lane, from, to) }?;
        finish(engine, lane)
    })
}

/// A launch on contiguous operands in one piece of device memory.
fn launch(engine: &CudaEngine, memory: Span, op: Op, inputs: &[View]) -> Result<Launch> {
    let instruction = Instruction::new(engine, op, Algorithm::default(), inputs);
    let mut end = 0;
    let mut place = |bytes: usize| -> Result<Span> {
        let begin = end;
        end = (begin + bytes).next_multiple_of(256);
        ensure!(end <= memory.bytes, "{end} bytes of {} are needed: take a smaller --size", memory.bytes);
        Ok(memory.slice(begin, bytes))
    };
    Ok(Launch {
        inputs: inputs.iter().map(|view| place(view.size_bytes())).collect::<Result<_>>()?,
        outputs: instruction.outputs.iter().map(|view| place(view.size_bytes())).collect::<Result<_>>()?,
        scratch: place(instruction.scratch_bytes)?,
        instruction: instruction.into(),
    })
}

/// Seconds of so many launches in a row.
fn launches(engine: &CudaEngine, launch: &Launch, count: usize) -> Result<f64> {
    let run = || {
        for _ in 0..count {
            // SAFETY: the operands are mapped, and the launches follow each other.
            unsafe { engine.launch(Lane::Compute, launch) }?;
        }
        finish(engine, Lane::Compute)
    };
    run()?;
    least(run)
}

/// Seconds that mapping a page takes, the first time and anew.
fn pages(engine: &CudaEngine) -> Result<Option<[f64; 2]>> {
    let Some(page_bytes) = engine.props().page_bytes else { return Ok(None) };
    let range = engine.reserve(PAGES * page_bytes)?;
    let pages: Vec<u32> = (0..PAGES as u32).collect();
    let turned: Vec<u32> = pages.iter().rev().copied().collect();
    // SAFETY: nothing is submitted on these addresses.
    let map = |pages: &[u32]| unsafe { engine.map_pages(range, pages, &[]) };
    let begin = Instant::now();
    map(&pages)?;
    let first = begin.elapsed().as_secs_f64();
    let anew = least(|| Ok(map(&turned)?))?;
    engine.release_pages(&pages);
    Ok(Some([first, anew].map(|seconds| seconds / PAGES as f64)))
}

fn main() -> Result<()> {
    let options = Options::parse();
    let cache = tempfile::tempdir()?;
    // SAFETY: no other thread is there yet. Compiled kernels of earlier runs are not to be found.
    unsafe { std::env::set_var("XDG_CACHE_HOME", cache.path()) };
    let from_environment = || std::env::var_os("OVERCOMMIT_CUDA_LIBRARIES").map(PathBuf::from);
    let libraries = options.libraries.or_else(from_environment);
    let cuda = CudaOptions { index: options.index, libraries, ..CudaOptions::default() };
    let engine = CudaEngine::new(&cuda).map_err(|reason| anyhow!(reason))?;
    let props = engine.props().clone();
    println!("device: {}", props.name);

    let view = View::contiguous(Dtype::F32, Shape::new(&[256]));
    let begin = Instant::now();
    engine.prepare(&Op::Binary(Binary::Add), &mut [view, view].iter());
    println!("compiling and loading one file for one type: {:.1} ms", begin.elapsed().as_secs_f64() * 1e3);
    if let Some([first, anew]) = pages(&engine)? {
        println!("mapping a page: {:.1} us the first time, {:.1} us anew", first * 1e6, anew * 1e6);
    }

    let bytes = options.copy_mib << 20;
    let host = engine.map(Tier::Host, bytes)?;
    let device_bytes = (4 * bytes).max(5 * options.size * options.size * 8).min(props.device_bytes / 2);
    let memory = engine.map(Tier::Device, device_bytes)?;
    let (part, small) = (memory.slice(0, bytes), |span: Span| span.slice(0, 256));
    let down = bytes as f64 / copy(&engine, Lane::Offload, part, host)? / 1e9;
    let up = bytes as f64 / copy(&engine, Lane::Fetch, host, part)? / 1e9;
    let latency = copy(&engine, Lane::Fetch, small(host), small(part))?;
    let inside = 2.0 * bytes as f64 / copy(&engine, Lane::Compute, part, memory.slice(bytes, bytes))? / 1e9;
    println!(
        "link: {up:.1} GB/s to the device, {down:.1} GB/s from it; a small copy {:.1} us",
        latency * 1e6
    );
    println!("device memory: {inside:.0} GB/s, read and written");

    let empty = launch(&engine, memory, Op::Binary(Binary::Add), &[view, view])?;
    let overhead_us = launches(&engine, &empty, LAUNCHES)? / LAUNCHES as f64 * 1e6;
    println!("a launch: {overhead_us:.2} us, one of {LAUNCHES} in a row");
    let work = 2.0 * (options.size as f64).powi(3) / 1e12;
    let tera = |dtype: Dtype| -> Result<f64> {
        let square = View::contiguous(dtype, Shape::new(&[options.size; 2]));
        let product = launch(&engine, memory, Op::Matmul, &[square, square])?;
        let seconds = launches(&engine, &product, 1).with_context(|| format!("a product of {dtype}"))?;
        println!("a product of {dtype}: {:.3} TFLOP/s", work / seconds);
        Ok(work / seconds)
    };
    let [f64, f32, f16, bf16] = [Dtype::F64, Dtype::F32, Dtype::F16, Dtype::BF16].map(tera);
    println!(
        "    (\"measured\", {:?}, {}, {inside:.1}, [{:.3}, {:.3}, {:.3}, {:.3}], {:.1}, {overhead_us:.2}),",
        props.name,
        props.device_bytes >> 30,
        f64?,
        f32?,
        f16?,
        bf16?,
        up.min(down)
    );
    Ok(())
}
