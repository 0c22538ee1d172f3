//! `machines launch --nodes 4` trains on this machine; `machines orchestrator` and `machines node` on several.

use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use burn_overcommit_machines::exchange::Members;
use burn_overcommit_machines::launch::Launch;
use burn_overcommit_machines::node::{self, Task};
use burn_overcommit_machines::{Error, orchestrator, say};
use bytesize::ByteSize;
use clap::{Args, Parser, Subcommand};

/// Trains one network on several machines, each process with a budget of its own.
#[derive(Parser)]
struct Options {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// An orchestrator and nodes on this machine.
    Launch {
        /// How many.
        #[arg(long, default_value_t = 4)]
        nodes: usize,
        /// Device memory of the nodes: one for all, or a list that is gone through in turns.
        #[arg(long, value_delimiter = ',', default_value = "640 KiB")]
        budget: Vec<String>,
        /// Where the nodes write what came of it.
        #[arg(long)]
        outcomes: Option<PathBuf>,
        #[command(flatten)]
        training: Training,
    },
    /// Adds the nodes' gradients, and tells them if one is gone.
    Orchestrator {
        /// Listens on this port.
        #[arg(long)]
        port: u16,
        /// How many nodes there are.
        #[arg(long)]
        nodes: usize,
        /// How many seconds a step may take, and joining.
        #[arg(long, default_value_t = 60)]
        time_limit: u64,
    },
    /// One of several processes that train.
    Node {
        /// Which one, from 0.
        #[arg(long)]
        rank: usize,
        /// How many there are.
        #[arg(long)]
        nodes: usize,
        /// The orchestrator.
        #[arg(long, default_value = "127.0.0.1:3000")]
        server: String,
        /// Device memory.
        #[arg(long)]
        budget: Option<String>,
        /// Where to write what came of it.
        #[arg(long)]
        outcome: Option<PathBuf>,
        #[command(flatten)]
        training: Training,
    },
}

#[derive(Args)]
struct Training {
    /// Steps in all.
    #[arg(long, default_value_t = 60)]
    steps: usize,
    /// Digits of a step, of all nodes together.
    #[arg(long, default_value_t = 128)]
    batch: usize,
    /// The folder of checkpoints. Training goes on after the last one that all nodes have.
    #[arg(long, default_value = "checkpoints")]
    checkpoint: PathBuf,
    /// So many steps lie between checkpoints.
    #[arg(long, default_value_t = 10)]
    every: usize,
    /// How much of the gradients is exchanged at once.
    #[arg(long, default_value = "1 MiB")]
    bucket: ByteSize,
    /// How many seconds a step may take, and joining.
    #[arg(long, default_value_t = 60)]
    time_limit: u64,
}

impl Training {
    /// The options of a node that say the same.
    fn options(&self) -> Vec<String> {
        let Training { steps, batch, checkpoint, every, bucket, .. } = self;
        let pairs = [
            ("--steps", steps.to_string()),
            ("--batch", batch.to_string()),
            ("--checkpoint", checkpoint.display().to_string()),
            ("--every", every.to_string()),
            ("--bucket", bucket.as_u64().to_string()),
        ];
        pairs.into_iter().flat_map(|(name, value)| [name.to_string(), value]).collect()
    }
}

fn main() -> ExitCode {
    let (name, ended) = match Options::parse().part {
        Part::Launch { nodes, budget, outcomes, training } => {
            ("machines".into(), launch(nodes, budget, outcomes, &training))
        }
        Part::Orchestrator { port, nodes, time_limit } => {
            let limit = Duration::from_secs(time_limit);
            ("orchestrator".into(), orchestrator::serve_on_port(port, nodes, limit))
        }
        Part::Node { rank, nodes, server, budget, outcome, training } => {
            let limit = Duration::from_secs(training.time_limit);
            let members = Members { rank, nodes, server, limit };
            (format!("node {rank}"), run_node(members, budget, outcome, training))
        }
    };
    let Err(error) = ended else { return ExitCode::SUCCESS };
    let hint =
        if error.is_resumable() { ". Start all again: they go on after the last checkpoint" } else { "" };
    say(&format!("{name}: {error}{hint}"));
    ExitCode::FAILURE
}

fn launch(
    nodes: usize,
    budgets: Vec<String>,
    outcomes: Option<PathBuf>,
    training: &Training,
) -> Result<(), Error> {
    let program = std::env::current_exe().map_err(|error| Error::Told(error.to_string()))?;
    let launch = Launch {
        program,
        nodes,
        limit_s: training.time_limit,
        budgets,
        options: training.options(),
        outcomes,
    };
    let ended = launch.start(&[], Stdio::inherit)?.wait()?;
    if ended.is_success() {
        return Ok(());
    }
    let failed = ended.nodes.iter().filter(|(_, status)| !status.success());
    let failed: Vec<String> = failed.map(|(rank, status)| format!("node {rank}: {status}")).collect();
    Err(Error::Told(format!("not all processes ended well ({})", failed.join(", "))))
}

fn run_node(
    members: Members,
    budget: Option<String>,
    outcome: Option<PathBuf>,
    training: Training,
) -> Result<(), Error> {
    let Training { steps, batch, checkpoint, every, bucket, .. } = training;
    let task = Task {
        members,
        budget,
        steps,
        batch,
        checkpoints: checkpoint,
        every: every.max(1),
        bucket_bytes: bucket.as_u64() as usize,
        outcome,
    };
    let rank = task.members.rank;
    let outcome = node::run(&task)?;
    match outcome.loss {
        Some(loss) => {
            let (peak, evictions) = (ByteSize(outcome.peak_bytes as u64), outcome.evictions);
            say(&format!(
                "node {rank}: done, loss {loss:.4}, at most {peak} on the device, {evictions} evictions"
            ));
        }
        None => say(&format!("node {rank}: nothing to do, all steps were done before")),
    }
    Ok(())
}
