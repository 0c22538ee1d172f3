//! Virtual time of lanes that run in parallel, and of a program that waits for them.

use std::collections::VecDeque;

use crate::engine::{Lane, Mark, Ran};

/// Times by a virtual clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time at which all work so far is done.
    pub end_ns: u64,
    /// Busy time of each lane, indexed by [`Lane`].
    pub busy_ns: [u64; Lane::ALL.len()],
}

/// The times at which the pieces of a lane end.
#[derive(Debug, Default)]
struct Track {
    /// End times of the pieces after the first `done`, in order.
    ends_ns: VecDeque<u64>,
    done: u64,
    /// The earliest time at which the next piece can begin: the end of the last one, or of work that the lane waits
    /// for.
    free_ns: u64,
    last_end_ns: u64,
    busy_ns: u64,
}

/// The number of end times that are kept before those that no longer matter are removed.
const KEPT: usize = 1 << 14;

#[derive(Debug, Default)]
pub struct Clock {
    tracks: [Track; Lane::ALL.len()],
    /// The program's time: work that it submits from now on begins no earlier.
    program_ns: u64,
    kept: usize,
    /// No end time that was removed is later.
    forgotten_ns: u64,
    /// The times of all pieces, if they are recorded.
    record: Option<Vec<Ran>>,
}

impl Clock {
    /// Records from now on when each piece runs.
    pub fn record(&mut self) {
        self.record.get_or_insert_default();
    }

    /// Takes the times that were recorded since the last call.
    pub fn recorded(&mut self) -> Vec<Ran> {
        self.record.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Appends a piece of work to a lane.
    pub fn run(&mut self, lane: Lane, duration_ns: u64) {
        let begin_ns = self.tracks[lane as usize].free_ns.max(self.program_ns);
        let track = &mut self.tracks[lane as usize];
        track.free_ns = begin_ns + duration_ns;
        track.last_end_ns = track.free_ns;
        track.busy_ns += duration_ns;
        track.ends_ns.push_back(track.free_ns);
        let (end_ns, sequence) = (track.free_ns, track.done + track.ends_ns.len() as u64);
        if let Some(record) = &mut self.record {
            record.push(Ran { mark: Mark { lane, sequence }, begin_ns, end_ns });
        }
        let track = &self.tracks[lane as usize];
        if track.ends_ns.len() > self.kept.max(KEPT) {
            self.forget();
        }
    }

    /// Work that is submitted to `lane` from now on begins once `mark` is reached.
    pub fn wait(&mut self, lane: Lane, mark: Mark) {
        let end_ns = self.end_ns(mark);
        let track = &mut self.tracks[lane as usize];
        track.free_ns = track.free_ns.max(end_ns);
    }

    /// The program waits for `mark`.
    pub fn sync(&mut self, mark: Mark) {
        self.program_ns = self.program_ns.max(self.end_ns(mark));
    }

    /// The program waits until a time.
    pub fn wait_until(&mut self, ns: u64) {
        self.program_ns = self.program_ns.max(ns);
    }

    /// The program's time.
    pub fn program_ns(&self) -> u64 {
        self.program_ns
    }

    /// The program is busy for this time.
    pub fn spend(&mut self, duration_ns: u64) {
        self.program_ns += duration_ns;
    }

    pub fn reached(&self, mark: Mark) -> bool {
        self.end_ns(mark) <= self.program_ns
    }

    /// The lane's end as it is now.
    pub fn mark(&self, lane: Lane) -> Mark {
        let track = &self.tracks[lane as usize];
        Mark { lane, sequence: track.done + track.ends_ns.len() as u64 }
    }

    pub fn times(&self) -> Times {
        Times {
            end_ns: self.tracks.iter().map(|track| track.last_end_ns).fold(self.program_ns, u64::max),
            busy_ns: self.tracks.each_ref().map(|track| track.busy_ns),
        }
    }

    /// Time at which the work up to `mark` ends. A mark whose time was removed delays no lane that has worked.
    fn end_ns(&self, mark: Mark) -> u64 {
        let track = &self.tracks[mark.lane as usize];
        let index = mark.sequence.checked_sub(track.done + 1);
        index.map_or(self.forgotten_ns, |index| track.ends_ns[index as usize])
    }

    /// Removes end times that the program and every lane that has worked have passed, since waiting for them delays nothing.
    fn forget(&mut self) {
        let works = |track: &&Track| track.last_end_ns > 0 || !track.ends_ns.is_empty();
        let past_ns =
            self.tracks.iter().filter(works).map(|track| track.free_ns).fold(self.program_ns, u64::min);
        self.forgotten_ns = past_ns;
        for track in &mut self.tracks {
            while track.ends_ns.front().is_some_and(|&end_ns| end_ns <= past_ns) {
                track.ends_ns.pop_front();
                track.done += 1;
            }
        }
        self.kept = 2 * self.tracks.iter().map(|track| track.ends_ns.len()).max().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_overlap_until_one_waits() {
        let mut clock = Clock::default();
        clock.run(Lane::Compute, 100);
        clock.run(Lane::Fetch, 30);
        assert_eq!(clock.times(), Times { end_ns: 100, busy_ns: [100, 0, 30, 0, 0, 0, 0] });
        let fetched = clock.mark(Lane::Fetch);
        clock.wait(Lane::Compute, fetched);
        clock.run(Lane::Compute, 10);
        assert_eq!(clock.times().end_ns, 110);
        clock.wait(Lane::Offload, clock.mark(Lane::Compute));
        clock.run(Lane::Offload, 5);
        assert_eq!(clock.times(), Times { end_ns: 115, busy_ns: [110, 5, 30, 0, 0, 0, 0] });
        assert!(!clock.reached(fetched));
        clock.sync(fetched);
        assert!(clock.reached(fetched) && !clock.reached(clock.mark(Lane::Compute)));
    }

    #[test]
    fn what_a_program_submits_after_a_wait_begins_after_it() {
        let mut clock = Clock::default();
        clock.run(Lane::Compute, 100);
        clock.sync(clock.mark(Lane::Compute));
        clock.run(Lane::Fetch, 7);
        assert_eq!(clock.times().end_ns, 107);
    }

    #[test]
    fn forgotten_ends_delay_nothing() {
        let (mut clock, mut kept) = (Clock::default(), Vec::new());
        for piece in 0..4 * KEPT as u64 {
            clock.run(Lane::Compute, 3);
            kept.push(clock.mark(Lane::Compute));
            if piece % 100 == 0 {
                clock.sync(clock.mark(Lane::Compute));
                for lane in [Lane::Offload, Lane::Fetch] {
                    clock.wait(lane, clock.mark(Lane::Compute));
                }
            }
        }
        assert!(clock.tracks[0].ends_ns.len() < 2 * KEPT);
        let before = clock.times();
        for mark in kept.into_iter().step_by(1000) {
            clock.wait(Lane::Fetch, mark);
        }
        clock.run(Lane::Fetch, 1);
        assert!(clock.times().end_ns <= before.end_ns + 1);
    }
}
