//! A node's side of exchanges: numbers of all nodes, added by the orchestrator in the order of the nodes.

use std::io::{self, BufReader, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;
use crate::protocol::{Answer, Numbers, Request, receive, send};

/// A node's time limit is longer than the orchestrator's, so that the orchestrator can tell why.
const MARGIN: Duration = Duration::from_secs(3);
/// How long to wait before connecting again.
const PAUSE: Duration = Duration::from_millis(100);

/// Who takes part.
#[derive(Clone, Debug)]
pub struct Members {
    /// This node.
    pub rank: usize,
    /// How many there are.
    pub nodes: usize,
    /// The orchestrator's address, `HOST:PORT`.
    pub server: String,
    /// How long a step may take, and joining.
    pub limit: Duration,
}

/// A node's part in exchanges.
#[derive(Debug)]
pub struct Exchange {
    members: Members,
    socket: BufReader<TcpStream>,
}

impl Exchange {
    /// Joins the others.
    ///
    /// # Errors
    /// No orchestrator within the time limit, or an address that is none.
    pub fn join(members: Members) -> Result<Self, Error> {
        let end = Instant::now() + members.limit;
        let socket = loop {
            match connect(&members) {
                Ok(socket) => break socket,
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    let server = &members.server;
                    return Err(Error::Options(format!("\"{server}\" is no address of the form HOST:PORT")));
                }
                Err(_) if Instant::now() < end => thread::sleep(PAUSE),
                Err(_) => {
                    let limit_s = members.limit.as_secs();
                    return Err(Error::Unreachable { server: members.server, limit_s });
                }
            }
        };
        let join = Request::Join { rank: members.rank, nodes: members.nodes };
        let mut exchange = Exchange { members, socket: BufReader::new(socket) };
        exchange.send(0, &join)?;
        Ok(exchange)
    }

    /// The sum of the nodes' numbers, of which all bring as many. They are added in the order of the nodes, so that it makes no
    /// difference who comes first.
    ///
    /// # Errors
    /// A node or an orchestrator that is gone or late.
    pub fn sum(&mut self, step: usize, numbers: &[f32]) -> Result<Vec<f32>, Error> {
        self.send(step, &Request::Add { step, numbers: Numbers::new(numbers) })?;
        Ok(self.answer(step)?.to_vec())
    }

    /// The mean of the nodes' numbers.
    ///
    /// # Errors
    /// Those of [`sum`](Self::sum).
    pub fn mean(&mut self, step: usize, numbers: &[f32]) -> Result<Vec<f32>, Error> {
        let count = self.members.nodes as f32;
        Ok(self.sum(step, numbers)?.into_iter().map(|sum| sum / count).collect())
    }

    /// The numbers of each node, in the order of the nodes. Each adds a row of its own to zeros.
    ///
    /// # Errors
    /// Those of [`sum`](Self::sum).
    pub fn gather(&mut self, step: usize, numbers: &[f32]) -> Result<Vec<Vec<f32>>, Error> {
        let mut rows = vec![0.0; numbers.len() * self.members.nodes];
        let own = self.members.rank * numbers.len();
        rows[own..own + numbers.len()].copy_from_slice(numbers);
        Ok(self.sum(step, &rows)?.chunks(numbers.len()).map(<[f32]>::to_vec).collect())
    }

    /// Leaves the others: the training is done, whatever becomes of them.
    pub fn leave(mut self, step: usize) {
        let _ = self.send(step, &Request::Leave);
    }

    fn send(&mut self, step: usize, request: &Request) -> Result<(), Error> {
        match send(self.socket.get_mut(), request) {
            Ok(()) => Ok(()),
            // The orchestrator may have said why before it hung up.
            Err(_) => self.answer(step).map(drop),
        }
    }

    fn answer(&mut self, step: usize) -> Result<Numbers, Error> {
        match receive(&mut self.socket) {
            Ok(Answer::Sum(numbers)) => Ok(numbers),
            Ok(Answer::Failed(reason)) => Err(Error::Told(reason)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(Error::Silence { step, limit_s: (self.members.limit + MARGIN).as_secs() })
            }
            Err(_) => Err(Error::Lost { step }),
        }
    }
}

fn connect(members: &Members) -> io::Result<TcpStream> {
    let addresses = members.server.to_socket_addrs()?;
    let mut connections = addresses.map(|address| TcpStream::connect_timeout(&address, members.limit));
    let socket = connections.find(Result::is_ok).unwrap_or_else(|| Err(ErrorKind::NotConnected.into()))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(members.limit + MARGIN))?;
    socket.set_write_timeout(Some(members.limit + MARGIN))?;
    Ok(socket)
}
