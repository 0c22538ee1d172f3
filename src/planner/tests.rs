//! Assignments and schedules for chains of layers whose best plans are known.

use std::sync::Arc;

use proptest::prelude::*;

use super::annealing::Annealing;
use super::assignment::{Assignment, Choice, Model};
use super::incremental_cost::{AssignmentCost, IncrementalCost};
use super::iteration::Iteration;
use super::problem::Planner;
use super::reservations::Timeline;
use super::trial::{self, Times, TrialLength};
use crate::config::{Config, EvictionMethods, Settings, Tunables};
use crate::engine::sim::{Profile, SimEngine, profiles};
use crate::engine::{Algorithm, Instruction};
use crate::op::{Dtype, Facts, Op, Traced, Work, bytes_view};
use crate::schedule::{
    BlockPlacement, Eviction, EvictionOrder, IntervalId, PlannedBlock, Request, RequestLog, Schedule,
};

const LAYERS: u64 = 12;
const BYTES: usize = 8 << 20;
const LAYER_NS: u64 = 1_000_000;
const PLENTY_BYTES: usize = 1 << 40;

/// The ops of layers.
struct Layers {
    engine: SimEngine,
    log: RequestLog,
    number: u64,
}

impl Layers {
    fn new(profile: &Profile) -> Self {
        Layers { engine: SimEngine::new(profile), log: RequestLog::default(), number: 0 }
    }

    fn op(&mut self, name: &str, inputs: &[(u64, bool)]) -> u64 {
        self.number += 1;
        let number = self.number;
        self.log.size_bytes.insert(number, BYTES);
        let views: Vec<_> = inputs.iter().map(|_| bytes_view(BYTES)).collect();
        let facts = Facts {
            name: name.into(),
            output_bytes: vec![BYTES],
            scratch_bytes: 0,
            work: Work {
                flops: 0,
                read_bytes: 0,
                written_bytes: 0,
                dtype: Dtype::F32,
                measured_ns: Some(LAYER_NS),
            },
            in_place: Vec::new(),
            exact: name != "input",
        };
        let instruction =
            Instruction::new(&self.engine, Op::Traced(Traced::new(facts)), Algorithm::default(), &views);
        self.log.requests.push(Request::Op {
            instruction: Arc::new(instruction),
            context: number,
            inputs: inputs.iter().copied().collect(),
            outputs: [number].into_iter().collect(),
        });
        number
    }

    fn free(&mut self, number: u64) {
        self.log.requests.push(Request::Free(number));
    }

    fn ops(&self) -> usize {
        self.log.requests.iter().filter(|request| matches!(request, Request::Op { .. })).count()
    }

    /// A forward pass. `skips` says how many layers before a layer reads another input.
    fn forward(&mut self, skips: &[usize]) -> Vec<u64> {
        let mut made = vec![self.op("input", &[])];
        for layer in 0..LAYERS as usize {
            let skip = skips.get(layer).filter(|&&skip| skip > 0 && skip < made.len());
            let read = skip.map(|skip| made[made.len() - 1 - skip]);
            let inputs: Vec<(u64, bool)> =
                made.last().copied().into_iter().chain(read).map(|number| (number, false)).collect();
            made.push(self.op("forward", &inputs));
        }
        made
    }
}

fn chain() -> (Iteration, Profile) {
    chain_with(&[])
}

/// A forward pass, and a backward pass that reads the input of each layer.
fn chain_with(skips: &[usize]) -> (Iteration, Profile) {
    let profile = profiles().swap_remove(0);
    let mut layers = Layers::new(&profile);
    for _ in 0..2 {
        let mut made = layers.forward(skips);
        let mut gradient = layers.op("loss", &[(made.pop().unwrap(), true)]);
        while let Some(activation) = made.pop() {
            gradient = layers.op("backward", &[(gradient, true), (activation, true)]);
        }
        layers.free(gradient);
    }
    let period = layers.ops() / 2;
    (Iteration::cut(&layers.log, period).expect("two iterations"), profile)
}

#[test]
fn what_an_iteration_leaves_to_the_next_is_found_though_the_first_had_more_ops() {
    let mut layers = Layers::new(&profiles().swap_remove(0));
    let (mut left, mut period) = (Vec::new(), 0);
    for iteration in 0..3 {
        let begun = layers.ops();
        let made = layers.forward(&[]);
        let mut gradients = Vec::new();
        for activation in made.into_iter().rev() {
            gradients.push(layers.op("backward", &[(activation, true)]));
            left.pop().into_iter().for_each(|gradient| layers.free(gradient));
        }
        left = gradients;
        period = layers.ops() - begun;
        if iteration == 0 {
            let extra = layers.op("extra", &[]);
            layers.free(extra);
        }
    }
    // The log ends before the third iteration is over, so the second is planned.
    layers.log.requests.truncate(layers.log.requests.len() - 3);
    let iteration = Iteration::cut(&layers.log, period).expect("two iterations");
    assert_eq!(iteration.successors.len() as u64, LAYERS + 1);
    let mut successors: Vec<_> = iteration.successors.iter().flatten().collect();
    successors.sort_unstable();
    successors.dedup();
    assert_eq!(successors.len(), iteration.successors.len(), "each has its own");
}

fn methods(offload: bool, recompute: bool) -> EvictionMethods {
    EvictionMethods { offload, recompute, ..EvictionMethods::default() }
}

/// The interval from the forward op with this number, which makes an activation, to its backward op.
fn waiting(model: &Model<'_>, op: usize) -> usize {
    let is_it = |&at: &usize| model.intervals[at].from == op + 2 && model.intervals[at].can_drop;
    (0..model.intervals.len())
        .find(is_it)
        .expect("an activation is read by the next layer, and waits from then on")
}

/// The time of the pool's recomputations if it drops what the assignment drops. `None` if that does not fit.
fn tried(
    iteration: &Iteration,
    profile: &Profile,
    assignment: &Assignment,
    budget_bytes: usize,
) -> Option<u64> {
    let mut schedule = iteration.schedule();
    for (at, choice) in assignment.choices.iter().enumerate() {
        assert_ne!(*choice, Choice::Move, "where nothing may be moved");
        let interval = &mut schedule.intervals[at];
        if *choice == Choice::Drop {
            (interval.method, interval.order) = (Some(Eviction::Drop), EvictionOrder::First);
        }
    }
    let config = Config::new().budget_bytes(budget_bytes).offload(false).page_mapping(false);
    let settings = config.resolve(&profile.props).unwrap();
    let trial =
        trial::run(iteration, profile, &settings, Some(&Arc::new(schedule)), TrialLength::default()).ok()?;
    Some(trial.rematerialized.iter().map(|&(_, ns)| ns).sum())
}

#[test]
fn what_is_made_from_others_brings_them_back() {
    let (iteration, profile) = chain();
    let timeline = Timeline::new(&iteration, &profile.props, true, None);
    let model = Model::new(&iteration, &timeline, methods(false, true));
    let mut assignment = model.kept();
    let mut cost = IncrementalCost::new(&model, &assignment, PLENTY_BYTES);
    assert_eq!(cost.total(), AssignmentCost::default());
    let need_bytes: Vec<i64> = timeline.need_bytes().iter().map(|&bytes| bytes as i64).collect();
    assert_eq!(cost.held_bytes(), need_bytes);
    let run = [3, 4, 5].map(|op| waiting(&model, op));
    run.iter().for_each(|&at| assignment.choices[at] = Choice::Drop);
    cost.set_all(&assignment);
    assert_eq!(cost.total().recompute_ns, 3.0 * LAYER_NS as f64, "each once");
    let first_back = model.intervals[run[2]].until;
    assert_eq!(run.map(|at| cost.back(at)), [first_back; 3], "the last is made from the others");
    let saved = |op: usize| (need_bytes[op] - cost.held_bytes()[op]) / BYTES as i64;
    assert_eq!(saved(first_back - 1), 3);
    assert_eq!(saved(first_back), 0);
    assert!(
        IncrementalCost::new(&model, &assignment, timeline.need_bytes()[first_back]).total().excess > 0.0
    );
}

/// Changes the choice of one interval as annealing does.
fn choose(model: &Model<'_>, cost: &mut IncrementalCost<'_>, at: usize, choice: Choice) {
    let interval = &model.intervals[at];
    let mut lanes = cost.assignment().lanes.clone();
    let before = cost.assignment().choices[at];
    let is_free = before != Choice::Move || lanes.remove(IntervalId(at as u32)) || choice == Choice::Move;
    let can_be = match choice {
        Choice::Move => interval.can_move && model.reserve(&mut lanes, at),
        Choice::Keep => true,
        Choice::Drop => interval.can_drop,
    };
    if can_be && is_free {
        cost.set(at, choice, Some(lanes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn what_changes_come_to_is_what_the_same_choices_come_to_at_once(
        skips in prop::collection::vec(0usize..6, LAYERS as usize),
        changes in prop::collection::vec((0usize..1 << 16, 0usize..3), 1..60),
    ) {
        let (iteration, mut profile) = chain_with(&skips);
        profile.props = profile.props.with_link(BYTES as f64 / (LAYER_NS as f64 / 2e9));
        let timeline = Timeline::new(&iteration, &profile.props, true, None);
        let model = Model::new(&iteration, &timeline, methods(true, true));
        let budget_bytes = timeline.need_bytes().iter().max().unwrap() / 2;
        let mut cost = IncrementalCost::new(&model, &model.kept(), budget_bytes);
        for (at, choice) in changes {
            let at = at % model.intervals.len();
            choose(&model, &mut cost, at, [Choice::Keep, Choice::Move, Choice::Drop][choice]);
            let anew = IncrementalCost::new(&model, cost.assignment(), budget_bytes);
            prop_assert_eq!(cost.total(), anew.total());
            prop_assert_eq!(cost.held_bytes(), anew.held_bytes());
            let intervals = 0..model.intervals.len();
            prop_assert!(intervals.clone().all(|interval| cost.back(interval) == anew.back(interval)));
        }
    }
}

#[test]
fn storages_that_are_dead_but_held_need_no_memory() {
    let profile = profiles().swap_remove(0);
    let mut layers = Layers::new(&profile);
    for _ in 0..2 {
        let made = layers.forward(&[]);
        let last = made[made.len() - 1];
        let loss = layers.op("loss", &[(last, false)]);
        // Nothing is read again, and everything is freed at the end. A storage that the host reads is not dead.
        layers.log.requests.push(Request::Read(last));
        made.into_iter().chain([loss]).for_each(|number| layers.free(number));
    }
    let iteration = Iteration::cut(&layers.log, layers.ops() / 2).expect("two iterations");
    let ops: Vec<u32> = (iteration.dead_but_held().iter())
        .map(|interval| iteration.of_interval[interval.0 as usize].1)
        .collect();
    // All storages but the input, which cannot be recomputed; the output of the last layer after the op that reads it; and the
    // loss.
    let layers = LAYERS as u32;
    assert_eq!(ops, (2..=layers).chain([layers + 1]).collect::<Vec<_>>());
    let peak_bytes = |recompute| {
        let timeline = Timeline::new(&iteration, &profile.props, recompute, None);
        timeline.need_bytes().iter().copied().max().unwrap() / BYTES
    };
    assert_eq!([true, false].map(peak_bytes), [3, LAYERS as usize + 2]);
}

#[test]
fn lanes_have_the_time_too_that_it_takes_to_make_something_again() {
    let (iteration, mut profile) = chain();
    let longest = Timeline::new(&iteration, &profile.props, true, None);
    let interval = waiting(&Model::new(&iteration, &longest, methods(true, true)), 2);
    // Both copies take so long that the storage would be away for no time.
    let ops = |model: &Model<'_>| model.intervals[interval].until - model.intervals[interval].from;
    let between_ns = ops(&Model::new(&iteration, &longest, methods(true, true))) as u64 * LAYER_NS;
    profile.props = profile.props.with_link(BYTES as f64 / ((between_ns - LAYER_NS) as f64 / 2e9));
    let timeline = Timeline::new(&iteration, &profile.props, true, None);
    let model = Model::new(&iteration, &timeline, methods(true, true));
    assert!(!model.reserve(&mut timeline.lanes(), interval));
    let middle = model.intervals[interval].until - 1;
    let begins_ns = (0..model.ops()).map(|op| (op + if op < middle { 0 } else { 3 }) as u64 * LAYER_NS);
    let step_ns = timeline.period_ns() + 3 * LAYER_NS;
    let paused = timeline.at_times(Times { begins_ns: begins_ns.collect(), step_ns });
    assert!(Model::new(&iteration, &paused, methods(true, true)).reserve(&mut paused.lanes(), interval));
}

/// An annealing of enough changes.
fn annealing(budget_bytes: usize, seed: u64) -> Annealing {
    Annealing { budget_bytes, seed, steps: 50_000, max_work: usize::MAX, tunables: Tunables::default() }
}

/// The rounds of prices before.

#[test]
fn what_is_chosen_fits_and_is_what_the_pool_then_does() {
    let (iteration, profile) = chain();
    let timeline = Timeline::new(&iteration, &profile.props, true, None);
    let peak_bytes = *timeline.need_bytes().iter().max().unwrap();
    for part in [0.8, 0.6] {
        let budget_bytes = (peak_bytes as f64 * part) as usize / BYTES * BYTES;
        let model = Model::new(&iteration, &timeline, methods(false, true));
        let assignment = annealing(budget_bytes, 0).run(&model, model.kept());
        let after = IncrementalCost::new(&model, &assignment, budget_bytes).total();
        assert_eq!(after.excess, 0.0, "{part}");
        let again = annealing(budget_bytes, 0).run(&model, model.kept());
        assert_eq!(again.choices, assignment.choices, "the same every time");
        let least = (peak_bytes - budget_bytes) / BYTES;
        assert!(after.recompute_ns >= (least as u64 * LAYER_NS) as f64, "so many have to leave");
        let rematerialized_ns = tried(&iteration, &profile, &assignment, budget_bytes).expect("it fits");
        assert!(rematerialized_ns as f64 <= after.recompute_ns, "{part}: {rematerialized_ns} {after:?}");
    }
}

#[test]
fn few_storages_are_chosen_anew_in_several_restarts_each_the_same_every_time() {
    let (iteration, profile) = chain_with(&[0, 0, 0, 2, 0, 3, 0, 4]);
    let timeline = Timeline::new(&iteration, &profile.props, true, None);
    let budget_bytes = timeline.need_bytes().iter().max().unwrap() * 6 / 10;
    let model = Model::new(&iteration, &timeline, methods(false, true));
    let choose = |seed| {
        let annealing = Annealing { steps: 2000, ..annealing(budget_bytes, seed) };
        annealing.run(&model, model.kept()).choices
    };
    let chosen = [0, 1, 2, 3].map(choose);
    assert!(chosen.iter().any(|other| *other != chosen[0]));
    assert_eq!([0, 1, 2, 3].map(choose), chosen);
}

#[test]
fn what_lanes_have_time_for_is_moved_and_nothing_is_recomputed() {
    let (iteration, mut profile) = chain();
    // A copy takes half as long as an op.
    profile.props = profile.props.with_link(BYTES as f64 / (LAYER_NS as f64 / 2e9));
    let timeline = Timeline::new(&iteration, &profile.props, true, None);
    let budget_bytes = timeline.need_bytes().iter().max().unwrap() * 6 / 10;
    let model = Model::new(&iteration, &timeline, methods(true, true));
    let assignment = annealing(budget_bytes, 0).run(&model, model.kept());
    let outcome = IncrementalCost::new(&model, &assignment, budget_bytes).total();
    assert_eq!((outcome.recompute_ns, outcome.excess), (0.0, 0.0));
    let (dropped, moved) = assignment.leaving();
    assert!(dropped.is_empty() && !moved.is_empty());
}

#[test]
fn addresses_are_planned_for_as_much_memory_as_was_tried() {
    let (iteration, mut profile) = chain();
    profile.props = profile.props.with_link(BYTES as f64 / (LAYER_NS as f64 / 2e9));
    let config = Config::new().budget_bytes(10 * BYTES).page_mapping(false);
    let settings = config.resolve(&profile.props).unwrap();
    let planner =
        Planner { iteration: &iteration, profile: &profile, settings: &settings, step_ops: 0, throttle: 0 };
    let with_margin = Settings { unbounded_addresses: true, ..settings.with_less(BYTES) };
    let schedule = Arc::new(planner.schedule());
    let trial = Planner { settings: &with_margin, ..planner }.run(Some(&schedule)).expect("it fits");
    let placed = planner.with_addresses(&schedule, &trial).expect("there is room");
    let layout = placed.schedule.layout.expect("it has addresses");
    assert_eq!((layout.limit_bytes, placed.step_ns), (9 * BYTES, trial.step_ns));
}

#[test]
fn what_finds_its_pages_in_use_takes_others() {
    // Two of three weights exist at once. For each to have the same pages in every iteration, there would have to be pages for
    // all three.
    let profile = &profiles().swap_remove(0);
    let mut layers = Layers::new(profile);
    let weights = [0; 3].map(|_| layers.op("input", &[]));
    let mut last = layers.op("input", &[]);
    for _ in 0..3 {
        for op in 0..6 {
            let [one, other] = [op / 2, (op / 2 + 1) % 3].map(|at| (weights[at], false));
            last = layers.op("forward", &[one, other, (last, true)]);
        }
    }
    let iteration = Iteration::cut(&layers.log, 6).expect("three iterations");
    let config = Config::new().budget_bytes(4 * BYTES).page_mapping(true).recompute(false);
    let settings = config.resolve(&profile.props).unwrap();
    let planner = Planner { iteration: &iteration, profile, settings: &settings, step_ops: 0, throttle: 0 };
    let unbounded = Settings { unbounded_addresses: true, ..settings.clone() };
    let schedule = Arc::new(planner.schedule());
    let trial = Planner { settings: &unbounded, ..planner }.run(Some(&schedule)).expect("it fits");
    let placed = planner.with_addresses(&schedule, &trial).expect("pages are never in pieces");
    let layout = placed.schedule.layout.expect("it has addresses");
    let has_none =
        |block: &PlannedBlock| matches!(&block.placement, BlockPlacement::On(pages) if pages.is_empty());
    assert!(layout.blocks.iter().any(has_none));
    assert_eq!(layout.limit_bytes, 4 * BYTES);
}

#[test]
fn a_schedule_takes_the_same_time_whatever_was_before() {
    let (iteration, mut profile) = chain();
    for copy_ns in [LAYER_NS, 2 * LAYER_NS, 4 * LAYER_NS] {
        profile.props = profile.props.with_link(BYTES as f64 / (copy_ns as f64 / 1e9));
        for blocks in 4..=LAYERS as usize {
            let config = Config::new().budget_bytes(blocks * BYTES).page_mapping(false).recompute(false);
            let settings = config.resolve(&profile.props).unwrap();
            let planner = Planner {
                iteration: &iteration,
                profile: &profile,
                settings: &settings,
                step_ops: 0,
                throttle: 0,
            };
            let unbounded = Settings { unbounded_addresses: true, ..settings.clone() };
            let schedule = Arc::new(planner.schedule());
            let trial = Planner { settings: &unbounded, ..planner }.run(Some(&schedule)).expect("it fits");
            let Some(placed) = planner.with_addresses(&schedule, &trial) else { continue };
            let placed = Arc::new(placed.schedule);
            // Without a schedule, the pool learns from useless fetches how early to prefetch.
            let step_ns = [0, 1, 5].map(|unplanned| {
                let length = TrialLength { unplanned, iterations: trial::MANY_ITERATIONS };
                planner.run_for(Some(&placed), length).unwrap().step_ns
            });
            assert_eq!(step_ns, [trial.step_ns; 3], "{blocks} blocks, copies of {copy_ns} ns");
        }
    }
}

#[test]
fn what_would_be_fetched_too_early_is_not() {
    let (iteration, mut profile) = chain();
    profile.props = profile.props.with_link(BYTES as f64 / (2.0 * LAYER_NS as f64 / 1e9));
    let config = Config::new().budget_bytes(8 * BYTES).page_mapping(false).recompute(false);
    let settings = config.resolve(&profile.props).unwrap();
    let planner =
        Planner { iteration: &iteration, profile: &profile, settings: &settings, step_ops: 0, throttle: 0 };
    let mut found = None;
    planner.search(&[], |schedule| {
        found = Some(schedule);
        true
    });
    let length = TrialLength { unplanned: 0, iterations: trial::MANY_ITERATIONS };
    let step_ns = |schedule: Schedule| planner.run_for(Some(&Arc::new(schedule)), length).unwrap().step_ns;
    // Without a plan the pool learns how early to fetch.
    let unplanned_ns = planner.long_run_ns(None).expect("it fits");
    let found_ns = found.map_or(unplanned_ns, step_ns);
    let too_early_ns = step_ns(planner.iteration.schedule());
    assert!(found_ns < 31 * LAYER_NS, "{found_ns} of at least {}", iteration.ops.len() as u64 * LAYER_NS);
    assert!(too_early_ns > 37 * LAYER_NS, "{too_early_ns}");
}

#[test]
fn a_schedule_for_less_memory_is_followed_where_nothing_faster_is_found() {
    let (iteration, mut profile) = chain();
    profile.props = profile.props.with_link(BYTES as f64 / (2.0 * LAYER_NS as f64 / 1e9));
    let config = |blocks: usize, rungs: usize| {
        let tunables = Tunables { rungs, ..Tunables::default() };
        Config::new().budget_bytes(blocks * BYTES).page_mapping(false).tunables(tunables)
    };
    let found_ns = |settings: &Settings, known: &[Arc<Schedule>]| {
        let planner =
            Planner { iteration: &iteration, profile: &profile, settings, step_ops: 0, throttle: 0 };
        let mut found = Vec::new();
        planner.search(known, |schedule| {
            found.extend(planner.timed(Arc::new(schedule)));
            true
        });
        assert!(
            found.is_sorted_by(|before, after| before.weighted_ns > after.weighted_ns),
            "a slower one follows"
        );
        found.pop()
    };
    let resolved = |config: Config| config.resolve(&profile.props).unwrap();
    let (mut followed, mut smallest) = (0, None);
    for blocks in 4..=10 {
        let Some(small) = found_ns(&resolved(config(blocks, 4)), &[]) else { continue };
        let (small_ns, small) = (small.step_ns, Arc::new(small.schedule));
        let known = [smallest.get_or_insert_with(|| small.clone()).clone(), small];
        // Without a search only the rule is there.
        let large = resolved(config(blocks + 1, 0));
        let by_rule_ns = found_ns(&large, &[]).map(|timed| timed.step_ns);
        let with_known_ns = found_ns(&large, &known).map(|timed| timed.step_ns);
        assert!(with_known_ns.is_none_or(|step_ns| step_ns <= small_ns));
        followed +=
            usize::from(with_known_ns.is_some() && by_rule_ns.is_none_or(|ns| Some(ns) > with_known_ns));
    }
    assert!(followed > 0, "no budget has use for the schedule of a smaller one");
}
