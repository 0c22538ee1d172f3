use std::sync::Mutex;

use arrayvec::ArrayVec;

use super::queue::{Piece, PieceOutcome, PieceRunner, Shared, lock};
use crate::engine::{Lane, Mark};

/// Pieces a lane may keep; a program that never waits would keep all.
const BACKLOG: u64 = 4096;

/// No threads: pieces run when someone waits, as late and as crossed as marks allow, so that a missing wait shows.
#[derive(Debug)]
pub struct Deferred {
    shared: Shared,
    random: Mutex<SplitMix>,
}

/// Steele, Lea and Flood's generator: small, and the same everywhere.
#[derive(Debug)]
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % bound
    }
}

impl Deferred {
    pub fn new(run: PieceRunner, seed: u64) -> Self {
        Deferred { shared: Shared::new(run), random: Mutex::new(SplitMix(seed)) }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub fn submit(&self, lane: Lane, piece: Piece) {
        let queue = &self.shared.queues[lane as usize];
        queue.push(piece);
        let completed = queue.completed();
        if queue.submitted() - completed > BACKLOG {
            let sequence = completed + BACKLOG / 2;
            self.finish(Mark { lane, sequence });
        }
    }

    /// Runs what `mark` needs, and at random moments whatever else may run.
    pub fn finish(&self, mark: Mark) {
        let mut random = lock(&self.random);
        let mut goal = mark;
        while !self.shared.reached(mark) {
            if self.shared.reached(goal) {
                goal = mark;
            }
            // Half of the time other lanes stay as late as they may be, half of the time one runs as far as it can.
            if random.below(2) == 0 {
                let has_work = |lane: &Lane| !self.shared.queues[*lane as usize].is_idle();
                let lanes: ArrayVec<Lane, { Lane::ALL.len() }> =
                    Lane::ALL.into_iter().filter(has_work).collect();
                let lane = lanes[random.below(lanes.len() as u64) as usize];
                if lane != goal.lane {
                    while let Some(PieceOutcome::Ran) = self.run_oldest(lane) {}
                    continue;
                }
            }
            match self.run_oldest(goal.lane) {
                Some(PieceOutcome::Blocked(earlier)) => goal = earlier,
                Some(PieceOutcome::Ran | PieceOutcome::Empty) | None => {}
            }
        }
    }

    /// `None` never happens: whoever steps has the generator's lock.
    fn run_oldest(&self, lane: Lane) -> Option<PieceOutcome> {
        Some(self.shared.hold(lane)?.run_oldest())
    }
}
