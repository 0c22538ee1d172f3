//! The steps of a program: as many as it takes until they are alike.

use crate::error::Error;
use crate::runtime::{peak_op, reset_stats, stats};
use crate::{OvercommitDevice, Stats};

/// The most steps. Adam has all of its state after two, and a program that needs more with each step never comes to an end.
const MAX_STEPS: usize = 8;

/// The steps of a training loop in a [`dry_run`](super::dry_run), as an iterator: it ends once a step needs what the one before
/// needed, at the latest after eight steps. See [`dry_run`](super::dry_run) for an example.
#[derive(Debug)]
pub struct Steps<'a> {
    device: &'a OvercommitDevice,
    /// The number of steps, if it is known.
    count: Option<usize>,
    so_far: Result<Measured, Error>,
}

/// What came of a program so far.
#[derive(Debug, Default)]
pub(super) struct Measured {
    /// The number of steps that have begun.
    pub steps: usize,
    /// Whether the last step needed what the one before needed.
    pub is_steady: bool,
    /// The most device memory in use at once, and the op at which it was.
    pub peak: (usize, u64),
    /// The largest of the smallest budgets.
    pub smallest_budget_bytes: usize,
    /// The most host memory in use at once.
    pub host_bytes: usize,
    /// Ops that came after a read.
    pub ops_after_read: u64,
    /// The time of the last step, or of the whole program if it takes none.
    pub time_ns: u64,
    /// The statistics of the last step, or of the whole program.
    pub last: Option<Stats>,
    end_ns: u64,
    /// Whether the last step has ended.
    is_over: bool,
}

impl<'a> Steps<'a> {
    pub(super) fn new(device: &'a OvercommitDevice, count: Option<usize>) -> Self {
        Steps { device, count, so_far: Ok(Measured::default()) }
    }

    /// Ends the last step, if the program has not asked for another.
    pub(super) fn end(mut self) -> Result<Measured, Error> {
        if let Ok(measured) = &mut self.so_far
            && !measured.is_over
        {
            measured.end_step(self.device)?;
        }
        self.so_far
    }
}

impl Measured {
    /// Looks at the device at the end of a step, or of what comes before the first.
    fn end_step(&mut self, device: &OvercommitDevice) -> Result<(), Error> {
        let (stats, peak_op) = (stats(device)?, peak_op(device)?);
        let needs = |stats: &Stats| (stats.peak_allocated_bytes, stats.allocated_bytes);
        self.is_steady = self.steps > 1 && self.last.as_ref().map(needs) == Some(needs(&stats));
        self.peak = self.peak.max((stats.peak_allocated_bytes, peak_op));
        self.smallest_budget_bytes = self.smallest_budget_bytes.max(stats.smallest_budget_bytes);
        self.host_bytes = self.host_bytes.max(stats.peak_host_bytes);
        self.ops_after_read += stats.counters.ops_after_read;
        let end_ns = stats.times.map_or(0, |times| times.end_ns);
        self.time_ns = end_ns - std::mem::replace(&mut self.end_ns, end_ns);
        self.last = Some(stats);
        reset_stats(device)
    }
}

impl Iterator for Steps<'_> {
    type Item = usize;

    /// Ends a step, and returns the number of the next, from one.
    fn next(&mut self) -> Option<usize> {
        let measured = self.so_far.as_mut().ok().filter(|measured| !measured.is_over)?;
        if let Err(error) = measured.end_step(self.device) {
            self.so_far = Err(error);
            return None;
        }
        measured.is_over = match self.count {
            Some(count) => measured.steps >= count,
            None => measured.is_steady || measured.steps == MAX_STEPS,
        };
        measured.steps += usize::from(!measured.is_over);
        (!measured.is_over).then_some(measured.steps)
    }
}
