//! What the examples share: digits to learn from, runs within a budget, and bits to compare.

pub mod digits;
pub mod letters;
pub mod shapes;

use std::time::{Duration, Instant};

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::backend::Backend;
use burn::tensor::{ElementConversion, Int, Tensor};
use burn_overcommit::{Config, Error, OvercommitDevice, Stats, configure, stats};
use bytesize::ByteSize;
use clap::Parser;

/// Begins a program: messages go to standard error, and a reader that ends early, as `head` does, ends the program in silence.
pub fn begin() {
    sigpipe::reset();
    let level = env_logger::Env::new().filter_or("OVERCOMMIT_LOG", "warn,burn_overcommit=info");
    // The tests begin several programs in one process.
    let _ = env_logger::Builder::from_env(level).format_timestamp(None).try_init();
}

/// Trains with all memory and in a part of it, to the same bits.
#[derive(Parser)]
pub struct Options {
    /// So many times the layers, in the memory that one time needs.
    #[arg(long, default_value_t = 1)]
    pub deeper: usize,
    /// Training steps.
    #[arg(long, default_value_t = 60)]
    pub steps: usize,
}

/// What a run took.
pub struct Run {
    name: &'static str,
    budget_bytes: Option<usize>,
    stats: Stats,
    time: Duration,
}

impl Run {
    /// The most device memory that it held at once, in bytes.
    pub fn peak_bytes(&self) -> usize {
        self.stats.peak_allocated_bytes
    }
}

/// Runs a program within a budget, or with all the memory that it asks for. No tensor of the device may be alive.
///
/// # Errors
/// If the budget is refused.
pub fn within<T>(
    name: &'static str,
    device: &OvercommitDevice,
    budget_bytes: Option<usize>,
    program: impl FnOnce() -> T,
) -> Result<(T, Run), Error> {
    let config = budget_bytes.map_or(Config::new(), |bytes| Config::new().budget_bytes(bytes));
    configure(device, config)?;
    let begun = Instant::now();
    let result = program();
    let time = begun.elapsed();
    Ok((result, Run { name, budget_bytes, stats: stats(device)?, time }))
}

/// Trains with all memory and in a part of it; then, if it is to be deeper, so many times the layers with all memory and in what one
/// time needs. `train` takes how many times the layers, and returns the bits of its weights and what else came of it. Prints a table,
/// and returns what came of the first run.
///
/// # Errors
/// If a budget is refused.
///
/// # Panics
/// If weights differ by a bit.
pub fn train_in_less<T>(
    device: &OvercommitDevice,
    part: f64,
    deeper: usize,
    train: impl Fn(usize) -> (Vec<u32>, T),
) -> Result<T, Error> {
    let ((weights, result), unlimited) = within("all memory", device, None, || train(1))?;
    let need_bytes = unlimited.peak_bytes();
    let budget_bytes = (need_bytes as f64 * part) as usize;
    let ((in_less, _), less) = within("a part of it", device, Some(budget_bytes), || train(1))?;
    assert!(in_less == weights, "the weights differ");
    let mut runs = vec![unlimited, less];
    if deeper > 1 {
        let ((weights, _), all) = within("deeper", device, None, || train(deeper))?;
        let ((in_less, _), less) =
            within("in the first's memory", device, Some(need_bytes), || train(deeper))?;
        assert!(in_less == weights, "the weights differ");
        runs.extend([all, less]);
    }
    print_table(&runs);
    Ok(result)
}

/// Prints a line for each run.
pub fn print_table(runs: &[Run]) {
    let row = |name: &str, cells: [String; 6]| {
        println!("{name:<24}{}", cells.map(|cell| format!("{cell:>12}")).concat());
    };
    row("", ["budget", "peak", "offloaded", "fetched", "recomputed", "time"].map(String::from));
    for Run { name, budget_bytes, stats, time } in runs {
        let size = |bytes: u64| ByteSize(bytes).to_string();
        let counters = &stats.counters;
        let moved = [counters.offloaded_bytes, counters.fetched_bytes, counters.recomputed_bytes];
        let [offloaded, fetched, recomputed] = moved.map(size);
        let budget = budget_bytes.map_or("unlimited".into(), |bytes| size(bytes as u64));
        let time = format!("{:.2} s", time.as_secs_f64());
        row(name, [budget, size(stats.peak_allocated_bytes as u64), offloaded, fetched, recomputed, time]);
    }
}

/// The part of rows whose highest score is that of their label, over batches of scores and labels.
pub fn accuracy<B: Backend>(batches: impl IntoIterator<Item = (Tensor<B, 2>, Tensor<B, 1, Int>)>) -> f64 {
    let (mut correct, mut rows) = (0.0, 0);
    for (scores, labels) in batches {
        rows += labels.dims()[0];
        let named = scores.argmax(1).flatten::<1>(0, 1);
        correct += named.equal(labels).int().sum().into_scalar().elem::<f64>();
    }
    correct / rows as f64
}

/// The bits of every parameter and running statistic, in the module's order.
///
/// # Panics
/// If the module is not in single precision.
pub fn weights_bits<B: Backend>(module: &impl Module<B>) -> Vec<u32> {
    let mut bits = Bits(Vec::new());
    module.visit(&mut bits);
    bits.0
}

struct Bits(Vec<u32>);

impl<B: Backend> ModuleVisitor<B> for Bits {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let data = param.val().into_data();
        let values = data.as_slice::<f32>().expect("the module is in single precision");
        self.0.extend(values.iter().map(|value| value.to_bits()));
    }
}
