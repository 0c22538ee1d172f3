//! How `auto` compares with what is known, and every row that was printed.

use std::fmt;

use serde_json::{Value, json};

use crate::known::{Known, PERCENTS};
use crate::planner;

/// Overheads that differ by less are the same: figures are known to three places.
const SAME: f64 = 0.0005;

/// Cells by how they compare.
#[derive(Default)]
pub struct Score {
    won: usize,
    tied: usize,
    lost: usize,
    /// Our overheads on the logs, beside what no schedule beats.
    overheads: Vec<[f64; 2]>,
    worst_ratio: f64,
    /// The rows of all tables, for `--json`.
    pub cells: Vec<Value>,
}

impl Score {
    /// Keeps a row of a table: overheads at the budgets of the columns.
    pub fn row(&mut self, [table, program, method, policy]: [&str; 4], overheads: [Option<f64>; 5]) {
        let mut cell = json!({ "table": table, "program": program, "method": method, "policy": policy });
        for (percent, overhead) in PERCENTS.iter().zip(overheads) {
            cell[format!("overhead_at_{percent}_percent")] = json!(overhead);
        }
        self.cells.push(cell);
    }

    /// Ours beside what no schedule beats.
    pub fn bound(&mut self, ours: Option<f64>, bound: Option<f64>) {
        self.overheads.extend(ours.zip(bound).map(|(ours, bound)| [ours, bound]));
    }

    /// One cell more; none if nothing is known, or if nobody gets there, neither do we.
    pub fn count(&mut self, ours: Option<f64>, known: Option<Known>) {
        let better = match (known, ours) {
            (None, _) | (Some(Known::Infeasible), None) => return,
            (Some(Known::Infeasible | Known::Feasible), Some(_)) => 1.0,
            (Some(Known::Feasible | Known::Overhead(_)), None) => -1.0,
            (Some(Known::Overhead(known)), Some(ours)) => known - ours,
        };
        if let (Some(Known::Overhead(known)), Some(ours)) = (known, ours) {
            self.worst_ratio = self.worst_ratio.max(ours / known);
        }
        match better {
            better if better > SAME => self.won += 1,
            better if better < -SAME => self.lost += 1,
            _ => self.tied += 1,
        }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Score { won, tied, lost, overheads, worst_ratio, .. } = self;
        let sum = |at: usize| overheads.iter().fold(0.0, |sum, both| sum + both[at]);
        let mean = |at: usize| sum(at) / overheads.len().max(1) as f64;
        write!(
            f,
            "policies: cells={} mean={:.4} bound-mean={:.4} worst-ratio={worst_ratio:.4} won={won} tied={tied} lost={lost} \
             constants={}",
            won + tied + lost,
            mean(0),
            mean(1),
            planner::constants()
        )
    }
}
