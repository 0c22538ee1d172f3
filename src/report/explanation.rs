//! What holds a program's memory, and why a run takes as long as it does, in words.

use std::fmt;

use super::leaving::Leaving;
use super::memory_use::MemoryUse;
use super::summary::Report;
use super::text::{LEFT, RIGHT, write_paragraph, write_table};
use super::units::{count, share, size, time};
use crate::engine::Lane;
use crate::replay::Outcome;
use crate::trace::How;

/// The most groups that are listed.
const MAX_LISTED: usize = 16;

/// Explains a run under a budget: which storages leave device memory, how, at what cost, and where the time goes. `Display`
/// prints it, in lines of 80 columns if it is asked to by `{explanation:80}`.
///
/// ```
/// use burn_overcommit::SimProfile;
/// use burn_overcommit::replay::{ITERATIONS, Replay, Settings};
/// use burn_overcommit::report::{Explanation, Report};
/// use burn_overcommit::trace::Program;
///
/// let profile = SimProfile::named("titan-x").and_then(SimProfile::get).unwrap();
/// let program = Program::default();
/// let replay = Replay::new(&program, profile, ITERATIONS)?;
/// let (outcome, recording) = replay.record(&Settings::new(1 << 30))?;
/// let less = replay.run(&Settings::new(1 << 29))?;
///
/// let explanation = Explanation::new(&Report::new(&recording, Some(&outcome)), vec![less]);
/// assert!(explanation.leaving.is_empty());
/// println!("{explanation}");
/// # Ok::<(), burn_overcommit::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// What is explained, for people.
    pub title: String,
    /// The part of the run that is explained, in words.
    pub part: String,
    /// The time that the part takes.
    pub step_ns: u64,
    /// The time of ops that run again, and of encoding and decoding.
    pub recompute_ns: u64,
    /// How long ops wait: for copies, and for a program that submits too slowly.
    pub wait_ns: u64,
    /// What leaves device memory, that with the largest cost first.
    pub leaving: Vec<Leaving>,
    /// The outcome of the run, if it is a replay.
    pub outcome: Option<Outcome>,
    /// The outcomes in other budgets.
    pub others: Vec<Outcome>,
    /// What the program holds at its peak, if it was asked for.
    pub memory: Option<MemoryUse>,
}

impl Explanation {
    /// Explains what a report sums up. `others` are the outcomes of the same program in other budgets, to compare with.
    pub fn new(report: &Report, others: Vec<Outcome>) -> Self {
        Explanation {
            title: report.title.clone(),
            part: report.part.clone(),
            step_ns: report.step_ns,
            recompute_ns: report.lanes[Lane::Compute as usize].recompute_ns,
            wait_ns: report.wait_ns,
            leaving: report.leaving.clone(),
            outcome: report.outcome.clone(),
            others,
            memory: None,
        }
    }

    /// Also says what the program holds at its peak, and what would help.
    #[must_use]
    pub fn with_memory(mut self, memory: MemoryUse) -> Self {
        self.memory = Some(memory);
        self
    }
}

impl Leaving {
    /// Why it costs what it does.
    pub(super) fn why(&self) -> &'static str {
        match (self.how, self.wait_ns, self.recompute_ns) {
            (How::Offload | How::Clean, 0, _) => "its copies run beside ops",
            (How::Offload | How::Clean, ..) => "ops wait for its copies",
            (How::Drop, _, 0) => "nothing needs it again",
            (How::Drop, ..) if self.count == 0 => "others are made from it",
            (How::Drop, ..) => "it is made again",
            (How::Encode, ..) => "it waits in fewer bits",
        }
    }

    pub(super) fn how_in_words(&self) -> &'static str {
        match self.how {
            How::Offload => "offloaded",
            How::Clean => "left to the host's copy",
            How::Drop => "dropped",
            How::Encode => "encoded",
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(memory) = &self.memory {
            fmt::Display::fmt(memory, f)?;
            writeln!(f)?;
        }
        write_paragraph(f, format!("{}, {}", self.title, self.part))?;
        match &self.outcome {
            Some(outcome) => self.of_outcome(f, outcome)?,
            None => write_paragraph(f, format!("It takes {}.", time(self.step_ns)))?,
        }
        let [again, waits] = [self.recompute_ns, self.wait_ns].map(time);
        write_paragraph(f, format!("Ops that run again take {again} of this, and ops wait for {waits}."))?;
        self.list(f)?;
        for other in &self.others {
            let ratio = |outcome: &Outcome| {
                outcome
                    .overhead
                    .map_or("does not fit".into(), |overhead| format!("{overhead:.3} times as long"))
            };
            writeln!(f, "In {}: {}.", size(other.budget_bytes), ratio(other))?;
        }
        Ok(())
    }
}

impl Explanation {
    fn of_outcome(&self, f: &mut fmt::Formatter<'_>, outcome: &Outcome) -> fmt::Result {
        let how = format!(
            "Policy {} on {} in {}, {} of the {} that are live at once.",
            outcome.policy,
            outcome.device,
            size(outcome.budget_bytes),
            share(outcome.budget_bytes as f64, outcome.live_peak_bytes as f64),
            size(outcome.live_peak_bytes)
        );
        write_paragraph(f, how)?;
        if let Some(failure) = &outcome.failure {
            return writeln!(f, "It does not fit: {failure}");
        }
        let ratio = self.step_ns as f64 / outcome.base_ns.max(1) as f64;
        let [takes, base] = [self.step_ns, outcome.base_ns].map(time);
        write_paragraph(f, format!("It takes {takes}, {ratio:.3} times the {base} with all memory."))?;
        let Some(bound) = outcome.bound else { return Ok(()) };
        let least_ns = (bound * outcome.base_ns as f64) as u64;
        let more = time(self.step_ns.saturating_sub(least_ns));
        let least =
            format!("No schedule takes less than {bound:.3} times as long: it may be {more} too slow.");
        write_paragraph(f, least)
    }

    fn list(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.leaving.is_empty() {
            return writeln!(f, "Nothing leaves device memory.");
        }
        writeln!(f)?;
        let has_modules = self.leaving.iter().any(|leaving| leaving.module.is_some());
        let module = if has_modules { "module" } else { "" };
        let head = ["made by", "each", "times", "how", "away for", "run again", "waits", "why", module]
            .map(String::from);
        let rows = self.leaving.iter().take(MAX_LISTED).map(|leaving| {
            let Leaving { made_by, size_bytes, count: times, away_ns, recompute_ns, wait_ns, .. } = leaving;
            [
                made_by.clone(),
                size(*size_bytes),
                count(*times),
                leaving.how_in_words().into(),
                time(away_ns.checked_div(*times as u64).unwrap_or(0)),
                time(*recompute_ns),
                time(*wait_ns),
                leaving.why().into(),
                leaving.module.clone().unwrap_or_default(),
            ]
        });
        let alignments = [LEFT, RIGHT, RIGHT, LEFT, RIGHT, RIGHT, RIGHT, LEFT, LEFT];
        write_table(f, alignments, std::iter::once(head).chain(rows))?;
        let rest = &self.leaving[self.leaving.len().min(MAX_LISTED)..];
        if !rest.is_empty() {
            let times: usize = rest.iter().map(|leaving| leaving.count).sum();
            let cost_ns: u64 = rest.iter().map(Leaving::cost_ns).sum();
            writeln!(f, "and {} more kinds, {} times, {}", rest.len(), count(times), time(cost_ns))?;
        }
        writeln!(f)
    }
}
