//! `explain`: what holds a program's memory, or why it takes as long as it does in a budget.

use std::process::ExitCode;

use anyhow::Result;
use burn_overcommit::replay::Replay;
use burn_overcommit::report::{Explanation, MemoryUse, Report};
use burn_overcommit::{Amount, Policy};
use clap::Args;

use crate::INFEASIBLE;
use crate::json;
use crate::options::{EvictionOptions, Source, amount, in_flags, recording, spinner, title, width};

/// The other budgets, as parts of the one that is explained.
const OTHERS: [f64; 2] = [1.1, 0.9];

/// See the command's help.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    source: Source,
    /// Device memory that it may use: bytes such as 8 GiB, or a share of the trace's live peak such as 50%. Without, it says what holds
    /// the program's memory, and how a recording ran.
    #[arg(long, value_parser = amount)]
    budget: Option<Amount>,
    /// The memory policy.
    #[arg(long, default_value_t)]
    policy: Policy,
    #[command(flatten)]
    eviction: EvictionOptions,
    /// One JSON object.
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> Result<ExitCode> {
    let file = &options.source.file;
    let spinner = spinner(format!("replaying {}", file.display()));
    let explanation = match options.budget {
        Some(budget) => in_budget(options, budget)?,
        None => {
            let otherwise = "name a budget to run it in, such as --budget 50%";
            let recording = recording(file, otherwise)?;
            let report = Report::new(&recording, None).titled(title(file));
            Explanation::new(&report, Vec::new()).with_memory(MemoryUse::of(&recording.program()))
        }
    };
    spinner.finish_and_clear();
    if options.json {
        json::print(&explanation)?;
    } else {
        match width() {
            Some(width) => print!("{explanation:0$}", usize::from(width)),
            None => print!("{explanation}"),
        }
    }
    let fits = explanation.outcome.is_none_or(|outcome| outcome.feasible);
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::from(INFEASIBLE) })
}

fn in_budget(options: &Options, budget: Amount) -> Result<Explanation> {
    let program = options.source.program()?;
    let replay = options.source.replay(&program)?;
    let budget_bytes = budget.of(replay.live_peak_bytes());
    let others = OTHERS.map(|part| (budget_bytes as f64 * part) as usize);
    let others = others.into_iter().filter(|bytes| (..=replay.live_peak_bytes()).contains(bytes));
    let in_bytes = |replay: &Replay, bytes| replay.run(&options.eviction.settings(bytes, options.policy));
    let others = others.map(|bytes| in_bytes(&replay, bytes)).collect::<Result<_, _>>()?;
    let (mut outcome, recording) = replay.record(&options.eviction.settings(budget_bytes, options.policy))?;
    outcome.failure = outcome.failure.as_deref().map(in_flags);
    let report = Report::new(&recording, Some(&outcome)).titled(title(&options.source.file));
    Ok(Explanation::new(&report, others))
}
