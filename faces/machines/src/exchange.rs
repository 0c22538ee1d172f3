//! Numbers of all nodes, gathered and added by Burn's collective operations.
//!
//! Each exchange is a registration, an all-reduce and the end of the registration. The tensors are on a device of the host with a small
//! budget of its own, since they go through the host anyway: the training's device is not asked for memory.

use std::fmt::Display;
use std::net::TcpListener;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use burn::tensor::{Tensor, TensorData, TensorPrimitive};
use burn_collective::{
    AllReduceStrategy, CollectiveConfig, ReduceOperation, all_reduce, finish_collective, register,
};
use burn_communication::Address;
use burn_overcommit::{Config, Overcommit, OvercommitDevice, configure};

use crate::Error;
use crate::roll::{Attendance, Event};

/// The device of what is exchanged.
const DEVICE: OvercommitDevice = OvercommitDevice::Host(u16::MAX);
/// The numbers of a group are held so often at once, at most.
const COPIES: usize = 6;
/// So much longer than the orchestrator's is a node's own limit, so that the orchestrator can tell why.
const MARGIN: Duration = Duration::from_secs(3);
/// The one device of a node, for Burn.
const PEER: u32 = 0;

/// Who takes part.
#[derive(Clone, Debug)]
pub struct Members {
    /// This node.
    pub rank: usize,
    /// How many there are.
    pub nodes: usize,
    /// The address of the roll, `ws://HOST:PORT`. Burn's orchestrator has the next port.
    pub server: String,
    /// The name or address by which other nodes reach this one.
    pub host: String,
    /// This node listens here and on the next port.
    pub port: u16,
    /// How long a step may take.
    pub limit: Duration,
}

/// A node's part in exchanges.
pub struct Exchange {
    members: Members,
    attendance: Attendance,
    events: Receiver<Event>,
    rounds: Sender<(usize, Vec<f32>)>,
    round: usize,
    /// Whether the last exchange may not be left yet.
    is_inside: bool,
}

impl Exchange {
    /// Joins the others, in groups of at most `bucket_bytes`.
    ///
    /// # Errors
    /// No orchestrator within the time limit, or an address that is none.
    pub fn join(members: Members, bucket_bytes: usize) -> Result<Self, Error> {
        let budget_bytes = (bucket_bytes * members.nodes * COPIES).max(1 << 20);
        configure(&DEVICE, Config::new().budget_bytes(budget_bytes))?;
        let orchestrator = next_port(&members.server)?;
        let (sender, events) = mpsc::channel();
        let place = (members.rank, members.nodes);
        let attendance = Attendance::new(&members.server, place, members.limit, sender.clone())?;
        let (rounds, asked) = mpsc::channel::<(usize, Vec<f32>)>();
        let config = config(&members, &orchestrator);
        let run = move || {
            for (round, numbers) in asked {
                let summed = sum(&config, round, numbers);
                let _ = sender.send(Event::Summed(summed));
                let left = finish_collective::<Overcommit>(PEER.into());
                let _ = sender.send(Event::Left(left.map_err(|error| format!("{error:?}"))));
            }
        };
        thread::Builder::new().name("exchange".into()).spawn(run).expect("a thread can be started");
        Ok(Exchange { members, attendance, events, rounds, round: 0, is_inside: false })
    }

    /// Who takes part.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The numbers of each node, in the order of the nodes: all bring as many. Burn adds tensors in the order in which nodes come; each node
    /// fills a row of its own here and the others are zeros, so that the order makes no difference.
    ///
    /// # Errors
    /// A node that is gone or late, and what Burn fails with.
    pub fn gather(&mut self, step: usize, numbers: &[f32]) -> Result<Vec<Vec<f32>>, Error> {
        if self.is_inside {
            self.wait(step, |event| matches!(event, Event::Left(_)))?;
        }
        self.wait_for_port()?;
        self.attendance.here(self.round, step);
        let round = self.round;
        self.wait(step, |event| matches!(event, Event::Begin(begun) if *begun == round))?;
        let mut rows = vec![0.0; numbers.len() * self.members.nodes];
        let own = self.members.rank * numbers.len();
        rows[own..own + numbers.len()].copy_from_slice(numbers);
        let _ = self.rounds.send((round, rows));
        (self.round, self.is_inside) = (round + 1, true);
        match self.wait(step, |event| matches!(event, Event::Summed(_)))? {
            Event::Summed(Ok(rows)) => Ok(rows.chunks(numbers.len()).map(<[f32]>::to_vec).collect()),
            Event::Summed(Err(reason)) => Err(self.explained(step, reason)),
            _ => unreachable!("it is what was waited for"),
        }
    }

    /// The mean of the nodes' numbers, added in the order of the nodes.
    ///
    /// # Errors
    /// Those of [`gather`](Self::gather).
    pub fn mean(&mut self, step: usize, numbers: &[f32]) -> Result<Vec<f32>, Error> {
        let rows = self.gather(step, numbers)?;
        let count = rows.len() as f32;
        let sum = |at: usize| rows.iter().map(|row| row[at]).reduce(|sum, value| sum + value);
        Ok((0..numbers.len()).map(|at| sum(at).unwrap_or_default() / count).collect())
    }

    /// Leaves the others: the training has ended.
    ///
    /// # Errors
    /// Never: a failure of the last exchange's end changes nothing.
    pub fn leave(mut self, step: usize) {
        if self.is_inside {
            let _ = self.wait(step, |event| matches!(event, Event::Left(_)));
        }
        self.attendance.done();
    }

    /// The event that is waited for.
    fn wait(&mut self, step: usize, is_wanted: impl Fn(&Event) -> bool) -> Result<Event, Error> {
        let limit = self.members.limit + MARGIN;
        let end = Instant::now() + limit;
        loop {
            match self.events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Event::Left(Err(reason))) => return Err(self.explained(step, reason)),
                Ok(event) if is_wanted(&event) => return Ok(event),
                Ok(Event::Failed(reason)) => return Err(Error::Told(reason)),
                Ok(Event::Lost) => return Err(Error::Lost { step }),
                Ok(_) => (),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(Error::Silence { step, limit_s: limit.as_secs() });
                }
            }
        }
    }

    /// Why an exchange failed: what the orchestrator says about it, if it soon does.
    fn explained(&self, step: usize, reason: String) -> Error {
        let end = Instant::now() + MARGIN;
        loop {
            match self.events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Event::Failed(told)) => return Error::Told(told),
                Ok(Event::Lost) => return Error::Lost { step },
                Ok(_) => (),
                Err(_) => return Error::Exchange { step, reason },
            }
        }
    }

    /// Waits until the port of the next exchange is free: Burn's server of an exchange ends some time after it.
    fn wait_for_port(&self) -> Result<(), Error> {
        let port = port(&self.members, self.round);
        let begun = Instant::now();
        while let Err(error) = TcpListener::bind(("0.0.0.0", port)) {
            if begun.elapsed() > self.members.limit {
                return Err(Error::Options(format!(
                    "node {} cannot listen on port {port}: {error}",
                    self.members.rank
                )));
            }
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// A node listens on its two ports in turns.
fn port(members: &Members, round: usize) -> u16 {
    members.port + (round % 2) as u16
}

/// The address of Burn's orchestrator.
fn next_port(server: &str) -> Result<String, Error> {
    let next = || {
        let (host, port) = server.strip_prefix("ws://")?.rsplit_once(':')?;
        Some(format!("ws://{host}:{}", port.parse::<u16>().ok()?.checked_add(1)?))
    };
    next().ok_or_else(|| Error::Options(format!("\"{server}\" is no address of the form ws://HOST:PORT")))
}

fn address(text: impl Display) -> Address {
    text.to_string().parse().expect("any text is an address")
}

/// What Burn is told in each of two rounds.
fn config(members: &Members, orchestrator: &str) -> [CollectiveConfig; 2] {
    [0, 1].map(|round| {
        let port = port(members, round);
        CollectiveConfig::default()
            .with_num_devices(1)
            .with_num_nodes(members.nodes as u32)
            .with_global_address(address(orchestrator))
            .with_node_address(address(format_args!("ws://{}:{port}", members.host)))
            .with_data_service_port(port)
            .with_global_all_reduce_strategy(AllReduceStrategy::Ring)
    })
}

/// The sum of all nodes' numbers.
fn sum(config: &[CollectiveConfig; 2], round: usize, numbers: Vec<f32>) -> Result<Vec<f32>, String> {
    register::<Overcommit>(PEER.into(), DEVICE, config[round % 2].clone())
        .map_err(|error| format!("{error:?}"))?;
    let count = numbers.len();
    let tensor = Tensor::<Overcommit, 1>::from_data(TensorData::new(numbers, [count]), &DEVICE);
    let own = tensor.into_primitive().tensor();
    let summed = all_reduce::<Overcommit>(PEER.into(), own, ReduceOperation::Sum);
    let summed = TensorPrimitive::Float(summed.map_err(|error| format!("{error:?}"))?);
    let data = Tensor::<Overcommit, 1>::from_primitive(summed).into_data();
    data.to_vec().map_err(|error| format!("{error:?}"))
}
