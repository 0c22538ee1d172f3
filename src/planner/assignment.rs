//! A choice for each storage in each interval, and the model of an iteration that tells what an assignment costs without
//! running it; see [`incremental_cost`](super::incremental_cost).

use super::iteration::{Iteration, IterationStep, Slot};
use super::lanes::CopyLanes;
use super::reservations::Timeline;
use crate::config::EvictionMethods;
use crate::schedule::IntervalId;

/// The choice for a storage in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    #[default]
    Keep,
    /// It is on the host for as long as the lanes allow.
    Move,
    /// It is dropped and rematerialized, early if something else is recomputed from it.
    Drop,
}

/// A choice for each interval, and the copies that follow from these choices.
#[derive(Clone, Debug, Default)]
pub struct Assignment {
    /// By interval.
    pub choices: Vec<Choice>,
    pub lanes: CopyLanes,
}

/// An interval of a storage, from one touch to the next.
#[derive(Clone, Copy, Debug)]
pub struct ModelInterval {
    pub slot: Slot,
    pub bytes: i64,
    /// The ops at which the storage may be away. If the interval ends in the next iteration, the last op lies beyond this one's
    /// end.
    pub from: usize,
    pub until: usize,
    pub fetch_ns: i64,
    pub can_move: bool,
    pub can_drop: bool,
}

/// The op that makes a storage.
#[derive(Clone, Debug)]
pub struct Maker {
    pub op: usize,
    pub cost_ns: i64,
    pub inputs: Vec<Slot>,
}

/// An iteration as assignments see it.
#[derive(Debug)]
pub struct Model<'a> {
    pub timeline: &'a Timeline,
    /// By interval.
    pub intervals: Vec<ModelInterval>,
    /// By slot, the intervals in order.
    intervals_of: Vec<Vec<u32>>,
    /// By slot. `None` if the storage cannot be recomputed.
    pub makers: Vec<Option<Maker>>,
    /// By slot.
    pub bytes_of: Vec<i64>,
    /// By op of this iteration and the next: the intervals of storages that may be dropped which end there.
    pub ending: Vec<Vec<u32>>,
}

impl<'a> Model<'a> {
    pub fn new(iteration: &Iteration, timeline: &'a Timeline, methods: EvictionMethods) -> Self {
        let slots = iteration.size_bytes.len();
        let mut makers: Vec<Option<Maker>> = vec![None; slots];
        let ops = iteration.steps.iter().filter_map(|step| match step {
            IterationStep::Op { instruction, inputs, outputs } => Some((instruction, inputs, outputs)),
            _ => None,
        });
        for (op, (instruction, inputs, outputs)) in ops.enumerate() {
            if !instruction.op.replays_exactly() {
                continue;
            }
            let inputs: Vec<Slot> = inputs.iter().map(|&(slot, _)| slot).collect();
            for &slot in outputs {
                let cost_ns = instruction.launch_ns as i64;
                makers[slot as usize] = Some(Maker { op, cost_ns, inputs: inputs.clone() });
            }
        }
        let mut intervals_of = vec![Vec::new(); slots];
        let intervals = iteration.intervals.iter().zip(&iteration.of_interval).enumerate();
        let model_intervals: Vec<ModelInterval> = intervals
            .map(|(index, (interval, &(slot, op)))| {
                intervals_of[slot as usize].push(index as u32);
                let size_bytes = iteration.size_bytes[slot as usize];
                let ops = interval.next_ops.unwrap_or(0) as usize;
                let can_leave = ops > 1 && size_bytes > 0;
                ModelInterval {
                    slot,
                    bytes: timeline.in_memory(size_bytes) as i64,
                    from: op as usize + 1,
                    until: op as usize + ops,
                    fetch_ns: timeline.fetch_ns(size_bytes) as i64,
                    can_move: can_leave && methods.offload && interval.may_move,
                    can_drop: can_leave
                        && methods.recompute
                        && !interval.persists
                        && makers[slot as usize].is_some(),
                }
            })
            .collect();
        let mut ending = vec![Vec::new(); 2 * iteration.ops.len()];
        for (interval, index) in model_intervals.iter().zip(0..).filter(|(interval, _)| interval.can_drop) {
            ending[interval.until].push(index);
        }
        let bytes_of = iteration.size_bytes.iter().map(|&bytes| timeline.in_memory(bytes) as i64).collect();
        Model { timeline, intervals: model_intervals, intervals_of, makers, bytes_of, ending }
    }

    pub fn ops(&self) -> usize {
        self.timeline.need_bytes().len()
    }

    /// The assignment in which every storage stays.
    pub fn kept(&self) -> Assignment {
        Assignment { choices: vec![Choice::Keep; self.intervals.len()], lanes: self.timeline.lanes() }
    }

    /// The interval of a slot that an op lies in.
    pub fn interval_at(&self, slot: Slot, op: usize) -> Option<usize> {
        let intervals = &self.intervals_of[slot as usize];
        let index = intervals
            .partition_point(|&interval| self.intervals[interval as usize].from <= op)
            .checked_sub(1)?;
        let interval = intervals[index] as usize;
        (op <= self.intervals[interval].until).then_some(interval)
    }

    /// Reserves the copies of an interval, if the lanes have time for them and the storage is away for some ops.
    pub fn reserve(&self, lanes: &mut CopyLanes, interval: usize) -> bool {
        let ModelInterval { from, until, .. } = self.intervals[interval];
        let copy = self.timeline.copy_of(IntervalId(interval as u32), from..until);
        lanes.add(copy, |copy| self.timeline.away(copy).len() > 1)
    }
}

impl Assignment {
    /// The intervals that are dropped, and those that are moved, in an order in which all of their copies can be reserved.
    pub fn leaving(&self) -> (Vec<IntervalId>, Vec<IntervalId>) {
        let dropped = (0..self.choices.len()).filter(|&interval| self.choices[interval] == Choice::Drop);
        let moved = self.lanes.copies.iter().map(|copy| copy.interval);
        (dropped.map(|interval| IntervalId(interval as u32)).collect(), moved.collect())
    }

    /// The same assignment at the times of another model. Storages for which the lanes have no time stay.
    pub fn reserved_anew(mut self, model: &Model<'_>) -> Self {
        let (_, moved) = self.leaving();
        self.lanes = model.timeline.lanes();
        for interval in moved.into_iter().map(|interval| interval.0 as usize) {
            if !model.reserve(&mut self.lanes, interval) {
                self.choices[interval] = Choice::Keep;
            }
        }
        self
    }
}
