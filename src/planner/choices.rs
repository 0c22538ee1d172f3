//! What may become of each storage in each interval, and what an iteration is made of, as far as that is needed to tell what
//! choices come to without running anything; see [`evaluation`](super::evaluation).

use super::bookings::Timeline;
use super::iteration::{Iteration, Slot, Step};
use super::lanes::{Copy, Lanes};
use crate::config::AllowedWays;
use crate::schedule::{Decision, Eviction, IntervalId};

/// What becomes of a storage in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    #[default]
    Keep,
    /// It is on the host as long as lanes allow.
    Move,
    /// It is, and comes back for one op in between, at which something is made again from it.
    Visit(u32),
    /// Its bytes are dropped, and made again, early if something else is made from them.
    Drop,
    /// They are dropped again as well if they were made again for something else.
    DropAgain,
}

impl Choice {
    pub fn drops(self) -> bool {
        matches!(self, Choice::Drop | Choice::DropAgain)
    }

    pub fn moves(self) -> bool {
        matches!(self, Choice::Move | Choice::Visit(_))
    }

    /// At which op it comes back in between.
    pub fn visited(self) -> Option<u32> {
        if let Choice::Visit(op) = self { Some(op) } else { None }
    }
}

/// A choice for each interval, and the copies that come of them.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    /// By interval.
    pub of: Vec<Choice>,
    pub lanes: Lanes,
}

/// The time from one touch of a storage to the next.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    pub slot: Slot,
    pub bytes: i64,
    /// The ops at which the storage may be away. The last is beyond the iteration's end if it is in the next.
    pub from: usize,
    pub until: usize,
    pub copy_ns: i64,
    pub can_move: bool,
    pub can_drop: bool,
}

/// How a storage is made.
#[derive(Clone, Debug)]
pub struct Maker {
    pub op: usize,
    pub cost_ns: i64,
    pub inputs: Vec<Slot>,
}

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
    /// By slot.
    pub bytes_of: Vec<i64>,
    /// By op of this iteration and the next: the intervals of what may be dropped that end there.
    pub ending: Vec<Vec<u32>>,
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
                let cost_ns = instruction.launch_ns as i64;
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
                    bytes: timeline.in_memory(size_bytes) as i64,
                    from: op as usize + 1,
                    until: op as usize + ops,
                    copy_ns: timeline.copy_ns(size_bytes) as i64,
                    can_move: can_leave && ways.offload && interval.may_move,
                    can_drop: can_leave
                        && ways.recompute
                        && !interval.persists
                        && makers[slot as usize].is_some(),
                }
            })
            .collect();
        let mut ending = vec![Vec::new(); 2 * iteration.ops.len()];
        for (gap, index) in gaps.iter().zip(0..).filter(|(gap, _)| gap.can_drop) {
            ending[gap.until].push(index);
        }
        let bytes_of = iteration.size_bytes.iter().map(|&bytes| timeline.in_memory(bytes) as i64).collect();
        Model { timeline, gaps, gaps_of, makers, bytes_of, ending }
    }

    pub fn ops(&self) -> usize {
        self.timeline.need_bytes().len()
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
    pub fn gap_at(&self, slot: Slot, op: usize) -> Option<usize> {
        let gaps = &self.gaps_of[slot as usize];
        let index = gaps.partition_point(|&gap| self.gaps[gap as usize].from <= op).checked_sub(1)?;
        let gap = gaps[index] as usize;
        (op <= self.gaps[gap].until).then_some(gap)
    }

    /// Adds copies of an interval to lanes, if they have time for that and it is away for some ops. `visited`: the op for which it
    /// comes back in between.
    pub fn book(&self, lanes: &mut Lanes, gap: usize, visited: Option<u32>) -> bool {
        let Gap { from, until, .. } = self.gaps[gap];
        let copy = self.timeline.copy_of(IntervalId(gap as u32), from..until);
        let is_away = |copy: &Copy| self.timeline.away(copy).len() > 1;
        lanes.add(copy, is_away)
            && visited.is_none_or(|op| lanes.add(self.timeline.visit(copy, op as usize), |_| true))
    }
}

impl Choices {
    /// What decisions come to that were made of one interval after the other.
    pub fn of_decisions(model: &Model<'_>, decisions: &[Decision]) -> Self {
        let mut choices = model.kept();
        let mut moved = Vec::new();
        for &(_, interval, how) in decisions {
            let at = interval.0 as usize;
            match how {
                Eviction::Drop if model.gaps[at].can_drop => choices.of[at] = Choice::Drop,
                Eviction::Offload if model.gaps[at].can_move && choices.of[at] != Choice::Move => {
                    choices.of[at] = Choice::Move;
                    moved.push(at);
                }
                _ => {}
            }
        }
        choices.book(model, &moved);
        choices
    }

    /// What is dropped; and what is moved, and visited when, in an order in which all of it can be booked.
    pub fn leaving(&self) -> (Vec<IntervalId>, Vec<(IntervalId, Option<u32>)>) {
        let dropped = (0..self.of.len()).filter(|&gap| self.of[gap].drops());
        let moved = self.lanes.copies.iter().filter(|copy| !copy.is_visit).map(|copy| copy.interval);
        let visited = |interval: IntervalId| (interval, self.of[interval.0 as usize].visited());
        (dropped.map(|gap| IntervalId(gap as u32)).collect(), moved.map(visited).collect())
    }

    /// The same at the times of another model.
    pub fn booked_anew(mut self, model: &Model<'_>) -> Self {
        let order: Vec<usize> = self.leaving().1.iter().map(|&(interval, _)| interval.0 as usize).collect();
        self.book(model, &order);
        self
    }

    /// Nothing is moved that lanes have no time for.
    pub fn book(&mut self, model: &Model<'_>, order: &[usize]) {
        self.lanes = model.timeline.lanes();
        for &gap in order {
            let choice = Some(self.of[gap]).filter(|choice| choice.moves()).unwrap_or(Choice::Move);
            let is_booked = model.book(&mut self.lanes, gap, choice.visited());
            if !is_booked {
                self.lanes.remove(IntervalId(gap as u32));
            }
            self.of[gap] = if is_booked { choice } else { Choice::Keep };
        }
    }
}
