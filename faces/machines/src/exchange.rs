//! Numbers of all nodes, gathered and added by Burn's collective operations.
//!
//! Each exchange is a registration, an all-reduce and the end of the registration. The tensors are on a device of the host with a small
//! budget of its own, since they go through the host anyway: the training's device is not asked for memory.

use std::fmt::Display;
use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{panic, thread};

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
/// The thread that calls Burn.
const THREAD: &str = "exchange";
/// How long to wait before something is tried again.
const PAUSE: Duration = Duration::from_millis(1);
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

/// What Burn's tasks and this module's thread panicked with.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// From now on the panics of Burn's tasks, which panic where a peer is gone, are not shown: an [`Error`] tells of them.
pub fn keep_panics() {
    let show = panic::take_hook();
    panic::set_hook(Box::new(move |told| {
        let name = thread::current().name().unwrap_or_default().to_string();
        if name.starts_with("tokio") || name == THREAD {
            let message = told.payload_as_str().unwrap_or("a panic").to_string();
            PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        } else {
            show(told);
        }
    }));
}

/// What the thread that calls Burn does.
enum Ask {
    Register(usize),
    Sum(Vec<f32>),
    Leave,
}

/// A node's part in exchanges.
pub struct Exchange {
    members: Members,
    attendance: Attendance,
    events: Receiver<Event>,
    asks: Sender<Ask>,
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
        let (asks, asked) = mpsc::channel();
        let config = config(&members, &orchestrator);
        let run = move || {
            for ask in asked {
                let event = match ask {
                    Ask::Register(round) => Event::Registered(register_anew(&config[round % 2])),
                    Ask::Sum(numbers) => Event::Summed(sum(numbers)),
                    Ask::Leave => Event::Left(leave()),
                };
                // Nobody listens where the node has ended.
                let _ = sender.send(event);
            }
        };
        thread::Builder::new().name(THREAD.into()).spawn(run).expect("a thread can be started");
        Ok(Exchange { members, attendance, events, asks, round: 0, is_inside: false })
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
        self.wait_for_port(step)?;
        let round = self.round;
        self.wait_for_all(step, 2 * round)?;
        self.ask(Ask::Register(round));
        (self.round, self.is_inside) = (round + 1, true);
        self.wait(step, |event| matches!(event, Event::Registered(_)))?;
        // Burn registers a node whether it listens already or not, and then the others fail to connect to it.
        self.wait_for_server(step, round)?;
        self.wait_for_all(step, 2 * round + 1)?;
        let mut rows = vec![0.0; numbers.len() * self.members.nodes];
        let own = self.members.rank * numbers.len();
        rows[own..own + numbers.len()].copy_from_slice(numbers);
        self.ask(Ask::Sum(rows));
        let summed = self.wait(step, |event| matches!(event, Event::Summed(_)))?;
        // This takes some time, in which the node goes on.
        self.ask(Ask::Leave);
        match summed {
            Event::Summed(Ok(rows)) => Ok(rows.chunks(numbers.len()).map(<[f32]>::to_vec).collect()),
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

    /// Leaves the others: the training has ended. A failure of the last exchange's end changes nothing.
    pub fn leave(mut self, step: usize) {
        if self.is_inside {
            let _ = self.wait(step, |event| matches!(event, Event::Left(_)));
        }
        self.attendance.done();
    }

    fn ask(&self, ask: Ask) {
        // If the thread has panicked, no event comes and the time limit passes.
        let _ = self.asks.send(ask);
    }

    /// Waits until all nodes are as far as this one.
    fn wait_for_all(&mut self, step: usize, place: usize) -> Result<(), Error> {
        self.attendance.here(place, step);
        self.wait(step, |event| matches!(event, Event::Begin(begun) if *begun == place)).map(drop)
    }

    /// The event that is waited for.
    fn wait(&mut self, step: usize, is_wanted: impl Fn(&Event) -> bool) -> Result<Event, Error> {
        let limit = self.members.limit + MARGIN;
        let end = Instant::now() + limit;
        loop {
            match self.events.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(
                    Event::Registered(Err(reason)) | Event::Summed(Err(reason)) | Event::Left(Err(reason)),
                ) => {
                    return Err(self.explained(step, reason));
                }
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
                Err(_) => {
                    let panics = PANICS.lock().unwrap_or_else(PoisonError::into_inner);
                    let reason = panics.first().cloned().unwrap_or(reason);
                    return Error::Exchange { step, reason };
                }
            }
        }
    }

    /// Waits until the port of the next exchange is free: Burn's server of an exchange ends some time after it.
    fn wait_for_port(&self, step: usize) -> Result<(), Error> {
        let port = port(&self.members, self.round);
        self.try_for(step, || TcpListener::bind(("0.0.0.0", port)).map_err(|error| (port, error)).map(drop))
    }

    /// Waits until Burn's server of an exchange listens.
    fn wait_for_server(&self, step: usize, round: usize) -> Result<(), Error> {
        let port = port(&self.members, round);
        self.try_for(step, || {
            TcpStream::connect(("127.0.0.1", port)).map_err(|error| (port, error)).map(drop)
        })
    }

    /// Tries something with a port until it works.
    fn try_for(
        &self,
        step: usize,
        mut attempt: impl FnMut() -> Result<(), (u16, io::Error)>,
    ) -> Result<(), Error> {
        let begun = Instant::now();
        while let Err((port, error)) = attempt() {
            if begun.elapsed() > self.members.limit {
                return Err(Error::Port { step, port, reason: error.to_string() });
            }
            thread::sleep(PAUSE);
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

fn register_anew(config: &CollectiveConfig) -> Result<(), String> {
    register::<Overcommit>(PEER.into(), DEVICE, config.clone()).map_err(|error| format!("{error:?}"))
}

/// The sum of all nodes' numbers.
fn sum(numbers: Vec<f32>) -> Result<Vec<f32>, String> {
    let count = numbers.len();
    let tensor = Tensor::<Overcommit, 1>::from_data(TensorData::new(numbers, [count]), &DEVICE);
    let own = tensor.into_primitive().tensor();
    let summed = all_reduce::<Overcommit>(PEER.into(), own, ReduceOperation::Sum);
    let summed = TensorPrimitive::Float(summed.map_err(|error| format!("{error:?}"))?);
    let data = Tensor::<Overcommit, 1>::from_primitive(summed).into_data();
    data.to_vec().map_err(|error| format!("{error:?}"))
}

fn leave() -> Result<(), String> {
    finish_collective::<Overcommit>(PEER.into()).map_err(|error| format!("{error:?}"))
}
