//! One iteration of a program's requests, cut out of its log so that it can run repeatedly.

use std::sync::Arc;

use hashbrown::{HashMap, HashSet};

use crate::config::EvictionMethods;
use crate::engine::{Instruction, Props, aligned};
use crate::op::{Counts, Inputs, Op, Origin, PerOutput, Planes, Tally, View};
use crate::policy::superneurons_recomputes;
use crate::schedule::{
    EvictionOrder, IntervalId, IntervalPlan, PrefetchDistance, Request, RequestLog, Schedule, ScheduledOp,
};

/// The number of a storage in the iteration.
pub type Slot = u32;

/// A request in an iteration.
#[derive(Clone, Debug)]
pub enum IterationStep {
    /// An op. Each input says whether the op has its last handle.
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

/// An iteration. It begins where the program holds the least memory.
#[derive(Clone, Debug, Default)]
pub struct Iteration {
    pub steps: Vec<IterationStep>,
    /// By slot. The first slots are the storages that exist when the iteration begins.
    pub size_bytes: Vec<usize>,
    /// By slot, the number of checkpointed scopes that a storage is made in.
    pub scopes: Vec<u32>,
    /// By slot, the counts of the storage's values.
    pub counts: Vec<Counts>,
    /// For each storage that exists when the iteration begins, the storage that takes its place when the iteration ends, if
    /// there is one.
    pub successors: Vec<Option<Slot>>,
    /// For each of them, the interval that it is in when the iteration begins, and the first op that touches it.
    pub initial: Vec<Option<(IntervalId, u32)>>,
    pub ops: Vec<ScheduledOp>,
    pub intervals: Vec<IntervalPlan>,
    /// The slot of each interval, and the op at which it begins.
    pub of_interval: Vec<(Slot, u32)>,
}

/// The last touch of a storage: the op, counted from the beginning of the log, and the operand. Storages that no op touched are
/// ordered by when they were written.
type Touch = (isize, usize);

/// The operand number of the first written storage. No op has so many operands.
const WRITTEN: usize = 1 << 16;

/// Keeps track of the live storages.
#[derive(Clone, Debug, Default)]
struct Census {
    alive: HashMap<u64, Touch>,
    live_bytes: usize,
    ops: isize,
    written: usize,
}

impl Census {
    /// The storages that existed before the log began and that it names.
    fn before(log: &RequestLog) -> Self {
        let mut census = Census::default();
        let mut made = HashSet::new();
        let mut written = 0;
        for request in &log.requests {
            let mut named = |census: &mut Census, number: u64| {
                if made.insert(number) {
                    written += 1;
                    let touched = log.initial.get(&number).and_then(|begun| begun.touched);
                    let touch =
                        touched.map_or((-1, WRITTEN + written), |(ago, operand)| (-(ago as isize), operand));
                    census.add(log, number, touch);
                }
            };
            match request {
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

    fn next(&mut self, log: &RequestLog, request: &Request) {
        match request {
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
    /// The outputs of an op that take the memory of an input of their size, as in the pool. Each input says whether the op has its
    /// last handle.
    pub fn made_in_place<'a>(
        &'a self,
        op: &'a Op,
        inputs: &'a [(Slot, bool)],
        outputs: &'a [Slot],
    ) -> impl Iterator<Item = Slot> + 'a {
        let bytes = |slot: Slot| self.size_bytes[slot as usize];
        let is_as_large = move |slot: Slot| outputs.first().is_some_and(|&made| bytes(made) == bytes(slot));
        let taken = move |&at: &usize| inputs[at].1 && op.in_place(at) && is_as_large(inputs[at].0);
        let count = (0..inputs.len()).filter(taken).count();
        outputs
            .iter()
            .copied()
            .take(op.outputs_in_place().min(count))
            .take_while(move |&slot| is_as_large(slot))
    }

    /// Cuts an iteration out of a log whose last ops repeat with this period. It begins where the program holds the least
    /// memory and will hold as much again. Of several such places one is taken by the op's context, so that it is the same
    /// wherever the log begins. The first iteration does not qualify, since it does not hold yet what an iteration leaves to
    /// the next. `None` if the log does not hold two iterations.
    pub fn cut(log: &RequestLog, period: usize) -> Option<Iteration> {
        let ops = log.requests.iter().enumerate().filter_map(|(at, request)| match request {
            Request::Op { context, .. } => Some((at, *context)),
            _ => None,
        });
        let (op_places, contexts): (Vec<usize>, Vec<u64>) = ops.unzip();
        let earliest = op_places.len().checked_sub(2 * period)?;
        let start = Census::before(log);
        let mut census = start.clone();
        let mut held_bytes = Vec::with_capacity(op_places.len());
        for request in &log.requests {
            if let Request::Op { .. } = request {
                held_bytes.push(census.live_bytes);
            }
            census.next(log, request);
        }
        let differs = |op: usize| held_bytes[op] != held_bytes[op + period];
        let first =
            (earliest..earliest + period).min_by_key(|&op| (differs(op), held_bytes[op], contexts[op]))?;
        let (begin, end) = (op_places[first], op_places[first + period]);
        let mut begun = start;
        log.requests[..begin].iter().for_each(|request| begun.next(log, request));
        Some(Iteration::between(log, begun, begin, end))
    }

    /// The intervals of storages that exist when the iteration begins and that none of its ops uses before they are freed.
    pub fn left_over(&self) -> Vec<IntervalId> {
        let mut last: HashMap<Slot, IntervalId> = HashMap::new();
        for (&(slot, _), interval) in self.of_interval.iter().zip(0..) {
            last.insert(slot, IntervalId(interval));
        }
        let begun = self.initial.iter().zip(&self.successors).filter(|(begun, _)| begun.is_none());
        let mut left: Vec<IntervalId> = begun.filter_map(|(_, end)| last.get(&(*end)?).copied()).collect();
        left.sort_unstable();
        left
    }

    /// The intervals of storages that are dead but held: they can be recomputed, and neither an op nor the host uses them any
    /// more.
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

    /// Forbids that storages of the forward pass that can be recomputed are kept on the host, unless they are checkpoints.
    pub fn move_checkpoints_only(&mut self, props: &Props) {
        let flow = self.dataflow(props);
        for (interval, &(slot, _)) in self.intervals.iter_mut().zip(&self.of_interval) {
            interval.may_move = interval.persists || !superneurons_recomputes(&flow, slot as usize);
        }
    }

    /// Forbids that storages that can be recomputed are kept on the host, unless moving them costs less by the settings.
    pub fn save_host_memory(&mut self, props: &Props, methods: EvictionMethods) {
        let mut rematerialize_ns: HashMap<Slot, u64> = HashMap::new();
        for step in &self.steps {
            if let IterationStep::Op { instruction, outputs, .. } = step
                && instruction.op.replays_exactly()
            {
                rematerialize_ns.extend(outputs.iter().map(|&slot| (slot, instruction.launch_ns)));
            }
        }
        for (interval, (slot, _)) in self.intervals.iter_mut().zip(&self.of_interval) {
            let size_bytes = self.size_bytes[*slot as usize];
            let move_ns = props.offload_ns(size_bytes) + props.fetch_ns(size_bytes);
            let price_ns = methods.price_of_moving(move_ns);
            let is_dearer = |&rematerialize_ns: &u64| rematerialize_ns > price_ns;
            interval.may_move = interval.persists || rematerialize_ns.get(slot).is_none_or(is_dearer);
        }
    }

    /// A schedule that decides nothing yet.
    pub fn schedule(&self) -> Schedule {
        let (ops, intervals) = (self.ops.clone(), self.intervals.clone());
        Schedule { ops, intervals, prefetch_distance: PrefetchDistance::MAX, ..Schedule::default() }
    }

    /// Assumes counts for values that were not counted. The given fractions hold for these values in the order in which they
    /// are made, and the last for all others. `sparsity` has fractions of zeros, `packed` fractions of memory in byte planes.
    pub fn assume_counts(&mut self, sparsity: &[f64], packed: &[f64]) {
        for (tally, parts) in [(Tally::Nonzeros, sparsity), (Tally::Units, packed)] {
            for (index, (slot, view)) in self.counted_values(tally).into_iter().enumerate() {
                let count = view.shape().count();
                let come_to = |part: &f64| match tally {
                    Tally::Nonzeros => (count as f64 * (1.0 - part)).round() as usize,
                    Tally::Units => Planes::units_of(*part, count, view.dtype.size_bytes()),
                };
                let assumed = parts.get(index).or(parts.last()).map(come_to);
                let counted = self.counts[slot as usize].of(tally);
                *counted = counted.or(assumed);
            }
        }
    }

    /// The values that are counted in this way, in the order in which they are made.
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
        log.requests[begin..end].iter().for_each(|request| ended.next(log, request));
        let period = ended.ops - begun.ops;
        let mut state: Vec<(u64, Touch)> =
            begun.alive.iter().map(|(&number, &touch)| (number, touch)).collect();
        state.sort_unstable_by_key(|&(number, _)| number);
        let mut building = Building::default();
        for &(number, _) in &state {
            building.slot(log, number);
        }
        log.requests[begin..end].iter().for_each(|request| building.step(log, request));
        let successors = successors(log, &state, &ended, period);
        let slot = |number: Option<u64>| number.map(|number| building.slots[&number]);
        let successors: Vec<Option<Slot>> = successors.into_iter().map(slot).collect();
        building.finish(successors, period as u32)
    }
}

/// For each storage that exists when an iteration begins, the storage in its place when the iteration ends. This is the storage
/// itself if it stays; else one of the same size that was last touched by the same op one period later. Storages that are left,
/// for example because the first iteration had more ops, are matched by size and operand, the last with the last.
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

/// An iteration under construction.
#[derive(Default)]
struct Building {
    iteration: Iteration,
    slots: HashMap<u64, Slot>,
    /// By slot, its last interval and the first op that touched it.
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
        self.iteration.intervals.push(IntervalPlan {
            next_ops: None,
            method: None,
            copied: false,
            order: EvictionOrder::Any,
            may_move: true,
            persists: false,
        });
        self.iteration.of_interval.push((slot, op));
    }

    fn step(&mut self, log: &RequestLog, request: &Request) {
        let step = match request {
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
                // The storage existed before, and the log does not know its size since nothing used it.
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
            iteration.initial.push(begun);
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
        // The first iteration had more ops, so the storage that corresponds to the second is found by its size.
        let state = [(1, (-14, 1)), (2, (10, 1))];
        let alive = [(3, (110, 1)), (4, (134, 1))].into_iter().collect();
        let ended = Census { alive, ..Census::default() };
        assert_eq!(successors(&log, &state, &ended, 100), [Some(3), Some(4)]);
    }
}
