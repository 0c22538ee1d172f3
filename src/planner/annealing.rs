//! Better assignments, by simulated annealing: Kirkpatrick, Gelatt and Vecchi, *Optimization by Simulated Annealing* (Science
//! 220, 1983). The choice for one random interval changes at a time. Changes for the worse are accepted ever more rarely, and
//! memory beyond the budget costs ever more.

use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::assignment::{Assignment, Choice, Model, ModelInterval};
use super::incremental_cost::{AssignmentCost, IncrementalCost};
use super::lanes::CopyLanes;
use crate::schedule::IntervalId;

/// The number of changes: for each storage, in all, and the work that they may cause.
const STEPS_EACH: usize = 1400;
const MAX_STEPS: usize = 200_000;
const MAX_WORK: usize = 100_000_000;
/// The most restarts, and the fewest changes for each storage in one. If few storages fill memory, each restart ends elsewhere,
/// and more changes do not improve any of them.
const MAX_RESTARTS: usize = 10;
const MIN_STEPS_EACH: usize = 140;
/// Storages of less than this part of the budget keep their choice.
const MIN_PART: f64 = 5e-4;
/// The temperature at first and in the end, as parts of the average time to bring a storage back.
const HOT: f64 = 1.0;
const COLD: f64 = 1e-2;
/// In the end, an excess of the whole budget at one op costs this part of the iteration's time. It costs more if storages may
/// visit the device in between, since there are more ways to fit then.
const EXCESS_WEIGHT: f64 = 0.3;
const EXCESS_WEIGHT_WITH_VISITS: f64 = 1.0;

/// The choices for an interval that are allowed besides keeping, moving and dropping.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowed {
    pub drop_again: bool,
    pub visit: bool,
}

impl Allowed {
    /// The energy by which assignments are compared in the end.
    pub fn energy_ns(self, model: &Model<'_>, outcome: AssignmentCost) -> f64 {
        outcome.with_excess_ns(self.excess_ns(model))
    }

    fn excess_ns(self, model: &Model<'_>) -> f64 {
        let weight = if self.visit { EXCESS_WEIGHT_WITH_VISITS } else { EXCESS_WEIGHT };
        weight * model.timeline.period_ns() as f64
    }
}

/// The values that change from the beginning to the end.
struct Cooling {
    heat_ns: [f64; 2],
    /// The cost of an excess of the whole budget at one op. At first it is the average cost of saving as much memory.
    excess_ns: [f64; 2],
}

impl Cooling {
    fn new(model: &Model<'_>, candidates: &[usize], budget_bytes: usize, last_ns: f64) -> Self {
        let intervals = || candidates.iter().map(|&at| &model.intervals[at]);
        let cost_ns = |interval: &ModelInterval| {
            let maker = model.makers[interval.slot as usize].as_ref();
            maker.map_or(interval.copy_ns, |maker| maker.cost_ns) as f64
        };
        let costs_ns: f64 = intervals().map(cost_ns).sum();
        let saving: f64 =
            intervals().map(|interval| interval.bytes as f64 * (interval.until - interval.from) as f64).sum();
        let first_ns = (costs_ns / saving * budget_bytes as f64).clamp(f64::MIN_POSITIVE, last_ns);
        let mean_ns = costs_ns / candidates.len() as f64;
        Cooling { heat_ns: [HOT * mean_ns, COLD * mean_ns], excess_ns: [first_ns, last_ns] }
    }

    fn at([first, last]: [f64; 2], done: f64) -> f64 {
        first * (last / first).powf(done)
    }
}

/// The intervals whose choices change.
fn candidates(model: &Model<'_>, budget_bytes: usize) -> Vec<usize> {
    let is_worth_it = |&at: &usize| {
        let interval = &model.intervals[at];
        (interval.can_move || interval.can_drop) && interval.bytes as f64 > MIN_PART * budget_bytes as f64
    };
    (0..model.intervals.len()).filter(is_worth_it).collect()
}

/// One of several restarts. Each has random numbers of its own and its share of the changes.
#[derive(Clone, Copy, Debug)]
pub struct Restart {
    pub number: usize,
    pub of: usize,
}

/// The restarts that are worth more than the same number of changes in one.
pub fn restarts(model: &Model<'_>, budget_bytes: usize) -> impl Iterator<Item = Restart> + use<> {
    let min_steps = MIN_STEPS_EACH * candidates(model, budget_bytes).len();
    let of = (MAX_STEPS / min_steps.max(1)).clamp(1, MAX_RESTARTS);
    (0..of).map(move |number| Restart { number, of })
}

/// The best assignment that was found. It is the same every time.
pub fn anneal(
    model: &Model<'_>,
    start: Assignment,
    budget_bytes: usize,
    allowed: Allowed,
    restart: Restart,
) -> Assignment {
    let candidates = candidates(model, budget_bytes);
    if candidates.is_empty() {
        return start;
    }
    let cooling = Cooling::new(model, &candidates, budget_bytes, allowed.excess_ns(model));
    let mut random = ChaCha8Rng::seed_from_u64(restart.number as u64);
    let mut cost = IncrementalCost::new(model, &start, budget_bytes);
    let mut now = cost.total();
    let mut best = (allowed.energy_ns(model, now), start);
    let steps = (STEPS_EACH * candidates.len()).min(MAX_STEPS) / restart.of;
    for step in 0..steps {
        let done = (step as f64 / steps as f64).max((restart.of * cost.work()) as f64 / MAX_WORK as f64);
        if done >= 1.0 {
            break;
        }
        let [heat_ns, excess_ns] = [cooling.heat_ns, cooling.excess_ns].map(|range| Cooling::at(range, done));
        let at = candidates[random.random_range(0..candidates.len())];
        let after = another(model, &cost, at, allowed, &mut random);
        let Some((choice, lanes)) = change(model, &mut cost, at, after) else { continue };
        let then = cost.total();
        let worse_ns = then.with_excess_ns(excess_ns) - now.with_excess_ns(excess_ns);
        if worse_ns <= 0.0 || random.random::<f64>() < (-worse_ns / heat_ns).exp() {
            now = then;
            let energy_ns = allowed.energy_ns(model, now);
            if energy_ns < best.0 {
                best = (energy_ns, cost.assignment().clone());
            }
        } else {
            cost.set(at, choice, lanes);
        }
    }
    best.1
}

/// The choice before a change, and the lanes before it if they changed.
type Before = (Choice, Option<CopyLanes>);

/// Another choice for an interval, at random.
fn another(
    model: &Model<'_>,
    cost: &IncrementalCost<'_>,
    at: usize,
    allowed: Allowed,
    random: &mut impl RngExt,
) -> Choice {
    let (interval, now) = (&model.intervals[at], cost.assignment().choices[at]);
    let visitors = cost.visitors(at).filter(|_| allowed.visit && interval.can_move);
    let visit = visitors.choose(random).map(Choice::Visit);
    let moved = interval.can_move.then_some(Choice::Move);
    let dropped = interval.can_drop.then_some(Choice::Drop);
    let dropped_again = dropped.and(allowed.drop_again.then_some(Choice::DropAgain));
    let others = [Some(Choice::Keep), moved, dropped, dropped_again, visit].into_iter().flatten();
    others.filter(|choice| *choice != now).choose(random).unwrap_or(now)
}

/// Changes the choice for an interval. `None` if the change is impossible.
fn change(model: &Model<'_>, cost: &mut IncrementalCost<'_>, at: usize, after: Choice) -> Option<Before> {
    let Assignment { choices, lanes } = cost.assignment();
    let before = choices[at];
    if !before.moves() && !after.moves() {
        cost.set(at, after, None);
        return Some((before, None));
    }
    let (before_lanes, mut lanes) = (lanes.clone(), lanes.clone());
    let is_removed = !before.moves() || lanes.remove(IntervalId(at as u32)) || after.moves();
    let can_be = is_removed && (!after.moves() || model.reserve(&mut lanes, at, after.visited()));
    can_be.then(|| {
        cost.set(at, after, Some(lanes));
        (before, Some(before_lanes))
    })
}
