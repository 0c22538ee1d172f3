//! Ordered queues of work, and who runs them: a thread per lane and whoever waits, or (deferred) only whoever waits.

mod deferred;
mod queue;
mod threads;

use deferred::Deferred;
use queue::Shared;
pub(super) use queue::lock;
pub(super) use queue::{Piece, PieceRunner};
use threads::Threads;
pub(super) use threads::spin;

use crate::engine::{Failure, Lane, Mark, Ran};

/// How submitted work gets run.
#[derive(Debug)]
pub(super) enum Lanes {
    Threads(Box<Threads>),
    Deferred(Box<Deferred>),
}

impl Lanes {
    /// Some lanes that a thread each runs.
    pub fn threads(run: PieceRunner, lanes: &[Lane]) -> Self {
        let threads = Threads::new(run);
        threads.begin(lanes);
        Lanes::Threads(Box::new(threads))
    }

    /// Lanes that whoever waits runs, in an order that the seed decides.
    pub fn deferred(run: PieceRunner, seed: u64) -> Self {
        Lanes::Deferred(Box::new(Deferred::new(run, seed)))
    }

    /// Lets lanes be run, which nobody does before.
    pub fn begin(&self, lanes: &[Lane]) {
        if let Lanes::Threads(threads) = self {
            threads.begin(lanes);
        }
    }

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

    /// What copies to and from other devices moved lately, in bytes per second, if there were any.
    pub fn measured_peers(&self) -> Option<f64> {
        self.shared().peers.bytes_per_second()
    }

    /// What the disk read and wrote lately, in bytes per second, if it did.
    pub fn measured_disk(&self) -> Option<f64> {
        self.shared().disk.bytes_per_second()
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
