//! Tells the forward pass, the backward pass and the update apart by data flow alone. Neither names nor the order of
//! independent ops matter, so branches, skip connections, shared weights and accumulated gradients need no rules of
//! their own.
//!
//! The *results* of an iteration are the values that outlive it, and those that no op reads: new weights and moments,
//! or gradients if nothing updates weights. Only results that descend from the topmost weight count, which excludes
//! running statistics. Weights are the storages that persist, are touched more than once and lead to a large part of
//! the results; the topmost weight is the one whose first touch comes last.
//!
//! - *Forward* ops lead to as many of these results as the input does. A backward op leads only to the gradients of
//!   its own layer and of the layers below, so the number of results falls from layer to layer, and the number that
//!   most ops share is that of the forward pass. The gradient of the loss itself counts as forward until the topmost
//!   weights are reached.
//! - *Update* ops read no activation, lead to no op that reads one, and touch storages that persist.
//! - *Backward* ops are the rest. An op that leads nowhere, such as one of a metric or of running statistics, belongs
//!   to the phase of the op before it.
//!
//! A program that trains two networks by two losses has no such topmost weight. Policies that need phases then evict
//! less.

use hashbrown::HashMap;

use super::dataflow::Dataflow;
use super::parts::Phase;

/// A set of places.
#[derive(Clone, Debug, PartialEq)]
struct Places(Vec<u64>);

impl Places {
    fn new(count: usize) -> Self {
        Places(vec![0; count.div_ceil(64)])
    }

    fn insert(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    fn contains(&self, place: usize) -> bool {
        self.0[place / 64] >> (place % 64) & 1 == 1
    }

    fn add(&mut self, other: &Places) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, other)| *mine |= other);
    }

    fn count(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }
}

/// For each op, how many of the target values it leads to; for each value, which of them its readers lead to.
fn leads_to(flow: &Dataflow, targets: &[usize]) -> (Vec<usize>, Vec<Places>) {
    let places: HashMap<usize, usize> = targets.iter().enumerate().map(|(at, &value)| (value, at)).collect();
    // By value: the targets that its readers lead to.
    let mut onward = vec![Places::new(targets.len()); flow.values.len()];
    let mut counts = vec![0; flow.ops.len()];
    for (&value, &place) in &places {
        onward[value].insert(place);
    }
    for (at, op) in flow.ops.iter().enumerate().rev() {
        let mut reached = Places::new(targets.len());
        op.outputs.iter().for_each(|&output| reached.add(&onward[output]));
        counts[at] = reached.count();
        op.inputs.iter().for_each(|&input| onward[input].add(&reached));
    }
    (counts, onward)
}

/// The most results for which the ops that lead to them are determined. A sample of the results is enough.
const MAX_RESULTS: usize = 1024;

/// A weight leads to at least one in this many results. The others belong to layers below, or are running statistics.
const WEIGHT_PART: usize = 3;

/// The results that count: those that descend from the topmost weight.
fn targets(flow: &Dataflow) -> Vec<usize> {
    let left = |value: usize| {
        flow.values[value].made_by.is_some()
            && (flow.readers(value).next().is_none() || flow.values[value].freed_after.is_none())
    };
    let results: Vec<usize> = (0..flow.values.len()).filter(|&value| left(value)).collect();
    let step = results.len().div_ceil(MAX_RESULTS).max(1);
    let results: Vec<usize> = results.into_iter().step_by(step).collect();
    let (_, onward) = leads_to(flow, &results);
    let first_touch =
        |&value: &usize| flow.values[value].intervals.first().map(|&interval| flow.intervals[interval].from);
    let is_weight = |&value: &usize| {
        flow.values[value].persists
            && flow.values[value].intervals.len() > 1
            && WEIGHT_PART * onward[value].count() >= results.len()
    };
    let top = (0..flow.values.len()).filter(is_weight).max_by_key(first_touch);
    let led_to = |top: usize| results.iter().enumerate().filter(move |&(at, _)| onward[top].contains(at));
    top.map_or_else(|| results.clone(), |top| led_to(top).map(|(_, &value)| value).collect())
}

/// Sets the phase of each op.
pub fn find(flow: &mut Dataflow) {
    let (counts, _) = leads_to(flow, &targets(flow));
    let mut ops_by_count: HashMap<usize, usize> = HashMap::new();
    counts.iter().for_each(|&count| *ops_by_count.entry(count).or_default() += 1);
    let shared = ops_by_count.into_iter().max_by_key(|&(count, ops)| (count * ops, count));
    let forward_count = shared.map_or(0, |(count, _)| count);
    if forward_count == 0 {
        return;
    }
    let is_forward: Vec<bool> = counts.iter().map(|&count| count >= forward_count).collect();
    let updates = updates(flow, &is_forward);
    let mut last = Phase::Forward;
    for at in 0..flow.ops.len() {
        last = match (is_forward[at], updates[at], counts[at]) {
            (.., 0) => last,
            (true, ..) => Phase::Forward,
            (_, true, _) => Phase::Update,
            _ => Phase::Backward,
        };
        flow.ops[at].phase = last;
    }
}

/// Tells for each op whether it belongs to the update.
fn updates(flow: &Dataflow, is_forward: &[bool]) -> Vec<bool> {
    // Made by the forward pass, or written for it.
    let is_activation = |value: usize| {
        !flow.values[value].persists && flow.values[value].made_by.is_none_or(|op| is_forward[op])
    };
    let (mut closed, mut touches_persistent) = (vec![false; flow.ops.len()], vec![false; flow.ops.len()]);
    for (at, op) in flow.ops.iter().enumerate().rev() {
        let readers = || op.outputs.iter().flat_map(|&output| flow.readers(output));
        closed[at] = !is_forward[at]
            && !op.inputs.iter().any(|&input| is_activation(input))
            && readers().all(|reader| closed[reader]);
        touches_persistent[at] = op.inputs.iter().any(|&input| flow.values[input].persists)
            || readers().any(|reader| touches_persistent[reader]);
    }
    let reads_activation = |op: &super::Operation| op.inputs.iter().any(|&input| is_activation(input));
    let backward_ends = flow.ops.iter().rposition(reads_activation);
    let mut updates = vec![false; flow.ops.len()];
    for (at, op) in flow.ops.iter().enumerate() {
        let known = |&input: &usize| {
            flow.values[input].persists || flow.values[input].made_by.is_some_and(|maker| updates[maker])
        };
        // A gradient that the backward pass continues with has readers there.
        let of_update = |input: &usize| known(input) || flow.readers(*input).all(|reader| closed[reader]);
        // Before the backward pass ends, ops that only prepare an update cannot be told from it.
        let begun = Some(at) > backward_ends || op.inputs.iter().any(known);
        updates[at] = begun && closed[at] && touches_persistent[at] && op.inputs.iter().all(of_update);
    }
    updates
}
