//! An orchestrator and nodes as processes on this machine.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::Error;

/// What to start.
#[derive(Clone, Debug)]
pub struct Launch {
    /// This program.
    pub program: PathBuf,
    /// How many nodes.
    pub nodes: usize,
    /// How long a step may take.
    pub limit_s: u64,
    /// Budgets of the nodes in turns.
    pub budgets: Vec<String>,
    /// What all nodes are given besides.
    pub options: Vec<String>,
    /// The folder of the nodes' outcomes, if they are to write some.
    pub outcomes: Option<PathBuf>,
}

/// Processes that are ended when this goes.
pub struct Processes {
    /// The orchestrator.
    pub orchestrator: Child,
    /// The nodes, but for those that were left out.
    pub nodes: Vec<(usize, Child)>,
}

impl Drop for Processes {
    fn drop(&mut self) {
        let nodes = self.nodes.iter_mut().map(|(_, node)| node);
        for child in nodes.chain([&mut self.orchestrator]) {
            // One that has ended cannot be.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// How the processes ended.
#[derive(Debug)]
pub struct Ended {
    /// The orchestrator.
    pub orchestrator: ExitStatus,
    /// The nodes.
    pub nodes: Vec<(usize, ExitStatus)>,
}

impl Ended {
    /// Whether all did what they should.
    pub fn is_success(&self) -> bool {
        self.orchestrator.success() && self.nodes.iter().all(|(_, status)| status.success())
    }
}

impl Launch {
    /// Starts the orchestrator and all nodes but those `without`. `on_error` is where their standard error goes.
    ///
    /// # Errors
    /// A process that cannot be started, and no free port.
    pub fn start(&self, without: &[usize], on_error: fn() -> Stdio) -> Result<Processes, Error> {
        let (port, limit, count) =
            (free_port()?.to_string(), self.limit_s.to_string(), self.nodes.to_string());
        let spawn = |arguments: &[&str], options: &[String]| {
            let all = ["--nodes", &count, "--time-limit", &limit];
            let mut command = Command::new(&self.program);
            let child = command.args(arguments).args(all).args(options).stderr(on_error()).spawn();
            child.map_err(|error| Error::file(&self.program, error))
        };
        let orchestrator = spawn(&["orchestrator", "--port", &port], &[])?;
        let mut processes = Processes { orchestrator, nodes: Vec::new() };
        let server = format!("127.0.0.1:{port}");
        for rank in (0..self.nodes).filter(|rank| !without.contains(rank)) {
            let mut options = self.options.clone();
            if let Some(budget) = self.budgets.get(rank % self.budgets.len().max(1)) {
                options.extend(["--budget".into(), budget.clone()]);
            }
            if let Some(folder) = &self.outcomes {
                let outcome = folder.join(format!("node-{rank}.outcome"));
                options.extend(["--outcome".into(), outcome.display().to_string()]);
            }
            let node = ["node", "--rank", &rank.to_string(), "--server", &server];
            processes.nodes.push((rank, spawn(&node, &options)?));
        }
        Ok(processes)
    }
}

impl Processes {
    /// Waits for all of them.
    ///
    /// # Errors
    /// A process that cannot be waited for.
    pub fn wait(mut self) -> Result<Ended, Error> {
        let failed = |error: std::io::Error| Error::Told(error.to_string());
        let mut nodes = Vec::new();
        for (rank, node) in &mut self.nodes {
            nodes.push((*rank, node.wait().map_err(failed)?));
        }
        Ok(Ended { nodes, orchestrator: self.orchestrator.wait().map_err(failed)? })
    }
}

/// A port that is free now.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<u16, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Ok(listener.map_err(|error| Error::Options(format!("there is no free port: {error}")))?.port())
}
