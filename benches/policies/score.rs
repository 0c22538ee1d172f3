//! How `auto` compares with what is known.

use std::fmt;

use crate::known::Known;

/// Overheads that differ by less are the same: figures are known to three places.
const SAME: f64 = 0.0005;

/// Cells by how they compare.
#[derive(Default)]
pub struct Score {
    won: usize,
    tied: usize,
    lost: usize,
}

impl Score {
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
        let Score { won, tied, lost } = self;
        write!(f, "policies: cells={} won={won} tied={tied} lost={lost}", won + tied + lost)
    }
}
