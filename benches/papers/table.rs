//! What is printed: a table for each paper, and the count of rows.

use std::fmt;

use serde_json::{Value, json};

use crate::seeds::{Claim, Row, Seed};

/// Whether ours is as good as the paper's figure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// As good, or better.
    Reached,
    /// Worse.
    Short,
    /// Cannot be compared: what it needs is not there.
    NotYet,
}

impl Verdict {
    /// Reached if so.
    pub fn of(reached: bool) -> Self {
        if reached { Verdict::Reached } else { Verdict::Short }
    }

    fn name(self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::Short => "short",
            Verdict::NotYet => "not yet",
        }
    }
}

/// Our side of a row.
pub struct Answer {
    /// The figure.
    pub ours: String,
    /// How it was measured.
    pub how: String,
    /// How it compares.
    pub verdict: Verdict,
}

/// Rows by verdict.
#[derive(Default)]
pub struct Tally {
    rows: usize,
    reached: usize,
    short: usize,
    not_yet: usize,
}

impl Tally {
    /// One row more.
    pub fn count(&mut self, verdict: Verdict) {
        self.rows += 1;
        match verdict {
            Verdict::Reached => self.reached += 1,
            Verdict::Short => self.short += 1,
            Verdict::NotYet => self.not_yet += 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { rows, reached, short, not_yet } = self;
        write!(f, "papers: rows={rows} reached={reached} short={short} not-yet={not_yet}")
    }
}

/// A paper's title and the head of its table.
pub fn print_head(seed: &Seed) {
    println!("\n## {}\n\n{}\n", seed.name, seed.title);
    println!("| claim | network, batch, device | paper | source | ours | verdict | how |");
    println!("|---|---|---|---|---|---|---|");
}

/// One row.
pub fn print_row(row: &Row, answer: &Answer) {
    let Claim { claim, paper, source } = row.claim;
    let Answer { ours, how, verdict } = answer;
    println!("| {claim} | {} | {paper} | {source} | {ours} | {} | {how} |", row.workload, verdict.name());
}

/// The same for `--json`.
pub fn figures(seed: &Seed, row: &Row, answer: &Answer) -> Value {
    let Claim { claim, paper, source } = row.claim;
    let Answer { ours, how, verdict } = answer;
    json!({
        "table": seed.name,
        "claim": claim,
        "workload": row.workload,
        "paper": paper,
        "source": source,
        "ours": ours,
        "verdict": verdict.name(),
        "how": how,
    })
}
