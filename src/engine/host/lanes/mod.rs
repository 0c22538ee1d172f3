//! Ordered queues of work, and who runs them: a thread per lane and whoever waits, or (deferred) only whoever waits.

mod deferred;
mod queue;
mod threads;

pub(super) use deferred::Deferred;
use queue::Shared;
pub(super) use queue::{Piece, lock};
pub(super) use threads::{Threads, spin};

use crate::engine::{Failure, Lane, Mark, Ran};

/// How submitted work gets run.
#[derive(Debug)]
pub(super) enum Lanes {
    Threads(Box<Threads>),
    Deferred(Box<Deferred>),
}

impl Lanes {
    /// Adds a piece to the end of a lane.
    pub fn submit(&self, lane: Lane, piece: Piece) {
        match self {
            Lanes::Threads(lanes) => lanes.submit(lane, piece),
            Lanes::Deferred(lanes) => lanes.submit(lane, piece),
        }
    }

    /// The lane's end as it is now.
    pub fn mark(&self, lane: Lane) -> Mark {
        Mark { lane, sequence: self.shared().queues[lane as usize].submitted() }
    }

    /// Whether all work up to `mark` is done.
    pub fn reached(&self, mark: Mark) -> bool {
        self.shared().reached(mark)
    }

    /// Notes from now on when each launch and copy runs.
    pub fn record(&self) {
        self.shared().record();
    }

    /// When each ran, those of a lane in order.
    pub fn recorded(&self) -> Vec<Ran> {
        self.shared().recorded()
    }

    /// What copies between tiers moved lately, in bytes per second, if there were any.
    pub fn measured_link(&self) -> Option<f64> {
        self.shared().link.bytes_per_second()
    }

    fn shared(&self) -> &Shared {
        match self {
            Lanes::Threads(lanes) => lanes.shared(),
            Lanes::Deferred(lanes) => lanes.shared(),
        }
    }

    /// The pieces that failed since this was last asked.
    pub fn failures(&self) -> Vec<Failure> {
        self.shared().failures()
    }

    /// Blocks until `mark` is reached.
    pub fn finish(&self, mark: Mark) {
        match self {
            Lanes::Threads(lanes) => lanes.finish(mark),
            Lanes::Deferred(lanes) => lanes.finish(mark),
        }
    }
}

#[cfg(test)]
mod tests;
