//! What is printed: a table to read, and one line for a program to read.

use std::time::Duration;

use bytesize::ByteSize;

use crate::compare::{Comparison, Pair};
use crate::train::Outcome;

const HEADER: [&str; 12] = [
    "depth",
    "burn-flex",
    "need",
    "budget",
    "peak",
    "offloaded",
    "fetched",
    "recomputed",
    "evictions",
    "step",
    "slowdown",
    "accuracy",
];

/// One line a run, right-aligned under the header.
pub fn table(comparison: &Comparison) -> String {
    let mut rows = vec![HEADER.map(String::from)];
    for pair in [&comparison.first, &comparison.deeper] {
        rows.push(row(&pair.unlimited, pair));
        rows.push(row(&pair.budgeted, pair));
    }
    let widths: [usize; HEADER.len()] = std::array::from_fn(|column| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    });
    let lines = rows.iter().map(|row| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:>width$}"));
        cells.collect::<Vec<_>>().join("  ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn row(outcome: &Outcome, pair: &Pair) -> [String; HEADER.len()] {
    let bytes = |bytes| ByteSize(bytes).to_string();
    let usage = &outcome.usage;
    [
        outcome.setup.depth.to_string(),
        bytes(pair.op_by_op_bytes),
        bytes(pair.need_bytes()),
        outcome.setup.budget_bytes.map_or("unlimited".into(), bytes),
        bytes(usage.peak_bytes),
        bytes(usage.offloaded_bytes),
        bytes(usage.fetched_bytes),
        bytes(usage.recomputed_bytes),
        usage.evictions.to_string(),
        milliseconds(outcome.step_ns),
        format!("{:.2}x", outcome.step_ns as f64 / pair.unlimited.step_ns as f64),
        format!("{:.3}", outcome.accuracy),
    ]
}

/// What the budgets are shares of.
pub fn shares(comparison: &Comparison) -> String {
    let pairs = [&comparison.first, &comparison.deeper].into_iter();
    let shares = pairs.map(|pair| {
        let budget_bytes = pair.budgeted.setup.budget_bytes.unwrap_or_default();
        let share = |of_bytes: u64| 100.0 * budget_bytes as f64 / of_bytes.max(1) as f64;
        format!(
            "The budget at depth {} is {:.0} % of what burn-flex holds for such a step, and {:.0} % of what it needs here.",
            pair.budgeted.setup.depth,
            share(pair.op_by_op_bytes),
            share(pair.need_bytes())
        )
    });
    shares.collect::<Vec<_>>().join("\n")
}

/// The last line of the output.
pub fn summary(comparison: &Comparison) -> String {
    let Comparison { first, deeper } = comparison;
    format!(
        "deeper-than-memory: need={} budget={} peak={} identical={} slowdown={:.2} deeper_depth={} \
         deeper_need={} deeper_peak={} deeper_identical={} accuracy={:.4} flex={} deeper_flex={}",
        first.need_bytes(),
        first.budgeted.setup.budget_bytes.unwrap_or_default(),
        first.budgeted.usage.peak_bytes,
        first.is_identical(),
        first.slowdown(),
        deeper.budgeted.setup.depth,
        deeper.need_bytes(),
        deeper.budgeted.usage.peak_bytes,
        deeper.is_identical(),
        first.budgeted.accuracy,
        first.op_by_op_bytes,
        deeper.op_by_op_bytes,
    )
}

/// A run on a backend that does not count its memory.
pub fn single(outcome: &Outcome) -> String {
    let steps_per_epoch = outcome.losses.len() / outcome.setup.epochs;
    let epochs = outcome.losses.chunks(steps_per_epoch).enumerate().map(|(epoch, losses)| {
        let mean = losses.iter().sum::<f32>() / losses.len() as f32;
        let last = losses.last().copied().unwrap_or_default();
        format!("epoch {}: mean loss {mean:.4}, last {last:.6}", epoch + 1)
    });
    let result = format!(
        "depth {}: {} steps of {}, accuracy {:.3}",
        outcome.setup.depth,
        outcome.losses.len(),
        milliseconds(outcome.step_ns),
        outcome.accuracy,
    );
    epochs.chain([result]).collect::<Vec<_>>().join("\n")
}

fn milliseconds(ns: u64) -> String {
    format!("{:.1} ms", Duration::from_nanos(ns).as_secs_f64() * 1e3)
}
