//! How `auto` compares with what is known, and every row that was printed.

use std::fmt;

use serde_json::{Value, json};

use crate::known::{Known, PERCENTS};

/// Overheads that differ by less are the same: figures are known to three places.
const SAME: f64 = 0.0005;

/// Cells by how they compare.
#[derive(Default)]
pub struct Score {
    won: usize,
    tied: usize,
    lost: usize,
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

    /// One cell more; none if nothing is known, or if nobody gets there, neither do we.
    pub fn count(&mut self, ours: Option<f64>, known: Option<Known>) {
        let better = match (known, ours) {
            (None, _) | (Some(Known::Infeasible), None) => return,
            (Some(Known::Infeasible | Known::Feasible), Some(_)) => 1.0,
            (Some(Known::Feasible | Known::Overhead(_)), None) => -1.0,
            (Some(Known::Overhead(known)), Some(ours)) => known - ours,
        };
        match better {
            better if better > SAME => self.won += 1,
            better if better < -SAME => self.lost += 1,
            _ => self.tied += 1,
        }
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Score { won, tied, lost, .. } = self;
        write!(f, "policies: cells={} won={won} tied={tied} lost={lost}", won + tied + lost)
    }
}
