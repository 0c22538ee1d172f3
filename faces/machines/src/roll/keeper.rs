//! The side of the orchestrator's process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use burn_communication::util::os_shutdown_signal;
use burn_communication::websocket::WsServer;
use burn_communication::{CommunicationChannel, Message, ProtocolServer};
use tokio::sync::watch;

use super::orchestrator::Orchestrator;
use super::{ROUTE, Said, Told};
use crate::Error;

/// After so many places, two for each exchange, Burn's orchestrator is started anew.
const PLACES_PER_ORCHESTRATOR: usize = 64;
/// How often the time limit is looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long nodes are given to hear why they end.
const FAREWELL: Duration = Duration::from_millis(500);

/// What the tasks of nodes hear.
#[derive(Clone, Default)]
struct News {
    /// The last place to which all have come.
    begun: Option<usize>,
    failure: Option<String>,
}

struct State {
    /// Of each node that has joined, the last place and the step that it has come to.
    nodes: BTreeMap<usize, (usize, usize)>,
    /// When each was heard last.
    heard: BTreeMap<usize, Instant>,
    done: usize,
    /// The place to which nodes come now.
    place: usize,
    /// Since when it is waited for.
    since: Option<Instant>,
    orchestrator: Option<Orchestrator>,
}

struct Roll {
    count: usize,
    limit: Duration,
    /// Where Burn's orchestrator listens.
    port: u16,
    state: Mutex<State>,
    news: watch::Sender<News>,
}

/// Keeps the roll of a training on `port`, and Burn's orchestrator on the next one, until all nodes have ended.
///
/// # Errors
/// A port that cannot be listened on, and what the nodes are told if they cannot go on.
pub fn keep(port: u16, count: usize, limit: Duration) -> Result<(), Error> {
    let state = State {
        nodes: BTreeMap::new(),
        heard: BTreeMap::new(),
        done: 0,
        place: 0,
        since: None,
        orchestrator: None,
    };
    let news = watch::Sender::new(News::default());
    let roll = Arc::new(Roll { count, limit, port: port + 1, state: Mutex::new(state), news });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Told(error.to_string()))?;
    runtime.block_on(async {
        let server = WsServer::new(port).route(ROUTE, {
            let roll = roll.clone();
            async move |channel| attend(roll, channel).await
        });
        tokio::select! {
            ended = server.serve(std::future::pending()) => {
                let reason = ended.err().map_or("it ended".into(), |error| format!("{error:?}"));
                Err(Error::Told(format!("the orchestrator cannot listen on port {port}: {reason}")))
            }
            () = os_shutdown_signal() => {
                roll.fail("the orchestrator was told to end".into());
                tokio::time::sleep(FAREWELL).await;
                Ok(())
            }
            ended = watch_limit(&roll) => ended,
        }
    })
}

/// Returns when all nodes have ended, or cannot go on.
async fn watch_limit(roll: &Roll) -> Result<(), Error> {
    loop {
        tokio::time::sleep(LOOK).await;
        roll.look_at_limit();
        let failure = roll.news.borrow().failure.clone();
        if let Some(failure) = failure {
            tokio::time::sleep(FAREWELL).await;
            return Err(Error::Told(failure));
        }
        if roll.lock().done == roll.count {
            return Ok(());
        }
    }
}

/// Serves a node.
async fn attend<C: CommunicationChannel>(roll: Arc<Roll>, mut channel: C) {
    let mut news = roll.news.subscribe();
    news.mark_changed();
    let (mut rank, mut begun) = (None, None);
    loop {
        tokio::select! {
            message = channel.recv() => {
                let said = message.ok().flatten();
                match said.and_then(|message| rmp_serde::from_slice(&message.data).ok()) {
                    Some(Said::Here { rank: own, nodes, place, step }) => {
                        roll.here(rank.is_none(), own, nodes, (place, step));
                        rank = Some(own);
                    }
                    Some(Said::Alive) => (),
                    Some(Said::Done) => return roll.lock().done += 1,
                    None => return rank.map_or((), |rank| roll.lost(rank)),
                }
                rank.map(|rank| roll.lock().heard.insert(rank, Instant::now()));
            }
            _ = news.changed() => {
                let heard = news.borrow_and_update().clone();
                let told = match heard {
                    News { failure: Some(failure), .. } => Told::Failed(failure),
                    News { begun: Some(place), .. } if begun != Some(place) && rank.is_some() => {
                        begun = Some(place);
                        Told::Begin(place)
                    }
                    _ => continue,
                };
                let bytes = rmp_serde::to_vec(&told).expect("it can be written");
                if channel.send(Message::new(bytes.into())).await.is_err() {
                    return rank.map_or((), |rank| roll.lost(rank));
                }
            }
        }
    }
}

impl Roll {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all nodes that they cannot go on. The first reason is the one that is told.
    fn fail(&self, reason: String) {
        self.news.send_if_modified(|news| {
            let is_first = news.failure.is_none();
            news.failure.get_or_insert(reason);
            is_first
        });
    }

    /// A node has come to a place.
    fn here(&self, is_new: bool, rank: usize, nodes: usize, (place, step): (usize, usize)) {
        if nodes != self.count || rank >= nodes {
            return self.fail(format!(
                "node {rank} of {nodes} came, and the orchestrator waits for nodes 0 to {} of {}",
                self.count - 1,
                self.count
            ));
        }
        let mut state = self.lock();
        if is_new && state.nodes.contains_key(&rank) {
            return self.fail(format!("two processes say that they are node {rank}"));
        }
        if place != state.place {
            return self.fail(format!(
                "node {rank} came to place {place} and the others are at {}: was it started anew alone?",
                state.place
            ));
        }
        state.nodes.insert(rank, (place, step));
        state.since.get_or_insert_with(Instant::now);
        let are_here = state.nodes.len() == self.count && state.nodes.values().all(|&(at, _)| at == place);
        if are_here && let Err(reason) = self.begin(&mut state) {
            self.fail(reason);
        }
    }

    /// Lets all nodes go on. None of them uses Burn's orchestrator now, if an exchange is to begin.
    fn begin(&self, state: &mut State) -> Result<(), String> {
        let place = state.place;
        if place.is_multiple_of(PLACES_PER_ORCHESTRATOR) {
            drop(state.orchestrator.take());
            state.orchestrator = Some(Orchestrator::start(self.port)?);
        }
        state.place += 1;
        state.since = Some(Instant::now());
        self.news.send_modify(|news| news.begun = Some(place));
        Ok(())
    }

    /// A node's connection ended.
    fn lost(&self, rank: usize) {
        let step = self.lock().nodes.get(&rank).map_or(0, |&(_, step)| step);
        self.fail(format!("node {rank} is gone: its connection ended after it had come to step {step}"));
    }

    /// Fails if the nodes should have come to the next place.
    fn look_at_limit(&self) {
        let state = self.lock();
        if state.since.is_none_or(|since| since.elapsed() < self.limit) || state.done > 0 {
            return;
        }
        let is_here = |rank: &usize| state.nodes.get(rank).is_some_and(|&(place, _)| place == state.place);
        let is_silent = |rank: &usize| state.heard.get(rank).is_none_or(|at| at.elapsed() > self.limit / 2);
        let missing: Vec<usize> = (0..self.count).filter(|rank| !is_here(rank)).collect();
        // All are inside an exchange which one of them does not go on with.
        let silent: Vec<usize> = (0..self.count).filter(is_silent).collect();
        let step = state.nodes.values().map(|&(_, step)| step).max().unwrap_or_default();
        let limit_s = self.limit.as_secs();
        let reason = match (missing.len() == self.count, state.place) {
            (true, _) if silent.is_empty() => {
                format!("step {step}: no node came out of the exchange of gradients within {limit_s} s")
            }
            (true, _) => format!("step {step}: {} does not answer since {limit_s} s", names(&silent)),
            (false, 0) => format!("{} did not join within {limit_s} s", names(&missing)),
            (false, _) => format!("step {step}: {} did not come within {limit_s} s", names(&missing)),
        };
        self.fail(reason);
    }
}

fn names(ranks: &[usize]) -> String {
    ranks.iter().map(|rank| format!("node {rank}")).collect::<Vec<_>>().join(", ")
}
