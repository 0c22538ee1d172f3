//! Better choices, by simulated annealing: Kirkpatrick, Gelatt and Vecchi, *Optimization by Simulated Annealing* (Science 220,
//! 1983). One interval after the other, by chance, is decided anew; what is worse is kept ever more rarely.

use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::bookings::Lanes;
use super::choices::{Choice, Choices, Gap, Model, Outcome};
use crate::policy::IntervalId;

/// Changes that are tried: of each storage so many, in all so many, and how much work they may be.
const STEPS_EACH: usize = 300;
const MOST_STEPS: usize = 40_000;
const MOST_WORK: usize = 60_000_000;
/// Storages that are less than this part of the budget are left as they are.
const LEAST_PART: f64 = 5e-4;
/// What is as good as before: at first, and in the end. Parts of the iteration's time.
const HOT: f64 = 3e-3;
const COLD: f64 = 3e-5;
/// How much time an excess of the whole budget at one op counts as: this part of the iteration's.
const EXCESS_WEIGHT: f64 = 0.3;

/// The best that was found; the same every time. `drops`: in which ways something may be dropped.
pub fn anneal(model: &mut Model<'_>, start: Choices, budget_bytes: usize, drops: &[Choice]) -> Choices {
    let budget_bytes = budget_bytes as f64;
    let is_worth_it = |&at: &usize| {
        let gap = &model.gaps[at];
        (gap.can_move || gap.can_drop) && gap.bytes > LEAST_PART * budget_bytes
    };
    let candidates: Vec<usize> = (0..model.gaps.len()).filter(is_worth_it).collect();
    if candidates.is_empty() {
        return start;
    }
    let period_ns = model.timeline.period_ns() as f64;
    let energy = |outcome: Outcome| outcome.recompute_ns + EXCESS_WEIGHT * period_ns * outcome.excess;
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut now = start;
    let mut now_ns = energy(model.outcome(&now, budget_bytes));
    let mut best = (now_ns, now.clone());
    let steps = (STEPS_EACH * candidates.len()).min(MOST_STEPS).min(MOST_WORK / model.size());
    for step in 0..steps {
        let heat_ns = period_ns * HOT * (COLD / HOT).powf(step as f64 / steps as f64);
        let at = candidates[random.random_range(0..candidates.len())];
        let after = another(&model.gaps[at], now.of[at], drops, &mut random);
        let Some(before) = change(model, &mut now, at, after) else { continue };
        let then_ns = energy(model.outcome(&now, budget_bytes));
        if then_ns <= now_ns || random.random::<f64>() < ((now_ns - then_ns) / heat_ns).exp() {
            now_ns = then_ns;
            if now_ns < best.0 {
                best = (now_ns, now.clone());
            }
        } else {
            undo(&mut now, at, before);
        }
    }
    best.1
}

/// What was chosen before, and the lanes where they were changed.
type Before = (Choice, Option<Lanes>);

/// Another of what may become of an interval.
fn another(gap: &Gap, now: Choice, drops: &[Choice], random: &mut impl RngExt) -> Choice {
    let moved = gap.can_move.then_some(Choice::Move);
    let dropped = drops.iter().copied().filter(|_| gap.can_drop);
    let others = [Choice::Keep].into_iter().chain(moved).chain(dropped).filter(|choice| *choice != now);
    others.choose(random).unwrap_or(now)
}

/// Decides an interval otherwise. `None`: that cannot be.
fn change(model: &Model<'_>, choices: &mut Choices, at: usize, after: Choice) -> Option<Before> {
    let before = choices.of[at];
    let lanes = (before == Choice::Move || after == Choice::Move).then(|| choices.lanes.clone());
    if before == Choice::Move && !choices.lanes.remove(IntervalId(at as u32)) {
        undo(choices, at, (before, lanes));
        return None;
    }
    if after == Choice::Move && !model.book(&mut choices.lanes, at) {
        return None;
    }
    choices.of[at] = after;
    Some((before, lanes))
}

fn undo(choices: &mut Choices, at: usize, (choice, lanes): Before) {
    choices.of[at] = choice;
    if let Some(lanes) = lanes {
        choices.lanes = lanes;
    }
}
