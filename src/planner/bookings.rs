//! Which intervals are spent on the host, such that no op waits: each copy is booked on its lane, out as early and back as
//! late as possible, as in Zhang et al., *Efficient Memory Management for GPU-based Deep Learning Systems*
//! (arXiv:1903.06631), section 4 (AutoSwap), but by what it would cost to have the bytes back otherwise, and with time as a
//! circle: what an iteration leaves to the next may be away in between. A copy out is made beside the op that reads the
//! storage last before it is away, and once: what comes back is on the host still.
//!
//! A lane makes one copy after the other, in the order in which they are asked for. So a booking that delays others is
//! refused if one of them would not be away any more.

use std::ops::Range;

use hashbrown::HashMap;

use super::iteration::{Iteration, Slot, Step};
use crate::engine::{Props, in_memory};
use crate::policy::{Eviction, IntervalId, Schedule};

/// Times and needs of an iteration in which nothing is evicted.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// When each op begins, and when the last one ends.
    begins_ns: Vec<u64>,
    /// Device memory at each op: what the program holds, and the op's workspace.
    need_bytes: Vec<usize>,
    /// Intervals that could be spent on the host, the dearest to have back otherwise first.
    candidates: Vec<Candidate>,
    /// By interval.
    sources: Vec<Source>,
    props: Props,
    /// What is no smaller takes whole pages.
    page_bytes: Option<usize>,
}

/// From when on a copy to the host is made: an op that reads a storage need not have run for its bytes to be copied.
#[derive(Clone, Copy, Debug)]
struct Source {
    slot: Slot,
    size_bytes: usize,
    /// The one before in the iteration; itself if there is none.
    interval: IntervalId,
    /// The op after which that begins.
    op: usize,
}

#[derive(Clone, Copy, Debug)]
struct Candidate {
    interval: IntervalId,
    /// The op after which it begins, and that before which it ends: later than `end` of the iteration if in the next.
    from: usize,
    until: usize,
    /// Predicted time of the op that made it, by its size; infinite where it cannot be made again.
    cost_per_byte: f64,
}

/// That copies of an interval are to be booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Booking {
    /// Before those of higher ranks.
    pub rank: u32,
    /// The op for which it comes back in between, if there is one.
    pub visited: Option<u32>,
}

impl Timeline {
    pub fn new(iteration: &Iteration, props: &Props, recompute: bool, page_bytes: Option<usize>) -> Self {
        let mut begins_ns = vec![0];
        let mut need_bytes = Vec::new();
        let bytes = |slot: u32| in_memory(iteration.size_bytes[slot as usize], page_bytes);
        // What the iteration before left and nothing uses leaves before all else.
        let is_left = |slot: usize| iteration.begun.get(slot).is_some_and(Option::is_none);
        let begun = (0..iteration.successors.len()).filter(|&slot| !is_left(slot));
        let mut live_bytes: usize = begun.map(|slot| bytes(slot as u32)).sum();
        let mut cost_ns = vec![None; iteration.size_bytes.len()];
        // So does what nothing uses any more.
        let mut left_bytes = vec![0; iteration.ops.len()];
        let in_vain = if recompute { iteration.held_in_vain() } else { Vec::new() };
        let left = iteration.left_over().into_iter().chain(in_vain);
        let left = left.map(|interval| iteration.of_interval[interval.0 as usize]);
        let left: HashMap<Slot, u32> = left.collect();
        left.iter().for_each(|(&slot, &op)| left_bytes[op as usize] += bytes(slot));
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
                    let scratch_bytes = Some(instruction.scratch_bytes).filter(|&bytes| bytes > 0);
                    let scratch_bytes = scratch_bytes.map_or(0, |bytes| in_memory(bytes, page_bytes));
                    need_bytes.push(live_bytes + scratch_bytes - saved_bytes.min(consumed_bytes));
                    live_bytes -= consumed_bytes;
                    live_bytes -= left_bytes[need_bytes.len() - 1];
                    if instruction.op.replays_exactly() {
                        outputs.iter().for_each(|&slot| cost_ns[slot as usize] = Some(instruction.launch_ns));
                    }
                }
                Step::Write(slot) => live_bytes += bytes(*slot),
                Step::Free(slot) if is_left(*slot as usize) || left.contains_key(slot) => {}
                Step::Free(slot) => live_bytes -= bytes(*slot),
                Step::Read(_) | Step::Sync => {}
            }
        }
        let sources = sources(iteration);
        let candidates = Vec::new();
        let props = props.clone();
        let mut timeline = Timeline { begins_ns, need_bytes, candidates, sources, props, page_bytes };
        for (index, (interval, &(slot, op))) in
            iteration.intervals.iter().zip(&iteration.of_interval).enumerate()
        {
            let size_bytes = iteration.size_bytes[slot as usize];
            let may_leave = |&ops: &u32| ops > 1 && size_bytes > 0 && interval.may_move;
            let Some(next_ops) = interval.next_ops.filter(may_leave) else { continue };
            let cost_ns = cost_ns[slot as usize].filter(|_| recompute);
            timeline.candidates.push(Candidate {
                interval: IntervalId(index as u32),
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

    /// The same with some time before each op, for what is made again then: lanes have that time too.
    pub fn with_pauses(&self, pauses_ns: &[u64]) -> Timeline {
        let mut paused_ns = 0;
        let pauses_ns = pauses_ns.iter().map(|pause_ns| {
            paused_ns += pause_ns;
            paused_ns
        });
        let begins_ns = std::iter::once(0).chain(pauses_ns).zip(&self.begins_ns);
        Timeline {
            begins_ns: begins_ns.map(|(paused_ns, begin_ns)| begin_ns + paused_ns).collect(),
            ..self.clone()
        }
    }

    fn ops(&self) -> usize {
        self.need_bytes.len()
    }

    /// Device memory at each op, if nothing leaves.
    pub fn need_bytes(&self) -> &[usize] {
        &self.need_bytes
    }

    /// What a storage takes.
    pub fn in_memory(&self, size_bytes: usize) -> usize {
        in_memory(size_bytes, self.page_bytes)
    }

    /// The time of all ops.
    pub fn period_ns(&self) -> u64 {
        self.begins_ns[self.ops()]
    }

    /// The time of a copy.
    pub fn copy_ns(&self, bytes: usize) -> u64 {
        self.props.copy_ns(bytes)
    }

    /// Lanes without copies.
    pub fn lanes(&self) -> Lanes {
        Lanes { period_ns: self.period_ns(), most_ns: self.period_ns(), ..Lanes::default() }
    }

    /// A copy out when the first of these ops begins, and back before the one after them, as if there were no others.
    pub fn copy_of(&self, interval: IntervalId, ops: Range<usize>) -> Copy {
        let (from_ns, until_ns) = (self.begin_ns(ops.start), self.begin_ns(ops.end));
        let Source { slot, size_bytes, op, .. } = self.sources[interval.0 as usize];
        let copy_ns = self.copy_ns(size_bytes);
        let ready_ns = self.begin_ns(op + 1);
        Copy {
            interval,
            slot,
            bytes: self.in_memory(size_bytes) as i64,
            copy_ns,
            ready_ns,
            from_ns,
            until_ns,
            is_clean: false,
            is_visit: false,
            out_ns: from_ns.max(ready_ns + copy_ns),
            back_ns: until_ns.saturating_sub(copy_ns),
        }
    }

    /// A copy back for an op while another copy has the storage away.
    pub fn visit(&self, copy: Copy, op: usize) -> Copy {
        let until_ns = self.begin_ns(op);
        let back_ns = until_ns.saturating_sub(copy.copy_ns);
        Copy { is_clean: true, is_visit: true, until_ns, back_ns, ..copy }
    }

    /// The ops at which it is there in between.
    pub fn visited(&self, copy: &Copy) -> Range<usize> {
        self.op_at(copy.back_ns)..self.op_at(copy.until_ns) + 1
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
    /// are at work for a part of the time. `at_once`: it leaves when it is predicted to be there, not when room is needed.
    pub fn book(
        &self,
        schedule: &mut Schedule,
        budget_bytes: usize,
        lanes_part: f64,
        at_once: bool,
        booking: impl Fn(IntervalId) -> Option<Booking>,
    ) {
        let most_ns = (self.period_ns() as f64 * lanes_part) as u64;
        let mut lanes = Lanes { most_ns, ..self.lanes() };
        let mut excess = Excess::new(self, budget_bytes);
        let ranked =
            self.candidates.iter().filter_map(|candidate| Some((booking(candidate.interval)?, candidate)));
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_by_key(|(booking, _)| booking.rank);
        for (Booking { visited, .. }, candidate) in ranked {
            if excess.is_none() {
                break;
            }
            let Candidate { interval, from, until, .. } = *candidate;
            let copy = self.copy_of(interval, from..until);
            if excess.is_lessened_by(&copy) && lanes.add(copy, |copy| excess.is_lessened_by(copy)) {
                if let Some(op) = visited
                    && lanes.add(self.visit(copy, op as usize), |_| true)
                {
                    schedule.releases.push((op % self.ops() as u32, interval, Eviction::Offload));
                }
                excess.update(&lanes.copies);
            }
        }
        lanes.run();
        for copy in &lanes.copies {
            schedule.intervals[copy.interval.0 as usize].how = Some(Eviction::Offload);
            if !copy.is_clean {
                let source = self.sources[copy.interval.0 as usize].interval;
                schedule.intervals[source.0 as usize].copied = true;
            }
        }
        lanes.copies.sort_by_key(|copy| copy.back_ns % lanes.period_ns);
        let fetch = |copy: &Copy| ((self.op_at(copy.back_ns) % self.ops()) as u32, copy.interval);
        if at_once {
            let away = lanes.copies.iter().filter(|copy| !copy.is_visit);
            let away = away.map(|copy| (copy.interval, self.away(copy)));
            let away = away.filter(|(_, ops)| !ops.is_empty());
            let release = |(interval, ops): (_, Range<usize>)| {
                (((ops.start - 1) % self.ops()) as u32, interval, Eviction::Offload)
            };
            schedule.releases.extend(away.map(release));
        }
        schedule.fetches = lanes.copies.iter().map(fetch).collect();
    }

    /// The ops at which a storage is away.
    pub fn away(&self, copy: &Copy) -> Range<usize> {
        let from = self.op_at(copy.out_ns) + 1;
        from..self.op_at(copy.back_ns).max(from)
    }
}

fn sources(iteration: &Iteration) -> Vec<Source> {
    let mut last = vec![None; iteration.size_bytes.len()];
    let sources = iteration.of_interval.iter().zip(0..).map(|(&(slot, op), index)| {
        let size_bytes = iteration.size_bytes[slot as usize];
        let source = Source { slot, size_bytes, interval: IntervalId(index), op: op as usize };
        last[slot as usize].replace(source).unwrap_or(source)
    });
    sources.collect()
}

/// By how much the program exceeds the budget at each op, with what is away.
struct Excess<'a> {
    timeline: &'a Timeline,
    left_bytes: Vec<i64>,
    /// Of each copy that is counted: when it is away, in time and in ops.
    counted: Vec<([u64; 2], Range<usize>)>,
}

impl<'a> Excess<'a> {
    fn new(timeline: &'a Timeline, budget_bytes: usize) -> Self {
        let left_bytes = timeline.need_bytes.iter().map(|&need| need as i64 - budget_bytes as i64).collect();
        Excess { timeline, left_bytes, counted: Vec::new() }
    }

    fn is_none(&self) -> bool {
        self.left_bytes.iter().all(|&left_bytes| left_bytes <= 0)
    }

    fn is_lessened_by(&self, copy: &Copy) -> bool {
        self.timeline.away(copy).any(|op| self.left_bytes[op % self.left_bytes.len()] > 0)
    }

    /// Counts copies, those that were counted before anew.
    fn update(&mut self, copies: &[Copy]) {
        for (index, copy) in copies.iter().enumerate() {
            let times_ns = [copy.out_ns, copy.back_ns];
            if copy.is_visit && index == self.counted.len() {
                // That it is there in between does not count.
                self.counted.push((times_ns, 0..0));
            }
            if copy.is_visit || self.counted.get(index).is_some_and(|(before_ns, _)| *before_ns == times_ns) {
                continue;
            }
            let away = self.timeline.away(copy);
            if index == self.counted.len() {
                self.counted.push((times_ns, away.start..away.start));
            }
            let before = std::mem::replace(&mut self.counted[index], (times_ns, away.clone())).1;
            self.shift(before.start, away.start, copy.bytes);
            self.shift(away.end, before.end, copy.bytes);
        }
    }

    /// Bytes are away from a later op on, or an earlier one.
    fn shift(&mut self, before: usize, after: usize, bytes: i64) {
        let (ops, bytes) =
            (before.min(after)..before.max(after), if after > before { bytes } else { -bytes });
        let count = self.left_bytes.len();
        ops.for_each(|op| self.left_bytes[op % count] += bytes);
    }
}

/// Both lanes, in an iteration that repeats: out, copies are made in the order in which they can begin, back in that in which
/// they must have ended.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    period_ns: u64,
    pub copies: Vec<Copy>,
    /// Places in `copies`.
    out: Vec<usize>,
    back: Vec<usize>,
    busy_ns: u64,
    /// The longest that a lane may be busy.
    most_ns: u64,
}

/// Out and back again. Times beyond the period are in the next iteration.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copy {
    pub interval: IntervalId,
    slot: Slot,
    bytes: i64,
    copy_ns: u64,
    /// When the copy out can begin.
    ready_ns: u64,
    /// When it can be away.
    from_ns: u64,
    until_ns: u64,
    /// It was away before, in the same iteration: the host has the bytes still.
    is_clean: bool,
    /// It comes back while another copy of the interval has it away, for the op before which it is to be there.
    pub is_visit: bool,
    /// When the copy out has ended.
    out_ns: u64,
    /// When the copy back begins.
    back_ns: u64,
}

impl Copy {
    /// When the copy out has ended, and when that back begins.
    pub fn times_ns(&self) -> [u64; 2] {
        [self.out_ns, self.back_ns]
    }
}

impl Lanes {
    /// Adds a copy, if all are away then for some time, and this one when it `is_short`. If it is refused, the others keep the
    /// times that they would have had with it until [`run`](Lanes::run) is next called.
    pub fn add(&mut self, copy: Copy, is_short: impl Fn(&Copy) -> bool) -> bool {
        if copy.copy_ns > copy.until_ns - copy.from_ns || self.busy_ns + copy.copy_ns > self.most_ns {
            return false;
        }
        let place = self.copies.len();
        self.copies.push(copy);
        self.find_clean(copy.slot);
        let out = self.out.partition_point(|&at| self.copies[at].ready_ns <= copy.ready_ns);
        self.out.insert(out, place);
        let until_ns = copy.until_ns % self.period_ns;
        let back = self.back.partition_point(|&at| self.copies[at].until_ns % self.period_ns >= until_ns);
        self.back.insert(back, place);
        self.run();
        if self.are_away() && is_short(&self.copies[place]) {
            self.busy_ns += copy.copy_ns;
            return true;
        }
        self.out.remove(out);
        self.back.remove(back);
        self.copies.pop();
        self.find_clean(copy.slot);
        false
    }

    /// Finds which copies of a storage need not be made.
    fn find_clean(&mut self, slot: Slot) {
        let of_slot = || self.copies.iter().filter(|copy| copy.slot == slot && !copy.is_visit);
        let Some(first_ns) = of_slot().map(|copy| copy.from_ns).min() else { return };
        for copy in self.copies.iter_mut().filter(|copy| copy.slot == slot) {
            copy.is_clean = copy.is_visit || copy.from_ns > first_ns;
        }
    }

    /// Takes the copies of an interval out, if there are any. `false`: another of the storage was clean by it, and now not all are
    /// away for some time.
    pub fn remove(&mut self, interval: IntervalId) -> bool {
        let before = self.copies.len();
        while let Some(place) = self.copies.iter().position(|copy| copy.interval == interval) {
            let Copy { slot, copy_ns, .. } = self.copies.remove(place);
            self.busy_ns -= copy_ns;
            self.find_clean(slot);
            for order in [&mut self.out, &mut self.back] {
                order.retain(|&at| at != place);
                order.iter_mut().filter(|at| **at > place).for_each(|at| *at -= 1);
            }
        }
        if self.copies.len() == before {
            return true;
        }
        self.run();
        self.are_away()
    }

    fn are_away(&self) -> bool {
        self.copies.iter().all(|copy| copy.out_ns <= copy.back_ns)
    }

    /// Finds when each copy is made.
    fn run(&mut self) {
        let mut free_ns = 0;
        for _ in 0..2 {
            for &at in &self.out {
                let copy = &mut self.copies[at];
                if copy.is_clean {
                    copy.out_ns = copy.from_ns;
                } else {
                    free_ns = copy.ready_ns.max(free_ns) + copy.copy_ns;
                    copy.out_ns = free_ns.max(copy.from_ns);
                }
            }
            // What is not done by the end delays the next iteration.
            free_ns = free_ns.saturating_sub(self.period_ns);
        }
        for place in 0..self.copies.len() {
            if self.copies[place].is_visit {
                // Once it is away.
                let main =
                    self.copies[..place].iter().rfind(|copy| copy.interval == self.copies[place].interval);
                self.copies[place].out_ns = main.expect("what is visited is away").out_ns;
            }
        }
        let mut begin_ns = i64::MAX;
        for _ in 0..2 {
            for &at in &self.back {
                let copy = &mut self.copies[at];
                let until_ns = (copy.until_ns % self.period_ns) as i64;
                begin_ns = until_ns.min(begin_ns) - copy.copy_ns as i64;
                copy.back_ns = (copy.until_ns as i64 - until_ns + begin_ns).max(0) as u64;
            }
            // What is needed early comes back in the iteration before.
            begin_ns = begin_ns.saturating_add(self.period_ns as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(interval: u32, from_ns: u64, until_ns: u64, copy_ns: u64) -> Copy {
        let ready_ns = from_ns;
        Copy {
            interval: IntervalId(interval),
            slot: interval,
            copy_ns,
            ready_ns,
            from_ns,
            until_ns,
            ..Copy::default()
        }
    }

    fn times(lanes: &Lanes) -> Vec<(u64, u64)> {
        lanes.copies.iter().map(|copy| (copy.out_ns, copy.back_ns)).collect()
    }

    #[test]
    fn copies_go_early_and_come_back_late() {
        let mut lanes = Lanes { period_ns: 100, most_ns: 100, ..Lanes::default() };
        assert!(lanes.add(copy(0, 10, 90, 20), |_| true));
        assert_eq!(times(&lanes), [(30, 70)]);
        // One that can begin later waits; one that is needed later comes back later, and the other before.
        assert!(lanes.add(copy(1, 15, 95, 20), |_| true));
        assert_eq!(times(&lanes), [(30, 55), (50, 75)]);
        // It would delay others too much.
        assert!(!lanes.add(copy(2, 0, 100, 30), |_| true));
        assert!(!lanes.add(copy(2, 0, 100, 5), |copy| copy.out_ns > 5));
        assert!(lanes.add(copy(2, 0, 100, 5), |copy| copy.out_ns == 5 && copy.back_ns == 95));
        lanes.run();
        assert_eq!(times(&lanes), [(30, 55), (50, 75), (5, 95)]);
    }

    #[test]
    fn a_copy_out_is_made_beside_the_last_reader_and_once() {
        let mut lanes = Lanes { period_ns: 100, most_ns: 100, ..Lanes::default() };
        let of_slot = |interval, from_ns, until_ns| Copy { slot: 0, ..copy(interval, from_ns, until_ns, 10) };
        // It is there when it may leave; half of it is there.
        assert!(lanes.add(Copy { ready_ns: 30, ..of_slot(0, 40, 60) }, |_| true));
        assert_eq!(times(&lanes), [(40, 50)]);
        assert!(lanes.add(Copy { ready_ns: 35, ..copy(1, 45, 95, 10) }, |_| true));
        assert_eq!(times(&lanes), [(40, 50), (50, 85)]);
        // Again, and it need not be copied again: not even the time for that is needed.
        assert!(lanes.add(of_slot(2, 70, 91), |_| true));
        assert_eq!(times(&lanes), [(40, 50), (50, 85), (70, 75)]);
        // One that is away before makes the others' copies.
        assert!(lanes.add(of_slot(3, 5, 30), |_| true));
        assert_eq!(times(&lanes), [(40, 50), (45, 85), (70, 75), (15, 20)]);
        assert!(lanes.remove(IntervalId(3)));
        assert!(!lanes.remove(IntervalId(0)), "what now has to be copied has no time for it");
        assert_eq!(times(&lanes), [(45, 85), (80, 75)]);
    }

    #[test]
    fn what_is_needed_early_comes_back_in_the_iteration_before() {
        let mut lanes = Lanes { period_ns: 100, most_ns: 100, ..Lanes::default() };
        assert!(lanes.add(copy(0, 20, 105, 20), |_| true));
        assert_eq!(times(&lanes), [(40, 85)]);
        assert!(lanes.add(copy(1, 30, 90, 10), |_| true));
        assert_eq!(times(&lanes), [(40, 85), (50, 75)]);
    }

    #[test]
    fn a_visit_comes_back_once_it_is_away_and_goes_with_its_copies() {
        let mut lanes = Lanes { period_ns: 100, most_ns: 100, ..Lanes::default() };
        let main = copy(0, 10, 90, 20);
        let visit = |until_ns| Copy { is_clean: true, is_visit: true, until_ns, ..main };
        assert!(lanes.add(main, |_| true));
        assert!(!lanes.add(visit(45), |_| true), "it is away from 30 on");
        assert!(lanes.add(visit(55), |_| true));
        assert_eq!(times(&lanes), [(30, 70), (30, 35)]);
        assert!(lanes.remove(IntervalId(0)));
        assert_eq!((times(&lanes), lanes.busy_ns), (vec![], 0));
    }

    #[test]
    fn what_is_left_is_what_a_recount_says() {
        let props = crate::engine::sim::profiles().swap_remove(0).props;
        let begins_ns = (0..=10).map(|op| op * 10).collect();
        let timeline = Timeline {
            begins_ns,
            need_bytes: vec![100; 10],
            candidates: Vec::new(),
            sources: Vec::new(),
            props,
            page_bytes: None,
        };
        let (mut lanes, mut excess) = (timeline.lanes(), Excess::new(&timeline, 60));
        // Each makes those before it wait, or come back earlier; the last two are away across the iteration's end.
        let copies = [(10, 90, 10), (5, 95, 10), (0, 100, 5), (60, 140, 10), (70, 120, 5)];
        for (interval, (from_ns, until_ns, copy_ns)) in (0..).zip(copies) {
            assert!(lanes.add(Copy { bytes: 10, ..copy(interval, from_ns, until_ns, copy_ns) }, |_| true));
            excess.update(&lanes.copies);
            let mut left_bytes = vec![40; 10];
            for copy in &lanes.copies {
                timeline.away(copy).for_each(|op| left_bytes[op % 10] -= 10);
            }
            assert_eq!(excess.left_bytes, left_bytes);
            assert_eq!(excess.is_none(), left_bytes.iter().all(|&bytes| bytes <= 0));
        }
    }

    #[test]
    fn what_is_taken_out_leaves_no_trace() {
        let mut lanes = Lanes { period_ns: 100, most_ns: 100, ..Lanes::default() };
        assert!(lanes.add(copy(0, 10, 90, 20), |_| true));
        assert!(lanes.add(copy(1, 15, 95, 20), |_| true));
        assert!(lanes.add(copy(2, 0, 100, 5), |_| true));
        assert!(lanes.remove(IntervalId(1)));
        assert!(lanes.remove(IntervalId(7)));
        assert_eq!((times(&lanes), lanes.busy_ns), (vec![(30, 70), (5, 95)], 25));
    }

    #[test]
    fn no_lane_is_asked_for_more_than_it_can_do() {
        let mut lanes = Lanes { period_ns: 100, most_ns: 100, ..Lanes::default() };
        assert!(lanes.add(copy(0, 0, 100, 50), |_| true));
        assert!(!lanes.add(copy(1, 0, 120, 51), |_| true));
    }
}
