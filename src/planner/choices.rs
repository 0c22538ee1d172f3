//! What becomes of each storage in each interval, and what that costs, as far as it can be told without running anything: a
//! model of an iteration, a few microseconds for each answer, that [`relaxation`](super::relaxation) and
//! [`annealing`](super::annealing) ask often.

use std::ops::Range;

use super::bookings::{Lanes, Timeline};
use super::iteration::{Iteration, Slot, Step};
use crate::config::AllowedWays;
use crate::policy::IntervalId;

/// What becomes of a storage in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    #[default]
    Keep,
    /// It is on the host as long as lanes allow.
    Move,
    /// Its bytes are dropped, and made again, early if something else is made from them.
    Drop,
    /// They are dropped again as well if they were made again for something else.
    DropAgain,
}

impl Choice {
    pub fn drops(self) -> bool {
        matches!(self, Choice::Drop | Choice::DropAgain)
    }
}

/// A choice for each interval, and the copies that come of them.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// By interval.
    pub of: Vec<Choice>,
    pub lanes: Lanes,
}

/// What choices come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Time to make again what was dropped.
    pub recompute_ns: f64,
    /// Bytes beyond the budget, as parts of it, added up over all ops.
    pub excess: f64,
}

/// The time from one touch of a storage to the next.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    pub slot: Slot,
    pub bytes: f64,
    /// The ops at which the storage may be away. The last is beyond the iteration's end if it is in the next.
    pub from: usize,
    pub until: usize,
    pub copy_ns: f64,
    pub can_move: bool,
    pub can_drop: bool,
}

/// How a storage is made.
#[derive(Clone, Debug)]
pub struct Maker {
    op: usize,
    pub cost_ns: f64,
    inputs: Vec<Slot>,
}

/// Storages that are looked at to make one again, at the most; what takes more counts as too dear.
const MOST_ANCESTORS: usize = 256;
/// The time that counts for it.
const TOO_DEAR_NS: f64 = 1e15;

/// An iteration as choices see it.
#[derive(Debug)]
pub struct Model<'a> {
    pub timeline: &'a Timeline,
    /// By interval.
    pub gaps: Vec<Gap>,
    /// By slot, in order.
    gaps_of: Vec<Vec<u32>>,
    /// By slot; none for what cannot be made again.
    pub makers: Vec<Option<Maker>>,
    bytes_of: Vec<f64>,
    /// By interval: the op at which the storage is there again. What is dropped comes back early for what is made from it.
    pub back: Vec<usize>,
    /// By interval: the op from which on what is moved is away.
    left: Vec<usize>,
    /// Bytes held at each op.
    pub held_bytes: Vec<f64>,
    /// Time to make again what was dropped, before each op.
    pub remake_ns: Vec<f64>,
    scratch: Scratch,
}

/// What would be allocated again for each answer.
#[derive(Debug, Default)]
struct Scratch {
    change_bytes: Vec<f64>,
    /// What is held beside at each op to make something again.
    beside_bytes: Vec<f64>,
    dropped: Vec<u32>,
    /// By op: when it was run again last.
    rerun_at: Vec<usize>,
    /// By slot: in which walk it was seen last.
    seen: Vec<u32>,
    walk: u32,
    ancestors: Vec<Slot>,
}

impl Scratch {
    fn begin_walk(&mut self) {
        self.walk += 1;
        self.ancestors.clear();
    }

    fn see(&mut self, slots: &[Slot]) {
        for &slot in slots {
            if self.seen[slot as usize] != self.walk {
                self.seen[slot as usize] = self.walk;
                self.ancestors.push(slot);
            }
        }
    }
}

impl<'a> Model<'a> {
    pub fn new(iteration: &Iteration, timeline: &'a Timeline, ways: AllowedWays) -> Self {
        let slots = iteration.size_bytes.len();
        let mut makers: Vec<Option<Maker>> = vec![None; slots];
        let ops = iteration.steps.iter().filter_map(|step| match step {
            Step::Op { instruction, inputs, outputs } => Some((instruction, inputs, outputs)),
            _ => None,
        });
        for (op, (instruction, inputs, outputs)) in ops.enumerate() {
            if !instruction.op.replays_exactly() {
                continue;
            }
            let inputs: Vec<Slot> = inputs.iter().map(|&(slot, _)| slot).collect();
            for &slot in outputs {
                let cost_ns = instruction.launch_ns as f64;
                makers[slot as usize] = Some(Maker { op, cost_ns, inputs: inputs.clone() });
            }
        }
        let mut gaps_of = vec![Vec::new(); slots];
        let intervals = iteration.intervals.iter().zip(&iteration.of_interval).enumerate();
        let gaps: Vec<Gap> = intervals
            .map(|(index, (interval, &(slot, op)))| {
                gaps_of[slot as usize].push(index as u32);
                let size_bytes = iteration.size_bytes[slot as usize];
                let ops = interval.next_ops.unwrap_or(0) as usize;
                let can_leave = ops > 1 && size_bytes > 0;
                Gap {
                    slot,
                    bytes: timeline.in_memory(size_bytes) as f64,
                    from: op as usize + 1,
                    until: op as usize + ops,
                    copy_ns: timeline.copy_ns(size_bytes) as f64,
                    can_move: can_leave && ways.offload,
                    can_drop: can_leave
                        && ways.recompute
                        && !interval.persists
                        && makers[slot as usize].is_some(),
                }
            })
            .collect();
        let count = iteration.ops.len();
        let scratch =
            Scratch { rerun_at: vec![usize::MAX; count], seen: vec![0; slots], ..Scratch::default() };
        Model {
            timeline,
            back: gaps.iter().map(|gap| gap.until).collect(),
            left: vec![usize::MAX; gaps.len()],
            gaps,
            gaps_of,
            makers,
            bytes_of: iteration.size_bytes.iter().map(|&bytes| timeline.in_memory(bytes) as f64).collect(),
            held_bytes: vec![0.0; count],
            remake_ns: vec![0.0; count],
            scratch,
        }
    }

    pub fn ops(&self) -> usize {
        self.held_bytes.len()
    }

    /// How much work an answer is.
    pub fn size(&self) -> usize {
        self.gaps.len() + 2 * self.ops()
    }

    /// Nothing leaves.
    pub fn kept(&self) -> Choices {
        Choices { of: vec![Choice::Keep; self.gaps.len()], lanes: self.timeline.lanes() }
    }

    /// The interval of a slot that an op lies in.
    fn gap_at(&self, slot: Slot, op: usize) -> Option<usize> {
        let gaps = &self.gaps_of[slot as usize];
        let index = gaps.partition_point(|&gap| self.gaps[gap as usize].from <= op).checked_sub(1)?;
        let gap = gaps[index] as usize;
        (op <= self.gaps[gap].until).then_some(gap)
    }

    /// Adds copies of an interval to lanes, if they have time for that and it is away for some ops.
    pub fn book(&self, lanes: &mut Lanes, gap: usize) -> bool {
        let Gap { from, until, .. } = self.gaps[gap];
        let copy = self.timeline.copy_of(IntervalId(gap as u32), from..until);
        lanes.add(copy, |copy| self.timeline.away(copy).len() > 1)
    }

    /// What choices come to, if the budget is so large.
    pub fn outcome(&mut self, choices: &Choices, budget_bytes: f64) -> Outcome {
        let (ops, mut scratch) = (self.ops(), std::mem::take(&mut self.scratch));
        scratch.rerun_at.fill(usize::MAX);
        self.remake_ns.fill(0.0);
        for changes in [&mut scratch.change_bytes, &mut scratch.beside_bytes] {
            changes.clear();
            changes.resize(2 * ops + 1, 0.0);
        }
        for (back, gap) in self.back.iter_mut().zip(&self.gaps) {
            *back = gap.until;
        }
        for copy in &choices.lanes.copies {
            let gap = copy.interval.0 as usize;
            let ops = self.timeline.away(copy);
            self.back[gap] = ops.end;
            self.left[gap] = ops.start;
            away(&mut scratch.change_bytes, ops, self.gaps[gap].bytes);
        }
        let is_dropped = |&gap: &u32| choices.of[gap as usize].drops();
        scratch.dropped.clear();
        scratch.dropped.extend((0..self.gaps.len() as u32).filter(is_dropped));
        scratch.dropped.sort_unstable_by_key(|&gap| self.gaps[gap as usize].until);
        let mut recompute_ns = 0.0;
        for at in 0..scratch.dropped.len() {
            let gap = scratch.dropped[at] as usize;
            if self.back[gap] == self.gaps[gap].until {
                recompute_ns += self.remake(&choices.of, &mut scratch, gap);
            }
        }
        for &gap in &scratch.dropped {
            let Gap { from, bytes, .. } = self.gaps[gap as usize];
            let ops = from..self.back[gap as usize];
            if !ops.is_empty() {
                away(&mut scratch.change_bytes, ops, bytes);
            }
        }
        self.add_up(&scratch.change_bytes);
        let over = |op: usize| (self.held_bytes[op] + scratch.beside_bytes[op] - budget_bytes).max(0.0);
        let excess = (0..ops).map(over).sum::<f64>() / budget_bytes;
        self.scratch = scratch;
        Outcome { recompute_ns, excess }
    }

    fn add_up(&mut self, change_bytes: &[f64]) {
        let (ops, mut changed_bytes) = (self.ops(), 0.0);
        self.held_bytes.clear();
        self.held_bytes.extend(self.timeline.need_bytes().iter().map(|&bytes| bytes as f64));
        for (at, change_bytes) in change_bytes[..2 * ops].iter().enumerate() {
            changed_bytes += change_bytes;
            self.held_bytes[at % ops] += changed_bytes;
        }
    }

    /// The time to make a dropped storage again when its interval ends, with all that it is made from and that is not there.
    fn remake(&mut self, choices: &[Choice], scratch: &mut Scratch, gap: usize) -> f64 {
        let (op, mut cost_ns) = (self.gaps[gap].until, 0.0);
        scratch.begin_walk();
        scratch.see(&[self.gaps[gap].slot]);
        let mut at = 0;
        while let Some(&slot) = scratch.ancestors.get(at) {
            at += 1;
            if at > MOST_ANCESTORS {
                return TOO_DEAR_NS;
            }
            if at > 1 {
                match self.gap_at(slot, op) {
                    Some(held) if choices[held] == Choice::Drop && self.back[held] > op => {
                        self.back[held] = op;
                    }
                    // It comes back at once, and this waits.
                    Some(held)
                        if choices[held] == Choice::Move
                            && (self.left[held]..self.back[held]).contains(&op) =>
                    {
                        let Gap { bytes, copy_ns, .. } = self.gaps[held];
                        away(&mut scratch.change_bytes, op..self.back[held], -bytes);
                        self.back[held] = op;
                        cost_ns += copy_ns;
                        continue;
                    }
                    Some(held) if choices[held] != Choice::DropAgain || self.back[held] <= op => continue,
                    // Nothing but this needs it now.
                    _ => {
                        scratch.beside_bytes[op % self.held_bytes.len()] += self.bytes_of[slot as usize] / 2.0
                    }
                }
            }
            let Some(maker) = &self.makers[slot as usize] else { continue };
            if scratch.rerun_at[maker.op] != op {
                scratch.rerun_at[maker.op] = op;
                cost_ns += maker.cost_ns;
                self.remake_ns[op % self.held_bytes.len()] += maker.cost_ns;
                scratch.see(&maker.inputs);
            }
        }
        cost_ns
    }

    /// What it costs to make a storage again at some op, beside its own op: the ops of what is not there and nothing else
    /// brings back, and what it is worth that others come back early.
    pub fn needs_ns(
        &mut self,
        choices: &[Choice],
        gap: usize,
        op: usize,
        worth: impl Fn(&Gap, Range<usize>) -> f64,
    ) -> f64 {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.begin_walk();
        scratch.see(&[self.gaps[gap].slot]);
        let (mut at, mut cost_ns) = (0, 0.0);
        while let Some(&slot) = scratch.ancestors.get(at) {
            at += 1;
            if at > MOST_ANCESTORS {
                cost_ns = TOO_DEAR_NS;
                break;
            }
            if at > 1
                && let Some(held) = self.gap_at(slot, op)
            {
                if choices[held] != Choice::Keep {
                    cost_ns += worth(&self.gaps[held], op..self.back[held]);
                }
                if choices[held] == Choice::Move && (self.left[held]..self.back[held]).contains(&op) {
                    cost_ns += self.gaps[held].copy_ns;
                }
                continue;
            }
            if let Some(maker) = &self.makers[slot as usize] {
                cost_ns += if at > 1 { maker.cost_ns } else { 0.0 };
                scratch.see(&maker.inputs);
            }
        }
        self.scratch = scratch;
        cost_ns
    }
}

/// Bytes are not held at some ops.
fn away(change_bytes: &mut [f64], ops: Range<usize>, bytes: f64) {
    let last = change_bytes.len() - 1;
    change_bytes[ops.start.min(last)] -= bytes;
    change_bytes[ops.end.min(last)] += bytes;
}

impl Choices {
    /// What is dropped; and what is moved, in an order in which all of it can be booked.
    pub fn leaving(&self) -> (Vec<IntervalId>, Vec<IntervalId>) {
        let dropped = (0..self.of.len()).filter(|&gap| self.of[gap].drops());
        let moved = self.lanes.copies.iter().map(|copy| copy.interval);
        (dropped.map(|gap| IntervalId(gap as u32)).collect(), moved.collect())
    }

    /// The same at the times of another model.
    pub fn booked_anew(mut self, model: &Model<'_>) -> Self {
        let order: Vec<usize> = self.lanes.copies.iter().map(|copy| copy.interval.0 as usize).collect();
        self.book(model, &order);
        self
    }

    /// Nothing is moved that lanes have no time for.
    pub fn book(&mut self, model: &Model<'_>, order: &[usize]) {
        self.lanes = model.timeline.lanes();
        for &gap in order {
            self.of[gap] = if model.book(&mut self.lanes, gap) { Choice::Move } else { Choice::Keep };
        }
    }
}
