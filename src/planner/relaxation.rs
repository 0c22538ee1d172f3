//! A first assignment, by Lagrangian relaxation as in Everett, *Generalized Lagrange Multiplier Method for Solving Problems of
//! Optimum Allocation of Resources* (Operations Research 11, 1963). At each op, a byte that is held has a price. At given
//! prices each interval is decided on its own, as if the others stayed as they are: its storage is kept, dropped or moved,
//! whichever costs the least. Prices rise where memory is short and fall where it is not.

use std::ops::Range;

use super::assignment::{Assignment, Choice, Model, ModelInterval};
use super::incremental_cost::IncrementalCost;

/// A storage that saves less than this part of the time of its copy is not moved.
const MIN_WORTH: f64 = 0.02;
/// The range of prices, relative to the typical price.
const FACTORS: Range<f64> = 1e-6..1e4;
/// The cost of an excess of the whole budget when the best round is chosen, as a multiple of the recomputation time.
const EXCESS_WEIGHT: f64 = 3.0;

struct Prices {
    /// The price of a byte that is held through an op.
    ns_per_byte: Vec<f64>,
    /// The sums of prices before each op, over two iterations.
    sums: Vec<f64>,
}

impl Prices {
    fn sum(&mut self) {
        let ops = self.ns_per_byte.len();
        self.sums.clear();
        self.sums.push(0.0);
        for at in 0..2 * ops {
            self.sums.push(self.sums[at] + self.ns_per_byte[at % ops]);
        }
    }

    /// The worth of having a storage away.
    fn worth_ns(&self, interval: &ModelInterval, ops: Range<usize>) -> f64 {
        if ops.is_empty() {
            0.0
        } else {
            interval.bytes as f64 * (self.sums[ops.end.min(self.sums.len() - 1)] - self.sums[ops.start])
        }
    }
}

/// A relaxation under way.
struct Relaxation<'a> {
    model: &'a Model<'a>,
    cost: IncrementalCost<'a>,
    prices: Prices,
    assignment: Assignment,
}

/// The assignment of the round that came closest to the budget in the least time.
pub fn relax(model: &Model<'_>, budget_bytes: usize, rounds: usize) -> Assignment {
    let assignment = model.kept();
    let cost = IncrementalCost::new(model, &assignment, budget_bytes);
    let budget_bytes = budget_bytes as f64;
    let ops = model.ops();
    let total_ns = model.makers.iter().flatten().map(|maker| maker.cost_ns).sum::<i64>() as f64;
    let typical = (total_ns / budget_bytes / ops as f64).max(f64::MIN_POSITIVE);
    let need_bytes = model.timeline.need_bytes();
    let first = |&need_bytes: &usize| typical * if need_bytes as f64 > budget_bytes { 0.1 } else { 1e-4 };
    let prices = Prices { ns_per_byte: need_bytes.iter().map(first).collect(), sums: Vec::new() };
    let mut relaxation = Relaxation { model, cost, prices, assignment };
    let mut best: Option<(f64, Assignment)> = None;
    for round in 0..rounds {
        relaxation.prices.sum();
        relaxation.reserve();
        relaxation.cost.set_all(&relaxation.assignment);
        relaxation.decide();
        relaxation.cost.set_all(&relaxation.assignment);
        let total = relaxation.cost.total();
        let over = |&held_bytes: &i64| (held_bytes as f64 - budget_bytes) / budget_bytes;
        let max_over = relaxation.cost.held_bytes().iter().map(over).fold(0.0, f64::max);
        let score = total.recompute_ns * (1.0 + EXCESS_WEIGHT * max_over) + total_ns * max_over;
        if round >= rounds / 4 && best.as_ref().is_none_or(|&(lowest, _)| score < lowest) {
            best = Some((score, relaxation.assignment.clone()));
        }
        let step = 2.0 / (1.0 + 8.0 * round as f64 / rounds as f64);
        let Relaxation { prices, cost, .. } = &mut relaxation;
        for (price, held_bytes) in prices.ns_per_byte.iter_mut().zip(cost.held_bytes()) {
            let factor = (step * over(held_bytes).clamp(-0.5, 0.5)).exp();
            *price = (*price * factor).clamp(typical * FACTORS.start, typical * FACTORS.end);
        }
    }
    best.map_or_else(|| model.kept(), |(_, assignment)| assignment)
}

impl Relaxation<'_> {
    /// Moves the storages that save the most for the time of their copies.
    fn reserve(&mut self) {
        let mut ranked: Vec<(f64, usize)> = Vec::new();
        for at in 0..self.model.intervals.len() {
            let interval = self.model.intervals[at];
            if interval.can_move {
                let kept_ns = self.prices.worth_ns(&interval, interval.from..interval.until);
                let saved_ns = kept_ns.min(self.dropped_ns(at, interval.until));
                let copy_ns = interval.copy_ns as f64;
                if saved_ns > MIN_WORTH * copy_ns {
                    ranked.push((saved_ns / copy_ns, at));
                }
            }
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let order: Vec<usize> = ranked.into_iter().map(|(_, at)| at).collect();
        for choice in &mut self.assignment.choices {
            *choice = if *choice == Choice::Move { Choice::Keep } else { *choice };
        }
        self.assignment.reserve(self.model, &order);
    }

    /// Keeps or drops each storage that is not moved.
    fn decide(&mut self) {
        for at in 0..self.model.intervals.len() {
            let interval = self.model.intervals[at];
            if self.assignment.choices[at] == Choice::Move || !interval.can_drop {
                continue;
            }
            let is_dropped = self.assignment.choices[at] == Choice::Drop;
            let until = if is_dropped { self.cost.back(at) } else { interval.until };
            let kept_ns = self.prices.worth_ns(&interval, interval.from..until);
            let keeps = self.dropped_ns(at, until) >= kept_ns;
            self.assignment.choices[at] = if keeps { Choice::Keep } else { Choice::Drop };
        }
    }

    /// The cost of dropping a storage that is needed at op `until`.
    fn dropped_ns(&mut self, at: usize, until: usize) -> f64 {
        let Relaxation { model, cost, prices, assignment } = self;
        let interval = model.intervals[at];
        let maker = model.makers[interval.slot as usize].as_ref().filter(|_| interval.can_drop);
        maker.map_or(f64::INFINITY, |maker| {
            let worth_ns = |interval: &ModelInterval, ops| prices.worth_ns(interval, ops);
            maker.cost_ns as f64 + cost.needs_ns(&assignment.choices, at, until, worth_ns)
        })
    }
}
