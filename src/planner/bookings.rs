//! Which intervals are spent on the host, such that no op waits: each copy is booked on its lane, out as early and back as
//! late as possible, as in Zhang et al., *Efficient Memory Management for GPU-based Deep Learning Systems*
//! (arXiv:1903.06631), section 4 (AutoSwap), but by what it would cost to have the bytes back otherwise, and with time as a
//! circle: what an iteration leaves to the next may be away in between.

use std::collections::BTreeMap;

use super::iteration::{Iteration, Step};
use crate::engine::{Props, aligned};
use crate::policy::{IntervalId, Schedule};

/// Times and needs of an iteration in which nothing is evicted.
#[derive(Debug)]
pub struct Timeline {
    /// When each op begins, and when the last one ends.
    begins_ns: Vec<u64>,
    /// Device memory at each op: what the program holds, and the op's workspace.
    need_bytes: Vec<usize>,
    /// Intervals that could be spent on the host, the dearest to have back otherwise first.
    candidates: Vec<Candidate>,
}

#[derive(Debug)]
struct Candidate {
    interval: IntervalId,
    bytes: usize,
    copy_ns: u64,
    /// The op after which it begins, and that before which it ends: later than `end` of the iteration if in the next.
    from: usize,
    until: usize,
    /// Predicted time of the op that made it, by its size; infinite where it cannot be made again.
    cost_per_byte: f64,
}

impl Timeline {
    pub fn new(iteration: &Iteration, props: &Props, recompute: bool) -> Self {
        let mut begins_ns = vec![0];
        let mut need_bytes = Vec::new();
        let bytes = |slot: u32| aligned(iteration.size_bytes[slot as usize]);
        let mut live_bytes: usize = (0..iteration.successors.len()).map(|slot| bytes(slot as u32)).sum();
        let mut cost_ns = vec![None; iteration.size_bytes.len()];
        for step in &iteration.steps {
            match step {
                Step::Op { instruction, inputs, outputs } => {
                    let end_ns = begins_ns[begins_ns.len() - 1] + instruction.launch_ns;
                    begins_ns.push(end_ns);
                    live_bytes += outputs.iter().map(|&slot| bytes(slot)).sum::<usize>();
                    let consumed = inputs.iter().filter(|(_, consumed)| *consumed);
                    let consumed_bytes: usize = consumed.map(|&(slot, _)| bytes(slot)).sum();
                    let in_place = (0..inputs.len()).any(|at| inputs[at].1 && instruction.op.in_place(at));
                    let saved_bytes =
                        if in_place { outputs.first().map_or(0, |&slot| bytes(slot)) } else { 0 };
                    let scratch_bytes = aligned(instruction.scratch_bytes);
                    need_bytes.push(live_bytes + scratch_bytes - saved_bytes.min(consumed_bytes));
                    live_bytes -= consumed_bytes;
                    if instruction.op.replays_exactly() {
                        outputs.iter().for_each(|&slot| cost_ns[slot as usize] = Some(instruction.launch_ns));
                    }
                }
                Step::Write(slot) => live_bytes += bytes(*slot),
                Step::Free(slot) => live_bytes -= bytes(*slot),
                Step::Read(_) | Step::Sync => {}
            }
        }
        let mut timeline = Timeline { begins_ns, need_bytes, candidates: Vec::new() };
        for (index, (interval, &(slot, op))) in
            iteration.intervals.iter().zip(&iteration.of_interval).enumerate()
        {
            let size_bytes = iteration.size_bytes[slot as usize];
            let Some(next_ops) = interval.next_ops.filter(|&ops| ops > 1 && size_bytes > 0) else { continue };
            let cost_ns = cost_ns[slot as usize].filter(|_| recompute);
            timeline.candidates.push(Candidate {
                interval: IntervalId(index as u32),
                bytes: aligned(size_bytes),
                copy_ns: props.copy_ns(size_bytes),
                from: op as usize + 1,
                until: (op + next_ops) as usize,
                cost_per_byte: cost_ns.map_or(f64::INFINITY, |ns| ns as f64 / size_bytes as f64),
            });
        }
        timeline.candidates.sort_by(|a, b| {
            let length = |candidate: &Candidate| candidate.until - candidate.from;
            b.cost_per_byte.total_cmp(&a.cost_per_byte).then(length(b).cmp(&length(a)))
        });
        timeline
    }

    fn ops(&self) -> usize {
        self.need_bytes.len()
    }

    /// When an op begins; ops beyond the last are those of the next iteration.
    fn begin_ns(&self, op: usize) -> u64 {
        let (iterations, op) = (op / self.ops(), op % self.ops());
        iterations as u64 * self.begins_ns[self.ops()] + self.begins_ns[op]
    }

    /// The op at work at some time.
    fn op_at(&self, ns: u64) -> usize {
        let period_ns = self.begins_ns[self.ops()];
        let op = self.begins_ns.partition_point(|&begin_ns| begin_ns <= ns % period_ns) - 1;
        (ns / period_ns) as usize * self.ops() + op
    }

    /// Adds to a schedule what is to be on the host, and when it comes back, until the program fits the budget or the lanes
    /// are full. `stretch`: copies are taken to be so many times as long as predicted.
    pub fn book(&self, schedule: &mut Schedule, budget_bytes: usize, stretch: f64) {
        let period_ns = self.begins_ns[self.ops()];
        let mut excess_bytes: Vec<usize> =
            self.need_bytes.iter().map(|&need| need.saturating_sub(budget_bytes)).collect();
        let (mut out, mut back) = (Lane::new(period_ns), Lane::new(period_ns));
        let mut booked = Vec::new();
        for candidate in &self.candidates {
            let (from_ns, until_ns) = (self.begin_ns(candidate.from), self.begin_ns(candidate.until));
            let copy_ns = (candidate.copy_ns as f64 * stretch) as u64;
            let bookings =
                out.earliest(from_ns, until_ns, copy_ns).zip(back.latest(from_ns, until_ns, copy_ns));
            let Some((away_from, away_until)) = bookings.filter(|(out, back)| out.end_ns < back.begin_ns)
            else {
                continue;
            };
            let away = self.op_at(away_from.end_ns) + 1..self.op_at(away_until.begin_ns);
            let helps = away.clone().any(|op| excess_bytes[op % self.ops()] > 0);
            if !helps {
                continue;
            }
            for op in away {
                let excess = &mut excess_bytes[op % self.ops()];
                *excess = excess.saturating_sub(candidate.bytes);
            }
            out.book(&away_from);
            back.book(&away_until);
            schedule.intervals[candidate.interval.0 as usize].offload = true;
            booked.push((until_ns, copy_ns, candidate.interval));
        }
        self.fetch(schedule, booked);
    }

    /// Fetches as late as possible, in the order in which they are needed, so that one that is long delays none that is
    /// urgent.
    fn fetch(&self, schedule: &mut Schedule, mut booked: Vec<(u64, u64, IntervalId)>) {
        let period_ns = self.begins_ns[self.ops()];
        booked.sort_by_key(|&(until_ns, ..)| std::cmp::Reverse(until_ns % period_ns));
        let mut free_until_ns = u64::MAX;
        // Those that are needed early begin in the iteration before, and so delay those that are needed late.
        for turn in [2, 1] {
            schedule.fetches.clear();
            for &(until_ns, copy_ns, interval) in &booked {
                let end_ns = free_until_ns.min(turn * period_ns + until_ns % period_ns);
                free_until_ns = end_ns.saturating_sub(copy_ns);
                schedule.fetches.push(((self.op_at(free_until_ns) % self.ops()) as u32, interval));
            }
        }
        schedule.fetches.sort_by_key(|&(op, _)| op);
    }
}

/// When a lane is idle, in an iteration that repeats. A copy may be interrupted by others, as if it were made in pieces: a
/// real lane makes one after the other, in the order in which they are asked for, and is done with all of them as early.
#[derive(Debug)]
struct Lane {
    period_ns: u64,
    /// Begin and end of what is idle, within the period.
    idle: BTreeMap<u64, u64>,
}

/// Idle stretches that a copy would take, and when it would begin and end.
#[derive(Debug, PartialEq)]
struct Booking {
    begin_ns: u64,
    end_ns: u64,
    /// Within the period.
    pieces: Vec<(u64, u64)>,
}

impl Lane {
    fn new(period_ns: u64) -> Self {
        Lane { period_ns, idle: BTreeMap::from([(0, period_ns)]) }
    }

    /// What is idle between two times at most a period apart, in order: when its period began, and its begin and end in that.
    fn idle_between(&self, from_ns: u64, until_ns: u64) -> Vec<(u64, u64, u64)> {
        let period_ns = self.period_ns;
        let mut found = Vec::new();
        for base_ns in (from_ns / period_ns..=until_ns / period_ns).map(|period| period * period_ns) {
            let (from, until) = (from_ns.saturating_sub(base_ns), (until_ns - base_ns).min(period_ns));
            let before = self.idle.range(..from).next_back();
            for (&begin, &end) in before.into_iter().chain(self.idle.range(from..until)) {
                let (begin, end) = (begin.max(from), end.min(until));
                if begin < end {
                    found.push((base_ns, begin, end));
                }
            }
        }
        found
    }

    /// The copy that is done the earliest.
    fn earliest(&self, from_ns: u64, until_ns: u64, duration_ns: u64) -> Option<Booking> {
        self.book_in(self.idle_between(from_ns, until_ns).into_iter(), duration_ns, |begin, end, left_ns| {
            (begin, end.min(begin + left_ns))
        })
    }

    /// The copy that begins the latest.
    fn latest(&self, from_ns: u64, until_ns: u64, duration_ns: u64) -> Option<Booking> {
        self.book_in(
            self.idle_between(from_ns, until_ns).into_iter().rev(),
            duration_ns,
            |begin, end, left_ns| (begin.max(end.saturating_sub(left_ns)), end),
        )
    }

    fn book_in(
        &self,
        idle: impl Iterator<Item = (u64, u64, u64)>,
        duration_ns: u64,
        part: impl Fn(u64, u64, u64) -> (u64, u64),
    ) -> Option<Booking> {
        let mut booking = Booking { begin_ns: u64::MAX, end_ns: 0, pieces: Vec::new() };
        let mut left_ns = duration_ns;
        for (base_ns, begin, end) in idle {
            let (begin, end) = part(begin, end, left_ns);
            booking.begin_ns = booking.begin_ns.min(base_ns + begin);
            booking.end_ns = booking.end_ns.max(base_ns + end);
            booking.pieces.push((begin, end));
            left_ns -= end - begin;
            if left_ns == 0 {
                return Some(booking);
            }
        }
        None
    }

    fn book(&mut self, booking: &Booking) {
        for &(begin, end) in &booking.pieces {
            let (&idle_begin, &idle_end) = self.idle.range(..=begin).next_back().expect("it is idle");
            self.idle.remove(&idle_begin);
            if idle_begin < begin {
                self.idle.insert(idle_begin, begin);
            }
            if end < idle_end {
                self.idle.insert(end, idle_end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_booked_early_and_late_and_never_twice() {
        let times = |booking: Option<Booking>| booking.map(|booking| (booking.begin_ns, booking.end_ns));
        let mut lane = Lane::new(100);
        let booking = lane.earliest(10, 100, 20).unwrap();
        assert_eq!((booking.begin_ns, booking.end_ns), (10, 30));
        lane.book(&booking);
        lane.book(&lane.latest(0, 60, 10).unwrap());
        assert_eq!(times(lane.earliest(0, 100, 10)), Some((0, 10)));
        assert_eq!(times(lane.earliest(5, 100, 30)), Some((5, 65)));
        assert_eq!(times(lane.earliest(5, 60, 30)), None);
        assert_eq!(times(lane.latest(0, 65, 10)), Some((45, 65)));
        assert_eq!(times(lane.latest(10, 30, 1)), None);
        // Over the end of the iteration, into the next.
        assert_eq!(times(lane.earliest(95, 180, 20)), Some((95, 135)));
        assert_eq!(times(lane.latest(60, 125, 30)), Some((80, 110)));
        lane.book(&lane.latest(60, 125, 30).unwrap());
        assert_eq!(times(lane.earliest(0, 100, 40)), Some((30, 80)));
        assert_eq!(times(lane.earliest(0, 100, 41)), None);
    }
}
