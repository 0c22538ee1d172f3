//! Forward, backward and update, from data flow alone.
//!
//! What an iteration is for is what it leaves in place of something: new weights, or gradients where nothing updates
//! them. Of those, only what descends from the loss counts: the successors of storages that lead to most of all successors,
//! as weights do and moments and running statistics do not.
//!
//! - *Forward* is what leads to as many of these as the input does. A backward op leads to the gradients of its own layer and
//!   of those below alone, so that their numbers fall from op to op, and that of the forward pass is the one that most ops share.
//!   The gradient of the loss itself, before the topmost weights are reached, counts as forward.
//! - *Update* is what reads no activation, leads to nothing that does, and touches what persists.
//! - *Backward* is the rest; what leads nowhere, such as a metric, belongs to the op before it.

use hashbrown::HashMap;

use super::dataflow::Dataflow;

/// A part of an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// From the input to the loss.
    #[default]
    Forward,
    /// From the loss to the gradients.
    Backward,
    /// From the gradients to what replaces weights and moments.
    Update,
}

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

    fn add(&mut self, other: &Places) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, other)| *mine |= other);
    }

    fn count(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }
}

/// For each op, how many of some values it leads to.
fn leads_to(flow: &Dataflow, targets: &[usize]) -> (Vec<usize>, Vec<Places>) {
    let places: HashMap<usize, usize> = targets.iter().enumerate().map(|(at, &value)| (value, at)).collect();
    // By value: what its readers lead to.
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

/// What the iteration is for.
fn targets(flow: &Dataflow) -> Vec<usize> {
    let replaced = |(_, value): &(usize, &super::dataflow::Value)| {
        value.successor.is_some_and(|successor| flow.values[successor].made_by.is_some())
    };
    let places: Vec<usize> =
        flow.values.iter().enumerate().filter(replaced).map(|(place, _)| place).collect();
    let successor = |&place: &usize| flow.values[place].successor.expect("it is replaced");
    let successors: Vec<usize> = places.iter().map(successor).collect();
    let (_, onward) = leads_to(flow, &successors);
    let weights = places.iter().filter(|&&place| 2 * onward[place].count() > successors.len());
    let trained: Vec<usize> = weights.map(successor).collect();
    if trained.is_empty() { successors } else { trained }
}

/// Says of each op which phase it belongs to.
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
            (true, ..) => Phase::Forward,
            (_, true, _) => Phase::Update,
            (.., 0) if last != Phase::Update => last,
            _ => Phase::Backward,
        };
        flow.ops[at].phase = last;
    }
}

/// Which ops update.
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
    let mut updates = vec![false; flow.ops.len()];
    for (at, op) in flow.ops.iter().enumerate() {
        // A gradient that the backward pass goes on with is read there too.
        let of_update = |&input: &usize| {
            flow.values[input].persists
                || flow.values[input].made_by.is_some_and(|maker| updates[maker])
                || flow.readers(input).all(|reader| closed[reader])
        };
        updates[at] = closed[at] && touches_persistent[at] && op.inputs.iter().all(of_update);
    }
    updates
}
