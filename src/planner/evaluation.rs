//! What choices come to, kept up to date as they change, so that a change takes no longer in a long iteration than in a short one:
//! [`relaxation`](super::relaxation) and [`annealing`](super::annealing) ask often.
//!
//! Where an interval ends whose storage was dropped, its bytes are made again: an event, of all that is made again at one op. It walks
//! through what that is made from, until it comes to what is there. So it depends on the intervals that it looked at, and is run
//! anew when one of them changes. What it makes again for something else stays, and later events find it there: they are run in
//! the order of ops.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use super::choices::{Choice, Choices, Gap, Model};
use super::iteration::Slot;
use super::lanes::Lanes;

/// Storages that are looked at to make one again, at the most; what takes more counts as too dear.
const MOST_ANCESTORS: usize = 256;
/// The time that counts for it.
const TOO_DEAR_NS: i64 = 10_000_000_000_000;

/// No event brings it back before its interval ends.
const NEVER: u32 = u32::MAX;

/// What choices come to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Time to make again what was dropped.
    pub recompute_ns: f64,
    /// Bytes beyond the budget, as parts of it, added up over all ops.
    pub excess: f64,
}

impl Outcome {
    /// Where an excess of the whole budget at one op counts as so much time.
    pub fn with_excess_ns(self, excess_ns: f64) -> f64 {
        self.recompute_ns + excess_ns * self.excess
    }
}

/// What is made again at an op.
#[derive(Clone, Debug, Default)]
struct Event {
    /// The time of the ops that run again, and with that of the copies that they wait for.
    rerun_ns: i64,
    cost_ns: i64,
    /// What is held beside.
    beside_bytes: i64,
    /// Intervals that it depends on.
    looked_at: Vec<u32>,
    /// Those of them that it ends.
    ended: Vec<u32>,
}

/// Choices, and what they come to.
#[derive(Debug)]
pub struct Evaluation<'a> {
    model: &'a Model<'a>,
    choices: Choices,
    budget_bytes: i64,
    /// By interval: when the storage is to be away, and which event brings it back before.
    away: Vec<Range<u32>>,
    back: Vec<u32>,
    /// By interval, of what is moved: when its copies are made; and when it is there in between.
    copied_ns: Vec<[u64; 2]>,
    visited: Vec<Range<u32>>,
    /// By op of this iteration and the next.
    events: Vec<Event>,
    /// By interval, the ops of events that depend on it.
    lookers: Vec<Vec<u32>>,
    /// Bytes held at each op, and what is held beside to make something again.
    held_bytes: Vec<i64>,
    beside_bytes: Vec<i64>,
    excess_bytes: i64,
    recompute_ns: i64,
    /// Events that are to be run anew.
    due: BinaryHeap<Reverse<u32>>,
    is_due: Vec<bool>,
    walk: Walk,
    /// Ops and events that were looked at so far.
    work: usize,
}

/// What would be allocated again for each event.
#[derive(Debug, Default)]
struct Walk {
    /// By slot: in which walk it was seen last.
    seen: Vec<u32>,
    walks: u32,
    ancestors: Vec<Slot>,
    /// By op: in which event it was run again last.
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

    /// Whether an op was not run again yet.
    fn reruns(&mut self, op: usize) -> bool {
        std::mem::replace(&mut self.rerun[op], self.events) != self.events
    }
}

impl<'a> Evaluation<'a> {
    /// Of choices, if the budget is so large.
    pub fn new(model: &'a Model<'a>, choices: &Choices, budget_bytes: usize) -> Self {
        let (ops, gaps) = (model.ops(), model.gaps.len());
        let held_bytes: Vec<i64> = model.timeline.need_bytes().iter().map(|&bytes| bytes as i64).collect();
        let budget_bytes = budget_bytes as i64;
        let excess = held_bytes.iter().map(|bytes| (bytes - budget_bytes).max(0));
        let mut evaluation = Evaluation {
            model,
            choices: model.kept(),
            budget_bytes,
            away: vec![0..0; gaps],
            back: vec![NEVER; gaps],
            copied_ns: vec![[u64::MAX; 2]; gaps],
            visited: vec![0..0; gaps],
            events: vec![Event::default(); 2 * ops],
            lookers: vec![Vec::new(); gaps],
            excess_bytes: excess.sum(),
            held_bytes,
            beside_bytes: vec![0; ops],
            recompute_ns: 0,
            due: BinaryHeap::new(),
            is_due: vec![false; 2 * ops],
            walk: Walk { seen: vec![0; model.makers.len()], rerun: vec![0; ops], ..Walk::default() },
            work: 0,
        };
        evaluation.set_all(choices);
        evaluation
    }

    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    pub fn outcome(&self) -> Outcome {
        Outcome {
            recompute_ns: self.recompute_ns as f64,
            excess: self.excess_bytes as f64 / self.budget_bytes as f64,
        }
    }

    /// Bytes held at each op.
    pub fn held_bytes(&self) -> &[i64] {
        &self.held_bytes
    }

    /// The op at which a storage is there again.
    pub fn back(&self, gap: usize) -> usize {
        if self.choices.of[gap] == Choice::Keep {
            return self.model.gaps[gap].until;
        }
        self.away[gap].end.min(self.back[gap]) as usize
    }

    /// Time to make again what was dropped, before each op.
    pub fn remake_ns(&self) -> Vec<u64> {
        let (now, next) = self.events.split_at(self.model.ops());
        now.iter().zip(next).map(|(now, next)| (now.rerun_ns + next.rerun_ns) as u64).collect()
    }

    /// How much there was to do so far.
    pub fn work(&self) -> usize {
        self.work
    }

    /// Chooses otherwise.
    pub fn set_all(&mut self, choices: &Choices) {
        for (gap, &choice) in choices.of.iter().enumerate() {
            self.choose(gap, choice);
        }
        self.set_lanes(choices.lanes.clone());
        self.settle();
    }

    /// Chooses otherwise for an interval, and what comes of that in the lanes where it does.
    pub fn set(&mut self, gap: usize, choice: Choice, lanes: Option<Lanes>) {
        self.choose(gap, choice);
        if let Some(lanes) = lanes {
            self.set_lanes(lanes);
        }
        self.settle();
    }

    fn choose(&mut self, gap: usize, choice: Choice) {
        let before = std::mem::replace(&mut self.choices.of[gap], choice);
        if before == choice {
            return;
        }
        let Gap { from, until, .. } = self.model.gaps[gap];
        self.changes_for(gap, |_| true);
        if before.drops() || choice.drops() {
            self.make_due(until as u32);
        }
        let away = if choice.drops() { from as u32..until as u32 } else { 0..0 };
        self.copied_ns[gap] = [u64::MAX; 2];
        self.shift(gap, away, NEVER);
        self.visit(gap, 0..0);
    }

    fn set_lanes(&mut self, lanes: Lanes) {
        self.choices.lanes = lanes;
        for at in 0..self.choices.lanes.copies.len() {
            let copy = &self.choices.lanes.copies[at];
            let gap = copy.interval.0 as usize;
            if copy.is_visit {
                let ops = self.model.timeline.visited(copy);
                self.visit(gap, ops.start as u32..ops.end as u32);
                continue;
            }
            let times_ns = copy.times_ns();
            if std::mem::replace(&mut self.copied_ns[gap], times_ns) == times_ns {
                continue;
            }
            let away = self.model.timeline.away(copy);
            let away = away.start as u32..away.end as u32;
            let before = self.away[gap].clone();
            self.changes_for(gap, |op| before.contains(&op) != away.contains(&op));
            self.shift(gap, away, self.back[gap]);
        }
        self.work += self.choices.lanes.copies.len();
    }

    /// A storage that is moved is there in between at these ops.
    fn visit(&mut self, gap: usize, ops: Range<u32>) {
        let before = std::mem::replace(&mut self.visited[gap], ops.clone());
        if before == ops {
            return;
        }
        let bytes = self.model.gaps[gap].bytes;
        self.hold(before.start as usize..before.end as usize, -bytes);
        self.hold(ops.start as usize..ops.end as usize, bytes);
        self.changes_for(gap, |op| before.contains(&op) != ops.contains(&op));
    }

    /// Ops at which something is made again that an interval is looked at for.
    pub fn visitors(&self, gap: usize) -> impl Iterator<Item = u32> {
        let Gap { from, until, .. } = self.model.gaps[gap];
        self.lookers[gap].iter().copied().filter(move |&op| (from + 1..until).contains(&(op as usize)))
    }

    /// Events that looked at an interval find it otherwise now.
    fn changes_for(&mut self, gap: usize, finds_it_otherwise: impl Fn(u32) -> bool) {
        for at in 0..self.lookers[gap].len() {
            let op = self.lookers[gap][at];
            if finds_it_otherwise(op) {
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

    /// Makes again what is to be at an op, and finds what else that changes.
    fn run(&mut self, op: u32) {
        let mut event = std::mem::take(&mut self.events[op as usize]);
        let beside_bytes = event.beside_bytes;
        self.recompute_ns -= event.cost_ns;
        for &gap in &event.looked_at {
            let lookers = &mut self.lookers[gap as usize];
            let place = lookers.iter().position(|&at| at == op).expect("it looked");
            lookers.swap_remove(place);
        }
        // What it ended, and whether it did.
        let mut ended: Vec<(u32, u32)> = Vec::new();
        for gap in event.ended.drain(..) {
            if self.back[gap as usize] == op {
                self.back[gap as usize] = NEVER;
                ended.push((gap, op));
            }
        }
        event.looked_at.clear();
        (event.rerun_ns, event.cost_ns, event.beside_bytes) = (0, 0, 0);
        let mut walk = std::mem::take(&mut self.walk);
        walk.events += 1;
        for &gap in &self.model.ending[op as usize] {
            if self.choices.of[gap as usize].drops() && self.back[gap as usize] == NEVER {
                event.cost_ns += self.remake(&mut walk, gap as usize, op, &mut event, &mut ended);
            }
        }
        self.walk = walk;
        self.recompute_ns += event.cost_ns;
        event.looked_at.iter().for_each(|&gap| self.lookers[gap as usize].push(op));
        self.work += 1 + event.looked_at.len();
        self.hold_beside(op as usize, event.beside_bytes - beside_bytes);
        self.events[op as usize] = event;
        for (gap, before) in ended {
            self.ends_otherwise(gap as usize, before);
        }
    }

    /// The time to make a dropped storage again when its interval ends, with all that it is made from and that is not there.
    fn remake(
        &mut self,
        walk: &mut Walk,
        gap: usize,
        op: u32,
        event: &mut Event,
        ended: &mut Vec<(u32, u32)>,
    ) -> i64 {
        let model = self.model;
        let mut cost_ns = 0;
        walk.begin(model.gaps[gap].slot);
        let mut at = 0;
        while let Some(&slot) = walk.ancestors.get(at) {
            at += 1;
            if at > MOST_ANCESTORS {
                return TOO_DEAR_NS;
            }
            if at > 1 {
                let held = model.gap_at(slot, op as usize);
                if let Some(held) = held {
                    let gap = &model.gaps[held];
                    if gap.can_move || gap.can_drop {
                        event.looked_at.push(held as u32);
                    }
                    if !self.is_away(held, op) {
                        continue;
                    }
                }
                let held = held.filter(|&held| self.choices.of[held] != Choice::DropAgain);
                match held {
                    // It comes back once more, and this waits.
                    Some(held) if self.choices.of[held].visited().is_some() => {
                        cost_ns += model.gaps[held].copy_ns;
                        event.beside_bytes += model.gaps[held].bytes / 2;
                        continue;
                    }
                    Some(held) => {
                        self.end_early(held, op, event, ended);
                        if self.choices.of[held] == Choice::Move {
                            // It comes back at once, and this waits.
                            cost_ns += model.gaps[held].copy_ns;
                            continue;
                        }
                    }
                    // Nothing but this needs it now.
                    None => event.beside_bytes += model.bytes_of[slot as usize] / 2,
                }
            }
            if let Some(maker) = &model.makers[slot as usize]
                && walk.reruns(maker.op)
            {
                cost_ns += maker.cost_ns;
                event.rerun_ns += maker.cost_ns;
                walk.see(&maker.inputs);
            }
        }
        cost_ns
    }

    /// A storage that is away is there again from an event on.
    fn end_early(&mut self, gap: usize, op: u32, event: &mut Event, ended: &mut Vec<(u32, u32)>) {
        let before = std::mem::replace(&mut self.back[gap], op);
        let gap = gap as u32;
        event.ended.push(gap);
        if !ended.iter().any(|&(other, _)| other == gap) {
            ended.push((gap, before));
        }
    }

    fn is_away(&self, gap: usize, op: u32) -> bool {
        self.away[gap].contains(&op) && op < self.back[gap] && !self.visited[gap].contains(&op)
    }

    /// Another event ends an interval than before, or none does.
    fn ends_otherwise(&mut self, gap: usize, before: u32) {
        let now = std::mem::replace(&mut self.back[gap], before);
        if before == now {
            return;
        }
        self.shift(gap, self.away[gap].clone(), now);
        self.changes_for(gap, |op| op > before.min(now));
        if self.choices.of[gap].drops() {
            self.make_due(self.model.gaps[gap].until as u32);
        }
    }

    /// A storage is to be away at these ops, but for what comes after the event that brings it back.
    fn shift(&mut self, gap: usize, away: Range<u32>, back: u32) {
        let most = self.events.len() as u32;
        let ops = |away: &Range<u32>, back: u32| {
            let (start, end) = (away.start.min(most), away.end.min(back).min(most));
            start as usize..end.max(start) as usize
        };
        let (before, after) = (ops(&self.away[gap], self.back[gap]), ops(&away, back));
        (self.away[gap], self.back[gap]) = (away, back);
        let bytes = self.model.gaps[gap].bytes;
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

    /// So many more bytes are held at some ops.
    fn hold(&mut self, ops: Range<usize>, bytes: i64) {
        let count = self.held_bytes.len();
        self.work += ops.len() / 16;
        let split = [ops.start.min(count)..ops.end.min(count), ops.start.max(count)..ops.end.max(count)];
        for ops in [split[0].clone(), split[1].start - count..split[1].end - count] {
            let beside_bytes = self.beside_bytes[ops.clone()].iter();
            for (held_bytes, beside_bytes) in self.held_bytes[ops].iter_mut().zip(beside_bytes) {
                let over_bytes = *held_bytes + beside_bytes - self.budget_bytes;
                *held_bytes += bytes;
                self.excess_bytes += (over_bytes + bytes).max(0) - over_bytes.max(0);
            }
        }
    }

    fn hold_beside(&mut self, op: usize, bytes: i64) {
        let op = op % self.held_bytes.len();
        let over_bytes = self.held_bytes[op] + self.beside_bytes[op] - self.budget_bytes;
        self.beside_bytes[op] += bytes;
        self.excess_bytes += (over_bytes + bytes).max(0) - over_bytes.max(0);
    }

    /// What it costs to make a storage again at some op, beside its own op, if others are as `choices` say: the ops of what is not
    /// there and nothing else brings back, and what it is worth that others come back early.
    pub fn needs_ns(
        &mut self,
        choices: &[Choice],
        gap: usize,
        op: usize,
        worth: impl Fn(&Gap, Range<usize>) -> f64,
    ) -> f64 {
        let model = self.model;
        self.walk.begin(model.gaps[gap].slot);
        let (mut at, mut cost_ns) = (0, 0.0);
        while let Some(&slot) = self.walk.ancestors.get(at) {
            at += 1;
            if at > MOST_ANCESTORS {
                return TOO_DEAR_NS as f64;
            }
            if at > 1
                && let Some(held) = model.gap_at(slot, op)
            {
                if choices[held] != Choice::Keep {
                    cost_ns += worth(&model.gaps[held], op..self.back(held));
                }
                if choices[held] == Choice::Move && self.is_away(held, op as u32) {
                    cost_ns += model.gaps[held].copy_ns as f64;
                }
                continue;
            }
            if let Some(maker) = &model.makers[slot as usize] {
                cost_ns += if at > 1 { maker.cost_ns as f64 } else { 0.0 };
                self.walk.see(&maker.inputs);
            }
        }
        cost_ns
    }
}
