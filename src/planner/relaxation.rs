//! A first choice for each interval: by prices of memory, Lagrangian relaxation as in Everett, *Generalized Lagrange Multiplier
//! Method for Solving Problems of Optimum Allocation of Resources* (Operations Research 11, 1963). Each op has a price for a
//! byte that is held through it. At given prices each interval is decided by itself: it is kept, dropped or moved, whichever costs
//! least, if the others stay as they are. Prices rise where memory does not suffice, and fall where it does.

use std::ops::Range;

use super::choices::{Choice, Choices, Gap, Model};
use super::evaluation::Evaluation;

/// Rounds of prices, and how much work they may be in all.
const MOST_ROUNDS: usize = 200;
const MOST_WORK: usize = 20_000_000;
/// Copies are booked anew in one round of so many, and in each of the last.
const ROUNDS_BETWEEN_BOOKINGS: usize = 4;
const LAST_ROUNDS: usize = 20;
/// What saves less than this part of the time of its copy is not moved.
const LEAST_WORTH: f64 = 0.02;
/// How far prices may be from where they begin.
const FACTORS: Range<f64> = 1e-6..1e4;
/// How much time an excess of the whole budget counts as, where the best round is chosen: as many times what is recomputed.
const EXCESS_WEIGHT: f64 = 3.0;

struct Prices {
    /// For a byte held through an op.
    ns_per_byte: Vec<f64>,
    /// Of all ops before one; over two iterations.
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

    /// What it is worth that a storage is away.
    fn worth_ns(&self, gap: &Gap, ops: Range<usize>) -> f64 {
        if ops.is_empty() {
            0.0
        } else {
            gap.bytes as f64 * (self.sums[ops.end.min(self.sums.len() - 1)] - self.sums[ops.start])
        }
    }
}

/// The choices of the round that came closest to the budget for the least time.
pub fn relax(model: &Model<'_>, budget_bytes: usize) -> Choices {
    let mut choices = model.kept();
    let mut evaluation = Evaluation::new(model, &choices, budget_bytes);
    let budget_bytes = budget_bytes as f64;
    let ops = model.ops();
    let total_ns = model.makers.iter().flatten().map(|maker| maker.cost_ns).sum::<i64>() as f64;
    let typical = (total_ns / budget_bytes / ops as f64).max(f64::MIN_POSITIVE);
    let need_bytes = model.timeline.need_bytes();
    let first = |&need_bytes: &usize| typical * if need_bytes as f64 > budget_bytes { 0.1 } else { 1e-4 };
    let mut prices = Prices { ns_per_byte: need_bytes.iter().map(first).collect(), sums: Vec::new() };
    let rounds = (MOST_WORK / model.size().max(1)).clamp(LAST_ROUNDS, MOST_ROUNDS);
    let mut best: Option<(f64, Choices)> = None;
    for round in 0..rounds {
        prices.sum();
        if round % ROUNDS_BETWEEN_BOOKINGS == 0 || round + LAST_ROUNDS >= rounds {
            book(model, &mut evaluation, &prices, &mut choices);
            evaluation.set_all(&choices);
        }
        decide(model, &mut evaluation, &prices, &mut choices);
        evaluation.set_all(&choices);
        let outcome = evaluation.outcome();
        let over = |&held_bytes: &i64| (held_bytes as f64 - budget_bytes) / budget_bytes;
        let most_over = evaluation.held_bytes().iter().map(over).fold(0.0, f64::max);
        let score = outcome.recompute_ns * (1.0 + EXCESS_WEIGHT * most_over) + total_ns * most_over;
        if round >= rounds / 4 && best.as_ref().is_none_or(|&(least, _)| score < least) {
            best = Some((score, choices.clone()));
        }
        let step = 2.0 / (1.0 + 8.0 * round as f64 / rounds as f64);
        for (price, held_bytes) in prices.ns_per_byte.iter_mut().zip(evaluation.held_bytes()) {
            let factor = (step * over(held_bytes).clamp(-0.5, 0.5)).exp();
            *price = (*price * factor).clamp(typical * FACTORS.start, typical * FACTORS.end);
        }
    }
    best.map_or_else(|| model.kept(), |(_, choices)| choices)
}

/// Moves what saves the most for the time of its copy.
fn book(model: &Model<'_>, evaluation: &mut Evaluation<'_>, prices: &Prices, choices: &mut Choices) {
    let mut ranked: Vec<(f64, usize)> = Vec::new();
    for at in 0..model.gaps.len() {
        let gap = model.gaps[at];
        if gap.can_move {
            let kept_ns = prices.worth_ns(&gap, gap.from..gap.until);
            let saved_ns = kept_ns.min(dropped_ns(model, evaluation, prices, choices, at, gap.until));
            let copy_ns = gap.copy_ns as f64;
            if saved_ns > LEAST_WORTH * copy_ns {
                ranked.push((saved_ns / copy_ns, at));
            }
        }
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let order: Vec<usize> = ranked.into_iter().map(|(_, at)| at).collect();
    for choice in &mut choices.of {
        *choice = if *choice == Choice::Move { Choice::Keep } else { *choice };
    }
    choices.book(model, &order);
}

/// Keeps or drops what is not moved.
fn decide(model: &Model<'_>, evaluation: &mut Evaluation<'_>, prices: &Prices, choices: &mut Choices) {
    for at in 0..model.gaps.len() {
        let gap = model.gaps[at];
        if choices.of[at] == Choice::Move || !gap.can_drop {
            continue;
        }
        let until = if choices.of[at] == Choice::Drop { evaluation.back(at) } else { gap.until };
        let kept_ns = prices.worth_ns(&gap, gap.from..until);
        let is_dear = dropped_ns(model, evaluation, prices, choices, at, until) >= kept_ns;
        choices.of[at] = if is_dear { Choice::Keep } else { Choice::Drop };
    }
}

fn dropped_ns(
    model: &Model<'_>,
    evaluation: &mut Evaluation<'_>,
    prices: &Prices,
    choices: &Choices,
    at: usize,
    until: usize,
) -> f64 {
    let gap = model.gaps[at];
    let maker = model.makers[gap.slot as usize].as_ref().filter(|_| gap.can_drop);
    maker.map_or(f64::INFINITY, |maker| {
        let needs_ns = evaluation.needs_ns(&choices.of, at, until, |gap, ops| prices.worth_ns(gap, ops));
        maker.cost_ns as f64 + needs_ns
    })
}
