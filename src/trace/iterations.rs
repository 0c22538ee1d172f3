//! The iterations of a recorded program.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::event::{Event, OpEvent};

/// Ops are told apart with so many before them.
const CONTEXT_OPS: usize = 8;

/// Iterations are looked for that end at so many places, evenly spread.
const ENDS: usize = 8;

/// The most distances that are tried from each of them.
const MAX_DISTANCES: usize = 1024;

/// One op in so many may differ from one iteration to the next.
const SAME_OPS: usize = 64;

/// The loop that most ops of a program belong to. See [`Program::iterations`](super::Program::iterations) for an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iterations {
    /// The number of ops of an iteration.
    pub ops: usize,
    /// The op since which it repeats.
    pub since: usize,
}

impl Iterations {
    /// The number of whole iterations in a program of so many ops.
    pub fn count(self, ops: usize) -> usize {
        (ops - self.since) / self.ops
    }
}

/// Finds the loop that most ops belong to.
///
/// Layers and time steps that are alike repeat as well. So of all pieces of the program that come twice in a row the longest counts, and of
/// the distances at which it repeats the smallest. Unless that piece is a large part of the program, most of the program has to repeat at
/// this distance.
pub(super) fn found(events: &[Event]) -> Option<Iterations> {
    let contexts = contexts(events.iter().filter_map(|event| match event {
        Event::Op(op) => Some(op),
        _ => None,
    }));
    let ops = contexts.len();
    let repeats = |begin: usize, end: usize, distance: usize| {
        let mut differing = (begin..end).filter(|&at| contexts[at] != contexts[at - distance]);
        differing.nth((end - begin) / SAME_OPS).is_none()
    };
    let places = Places::of(&contexts);
    let longest = |end: usize| {
        let distance = places.distances(end).rev().find(|&distance| repeats(end - distance, end, distance));
        distance.map(|distance| (distance, end))
    };
    let (window, end) = (1..=ENDS).filter_map(|part| longest(ops * part / ENDS)).max()?;
    let distance = places.distances(end).find(|&distance| repeats(end - window, end, distance))?;
    let is_repeated = |at: &usize| contexts[*at] == contexts[at - distance];
    let repeated = (distance..ops).filter(is_repeated).count();
    let is_long = ENDS * window >= ops || 4 * repeated >= 3 * (ops - distance);
    let since = (distance..end).rev().take_while(is_repeated).last().unwrap_or(end) - distance;
    is_long.then_some(Iterations { ops: distance, since })
}

/// For each op, a hash of it and of those before it.
fn contexts<'a>(ops: impl Iterator<Item = &'a OpEvent>) -> Vec<u64> {
    let hashed = |op: &OpEvent| {
        let mut hasher = DefaultHasher::new();
        (&op.name, op.inputs.len(), &op.module).hash(&mut hasher);
        op.outputs.iter().for_each(|made| made.bytes.hash(&mut hasher));
        hasher.finish()
    };
    let alone: Vec<u64> = ops.map(hashed).collect();
    let context = |at: usize| {
        let mut hasher = DefaultHasher::new();
        alone[(at + 1).saturating_sub(CONTEXT_OPS)..=at].hash(&mut hasher);
        hasher.finish()
    };
    (0..alone.len()).map(context).collect()
}

/// Where each op comes, in its context.
struct Places<'a> {
    contexts: &'a [u64],
    of: HashMap<u64, Vec<usize>>,
}

impl<'a> Places<'a> {
    fn of(contexts: &'a [u64]) -> Self {
        let mut of: HashMap<u64, Vec<usize>> = HashMap::new();
        for (at, &context) in contexts.iter().enumerate() {
            of.entry(context).or_default().push(at);
        }
        Places { contexts, of }
    }

    /// The distances, up to half of what comes before `end`, from the op before it to those that are alike, in order.
    fn distances(&self, end: usize) -> impl DoubleEndedIterator<Item = usize> {
        let last = end.checked_sub(1);
        let alike = last.map_or(&[][..], |last| &self.of[&self.contexts[last]]);
        let before = alike.iter().rev().map(move |&at| (end - 1).saturating_sub(at));
        let possible: Vec<usize> = before.filter(|&distance| distance > 0 && 2 * distance <= end).collect();
        let nearest = possible.len().min(MAX_DISTANCES);
        possible.into_iter().take(nearest)
    }
}
