//! The orchestrator: adds the nodes' numbers, and tells all of them when one is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::Error;
use crate::protocol::{Answer, Numbers, Request, receive, send};

/// How often the time limit is looked at.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Default)]
struct State {
    /// The step of each node that has joined.
    steps: BTreeMap<usize, usize>,
    /// The numbers of nodes that wait for those of the others.
    waiting: BTreeMap<usize, Vec<f32>>,
    /// Since when nodes wait.
    since: Option<Instant>,
    /// The last sum.
    sum: Option<Numbers>,
    /// How many sums there were.
    sums: usize,
    /// Nodes whose training is done.
    left: BTreeSet<usize>,
    failure: Option<String>,
    /// The threads that answer.
    answering: Vec<JoinHandle<()>>,
}

struct Orchestrator {
    nodes: usize,
    limit: Duration,
    state: Mutex<State>,
    news: Condvar,
}

/// Adds the numbers of a training's nodes on `port` until all have left. A step may take as long as the limit, and so may joining.
///
/// # Errors
/// A port that cannot be listened on, and the reason that the nodes are told if they cannot go on.
pub fn serve_on_port(port: u16, nodes: usize, limit: Duration) -> Result<(), Error> {
    let listener = TcpListener::bind(("0.0.0.0", port));
    let refused = |error| Error::Told(format!("the orchestrator cannot listen on port {port}: {error}"));
    serve(listener.map_err(refused)?, nodes, limit)
}

/// [`serve_on_port`] with a socket that listens.
///
/// # Errors
/// The reason that the nodes are told if they cannot go on.
pub fn serve(listener: TcpListener, nodes: usize, limit: Duration) -> Result<(), Error> {
    let own = Orchestrator { nodes, limit, state: Mutex::default(), news: Condvar::new() };
    let orchestrator = Arc::new(own);
    let accept = {
        let orchestrator = orchestrator.clone();
        move || {
            // A connection that cannot be accepted is the node's loss, which it notices.
            for socket in listener.incoming().flatten() {
                let orchestrator = orchestrator.clone();
                thread::spawn(move || orchestrator.attend(socket));
            }
        }
    };
    thread::spawn(accept);
    let failure = orchestrator.wait_for_end();
    let answering = std::mem::take(&mut orchestrator.lock().answering);
    for thread in answering {
        let _ = thread.join();
    }
    failure.map_or(Ok(()), |reason| Err(Error::Told(reason)))
}

impl Orchestrator {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until all nodes have left, or cannot go on.
    fn wait_for_end(&self) -> Option<String> {
        let mut state = self.lock();
        while state.failure.is_none() && state.left.len() < self.nodes {
            state = self.news.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            if let Some(reason) = self.late(&state) {
                self.fail(&mut state, reason);
            }
        }
        state.failure.clone()
    }

    /// Who should have come by now.
    fn late(&self, state: &State) -> Option<String> {
        let is_late = state.since.is_some_and(|since| since.elapsed() >= self.limit);
        if !is_late || !state.left.is_empty() {
            return None;
        }
        let limit_s = self.limit.as_secs();
        let absent = |is_there: &dyn Fn(&usize) -> bool| {
            let ranks = (0..self.nodes).filter(|rank| !is_there(rank));
            ranks.map(|rank| format!("node {rank}")).collect::<Vec<_>>().join(", ")
        };
        if state.steps.len() < self.nodes {
            let names = absent(&|rank| state.steps.contains_key(rank));
            return Some(format!("{names} did not join within {limit_s} s"));
        }
        let names = absent(&|rank| state.waiting.contains_key(rank));
        let step = state.steps.values().max().copied().unwrap_or_default();
        Some(format!("step {step}: {names} did not come within {limit_s} s"))
    }

    /// Tells all nodes that they cannot go on. The first reason is the one that is told.
    fn fail(&self, state: &mut State, reason: String) {
        state.failure.get_or_insert(reason);
        self.news.notify_all();
    }

    /// Serves a connection until its end.
    fn attend(self: Arc<Self>, socket: TcpStream) {
        let Ok((mut requests, answers)) = self.prepared(socket) else { return };
        // Anyone may connect, and only nodes are missed.
        let Ok(Request::Join { rank, nodes }) = receive(&mut requests) else { return };
        if !self.join(rank, nodes, answers) {
            return;
        }
        loop {
            let request = receive(&mut requests);
            let mut state = self.lock();
            match request {
                Ok(Request::Add { step, numbers }) => self.add(&mut state, rank, step, numbers.to_vec()),
                Ok(Request::Leave) => {
                    state.left.insert(rank);
                    self.news.notify_all();
                    return;
                }
                Ok(Request::Join { .. }) => {
                    return self.fail(&mut state, format!("node {rank} joined twice"));
                }
                Err(_) => {
                    let step = state.steps[&rank];
                    let reason =
                        format!("node {rank} is gone: its connection ended after it had come to step {step}");
                    return self.fail(&mut state, reason);
                }
            }
        }
    }

    /// A connection's two directions.
    fn prepared(&self, socket: TcpStream) -> io::Result<(BufReader<TcpStream>, TcpStream)> {
        socket.set_nodelay(true)?;
        socket.set_write_timeout(Some(self.limit))?;
        Ok((BufReader::new(socket.try_clone()?), socket))
    }

    /// Takes a node in, and starts the thread that answers it. Returns whether the node takes part.
    fn join(self: &Arc<Self>, rank: usize, nodes: usize, mut answers: TcpStream) -> bool {
        let mut state = self.lock();
        if nodes != self.nodes || rank >= nodes {
            let (last, all) = (self.nodes - 1, self.nodes);
            let reason = format!(
                "node {rank} of {nodes} came, and the orchestrator waits for nodes 0 to {last} of {all}"
            );
            self.fail(&mut state, reason);
        } else if state.steps.insert(rank, 0).is_some() {
            self.fail(&mut state, format!("two processes say that they are node {rank}"));
        }
        state.since.get_or_insert_with(Instant::now);
        let takes_part = state.failure.is_none();
        let orchestrator = self.clone();
        state.answering.push(thread::spawn(move || {
            // A node that is gone is noticed by the thread that reads.
            let _ = orchestrator.answer(rank, &mut answers);
            let _ = answers.shutdown(Shutdown::Write);
        }));
        takes_part
    }

    /// A node has come to a step with its numbers. Those of the last one complete the sum.
    fn add(&self, state: &mut State, rank: usize, step: usize, numbers: Vec<f32>) {
        state.steps.insert(rank, step);
        if let Some((first, others)) =
            state.waiting.first_key_value().filter(|(_, others)| others.len() != numbers.len())
        {
            let reason = format!(
                "step {step}: node {rank} brought {} numbers and node {first} {}: all must train the same network",
                numbers.len(),
                others.len()
            );
            return self.fail(state, reason);
        }
        state.waiting.insert(rank, numbers);
        if state.waiting.len() < self.nodes {
            return;
        }
        let added = std::mem::take(&mut state.waiting).into_values().reduce(|mut sum, numbers| {
            sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
            sum
        });
        state.sum = added.map(|sum| Numbers::new(&sum));
        state.sums += 1;
        state.since = Some(Instant::now());
        self.news.notify_all();
    }

    /// Answers a node until it leaves or cannot go on.
    fn answer(&self, rank: usize, answers: &mut TcpStream) -> io::Result<()> {
        let mut answered = 0;
        loop {
            let mut state = self.lock();
            while state.failure.is_none() && state.sums == answered && !state.left.contains(&rank) {
                state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            // All nodes have the last sum before they are told that one is gone.
            let answer = match (&state.sum, &state.failure) {
                (Some(sum), _) if state.sums > answered => Answer::Sum(sum.clone()),
                (_, Some(reason)) => Answer::Failed(reason.clone()),
                _ => return Ok(()),
            };
            answered = state.sums;
            drop(state);
            send(answers, &answer)?;
            if matches!(answer, Answer::Failed(_)) {
                return Ok(());
            }
        }
    }
}
