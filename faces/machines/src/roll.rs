//! The roll: which node is at which step. The orchestrator's process keeps it beside Burn's orchestrator, lets the nodes go on together,
//! and tells all of them when one is missing.
//!
//! Burn's collective operations wait for each other without a limit, and its second global operation of a registration never ends. So nodes
//! register anew for each exchange, and must not do so before all have left the one before: a barrier, which this is. The protocol is
//! MessagePack over the WebSockets of `burn-communication`.

mod call;
mod keeper;
mod orchestrator;

pub use call::{Attendance, Event};
pub use keeper::keep;

use serde::{Deserialize, Serialize};

/// What a node says.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Said {
    /// It has come to a place, and waits for the others. Places are counted: each exchange has one before it, where no node takes part in
    /// the exchange before, and one inside, where all nodes are registered.
    Here { rank: usize, nodes: usize, place: usize, step: usize },
    /// It is alive.
    Alive,
    /// It has ended its training.
    Done,
}

/// What nodes are told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Told {
    /// All nodes have come to this place.
    Begin(usize),
    /// The nodes cannot go on.
    Failed(String),
}

/// The route of the WebSocket.
const ROUTE: &str = "roll";
