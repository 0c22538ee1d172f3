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

/// The backends.
const NAMES: [&str; 2] = ["burn-overcommit", "burn-flex"];

#[derive(Parser)]
struct Options {
    /// Steps of each backend that count, after as many as a tenth of them that do not.
    #[arg(long, default_value_t = 100)]
    steps: usize,
    /// One of them alone, for a profiler.
    #[arg(long, value_parser = NAMES)]
    only: Option<String>,
    #[command(flatten)]
    output: Output,
    /// Passed by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    times.get(times.len() / 2).copied()
}

fn main() {
    let options = Options::parse();
    let device = OvercommitDevice::Host(0);
    configure(&device, Config::new()).expect("a device that nothing uses");
    let mut backends: [Step; 2] =
        [steps::<Autodiff<Overcommit>>(device), steps::<Autodiff<Flex>>(Default::default())];
    let mut times = [Vec::new(), Vec::new()];
    let (count, warm) = (options.steps.max(1), options.steps / 10);
    let ops = || stats(&device).expect("a device that is there").counters.ops;
    let mut before = ops();
    for round in 0..warm + count {
        if round == warm {
            before = ops();
        }
        for ((name, step), times) in NAMES.iter().zip(&mut backends).zip(&mut times) {
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
    let [ours_ms, flex_ms] = times.map(|times| Some(1e3 * median(times)?.as_secs_f64()));
    let us_per_op = ours_ms.map(|ms| ms * 1e3 / ops_a_step);
    if let (Some(ms), Some(us)) = (ours_ms, us_per_op) {
        println!("burn-overcommit: {ms:.2} ms a step of {ops_a_step:.0} ops, {us:.2} us an op");
    }
    if let Some(ms) = flex_ms {
        println!("burn-flex: {ms:.2} ms a step");
    }
    let ratio = ours_ms.zip(flex_ms).map(|(ours, flex)| ours / flex);
    if let Some(ratio) = ratio {
        println!("ratio: {ratio:.2}");
    }
    options.output.write(vec![json!({
        "run": options.only.as_deref().map_or("in turn".to_string(), |only| format!("{only} alone")),
        "ops": ours_ms.map(|_| ops_a_step),
        "overcommit_ms": ours_ms,
        "overcommit_us_per_op": us_per_op,
        "flex_ms": flex_ms,
        "overcommit_to_flex_ratio": ratio,
    })]);
}
