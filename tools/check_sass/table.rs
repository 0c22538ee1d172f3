//! The figures of each kernel, as a table, and their sums.

use std::fmt::{self, Write};

use burn_overcommit::engine::cuda::sass::Figures;
use burn_overcommit::op::lower::KernelName;

use crate::occupancy;

/// A kernel for an architecture.
#[derive(Clone, Debug)]
pub struct Row {
    pub architecture: u32,
    pub kernel: String,
    /// Its name without types.
    pub family: String,
    pub figures: Figures,
    pub occupancy_percent: usize,
}

/// Threads of a block.
const THREADS: usize = 128;

impl Row {
    pub fn new(architecture: u32, kernel: &KernelName, figures: Figures) -> Self {
        Row {
            architecture,
            kernel: kernel.to_string(),
            family: kernel.of_all_types().to_string(),
            occupancy_percent: occupancy::percent(architecture, THREADS, &figures.resources),
            figures,
        }
    }
}

/// The figures of one architecture.
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from(
        "kernel,registers,stack_bytes,shared_bytes,occupancy_percent,instructions,loop_instructions,loop_elements,loads,\
         loads_128,stores,stores_128\n",
    );
    for Row { kernel, figures, occupancy_percent, .. } in rows {
        let Figures { resources, instructions, main_loop, loads, stores } = figures;
        let columns = [
            resources.registers,
            resources.stack_bytes,
            resources.shared_bytes,
            *occupancy_percent,
            *instructions,
            main_loop.instructions,
            main_loop.elements,
            loads.count(),
            loads.of_128_bits(),
            stores.count(),
            stores.of_128_bits(),
        ];
        text += kernel;
        columns.iter().for_each(|column| write!(text, ",{column}").expect("a string takes all"));
        text.push('\n');
    }
    text
}

/// Of some kernels.
#[derive(Debug, Default)]
pub struct Sums {
    kernels: usize,
    with_stack: usize,
    loads: usize,
    loads_128: usize,
    pub over_budget: usize,
}

impl Sums {
    pub fn add(&mut self, row: &Row, is_over_budget: bool) {
        self.kernels += 1;
        self.with_stack += usize::from(row.figures.resources.stack_bytes > 0);
        self.loads += row.figures.loads.count();
        self.loads_128 += row.figures.loads.of_128_bits();
        self.over_budget += usize::from(is_over_budget);
    }

    pub fn merge(&mut self, other: &Sums) {
        self.kernels += other.kernels;
        self.with_stack += other.with_stack;
        self.loads += other.loads;
        self.loads_128 += other.loads_128;
        self.over_budget += other.over_budget;
    }
}

impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sums { kernels, with_stack, loads, loads_128, over_budget } = self;
        write!(
            f,
            "kernels={kernels} with-stack={with_stack} loads={loads} loads-128={loads_128} over-budget={over_budget}"
        )
    }
}
