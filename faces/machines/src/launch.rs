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
    /// Burn's orchestrator and the roll.
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
    /// A process that cannot be started, and no free ports.
    pub fn start(&self, without: &[usize], on_error: fn() -> Stdio) -> Result<Processes, Error> {
        let ports = free_ports(self.nodes + 1)?;
        let limit = self.limit_s.to_string();
        let count = self.nodes.to_string();
        let spawn = |arguments: &[&str], options: &[String]| {
            let mut command = Command::new(&self.program);
            // Burn says on standard output whom it connects to. Its server of local operations holds a thread of Tokio's.
            command.args(arguments).args(options).stdout(Stdio::null()).stderr(on_error());
            let child = command.env("TOKIO_WORKER_THREADS", "4").spawn();
            child.map_err(|error| Error::file(&self.program, error))
        };
        let port = ports[0].to_string();
        let orchestrator = ["orchestrator", "--port", &port, "--nodes", &count, "--time-limit", &limit];
        let mut processes = Processes { orchestrator: spawn(&orchestrator, &[])?, nodes: Vec::new() };
        let server = format!("ws://127.0.0.1:{port}");
        for rank in (0..self.nodes).filter(|rank| !without.contains(rank)) {
            let (name, port) = (rank.to_string(), ports[rank + 1].to_string());
            let mut options = self.options.clone();
            if let Some(budget) = self.budgets.get(rank % self.budgets.len().max(1)) {
                options.extend(["--budget".into(), budget.clone()]);
            }
            if let Some(folder) = &self.outcomes {
                let outcome = folder.join(format!("node-{rank}.outcome"));
                options.extend(["--outcome".into(), outcome.display().to_string()]);
            }
            let node = [
                "node",
                "--rank",
                &name,
                "--nodes",
                &count,
                "--server",
                &server,
                "--port",
                &port,
                "--time-limit",
                &limit,
            ];
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

/// So many pairs of ports that are free now, below those that systems give to connections: the first of each.
///
/// # Errors
/// There are not so many.
pub fn free_ports(count: usize) -> Result<Vec<u16>, Error> {
    let is_free =
        |port: &u16| [*port, port + 1].iter().all(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok());
    let first = 10_000 + (std::process::id() % 5_000) as u16 * 4;
    let ports: Vec<u16> =
        (first..32_000).chain(2_000..first).step_by(2).filter(is_free).take(count).collect();
    match ports.len() == count {
        true => Ok(ports),
        false => Err(Error::Options(format!("there are no {} free ports", 2 * count))),
    }
}
