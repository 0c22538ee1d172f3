use std::path::PathBuf;

/// Why training on several machines ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The orchestrator cannot be reached.
    #[error(
        "no orchestrator answers at {server} within {limit_s} s; start `machines orchestrator` there first"
    )]
    Unreachable {
        /// Its address.
        server: String,
        /// The time limit.
        limit_s: u64,
    },
    /// The orchestrator told that the nodes cannot go on.
    #[error("{0}")]
    Told(String),
    /// Nothing was heard for longer than the orchestrator takes to tell why.
    #[error(
        "step {step}: nothing was heard from the orchestrator for {limit_s} s: it or the network is down"
    )]
    Silence {
        /// The step.
        step: usize,
        /// How long.
        limit_s: u64,
    },
    /// The connection to the orchestrator ended.
    #[error("step {step}: the connection to the orchestrator was lost")]
    Lost {
        /// The step.
        step: usize,
    },
    /// The nodes are not of one training.
    #[error("node {node} has {what} {theirs}, and node 0 has {first}: all nodes must have the same")]
    Different {
        /// The first that differs.
        node: usize,
        /// In what.
        what: &'static str,
        /// Its own.
        theirs: f32,
        /// That of node 0.
        first: f32,
    },
    /// What was asked for makes no sense.
    #[error("{0}")]
    Options(String),
    /// A file could not be read or written.
    #[error("{}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The device or its budget.
    #[error(transparent)]
    Device(#[from] burn_overcommit::Error),
}

impl Error {
    /// The error of a file.
    pub fn file(path: impl Into<PathBuf>, reason: impl ToString) -> Self {
        Error::File { path: path.into(), reason: reason.to_string() }
    }

    /// Whether training that is started again goes on from a checkpoint, so that this is worth saying.
    pub fn is_resumable(&self) -> bool {
        !matches!(self, Error::Options(_) | Error::Different { .. } | Error::Device(_))
    }
}
