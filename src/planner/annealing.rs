//! Better assignments, by simulated annealing: Kirkpatrick, Gelatt and Vecchi, *Optimization by Simulated Annealing* (Science
//! 220, 1983). The choice for one random interval changes at a time. Changes for the worse are accepted ever more rarely, and
//! memory beyond the budget costs ever more.

use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::assignment::{Assignment, Choice, Model, ModelInterval};
use super::incremental_cost::IncrementalCost;
use super::lanes::CopyLanes;
use crate::config::Tunables;
use crate::schedule::IntervalId;

/// One annealing.
#[derive(Clone, Copy, Debug)]
pub struct Annealing {
    pub budget_bytes: usize,
    /// What its random numbers follow from.
    pub seed: u64,
    /// The changes that it tries, unless it looks at more ops and copies than `max_work`.
    pub steps: usize,
    pub max_work: usize,
    pub tunables: Tunables,
}

/// The values that change from the beginning to the end.
struct Cooling {
    heat_ns: [f64; 2],
    /// The cost of an excess of the whole budget at one op. At first it is the average cost of saving as much memory.
    excess_ns: [f64; 2],
}

impl Cooling {
    fn at([first, last]: [f64; 2], done: f64) -> f64 {
        first * (last / first).powf(done)
    }
}

impl Annealing {
    fn last_excess_ns(&self, model: &Model<'_>) -> f64 {
        self.tunables.excess_weight * model.timeline.period_ns() as f64
    }

    /// The intervals whose choices change.
    pub fn candidates(&self, model: &Model<'_>) -> Vec<usize> {
        let least_bytes = self.tunables.least_part * self.budget_bytes as f64;
        let is_worth_it = |&at: &usize| {
            let interval = &model.intervals[at];
            (interval.can_move || interval.can_drop) && interval.bytes as f64 > least_bytes
        };
        (0..model.intervals.len()).filter(is_worth_it).collect()
    }

    fn cooling(&self, model: &Model<'_>, candidates: &[usize]) -> Cooling {
        let intervals = || candidates.iter().map(|&at| &model.intervals[at]);
        let cost_ns = |interval: &ModelInterval| {
            let maker = model.makers[interval.slot as usize].as_ref();
            maker.map_or(interval.fetch_ns, |maker| maker.cost_ns) as f64
        };
        let costs_ns: f64 = intervals().map(cost_ns).sum();
        let saving: f64 =
            intervals().map(|interval| interval.bytes as f64 * (interval.until - interval.from) as f64).sum();
        let last_ns = self.last_excess_ns(model);
        let first_ns = (costs_ns / saving * self.budget_bytes as f64).clamp(f64::MIN_POSITIVE, last_ns);
        let mean_ns = costs_ns / candidates.len() as f64;
        Cooling { heat_ns: self.tunables.heat.map(|heat| heat * mean_ns), excess_ns: [first_ns, last_ns] }
    }

    /// The best assignment that was found. It is the same every time.
    pub fn run(&self, model: &Model<'_>, start: Assignment) -> Assignment {
        let candidates = self.candidates(model);
        if candidates.is_empty() {
            return start;
        }
        let cooling = self.cooling(model, &candidates);
        let last_excess_ns = self.last_excess_ns(model);
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mut cost = IncrementalCost::new(model, &start, self.budget_bytes);
        let mut now = cost.total();
        let mut best = (now.with_excess_ns(last_excess_ns), start);
        for step in 0..self.steps {
            let done = (step as f64 / self.steps as f64).max(cost.work() as f64 / self.max_work as f64);
            if done >= 1.0 {
                break;
            }
            let [heat_ns, excess_ns] =
                [cooling.heat_ns, cooling.excess_ns].map(|range| Cooling::at(range, done));
            let at = candidates[random.random_range(0..candidates.len())];
            let after = another(model, &cost, at, &mut random);
            let Some((choice, lanes)) = change(model, &mut cost, at, after) else { continue };
            let then = cost.total();
            let worse_ns = then.with_excess_ns(excess_ns) - now.with_excess_ns(excess_ns);
            if worse_ns <= 0.0 || random.random::<f64>() < (-worse_ns / heat_ns).exp() {
                now = then;
                let energy_ns = now.with_excess_ns(last_excess_ns);
                if energy_ns < best.0 {
                    best = (energy_ns, cost.assignment().clone());
                }
            } else {
                cost.set(at, choice, lanes);
            }
        }
        best.1
    }
}

/// The choice before a change, and the lanes before it if they changed.
type Before = (Choice, Option<CopyLanes>);

/// Another choice for an interval, at random.
fn another(model: &Model<'_>, cost: &IncrementalCost<'_>, at: usize, random: &mut impl RngExt) -> Choice {
    let (interval, now) = (&model.intervals[at], cost.assignment().choices[at]);
    let moved = interval.can_move.then_some(Choice::Move);
    let dropped = interval.can_drop.then_some(Choice::Drop);
    let others = [Some(Choice::Keep), moved, dropped].into_iter().flatten();
    others.filter(|choice| *choice != now).choose(random).unwrap_or(now)
}

/// Changes the choice for an interval. `None` if the change is impossible.
fn change(model: &Model<'_>, cost: &mut IncrementalCost<'_>, at: usize, after: Choice) -> Option<Before> {
    let Assignment { choices, lanes } = cost.assignment();
    let before = choices[at];
    if before != Choice::Move && after != Choice::Move {
        cost.set(at, after, None);
        return Some((before, None));
    }
    let (before_lanes, mut lanes) = (lanes.clone(), lanes.clone());
    let is_removed = before != Choice::Move || lanes.remove(IntervalId(at as u32)) || after == Choice::Move;
    let can_be = is_removed && (after != Choice::Move || model.reserve(&mut lanes, at));
    can_be.then(|| {
        cost.set(at, after, Some(lanes));
        (before, Some(before_lanes))
    })
}
