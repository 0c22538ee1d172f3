//! One iteration of what a program asked for, cut out of its log so that it can be run again and again.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::config::EvictionMethods;
use crate::engine::{Instruction, Props, aligned};
use crate::op::{Counts, Inputs, Origin, PerOutput, Planes, Tally, View};
use crate::policy::superneurons_recomputes;
use crate::schedule::{
    EvictionOrder, Interval, IntervalId, PrefetchDistance, Request, RequestLog, Schedule, ScheduledOp,
};

/// A place for a storage; each storage of the iteration has its own.
pub type Slot = u32;

/// What is asked for in an iteration.
#[derive(Clone, Debug)]
pub enum IterationStep {
    /// An op; with each input whether the op has its last handle.
    Op {
        instruction: Arc<Instruction>,
        inputs: Inputs<(Slot, bool)>,
        outputs: PerOutput<Slot>,
    },
    Write(Slot),
    Read(Slot),
    Free(Slot),
    Sync,
}

/// An iteration that begins where the program holds least.
#[derive(Clone, Debug, Default)]
pub struct Iteration {
    pub steps: Vec<IterationStep>,
    /// By slot; the first are what is there when the iteration begins.
    pub size_bytes: Vec<usize>,
    /// By slot, the checkpointed scopes that a storage is made in.
    pub scopes: Vec<u32>,
    /// By slot, what was counted of values.
    pub counts: Vec<Counts>,
    /// For each storage that is there when it begins: the one that is in its place when it ends, if there is one.
    pub successors: Vec<Option<Slot>>,
    /// Of each, the interval that it is in when the iteration begins, and the op that touches it first.
    pub begun: Vec<Option<(IntervalId, u32)>>,
    pub ops: Vec<ScheduledOp>,
    pub intervals: Vec<Interval>,
    /// The slot that each interval is of, and the op that it begins at.
    pub of_interval: Vec<(Slot, u32)>,
}

/// Where a storage was touched last: which op, counted from the end of the log's part, and which of its operands; what no op
/// touched goes by the order in which it was written.
type Touch = (isize, usize);

/// Operands of an op are fewer; written storages are counted from here on.
const WRITTEN: usize = 1 << 16;

/// Follows which storages are alive.
#[derive(Clone, Debug, Default)]
struct Census {
    alive: HashMap<u64, Touch>,
    live_bytes: usize,
    ops: isize,
    written: usize,
}

impl Census {
    /// All that was there before the log began and is named in it.
    fn before(log: &RequestLog) -> Self {
        let mut census = Census::default();
        let mut made = HashSet::new();
        let mut written = 0;
        for asked in &log.asked {
            let mut named = |census: &mut Census, number: u64| {
                if made.insert(number) {
                    written += 1;
                    let touched = log.begun.get(&number).and_then(|begun| begun.touched);
                    let touch =
                        touched.map_or((-1, WRITTEN + written), |(ago, operand)| (-(ago as isize), operand));
                    census.add(log, number, touch);
                }
            };
            match asked {
                Request::Op { inputs, outputs, .. } => {
                    inputs.iter().for_each(|&(number, _)| named(&mut census, number));
                    made.extend(outputs.iter().copied());
                }
                Request::Write(number) => {
                    made.insert(*number);
                }
                Request::Read(number) | Request::Free(number) => named(&mut census, *number),
                Request::Sync => {}
            }
        }
        census
    }

    fn add(&mut self, log: &RequestLog, number: u64, touch: Touch) {
        self.live_bytes += aligned(log.size_bytes[&number]);
        self.alive.insert(number, touch);
    }

    fn remove(&mut self, log: &RequestLog, number: u64) {
        if self.alive.remove(&number).is_some() {
            self.live_bytes -= aligned(log.size_bytes[&number]);
        }
    }

    fn next(&mut self, log: &RequestLog, asked: &Request) {
        match asked {
            Request::Op { inputs, outputs, .. } => {
                for (operand, &(number, _)) in inputs.iter().enumerate() {
                    if let Some(touch) = self.alive.get_mut(&number) {
                        *touch = (self.ops, operand);
                    }
                }
                for (operand, &number) in outputs.iter().enumerate() {
                    self.add(log, number, (self.ops, inputs.len() + operand));
                }
                inputs
                    .iter()
                    .filter(|(_, consumed)| *consumed)
                    .for_each(|&(number, _)| self.remove(log, number));
                (self.ops, self.written) = (self.ops + 1, 0);
            }
            Request::Write(number) => {
                self.written += 1;
                self.add(log, *number, (self.ops - 1, WRITTEN + self.written));
            }
            Request::Free(number) => self.remove(log, *number),
            Request::Read(_) | Request::Sync => {}
        }
    }
}

impl Iteration {
    /// Of a log whose last ops repeat with this period, from where the program holds least and will hold as much again: the first
    /// time, it did not hold what an iteration leaves to the next. `None`: the log has not two of them.
    pub fn cut(log: &RequestLog, period: usize) -> Option<Iteration> {
        let op_places: Vec<usize> =
            (0..log.asked.len()).filter(|&at| matches!(log.asked[at], Request::Op { .. })).collect();
        let earliest = op_places.len().checked_sub(2 * period)?;
        let start = Census::before(log);
        let mut census = start.clone();
        let mut held_bytes = Vec::with_capacity(op_places.len());
        for asked in &log.asked {
            if let Request::Op { .. } = asked {
                held_bytes.push(census.live_bytes);
            }
            census.next(log, asked);
        }
        let differs = |op: usize| held_bytes[op] != held_bytes[op + period];
        let first = (earliest..earliest + period).min_by_key(|&op| (differs(op), held_bytes[op]))?;
        let (begin, end) = (op_places[first], op_places[first + period]);
        let mut begun = start;
        log.asked[..begin].iter().for_each(|asked| begun.next(log, asked));
        Some(Iteration::between(log, begun, begin, end))
    }

    /// The intervals of what is there when the iteration begins, though none of its ops uses it, until it is freed.
    pub fn left_over(&self) -> Vec<IntervalId> {
        let mut last: HashMap<Slot, IntervalId> = HashMap::new();
        for (&(slot, _), interval) in self.of_interval.iter().zip(0..) {
            last.insert(slot, IntervalId(interval));
        }
        let begun = self.begun.iter().zip(&self.successors).filter(|(begun, _)| begun.is_none());
        let mut left: Vec<IntervalId> = begun.filter_map(|(_, end)| last.get(&(*end)?).copied()).collect();
        left.sort_unstable();
        left
    }

    /// The intervals of what can be made again and is held, though neither an op nor the host uses it any more.
    pub fn dead_but_held(&self) -> Vec<IntervalId> {
        let mut wanted = vec![true; self.size_bytes.len()];
        let mut consumed_at = vec![None; self.size_bytes.len()];
        let mut ops = 0;
        for step in &self.steps {
            match step {
                IterationStep::Op { instruction, inputs, outputs } => {
                    let consumed = inputs.iter().filter(|(_, consumed)| *consumed);
                    consumed.for_each(|&(slot, _)| consumed_at[slot as usize] = Some(ops));
                    let exact = instruction.op.replays_exactly();
                    outputs.iter().for_each(|&slot| wanted[slot as usize] = !exact);
                    ops += 1;
                }
                IterationStep::Read(slot) => wanted[*slot as usize] = true,
                _ => {}
            }
        }
        let intervals = self.intervals.iter().zip(&self.of_interval).zip(0..);
        let dead = intervals.filter(|((interval, (slot, op)), _)| {
            let slot = *slot as usize;
            interval.next_ops.is_none() && !wanted[slot] && consumed_at[slot] != Some(*op)
        });
        dead.map(|(_, index)| IntervalId(index)).collect()
    }

    /// Of what the forward pass makes and can be made again, only checkpoints may be kept on the host.
    pub fn move_checkpoints_only(&mut self, props: &Props) {
        let flow = self.dataflow(props);
        for (interval, &(slot, _)) in self.intervals.iter_mut().zip(&self.of_interval) {
            interval.may_move = interval.persists || !superneurons_recomputes(&flow, slot as usize);
        }
    }

    /// What can be made again is not kept on the host, unless moving it costs less by these `ways`.
    pub fn save_host_memory(&mut self, props: &Props, ways: EvictionMethods) {
        let mut rematerialize_ns: HashMap<Slot, u64> = HashMap::new();
        for step in &self.steps {
            if let IterationStep::Op { instruction, outputs, .. } = step
                && instruction.op.replays_exactly()
            {
                rematerialize_ns.extend(outputs.iter().map(|&slot| (slot, instruction.launch_ns)));
            }
        }
        for (interval, (slot, _)) in self.intervals.iter_mut().zip(&self.of_interval) {
            let price_ns = ways.price_of_moving(2 * props.copy_ns(self.size_bytes[*slot as usize]));
            let is_dearer = |&rematerialize_ns: &u64| rematerialize_ns > price_ns;
            interval.may_move = interval.persists || rematerialize_ns.get(slot).is_none_or(is_dearer);
        }
    }

    /// A schedule that says nothing yet.
    pub fn schedule(&self) -> Schedule {
        let (ops, intervals) = (self.ops.clone(), self.intervals.clone());
        Schedule { ops, intervals, reach: PrefetchDistance::MAX, ..Schedule::default() }
    }

    /// What may be counted comes to so much, where it was not: the parts given, in the order in which such values are made, the last
    /// for all that are left. `sparsity`: that are zeros; `packed`: of their memory, in planes.
    pub fn suppose(&mut self, sparsity: &[f64], packed: &[f64]) {
        for (tally, parts) in [(Tally::Nonzeros, sparsity), (Tally::Units, packed)] {
            for (index, (slot, view)) in self.counted_values(tally).into_iter().enumerate() {
                let count = view.shape().count();
                let come_to = |part: &f64| match tally {
                    Tally::Nonzeros => (count as f64 * (1.0 - part)).round() as usize,
                    Tally::Units => Planes::units_of(*part, count, view.dtype.size_bytes()),
                };
                let supposed = parts.get(index).or(parts.last()).map(come_to);
                let counted = self.counts[slot as usize].of(tally);
                *counted = counted.or(supposed);
            }
        }
    }

    /// What is counted so, in the order in which it is made.
    pub fn counted_values(&self, tally: Tally) -> Vec<(Slot, View)> {
        let mut found = Vec::new();
        for step in &self.steps {
            let IterationStep::Op { instruction, outputs, .. } = step else { continue };
            let made = outputs.iter().zip(&instruction.outputs).enumerate();
            let counted = made.filter(|(place, (_, view))| {
                Origin::tallies(&instruction.op, *place, view).any(|of| of == tally)
            });
            found.extend(counted.map(|(_, (&slot, &view))| (slot, view)));
        }
        found
    }

    fn between(log: &RequestLog, begun: Census, begin: usize, end: usize) -> Iteration {
        let mut ended = begun.clone();
        log.asked[begin..end].iter().for_each(|asked| ended.next(log, asked));
        let period = ended.ops - begun.ops;
        let mut state: Vec<(u64, Touch)> =
            begun.alive.iter().map(|(&number, &touch)| (number, touch)).collect();
        state.sort_unstable_by_key(|&(number, _)| number);
        let mut building = Building::default();
        for &(number, _) in &state {
            building.slot(log, number);
        }
        log.asked[begin..end].iter().for_each(|asked| building.step(log, asked));
        let successors = successors(log, &state, &ended, period);
        let slot = |number: Option<u64>| number.map(|number| building.slots[&number]);
        let successors: Vec<Option<Slot>> = successors.into_iter().map(slot).collect();
        building.finish(successors, period as u32)
    }
}

/// For each storage that is there when an iteration begins, the one that is in its place when it ends: itself if it stays; what is as
/// large and was touched last by the same op one period later; of what is left, as after ops that came in the first iteration alone, what
/// is as large and was touched as the same operand, the last by the last.
fn successors(log: &RequestLog, state: &[(u64, Touch)], ended: &Census, period: isize) -> Vec<Option<u64>> {
    let mut left: Vec<(u64, Touch)> = ended.alive.iter().map(|(&number, &touch)| (number, touch)).collect();
    left.sort_unstable_by_key(|&(number, touch)| (touch, number));
    let places: HashMap<Touch, u64> =
        left.iter().map(|&(number, (op, operand))| ((op - period, operand), number)).collect();
    let stays = |number: u64| ended.alive.contains_key(&number).then_some(number);
    let is_as_large = |number: u64, other: &u64| log.size_bytes[&number] == log.size_bytes[other];
    let found = |&(number, ref touch): &(u64, Touch)| {
        stays(number).or_else(|| places.get(touch).copied().filter(|other| is_as_large(number, other)))
    };
    let mut successors: Vec<Option<u64>> = state.iter().map(found).collect();
    let taken: HashSet<u64> = successors.iter().flatten().copied().collect();
    let kind = |number: u64, touch: Touch| (log.size_bytes[&number], touch.1);
    let mut alike: HashMap<(usize, usize), Vec<u64>> = HashMap::new();
    for &(number, touch) in left.iter().filter(|(number, _)| !taken.contains(number)) {
        alike.entry(kind(number, touch)).or_default().push(number);
    }
    let mut alone: Vec<usize> = (0..state.len()).filter(|&at| successors[at].is_none()).collect();
    alone.sort_unstable_by_key(|&at| (state[at].1, state[at].0));
    for at in alone.into_iter().rev() {
        let (number, touch) = state[at];
        successors[at] = alike.get_mut(&kind(number, touch)).and_then(Vec::pop);
    }
    successors
}

/// An iteration in the making.
#[derive(Default)]
struct Building {
    iteration: Iteration,
    slots: HashMap<u64, Slot>,
    /// By slot: its last interval, and the op that touched it first.
    last: Vec<Option<IntervalId>>,
    first: Vec<Option<u32>>,
}

impl Building {
    fn slot(&mut self, log: &RequestLog, number: u64) -> Slot {
        *self.slots.entry(number).or_insert_with(|| {
            self.iteration.size_bytes.push(log.size_bytes[&number]);
            self.iteration.scopes.push(log.scopes.get(&number).copied().unwrap_or(0));
            self.iteration.counts.push(log.counts.get(&number).copied().unwrap_or_default());
            self.last.push(None);
            self.first.push(None);
            (self.iteration.size_bytes.len() - 1) as Slot
        })
    }

    fn touch(&mut self, slot: Slot) {
        let op = self.iteration.ops.len() as u32 - 1;
        if let Some(last) = self.last[slot as usize] {
            let last = last.0 as usize;
            self.iteration.intervals[last].next_ops = Some(op - self.iteration.of_interval[last].1);
        }
        self.first[slot as usize].get_or_insert(op);
        self.last[slot as usize] = Some(IntervalId(self.iteration.intervals.len() as u32));
        self.iteration.intervals.push(Interval {
            next_ops: None,
            how: None,
            copied: false,
            turn: EvictionOrder::Any,
            may_move: true,
            persists: false,
        });
        self.iteration.of_interval.push((slot, op));
    }

    fn step(&mut self, log: &RequestLog, asked: &Request) {
        let step = match asked {
            Request::Op { instruction, context, inputs, outputs } => {
                let first = IntervalId(self.iteration.intervals.len() as u32);
                self.iteration.ops.push(ScheduledOp {
                    signature: instruction.signature,
                    context: *context,
                    launch_ns: instruction.launch_ns,
                    first,
                });
                let slot = |building: &mut Self, number| building.slot(log, number);
                let inputs: Inputs<(Slot, bool)> =
                    inputs.iter().map(|&(number, consumed)| (slot(self, number), consumed)).collect();
                let outputs: PerOutput<Slot> = outputs.iter().map(|&number| slot(self, number)).collect();
                let touched = inputs.iter().map(|&(slot, _)| slot).chain(outputs.iter().copied());
                touched.for_each(|slot| self.touch(slot));
                IterationStep::Op { instruction: instruction.clone(), inputs, outputs }
            }
            Request::Write(number) => IterationStep::Write(self.slot(log, *number)),
            Request::Read(number) => IterationStep::Read(self.slot(log, *number)),
            Request::Free(number) => match self.slots.get(number) {
                Some(&slot) => IterationStep::Free(slot),
                // It was there, and nothing in the log says of what size: nothing used it.
                None => return,
            },
            Request::Sync => IterationStep::Sync,
        };
        self.iteration.steps.push(step);
    }

    fn finish(self, successors: Vec<Option<Slot>>, period: u32) -> Iteration {
        let Building { mut iteration, last, first, .. } = self;
        for (slot, &successor) in successors.iter().enumerate() {
            let begun = successor.and_then(|end| Some((last[end as usize]?, first[slot]?)));
            if let Some((interval, op)) = begun {
                let at = interval.0 as usize;
                iteration.intervals[at].next_ops = Some(op + period - iteration.of_interval[at].1);
                iteration.intervals[at].persists = true;
            }
            iteration.begun.push(begun);
        }
        iteration.successors = successors;
        iteration
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_place_when_an_iteration_ends_is_as_large_as_what_was_there() {
        let mut log = RequestLog::default();
        log.size_bytes.extend([(1, 64), (2, 32), (3, 64), (4, 32)]);
        // In the first iteration ops were made sooner: the like of the second is where the first would be.
        let state = [(1, (-14, 1)), (2, (10, 1))];
        let alive = [(3, (110, 1)), (4, (134, 1))].into_iter().collect();
        let ended = Census { alive, ..Census::default() };
        assert_eq!(successors(&log, &state, &ended, 100), [Some(3), Some(4)]);
    }
}
