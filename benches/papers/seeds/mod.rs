//! The papers, a file each or a few, and the questions that several of them ask.

mod gist;
mod later;
mod layrub;
mod smartpool;
mod superneurons;
mod vdnn;

use bytesize::ByteSize;

use crate::measure::{Step, Workload};
use crate::table::{Answer, Verdict};

/// A paper.
pub struct Seed {
    /// What it is selected by.
    pub name: &'static str,
    /// Authors, title, where.
    pub title: &'static str,
    /// Its figures.
    pub rows: fn() -> Vec<Row>,
}

/// Every paper, the oldest first where one builds on another.
pub const SEEDS: [Seed; 11] = [
    vdnn::SEED,
    superneurons::SEED,
    layrub::SEED,
    smartpool::SEED,
    gist::SEED,
    later::SUBLINEAR,
    later::OFFLOADING,
    later::SWAPADVISOR,
    later::WINDOWS,
    later::CAPUCHIN,
    later::REMATERIALIZATION,
];

/// A figure of a paper.
#[derive(Clone, Copy)]
pub struct Claim {
    pub claim: &'static str,
    pub paper: &'static str,
    /// Where the figure was read, or `unverified`.
    pub source: &'static str,
}

/// A figure of a paper, and how ours is found.
pub struct Row {
    pub claim: Claim,
    pub workload: String,
    /// Its network has a thousand layers or more: Burn's autodiff takes time quadratic in them.
    pub deep: bool,
    pub measure: Box<dyn Fn() -> Answer>,
}

impl Claim {
    fn new(claim: &'static str, paper: &'static str, source: &'static str) -> Self {
        Claim { claim, paper, source }
    }

    /// Of a network on a device.
    fn of(self, workload: Workload, measure: impl Fn(&Workload) -> Answer + 'static) -> Row {
        self.of_all(&workload.to_string(), move || measure(&workload))
    }

    /// Of several.
    fn of_all(self, workload: &str, measure: impl Fn() -> Answer + 'static) -> Row {
        Row { claim: self, workload: workload.to_string(), deep: false, measure: Box::new(measure) }
    }

    /// Nothing that could be compared, and why.
    fn not_yet(self, workload: &str, why: &'static str) -> Row {
        self.of_all(workload, move || Answer {
            ours: "not yet".to_string(),
            how: why.to_string(),
            verdict: Verdict::NotYet,
        })
    }
}

impl Row {
    fn deep(self) -> Self {
        Row { deep: true, ..self }
    }
}

fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

fn times(factor: f64) -> String {
    format!("{factor:.2}x")
}

fn size(bytes: usize) -> String {
    ByteSize(bytes as u64).to_string()
}

/// A slowdown as the part of the speed that is lost.
fn loss(slowdown: f64) -> f64 {
    1.0 - 1.0 / slowdown
}

/// The slowdown that loses this part of the speed.
fn slowdown(loss: f64) -> f64 {
    1.0 / (1.0 - loss)
}

/// The memory saved and what it cost.
fn saving(step: Option<&Step>, unlimited: &Step) -> String {
    match step {
        Some(step) => format!(
            "{} ({}, {} the time)",
            percent(step.saved(unlimited)),
            step.policy,
            times(step.slowdown(unlimited))
        ),
        None => "nothing".to_string(),
    }
}

/// Is `wanted` of the memory saved at no more than a slowdown?
fn saved(workload: &Workload, slowdown: f64, wanted: f64) -> Answer {
    let unlimited = workload.unlimited();
    let within = workload.smallest_within(&unlimited, slowdown);
    let least = workload.within(unlimited.smallest_bytes).ok();
    let part = within.as_ref().map_or(0.0, |step| step.saved(&unlimited));
    Answer {
        ours: format!(
            "{}; at the least {}",
            saving(within.as_ref(), &unlimited),
            saving(least.as_ref(), &unlimited)
        ),
        how: format!(
            "peak; smallest budget at most {} the time, of the {} needed without a limit",
            times(slowdown),
            size(unlimited.need_bytes())
        ),
        verdict: Verdict::of(part >= wanted),
    }
}

/// The parts of the memory that each of the networks saves at no more than a slowdown.
fn parts_saved(workloads: &[Workload], slowdown: f64) -> Vec<f64> {
    let saved = |workload: &Workload| {
        let unlimited = workload.unlimited();
        let within = workload.smallest_within(&unlimited, slowdown);
        within.map_or(0.0, |step| step.saved(&unlimited))
    };
    workloads.iter().map(saved).collect()
}

/// Each network with the figure that belongs to it, such as "alexnet 12.5 %".
fn each(workloads: &[Workload], parts: &[f64]) -> String {
    let one = |(workload, part): (&Workload, &f64)| format!("{} {}", workload.network(), percent(*part));
    workloads.iter().zip(parts).map(one).collect::<Vec<_>>().join(", ")
}

fn mean(parts: &[f64]) -> f64 {
    parts.iter().sum::<f64>() / parts.len() as f64
}

fn largest(parts: &[f64]) -> f64 {
    parts.iter().copied().fold(0.0, f64::max)
}

/// The answer where a step may be refused.
fn answer(step: Result<Step, String>, how: &str, say: impl FnOnce(&Step) -> (String, bool)) -> Answer {
    let (ours, reached) = match &step {
        Ok(step) => say(step),
        Err(error) => (format!("refused: {error}"), false),
    };
    Answer { ours, how: how.to_string(), verdict: Verdict::of(reached) }
}
