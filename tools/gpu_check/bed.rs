//! An engine with one piece of memory for the operands of whatever is timed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, anyhow, ensure};
use burn_overcommit::Variable;
use burn_overcommit::engine::cuda::{CudaEngine, CudaOptions};
use burn_overcommit::engine::{ALIGN_BYTES, Algorithm, Engine, Instruction, Lane, Launch, Span, Tier};
use burn_overcommit::op::{Dtype, Op, Scalar, Shape, View};

/// Times each figure is measured; the least counts.
const ROUNDS: usize = 5;

/// Where things are timed.
pub struct Bed {
    pub engine: CudaEngine,
    memory: Span,
}

/// The engine of a device, with libraries from where the environment names them.
pub fn engine(index: u16) -> Result<CudaEngine> {
    engine_with_pages(index, None)
}

/// The same with pages of at least so many bytes.
pub fn engine_with_pages(index: u16, page_bytes: Option<usize>) -> Result<CudaEngine> {
    let libraries = std::env::var_os(Variable::CudaLibraries.name()).map(PathBuf::from);
    let options = CudaOptions { index, libraries, page_bytes, ..CudaOptions::default() };
    CudaEngine::new(&options).map_err(|reason| anyhow!(reason))
}

/// The least time of some rounds, in seconds.
pub fn least(mut round: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        round()?;
        least = least.min(begin.elapsed().as_secs_f64());
    }
    Ok(least)
}

impl Bed {
    /// So many bytes of device memory, all zeros: as floats they are numbers, as indices they are in range.
    pub fn new(engine: CudaEngine, bytes: usize) -> Result<Self> {
        let bytes = bytes.next_multiple_of(ALIGN_BYTES);
        let memory = engine.map(Tier::Device, bytes)?;
        let bed = Bed { engine, memory };
        let fill = Op::Fill { shape: Shape::new(&[bytes]), dtype: Dtype::U8, value: Scalar::Int(0) };
        let instruction = Instruction::new(&bed.engine, fill, Algorithm::default(), &[]);
        bed.run(&bed.place(instruction, &[])?)?;
        bed.finish(Lane::Compute)?;
        Ok(bed)
    }

    /// All of the memory.
    pub fn memory(&self) -> Span {
        self.memory
    }

    /// An op on contiguous operands.
    pub fn launch(&self, op: Op, views: &[View]) -> Result<Launch> {
        let instruction = Instruction::new(&self.engine, op, Algorithm::default(), views);
        let sizes: Vec<usize> = views.iter().map(View::size_bytes).collect();
        self.place(instruction, &sizes)
    }

    /// An instruction with inputs of these sizes one after the other, then its outputs and its workspace.
    pub fn place(&self, instruction: Instruction, sizes_bytes: &[usize]) -> Result<Launch> {
        let mut end = 0;
        let mut place = |bytes: usize| -> Result<Span> {
            let begin = end;
            end = (begin + bytes).next_multiple_of(ALIGN_BYTES);
            ensure!(end <= self.memory.bytes, "{end} bytes are needed, {} are there", self.memory.bytes);
            Ok(self.memory.slice(begin, bytes))
        };
        Ok(Launch {
            inputs: sizes_bytes.iter().map(|&bytes| place(bytes)).collect::<Result<_>>()?,
            outputs: instruction
                .outputs
                .iter()
                .map(|view| place(view.size_bytes()))
                .collect::<Result<_>>()?,
            scratch: place(instruction.scratch_bytes)?,
            instruction: Arc::new(instruction),
        })
    }

    /// Submits a launch.
    pub fn run(&self, launch: &Launch) -> Result<()> {
        // SAFETY: the operands are mapped, and all launches are of one lane.
        Ok(unsafe { self.engine.launch(Lane::Compute, launch) }?)
    }

    /// Waits for a lane.
    pub fn finish(&self, lane: Lane) -> Result<()> {
        Ok(self.engine.sync(self.engine.mark(lane))?)
    }

    /// Seconds that one of so many launches in a row takes.
    pub fn seconds(&self, launch: &Launch, count: usize) -> Result<f64> {
        let round = || {
            (0..count).try_for_each(|_| self.run(launch))?;
            self.finish(Lane::Compute)
        };
        round()?;
        Ok(least(round)? / count as f64)
    }
}
