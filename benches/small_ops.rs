//! The time of a training step whose ops are small, beside burn-flex.
//!
//! Backends take turns, step by step, so that what else the machine does meets both.

#[path = "support/recurrent.rs"]
mod recurrent;
#[path = "support/results.rs"]
mod results;

use std::time::{Duration, Instant};

use burn::backend::{Autodiff, Flex};
use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure, stats};
use clap::Parser;
use serde_json::json;

use crate::recurrent::{Step, steps};
use crate::results::Output;

#[derive(Parser)]
struct Options {
    /// Steps of each backend that count, after as many as a tenth of them that do not.
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// One of them alone, for a profiler: `burn-overcommit` or `burn-flex`.
    #[arg(long)]
    only: Option<String>,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn main() {
    let options = Options::parse();
    let device = OvercommitDevice::Host(0);
    configure(&device, Config::new()).expect("a device that nothing uses");
    let mut backends: [Step; 2] =
        [steps::<Autodiff<Overcommit>>(device), steps::<Autodiff<Flex>>(Default::default())];
    let names = ["burn-overcommit", "burn-flex"];
    let mut times = [Vec::new(), Vec::new()];
    let (count, warm) = (options.steps.max(1), options.steps / 10);
    let ops = || stats(&device).expect("a device that is there").counters.ops;
    let mut before = ops();
    for round in 0..warm + count {
        if round == warm {
            before = ops();
        }
        for ((name, step), times) in names.iter().zip(&mut backends).zip(&mut times) {
            if options.only.as_ref().is_some_and(|only| only != name) {
                continue;
            }
            let start = Instant::now();
            let loss = step();
            let spent = start.elapsed();
            assert!(loss.is_finite(), "a step's loss is {loss}");
            if round >= warm {
                times.push(spent);
            }
        }
    }
    let ops_a_step = (ops() - before) as f64 / count as f64;
    let [ours, flex] = times.map(|times| median(times).as_secs_f64());
    println!(
        "burn-overcommit: {:.2} ms a step of {ops_a_step:.0} ops, {:.2} us an op",
        ours * 1e3,
        ours * 1e6 / ops_a_step
    );
    println!("burn-flex: {:.2} ms a step", flex * 1e3);
    println!("ratio: {:.2}", ours / flex);
    options.output.write(vec![json!({
        "run": options.only.as_deref().map_or("in turn".to_string(), |only| format!("{only} alone")),
        "ops": ops_a_step,
        "overcommit_ms": ours * 1e3,
        "overcommit_us_per_op": ours * 1e6 / ops_a_step,
        "flex_ms": flex * 1e3,
        "overcommit_to_flex_ratio": ours / flex,
    })]);
}
