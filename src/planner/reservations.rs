//! Which intervals are spent on the host so that no op waits. Each copy is reserved on its lane, out as early and back as late
//! as possible, as in Zhang et al., *Efficient Memory Management for GPU-based Deep Learning Systems* (arXiv:1903.06631),
//! section 4 (AutoSwap). Unlike there, storages are ranked by the cost of having them back otherwise, and time is a circle: a
//! storage that an iteration leaves to the next may be away in between. A copy out runs at the same time as the last reader
//! before the interval, and it runs once, since the host keeps the bytes of a storage that comes back.

use std::ops::Range;

use hashbrown::HashMap;

use super::iteration::{Iteration, IterationStep, Slot};
use super::lanes::{CopyLanes, PlannedCopy};
use super::trial::Times;
use crate::engine::{Props, in_memory};
use crate::schedule::{Eviction, IntervalId, Schedule};

/// The times and needs of an iteration in which nothing is evicted.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// When each op begins, and when the last one ends.
    begins_ns: Vec<u64>,
    /// The device memory at each op: the program's storages and the op's workspace.
    need_bytes: Vec<usize>,
    /// The intervals that could be spent on the host, by the cost of having the storage back otherwise, the highest first.
    candidates: Vec<OffloadCandidate>,
    /// By interval.
    sources: Vec<Source>,
    props: Props,
    /// Storages of at least this size take whole pages.
    page_bytes: Option<usize>,
}

/// When a copy to the host can begin. It need not wait for the ops that only read the storage.
#[derive(Clone, Copy, Debug)]
struct Source {
    slot: Slot,
    size_bytes: usize,
    /// The interval before in the iteration, or this one if there is none.
    interval: IntervalId,
    /// The op after which that interval begins.
    op: usize,
}

#[derive(Clone, Copy, Debug)]
struct OffloadCandidate {
    interval: IntervalId,
    /// The op after which the interval begins, and the op before which it ends. The latter is beyond the iteration's end if it
    /// is in the next.
    from: usize,
    until: usize,
    /// The predicted time of the op that made the storage, by its size. It is infinite if the storage cannot be recomputed.
    cost_per_byte: f64,
}

impl Timeline {
    pub fn new(iteration: &Iteration, props: &Props, recompute: bool, page_bytes: Option<usize>) -> Self {
        let mut begins_ns = vec![0];
        let mut need_bytes = Vec::new();
        let bytes = |slot: u32| in_memory(iteration.size_bytes[slot as usize], page_bytes);
        // Storages that the iteration before left and that nothing uses leave before all others.
        let is_left = |slot: usize| iteration.initial.get(slot).is_some_and(Option::is_none);
        let begun = (0..iteration.successors.len()).filter(|&slot| !is_left(slot));
        let mut live_bytes: usize = begun.map(|slot| bytes(slot as u32)).sum();
        let mut cost_ns = vec![None; iteration.size_bytes.len()];
        // So do storages that are dead but held.
        let mut left_bytes = vec![0; iteration.ops.len()];
        let dead = if recompute { iteration.dead_but_held() } else { Vec::new() };
        let left = iteration.left_over().into_iter().chain(dead);
        let left = left.map(|interval| iteration.of_interval[interval.0 as usize]);
        let left: HashMap<Slot, u32> = left.collect();
        left.iter().for_each(|(&slot, &op)| left_bytes[op as usize] += bytes(slot));
        for step in &iteration.steps {
            match step {
                IterationStep::Op { instruction, inputs, outputs } => {
                    let end_ns = begins_ns[begins_ns.len() - 1] + instruction.launch_ns;
                    begins_ns.push(end_ns);
                    live_bytes += outputs.iter().map(|&slot| bytes(slot)).sum::<usize>();
                    let consumed = inputs.iter().filter(|(_, consumed)| *consumed);
                    let consumed_bytes: usize = consumed.map(|&(slot, _)| bytes(slot)).sum();
                    let in_place = iteration.made_in_place(&instruction.op, inputs, outputs);
                    let saved_bytes: usize = in_place.map(bytes).sum();
                    let scratch_bytes = Some(instruction.scratch_bytes).filter(|&bytes| bytes > 0);
                    let scratch_bytes = scratch_bytes.map_or(0, |bytes| in_memory(bytes, page_bytes));
                    need_bytes.push(live_bytes + scratch_bytes - saved_bytes.min(consumed_bytes));
                    live_bytes -= consumed_bytes;
                    live_bytes -= left_bytes[need_bytes.len() - 1];
                    if instruction.op.replays_exactly() {
                        outputs.iter().for_each(|&slot| cost_ns[slot as usize] = Some(instruction.launch_ns));
                    }
                }
                IterationStep::Write(slot) => live_bytes += bytes(*slot),
                IterationStep::Free(slot) if is_left(*slot as usize) || left.contains_key(slot) => {}
                IterationStep::Free(slot) => live_bytes -= bytes(*slot),
                IterationStep::Read(_) | IterationStep::Sync => {}
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
            timeline.candidates.push(OffloadCandidate {
                interval: IntervalId(index as u32),
                from: op as usize + 1,
                until: (op + next_ops) as usize,
                cost_per_byte: cost_ns.map_or(f64::INFINITY, |ns| ns as f64 / size_bytes as f64),
            });
        }
        timeline.candidates.sort_by(|a, b| {
            let length = |candidate: &OffloadCandidate| candidate.until - candidate.from;
            b.cost_per_byte.total_cmp(&a.cost_per_byte).then(length(b).cmp(&length(a)))
        });
        timeline
    }

    /// The same iteration at the times of a trial.
    pub fn at_times(&self, times: Times) -> Timeline {
        let Times { mut begins_ns, step_ns } = times;
        begins_ns.push(step_ns);
        Timeline { begins_ns, ..self.clone() }
    }

    fn ops(&self) -> usize {
        self.need_bytes.len()
    }

    /// The device memory at each op if nothing is evicted.
    pub fn need_bytes(&self) -> &[usize] {
        &self.need_bytes
    }

    /// The memory that a storage takes.
    pub fn in_memory(&self, size_bytes: usize) -> usize {
        in_memory(size_bytes, self.page_bytes)
    }

    /// The time of all ops.
    pub fn period_ns(&self) -> u64 {
        self.begins_ns[self.ops()]
    }

    /// The time of a copy back.
    pub fn fetch_ns(&self, bytes: usize) -> u64 {
        self.props.fetch_ns(bytes)
    }

    /// Lanes without copies.
    pub fn lanes(&self) -> CopyLanes {
        CopyLanes::new(self.period_ns())
    }

    /// The copies of an interval, out when the first of these ops begins and back before the op after the last, without other
    /// copies.
    pub fn copy_of(&self, interval: IntervalId, ops: Range<usize>) -> PlannedCopy {
        let (from_ns, until_ns) = (self.begin_ns(ops.start), self.begin_ns(ops.end));
        let Source { slot, size_bytes, op, .. } = self.sources[interval.0 as usize];
        let (offload_ns, fetch_ns) = (self.props.offload_ns(size_bytes), self.fetch_ns(size_bytes));
        let ready_ns = self.begin_ns(op + 1);
        PlannedCopy {
            interval,
            slot,
            bytes: self.in_memory(size_bytes) as i64,
            offload_ns,
            fetch_ns,
            ready_ns,
            from_ns,
            until_ns,
            is_clean: false,
            out_ns: from_ns.max(ready_ns + offload_ns),
            back_ns: until_ns.saturating_sub(fetch_ns),
        }
    }

    /// When an op begins. Ops beyond the last are those of the next iteration.
    fn begin_ns(&self, op: usize) -> u64 {
        let (iterations, op) = (op / self.ops(), op % self.ops());
        iterations as u64 * self.begins_ns[self.ops()] + self.begins_ns[op]
    }

    /// The op that runs at some time.
    fn op_at(&self, ns: u64) -> usize {
        let period_ns = self.begins_ns[self.ops()];
        let op = self.begins_ns.partition_point(|&begin_ns| begin_ns <= ns % period_ns) - 1;
        (ns / period_ns) as usize * self.ops() + op
    }

    /// Reserves copies until the program fits the budget or the lanes are busy, those of lower ranks first, and adds them to a
    /// schedule. With `at_once` a storage leaves as soon as its copy is predicted to be done, else when memory is short.
    pub fn reserve(
        &self,
        schedule: &mut Schedule,
        budget_bytes: usize,
        at_once: bool,
        rank: impl Fn(IntervalId) -> Option<u32>,
    ) {
        let mut lanes = self.lanes();
        let mut excess = Excess::new(self, budget_bytes);
        let candidates = self.candidates.iter();
        let ranked = candidates.filter_map(|candidate| Some((rank(candidate.interval)?, candidate)));
        let mut ranked: Vec<_> = ranked.collect();
        ranked.sort_by_key(|&(rank, _)| rank);
        for (_, candidate) in ranked {
            if excess.is_none() {
                break;
            }
            let OffloadCandidate { interval, from, until, .. } = *candidate;
            let copy = self.copy_of(interval, from..until);
            if excess.is_lessened_by(&copy) && lanes.add(copy, |copy| excess.is_lessened_by(copy)) {
                excess.update(&lanes.copies);
            }
        }
        lanes.run();
        for copy in &lanes.copies {
            schedule.intervals[copy.interval.0 as usize].method = Some(Eviction::Offload);
            if !copy.is_clean {
                let source = self.sources[copy.interval.0 as usize].interval;
                schedule.intervals[source.0 as usize].copied = true;
            }
        }
        lanes.copies.sort_by_key(|copy| copy.back_ns % self.period_ns());
        let fetch = |copy: &PlannedCopy| ((self.op_at(copy.back_ns) % self.ops()) as u32, copy.interval);
        if at_once {
            let away = lanes.copies.iter().map(|copy| (copy.interval, self.away(copy)));
            let away = away.filter(|(_, ops)| !ops.is_empty());
            let release = |(interval, ops): (_, Range<usize>)| {
                (((ops.start - 1) % self.ops()) as u32, interval, Eviction::Offload)
            };
            schedule.releases.extend(away.map(release));
        }
        schedule.fetches = lanes.copies.iter().map(fetch).collect();
    }

    /// The ops at which a storage is away.
    pub fn away(&self, copy: &PlannedCopy) -> Range<usize> {
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

/// The excess over the budget at each op, with the storages that are away.
struct Excess<'a> {
    timeline: &'a Timeline,
    left_bytes: Vec<i64>,
    /// For each copy that is counted, when its storage is away, in time and in ops.
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

    fn is_lessened_by(&self, copy: &PlannedCopy) -> bool {
        self.timeline.away(copy).any(|op| self.left_bytes[op % self.left_bytes.len()] > 0)
    }

    /// Counts new copies, and those whose times changed.
    fn update(&mut self, copies: &[PlannedCopy]) {
        for (index, copy) in copies.iter().enumerate() {
            let times_ns = [copy.out_ns, copy.back_ns];
            if self.counted.get(index).is_some_and(|(before_ns, _)| *before_ns == times_ns) {
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

    /// Moves the beginning or end of the ops at which bytes are away.
    fn shift(&mut self, before: usize, after: usize, bytes: i64) {
        let (ops, bytes) =
            (before.min(after)..before.max(after), if after > before { bytes } else { -bytes });
        let count = self.left_bytes.len();
        ops.for_each(|op| self.left_bytes[op % count] += bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // Each copy makes those before it wait or come back earlier. The last two storages are away across the iteration's end.
        let copies = [(10, 90, 10), (5, 95, 10), (0, 100, 5), (60, 140, 10), (70, 120, 5)];
        for (interval, (from_ns, until_ns, copy_ns)) in (0..).zip(copies) {
            let (slot, ready_ns, interval) = (interval, from_ns, IntervalId(interval));
            let copy = PlannedCopy {
                interval,
                slot,
                bytes: 10,
                offload_ns: copy_ns,
                fetch_ns: copy_ns,
                ready_ns,
                from_ns,
                until_ns,
                ..PlannedCopy::default()
            };
            assert!(lanes.add(copy, |_| true));
            excess.update(&lanes.copies);
            let mut left_bytes = vec![40; 10];
            for copy in &lanes.copies {
                timeline.away(copy).for_each(|op| left_bytes[op % 10] -= 10);
            }
            assert_eq!(excess.left_bytes, left_bytes);
            assert_eq!(excess.is_none(), left_bytes.iter().all(|&bytes| bytes <= 0));
        }
    }
}
