//! Memory as the paper counts it (section 5): what a step makes until its gradients are there, without weights' gradients and
//! without its batch.

use std::collections::{HashMap, HashSet};

use burn_overcommit::engine::{Tier, aligned};
use burn_overcommit::trace::{Event, OpEvent};

/// Of one step.
#[derive(Clone, Copy, Debug)]
pub struct Footprint {
    /// The most in use at once, where memory is allocated when it is needed.
    pub dynamic_bytes: usize,
    /// What all takes where addresses are chosen before training, as CNTK does, the paper's baseline: what never lives at the
    /// same time shares a region, the largest first. Nothing is done in place, which the paper counts among its own.
    pub fixed_bytes: usize,
}

/// Of what was recorded of a step; weights are of these sizes, and their gradients.
pub fn footprint(events: &[Event], weights: &HashSet<usize>, batch_bytes: usize) -> Footprint {
    // The first op fetches the batch.
    let dynamic_bytes = dynamic_bytes(events, weights) - batch_bytes;
    Footprint { dynamic_bytes, fixed_bytes: fixed_bytes(events, weights) }
}

fn consumed(op: &OpEvent) -> impl Iterator<Item = u64> {
    op.consumed.iter().map(|&place| op.inputs[place])
}

fn dynamic_bytes(events: &[Event], weights: &HashSet<usize>) -> usize {
    let (mut used_bytes, mut most_bytes) = (0isize, 0isize);
    // Weights' gradients that are there.
    let mut gradients = HashMap::new();
    let mut gradient_bytes = 0;
    for event in events {
        match event {
            Event::Allocate { tier: Tier::Device, bytes, .. } => used_bytes += *bytes as isize,
            Event::Release { tier: Tier::Device, bytes, .. } => used_bytes -= *bytes as isize,
            Event::Op(op) => {
                for made in op.outputs.iter().filter(|made| weights.contains(&made.bytes)) {
                    gradients.insert(made.storage, aligned(made.bytes) as isize);
                    gradient_bytes += aligned(made.bytes) as isize;
                }
                gradient_bytes -=
                    consumed(op).filter_map(|storage| gradients.remove(&storage)).sum::<isize>();
            }
            Event::Free(storage) => gradient_bytes -= gradients.remove(storage).unwrap_or(0),
            _ => {}
        }
        // Between two events of one op, what it made may be counted already and not be known yet. What is encoded is there twice.
        if let Event::Op(_) | Event::Recompute(_) = event {
            most_bytes = most_bytes.max(used_bytes - gradient_bytes);
        }
    }
    most_bytes as usize
}

/// What lives from one op to another, both included.
struct Life {
    bytes: usize,
    from: usize,
    until: usize,
}

fn fixed_bytes(events: &[Event], weights: &HashSet<usize>) -> usize {
    let mut lives: Vec<Life> = Vec::new();
    let mut alive: HashMap<u64, usize> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Op(op) => {
                for made in op.outputs.iter().filter(|made| !weights.contains(&made.bytes)) {
                    alive.insert(made.storage, lives.len());
                    lives.push(Life { bytes: aligned(made.bytes), from: at, until: usize::MAX });
                }
                if op.scratch_bytes > 0 {
                    lives.push(Life { bytes: aligned(op.scratch_bytes), from: at, until: at });
                }
                consumed(op)
                    .filter_map(|storage| alive.remove(&storage))
                    .for_each(|life| lives[life].until = at);
            }
            Event::Free(storage) => {
                alive.remove(storage).into_iter().for_each(|life| lives[life].until = at);
            }
            _ => {}
        }
    }
    lives.sort_by_key(|life| std::cmp::Reverse(life.bytes));
    let mut regions: Vec<Vec<Life>> = Vec::new();
    for life in lives {
        let is_free = |region: &&mut Vec<Life>| {
            region.iter().all(|other| other.until < life.from || life.until < other.from)
        };
        match regions.iter_mut().find(is_free) {
            Some(region) => region.push(life),
            None => regions.push(vec![life]),
        }
    }
    regions.iter().map(|region| region[0].bytes).sum()
}
