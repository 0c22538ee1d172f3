//! The side of a node.

use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use burn_communication::websocket::WsClient;
use burn_communication::{Address, CommunicationChannel, Message, ProtocolClient};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::{ROUTE, Said, Told};
use crate::Error;

/// What happens to a node that waits.
#[derive(Debug)]
pub enum Event {
    /// All nodes have come to this place.
    Begin(usize),
    /// The nodes cannot go on, for this reason.
    Failed(String),
    /// The connection to the orchestrator ended.
    Lost,
    /// The node takes part in the exchange.
    Registered(Result<(), String>),
    /// What the nodes' numbers add up to.
    Summed(Result<Vec<f32>, String>),
    /// The node has left the exchange.
    Left(Result<(), String>),
}

/// How long to wait before connecting again.
const PAUSE: Duration = Duration::from_millis(100);

/// How often a node says that it is alive, within the time limit.
const ALIVE_PER_LIMIT: u32 = 8;

/// A node's connection to the roll.
pub struct Attendance {
    says: UnboundedSender<Said>,
    thread: JoinHandle<()>,
    rank: usize,
    nodes: usize,
}

impl Attendance {
    /// Connects to the orchestrator, and reports to `events` from then on.
    ///
    /// # Errors
    /// No orchestrator within the limit.
    pub fn new(
        server: &str,
        (rank, nodes): (usize, usize),
        limit: Duration,
        events: Sender<Event>,
    ) -> Result<Self, Error> {
        let (says, said) = unbounded_channel();
        let (connected, is_connected) = std::sync::mpsc::channel();
        let address: Address = server.parse().expect("any text is an address");
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("an event loop can be made").block_on(async {
                let begun = Instant::now();
                loop {
                    if let Some(channel) = WsClient::connect(address.clone(), ROUTE).await {
                        let _ = connected.send(());
                        return listen(channel, said, events, limit / ALIVE_PER_LIMIT).await;
                    }
                    if begun.elapsed() > limit {
                        return;
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            });
        };
        let thread = thread::Builder::new().name("roll".into()).spawn(run).expect("a thread can be started");
        let unreachable = |_| Error::Unreachable { server: server.to_string(), limit_s: limit.as_secs() };
        is_connected.recv_timeout(limit).map_err(unreachable)?;
        Ok(Attendance { says, thread, rank, nodes })
    }

    /// Says that the node has come to a place. An event tells when all have.
    pub fn here(&self, place: usize, step: usize) {
        // If the thread has ended, an event says so.
        let _ = self.says.send(Said::Here { rank: self.rank, nodes: self.nodes, place, step });
    }

    /// Says that the node has ended its training, and returns when that is said.
    pub fn done(self) {
        let Attendance { says, thread, .. } = self;
        let _ = says.send(Said::Done);
        drop(says);
        let _ = thread.join();
    }
}

/// Passes on what is said and told until the connection ends.
async fn listen<C: CommunicationChannel>(
    mut channel: C,
    mut said: UnboundedReceiver<Said>,
    events: Sender<Event>,
    pause: Duration,
) {
    let mut alive = tokio::time::interval(pause);
    loop {
        let event = tokio::select! {
            message = channel.recv() => {
                let told = message.ok().flatten();
                match told.and_then(|message| rmp_serde::from_slice(&message.data).ok()) {
                    Some(Told::Begin(place)) => Event::Begin(place),
                    Some(Told::Failed(reason)) => Event::Failed(reason),
                    None => Event::Lost,
                }
            }
            said = async { tokio::select! { said = said.recv() => said, _ = alive.tick() => Some(Said::Alive) } } => {
                let Some(said) = said else { return };
                let bytes = rmp_serde::to_vec(&said).expect("it can be written");
                match channel.send(Message::new(bytes.into())).await {
                    Ok(()) => continue,
                    Err(_) => Event::Lost,
                }
            }
        };
        let is_last = !matches!(event, Event::Begin(_));
        if events.send(event).is_err() || is_last {
            return;
        }
    }
}
