//! The predicted cost of an assignment. It is updated as choices change, so that a change takes no longer in a long iteration
//! than in a short one. [`relaxation`](super::relaxation) and [`annealing`](super::annealing) ask for it often.
//!
//! A dropped storage is rematerialized where its interval ends. All that is rematerialized at one op is one event. The event
//! walks through the inputs until it comes to storages that exist. So it depends on the intervals that it looked at, and is
//! computed again when one of them changes. What it rematerializes for something else stays, and later events find it. So
//! events are computed in the order of ops.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::assignment::{Assignment, Choice, Model, ModelInterval};
use super::iteration::Slot;
use super::lanes::CopyLanes;

/// The most storages that are looked at to rematerialize one. If there are more, it counts as too costly.
const MAX_ANCESTORS: usize = 256;
/// The time that counts if it is too costly.
const TOO_COSTLY_NS: i64 = 10_000_000_000_000;

/// No event brings the storage back before its interval ends.
const NEVER: u32 = u32::MAX;

/// The cost of an assignment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AssignmentCost {
    /// The time to rematerialize the dropped storages.
    pub recompute_ns: f64,
    /// The bytes beyond the budget, as a part of it, summed over all ops.
    pub excess: f64,
}

impl AssignmentCost {
    /// The cost in time, if an excess of the whole budget at one op costs `excess_ns`.
    pub fn with_excess_ns(self, excess_ns: f64) -> f64 {
        self.recompute_ns + excess_ns * self.excess
    }
}

/// The rematerialization at one op.
#[derive(Clone, Debug, Default)]
struct Rematerialization {
    /// The time of the ops that run again, and of the copies that they wait for.
    cost_ns: i64,
    /// The bytes held only during the rematerialization.
    transient_bytes: i64,
    /// The intervals that it depends on.
    depends_on: Vec<u32>,
    /// Those of them that it ends.
    ended: Vec<u32>,
}

/// An assignment and its cost.
#[derive(Debug)]
pub struct IncrementalCost<'a> {
    model: &'a Model<'a>,
    assignment: Assignment,
    budget_bytes: i64,
    /// By interval: when the storage is away, and the event that brings it back before.
    away: Vec<Range<u32>>,
    back: Vec<u32>,
    /// By interval of a storage that is moved, the times of its copies.
    copied_ns: Vec<[u64; 2]>,
    /// By op of this iteration and the next.
    events: Vec<Rematerialization>,
    /// By interval, the ops of the events that depend on it.
    dependents: Vec<Vec<u32>>,
    /// The bytes held at each op, and those held only to rematerialize something.
    held_bytes: Vec<i64>,
    transient_bytes: Vec<i64>,
    excess_bytes: i64,
    recompute_ns: i64,
    /// The events that have to be computed again.
    due: BinaryHeap<Reverse<u32>>,
    is_due: Vec<bool>,
    walk: Walk,
    /// The number of ops and events that were looked at so far.
    work: usize,
}

/// A rematerialization that is computed again.
struct Update {
    op: u32,
    event: Rematerialization,
    /// The intervals that it ended before or ends now, with the op that ended them before.
    ended: Vec<(u32, u32)>,
}

/// The state of walks through inputs. It is kept to avoid allocations.
#[derive(Debug, Default)]
struct Walk {
    /// By slot, the last walk that saw it.
    seen: Vec<u32>,
    walks: u32,
    ancestors: Vec<Slot>,
    /// By op, the last event that ran it again.
    rerun: Vec<u32>,
    events: u32,
}

impl Walk {
    fn begin(&mut self, slot: Slot) {
        self.walks += 1;
        self.ancestors.clear();
        self.see(&[slot]);
    }

    fn see(&mut self, slots: &[Slot]) {
        for &slot in slots {
            if self.seen[slot as usize] != self.walks {
                self.seen[slot as usize] = self.walks;
                self.ancestors.push(slot);
            }
        }
    }

    /// Notes that an op runs again. `false` if it did already.
    fn run_again(&mut self, op: usize) -> bool {
        std::mem::replace(&mut self.rerun[op], self.events) != self.events
    }
}

impl<'a> IncrementalCost<'a> {
    /// The cost of an assignment under a budget.
    pub fn new(model: &'a Model<'a>, assignment: &Assignment, budget_bytes: usize) -> Self {
        let (ops, intervals) = (model.ops(), model.intervals.len());
        let held_bytes: Vec<i64> = model.timeline.need_bytes().iter().map(|&bytes| bytes as i64).collect();
        let budget_bytes = budget_bytes as i64;
        let excess = held_bytes.iter().map(|bytes| (bytes - budget_bytes).max(0));
        let mut cost = IncrementalCost {
            model,
            assignment: model.kept(),
            budget_bytes,
            away: vec![0..0; intervals],
            back: vec![NEVER; intervals],
            copied_ns: vec![[u64::MAX; 2]; intervals],
            events: vec![Rematerialization::default(); 2 * ops],
            dependents: vec![Vec::new(); intervals],
            excess_bytes: excess.sum(),
            held_bytes,
            transient_bytes: vec![0; ops],
            recompute_ns: 0,
            due: BinaryHeap::new(),
            is_due: vec![false; 2 * ops],
            walk: Walk { seen: vec![0; model.makers.len()], rerun: vec![0; ops], ..Walk::default() },
            work: 0,
        };
        cost.set_all(assignment);
        cost
    }

    pub fn assignment(&self) -> &Assignment {
        &self.assignment
    }

    pub fn total(&self) -> AssignmentCost {
        AssignmentCost {
            recompute_ns: self.recompute_ns as f64,
            excess: self.excess_bytes as f64 / self.budget_bytes as f64,
        }
    }

    /// The bytes held at each op.
    #[cfg(test)]
    pub fn held_bytes(&self) -> &[i64] {
        &self.held_bytes
    }

    /// The op at which a storage is back.
    #[cfg(test)]
    pub fn back(&self, interval: usize) -> usize {
        if self.assignment.choices[interval] == Choice::Keep {
            return self.model.intervals[interval].until;
        }
        self.away[interval].end.min(self.back[interval]) as usize
    }

    /// The work so far.
    pub fn work(&self) -> usize {
        self.work
    }

    /// Takes over another assignment.
    pub fn set_all(&mut self, assignment: &Assignment) {
        for (interval, &choice) in assignment.choices.iter().enumerate() {
            self.choose(interval, choice);
        }
        self.set_lanes(assignment.lanes.clone());
        self.settle();
    }

    /// Changes the choice for an interval, and the lanes if they change with it.
    pub fn set(&mut self, interval: usize, choice: Choice, lanes: Option<CopyLanes>) {
        self.choose(interval, choice);
        if let Some(lanes) = lanes {
            self.set_lanes(lanes);
        }
        self.settle();
    }

    fn choose(&mut self, interval: usize, choice: Choice) {
        let before = std::mem::replace(&mut self.assignment.choices[interval], choice);
        if before == choice {
            return;
        }
        let ModelInterval { from, until, .. } = self.model.intervals[interval];
        self.invalidate_dependents(interval, |_| true);
        if before == Choice::Drop || choice == Choice::Drop {
            self.make_due(until as u32);
        }
        let away = if choice == Choice::Drop { from as u32..until as u32 } else { 0..0 };
        self.copied_ns[interval] = [u64::MAX; 2];
        self.shift(interval, away, NEVER);
    }

    fn set_lanes(&mut self, lanes: CopyLanes) {
        self.assignment.lanes = lanes;
        for at in 0..self.assignment.lanes.copies.len() {
            let copy = &self.assignment.lanes.copies[at];
            let interval = copy.interval.0 as usize;
            let times_ns = copy.times_ns();
            if std::mem::replace(&mut self.copied_ns[interval], times_ns) == times_ns {
                continue;
            }
            let away = self.model.timeline.away(copy);
            let away = away.start as u32..away.end as u32;
            let before = self.away[interval].clone();
            self.invalidate_dependents(interval, |op| before.contains(&op) != away.contains(&op));
            self.shift(interval, away, self.back[interval]);
        }
        self.work += self.assignment.lanes.copies.len();
    }

    /// Marks the events that looked at an interval and find another state there now.
    fn invalidate_dependents(&mut self, interval: usize, is_changed: impl Fn(u32) -> bool) {
        for at in 0..self.dependents[interval].len() {
            let op = self.dependents[interval][at];
            if is_changed(op) {
                self.make_due(op);
            }
        }
    }

    fn make_due(&mut self, op: u32) {
        if !std::mem::replace(&mut self.is_due[op as usize], true) {
            self.due.push(Reverse(op));
        }
    }

    fn settle(&mut self) {
        while let Some(Reverse(op)) = self.due.pop() {
            self.is_due[op as usize] = false;
            self.run(op);
        }
    }

    /// Computes the rematerialization at an op again, and finds the events that this changes.
    fn run(&mut self, op: u32) {
        let mut update =
            Update { op, event: std::mem::take(&mut self.events[op as usize]), ended: Vec::new() };
        let event = &mut update.event;
        let transient_bytes = event.transient_bytes;
        self.recompute_ns -= event.cost_ns;
        for &interval in &event.depends_on {
            let dependents = &mut self.dependents[interval as usize];
            let place = dependents.iter().position(|&at| at == op).expect("it depends on the interval");
            dependents.swap_remove(place);
        }
        for interval in event.ended.drain(..) {
            if self.back[interval as usize] == op {
                self.back[interval as usize] = NEVER;
                update.ended.push((interval, op));
            }
        }
        event.depends_on.clear();
        (event.cost_ns, event.transient_bytes) = (0, 0);
        let mut walk = std::mem::take(&mut self.walk);
        walk.events += 1;
        for &interval in &self.model.ending[op as usize] {
            if self.assignment.choices[interval as usize] == Choice::Drop
                && self.back[interval as usize] == NEVER
            {
                let cost_ns = self.rematerialize(&mut walk, interval as usize, &mut update);
                update.event.cost_ns += cost_ns;
            }
        }
        self.walk = walk;
        let Update { event, ended, .. } = update;
        self.recompute_ns += event.cost_ns;
        event.depends_on.iter().for_each(|&interval| self.dependents[interval as usize].push(op));
        self.work += 1 + event.depends_on.len();
        self.hold_transient(op as usize, event.transient_bytes - transient_bytes);
        self.events[op as usize] = event;
        for (interval, before) in ended {
            self.change_end(interval as usize, before);
        }
    }

    /// The time to rematerialize a dropped storage when its interval ends, with all of its inputs that do not exist.
    fn rematerialize(&mut self, walk: &mut Walk, interval: usize, update: &mut Update) -> i64 {
        let (model, op) = (self.model, update.op);
        let mut cost_ns = 0;
        walk.begin(model.intervals[interval].slot);
        let mut at = 0;
        while let Some(&slot) = walk.ancestors.get(at) {
            at += 1;
            if at > MAX_ANCESTORS {
                return TOO_COSTLY_NS;
            }
            if at > 1 {
                let held = model.interval_at(slot, op as usize);
                if let Some(held) = held {
                    let interval = &model.intervals[held];
                    if interval.can_move || interval.can_drop {
                        update.event.depends_on.push(held as u32);
                    }
                    if !self.is_away(held, op) {
                        continue;
                    }
                }
                match held {
                    Some(held) => {
                        self.end_early(held, update);
                        if self.assignment.choices[held] == Choice::Move {
                            // The storage is fetched at once, and the op waits.
                            cost_ns += model.intervals[held].fetch_ns;
                            continue;
                        }
                    }
                    // Only this rematerialization needs it now.
                    None => update.event.transient_bytes += model.bytes_of[slot as usize] / 2,
                }
            }
            if let Some(maker) = &model.makers[slot as usize]
                && walk.run_again(maker.op)
            {
                cost_ns += maker.cost_ns;
                walk.see(&maker.inputs);
            }
        }
        cost_ns
    }

    /// Notes that an event brings a storage back.
    fn end_early(&mut self, interval: usize, update: &mut Update) {
        let before = std::mem::replace(&mut self.back[interval], update.op);
        let interval = interval as u32;
        update.event.ended.push(interval);
        if !update.ended.iter().any(|&(other, _)| other == interval) {
            update.ended.push((interval, before));
        }
    }

    fn is_away(&self, interval: usize, op: u32) -> bool {
        self.away[interval].contains(&op) && op < self.back[interval]
    }

    /// Notes that another event than before ends an interval, or that none does.
    fn change_end(&mut self, interval: usize, before: u32) {
        let now = std::mem::replace(&mut self.back[interval], before);
        if before == now {
            return;
        }
        self.shift(interval, self.away[interval].clone(), now);
        self.invalidate_dependents(interval, |op| op > before.min(now));
        if self.assignment.choices[interval] == Choice::Drop {
            self.make_due(self.model.intervals[interval].until as u32);
        }
    }

    /// Notes that a storage is away at these ops, up to the event that brings it back.
    fn shift(&mut self, interval: usize, away: Range<u32>, back: u32) {
        let max = self.events.len() as u32;
        let ops = |away: &Range<u32>, back: u32| {
            let (start, end) = (away.start.min(max), away.end.min(back).min(max));
            start as usize..end.max(start) as usize
        };
        let (before, after) = (ops(&self.away[interval], self.back[interval]), ops(&away, back));
        (self.away[interval], self.back[interval]) = (away, back);
        let bytes = self.model.intervals[interval].bytes;
        if before.end <= after.start || after.end <= before.start {
            self.hold(before, bytes);
            self.hold(after, -bytes);
            return;
        }
        let between = |one: usize, other: usize| one.min(other)..one.max(other);
        let (begins_later, ends_later) = (after.start > before.start, after.end > before.end);
        self.hold(between(before.start, after.start), if begins_later { bytes } else { -bytes });
        self.hold(between(before.end, after.end), if ends_later { -bytes } else { bytes });
    }

    /// Adds to the bytes held at some ops.
    fn hold(&mut self, ops: Range<usize>, bytes: i64) {
        let count = self.held_bytes.len();
        self.work += ops.len() / 16;
        let split = [ops.start.min(count)..ops.end.min(count), ops.start.max(count)..ops.end.max(count)];
        for ops in [split[0].clone(), split[1].start - count..split[1].end - count] {
            let transient_bytes = self.transient_bytes[ops.clone()].iter();
            for (held_bytes, transient_bytes) in self.held_bytes[ops].iter_mut().zip(transient_bytes) {
                let over_bytes = *held_bytes + transient_bytes - self.budget_bytes;
                *held_bytes += bytes;
                self.excess_bytes += (over_bytes + bytes).max(0) - over_bytes.max(0);
            }
        }
    }

    fn hold_transient(&mut self, op: usize, bytes: i64) {
        let op = op % self.held_bytes.len();
        let over_bytes = self.held_bytes[op] + self.transient_bytes[op] - self.budget_bytes;
        self.transient_bytes[op] += bytes;
        self.excess_bytes += (over_bytes + bytes).max(0) - over_bytes.max(0);
    }
}
