//! Wang et al., *SuperNeurons: Dynamic GPU Memory Management for Training Deep Neural Networks*, PPoPP 2018, section 3.
//!
//! - *Checkpoints* are the outputs of convolutions, linear layers, joins and concatenations, and values that fork. They stay as
//!   long as there is room. If memory is short, the [tensor cache](super::tensor_cache) offloads the least recently used, and
//!   an offloaded checkpoint comes back while the layer above runs backward.
//! - The other values that the backward pass needs are dropped after the forward pass and recomputed from the checkpoint before
//!   them (section 3.4, cost-aware recomputation). A *segment* of layers that takes no more memory than the largest layer is
//!   recomputed once (speed-centric). Other segments are recomputed for each layer that needs them (memory-centric).
//!
//! The paper's layers are finer than ours: an activation, a pool, and a norm or a dropout are one each. They are called *units*
//! here.
//!
//! Departures from the paper:
//!
//! - In the paper a fork makes a copy, so that its input is recomputed. Here the forking value is the checkpoint itself. The
//!   counts of [`LayerCounts`](paper_figures::LayerCounts) take the copy into account.
//! - The paper's dynamic convolution workspace (section 3.5) is
//!   [`AlgorithmChoice::FastestThatFits`](crate::schedule::AlgorithmChoice), by which all policies choose algorithms under
//!   [`Exactness::Fast`](crate::Exactness::Fast) unless they state otherwise.

pub mod paper_figures;

use crate::liveness::{Dataflow, LayerKind, Phase};

use super::published::PublishedPolicy;
use super::published_plan::{Limits, PublishedPlan};
use crate::schedule::Eviction;

/// See the module.
#[derive(Debug)]
pub struct SuperNeurons;

impl PublishedPolicy for SuperNeurons {
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<PublishedPlan> {
        let mut plan = PublishedPlan::default();
        let segments = segments(flow);
        if limits.recompute {
            let largest_bytes = largest_layer_bytes(flow, &segments);
            for segment in &segments {
                recompute(flow, segment, segment.bytes() > largest_bytes, &mut plan);
            }
        }
        if limits.offload {
            fetch_checkpoints(flow, &mut plan);
        }
        vec![plan]
    }

    fn recomputes(&self) -> bool {
        true
    }
}

/// A layer of the paper that is no checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unit {
    ops: Vec<usize>,
    /// The sizes of its largest input and output.
    in_bytes: usize,
    out_bytes: usize,
    /// Whether the backward pass needs its output.
    needed: bool,
}

/// The units between two checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Segment {
    units: Vec<Unit>,
    /// Several layers read its output, which is therefore a checkpoint.
    forks: bool,
}

impl Segment {
    /// The memory of its forward pass, layer by layer.
    fn bytes(&self) -> usize {
        self.units.iter().map(|unit| unit.in_bytes + unit.out_bytes).sum()
    }
}

/// Whether several layers read a value.
fn forks(flow: &Dataflow, value: usize) -> bool {
    let forward = |op: &usize| flow.ops[*op].phase == Phase::Forward;
    let mut layers: Vec<_> = flow.readers(value).filter(forward).map(|op| flow.ops[op].layer).collect();
    let made_in = flow.values[value].made_by.and_then(|op| flow.ops[op].layer);
    layers.retain(|&layer| layer != made_in);
    layers.sort_unstable();
    layers.dedup();
    layers.len() > 1
}

/// Whether an op of the forward pass makes a checkpoint.
fn is_checkpoint(flow: &Dataflow, op: usize) -> bool {
    let layer = flow.ops[op].layer.map(|layer| &flow.layers[layer]);
    layer.is_some_and(|layer| match layer.kind {
        LayerKind::Input => true,
        LayerKind::Pool => false,
        // All copies of a concatenation make one checkpoint.
        LayerKind::Concatenation => layer.ops.first() == Some(&op) || flow.ops[op].name == "slice_assign",
        _ => layer.ops.first() == Some(&op),
    })
}

/// Whether the forward pass makes a value that is no checkpoint and can be recomputed.
pub fn superneurons_recomputes(flow: &Dataflow, value: usize) -> bool {
    flow.values[value].made_by.is_some_and(|op| {
        let made = &flow.ops[op];
        made.phase == Phase::Forward && made.exact && !is_checkpoint(flow, op) && !forks(flow, value)
    })
}

/// Whether an op alone is a layer of the paper.
fn stands_alone(flow: &Dataflow, op: usize) -> bool {
    let activations = ["relu", "sigmoid", "tanh", "gelu", "log_sigmoid", "leaky_relu", "threshold", "elu"];
    let name = flow.ops[op].name.trim_end_matches('_');
    let layer = flow.ops[op].layer.map(|layer| &flow.layers[layer]);
    activations.contains(&name)
        || layer.is_some_and(|layer| layer.kind == LayerKind::Pool && layer.ops.first() == Some(&op))
}

/// Groups the values that are no checkpoints by the checkpoint that they are made from.
fn segments(flow: &Dataflow) -> Vec<Segment> {
    let mut of_value: Vec<Option<usize>> = vec![None; flow.values.len()];
    let mut segments: Vec<Segment> = Vec::new();
    for (at, op) in flow.ops.iter().enumerate().filter(|(_, op)| op.phase == Phase::Forward) {
        let from = op.inputs.iter().filter_map(|&input| of_value[input]).max();
        let segment = match (is_checkpoint(flow, at), from) {
            (false, Some(segment)) => segment,
            // A value that was made from nothing, such as a mask, is not between checkpoints.
            (false, None) => continue,
            (true, _) => {
                segments.push(Segment::default());
                segments.len() - 1
            }
        };
        if !is_checkpoint(flow, at) {
            segments[segment].add(flow, at);
        }
        for &output in &op.outputs {
            of_value[output] = Some(segment);
            if !is_checkpoint(flow, at) && forks(flow, output) {
                segments[segment].forks = true;
                segments.push(Segment::default());
                of_value[output] = Some(segments.len() - 1);
            }
        }
    }
    segments.retain(|segment| !segment.units.is_empty());
    // The ops after the last layer compute the loss.
    let last = flow.layers.last().and_then(|layer| layer.ops.first().copied());
    segments.retain(|segment| segment.units.first().is_some_and(|unit| unit.ops.first().copied() < last));
    segments.iter_mut().for_each(|segment| segment.finish(flow));
    segments
}

impl Segment {
    fn add(&mut self, flow: &Dataflow, op: usize) {
        let alone = stands_alone(flow, op);
        match self.units.last_mut() {
            Some(unit) if !alone && !stands_alone(flow, unit.ops[0]) => unit.ops.push(op),
            _ => self.units.push(Unit { ops: vec![op], in_bytes: 0, out_bytes: 0, needed: false }),
        }
    }

    fn finish(&mut self, flow: &Dataflow) {
        for unit in &mut self.units {
            let (first, last) = (unit.ops[0], unit.ops[unit.ops.len() - 1]);
            let largest = |values: &[usize]| values.iter().map(|&value| flow.values[value].size_bytes).max();
            unit.in_bytes = largest(&flow.ops[first].inputs).unwrap_or(0);
            unit.out_bytes = largest(&flow.ops[last].outputs).unwrap_or(0);
            let output = flow.ops[last].outputs.first();
            unit.needed = output.is_some_and(|&output| flow.kept_for_backward(output).is_some());
        }
    }
}

/// The most memory that the backward pass of a layer takes: inputs, outputs, and the gradients of both.
fn largest_layer_bytes(flow: &Dataflow, segments: &[Segment]) -> usize {
    let units = segments.iter().flat_map(|segment| &segment.units);
    let of_units = units.map(|unit| 2 * (unit.in_bytes + unit.out_bytes));
    let bytes = |values: &[usize]| -> usize {
        let made = values.iter().filter(|&&value| !flow.values[value].persists);
        made.map(|&value| flow.values[value].size_bytes).sum()
    };
    let heads = flow.layers.iter().filter_map(|layer| Some((layer.kind, &flow.ops[*layer.ops.first()?])));
    let of_layers = heads.map(|(kind, op)| match kind {
        // Their backward pass does not need the output.
        LayerKind::Convolution | LayerKind::Linear => 2 * bytes(&op.inputs) + bytes(&op.outputs),
        _ => bytes(&op.inputs) + bytes(&op.outputs),
    });
    of_units.chain(of_layers).max().unwrap_or(0)
}

/// Drops the values that a segment keeps for the backward pass. If memory-centric, they are dropped again after each op that
/// had them recomputed.
fn recompute(flow: &Dataflow, segment: &Segment, memory_centric: bool, plan: &mut PublishedPlan) {
    let ops = segment.units.iter().flat_map(|unit| &unit.ops);
    let outputs = ops.filter(|&&op| flow.ops[op].exact).flat_map(|&op| &flow.ops[op].outputs);
    let kept = outputs.filter(|&&output| !forks(flow, output));
    let intervals: Vec<_> = kept.filter_map(|&output| flow.kept_for_backward(output)).collect();
    intervals.iter().for_each(|&(interval, _)| plan.drop(flow, interval));
    if !memory_centric {
        return;
    }
    for (_, user) in &intervals {
        let Some((op, _)) = user.until else { continue };
        let still_kept =
            intervals.iter().filter(|(_, interval)| interval.until.is_some_and(|(until, _)| until > op));
        plan.releases.extend(still_kept.map(|&(interval, _)| (op, interval, Eviction::Drop)));
    }
    plan.releases.sort_unstable_by_key(|&(op, interval, _)| (op, interval));
    plan.releases.dedup();
}

/// Fetches an offloaded checkpoint while the layer above the one that needs it runs backward.
fn fetch_checkpoints(flow: &Dataflow, plan: &mut PublishedPlan) {
    let begins = flow.backward_begins();
    for (at, op) in flow.ops.iter().enumerate().filter(|(_, op)| op.phase == Phase::Forward) {
        for &output in &op.outputs {
            let Some((interval, kept)) = flow.kept_for_backward(output) else { continue };
            let needed = kept.until.map_or(0, |(op, _)| op);
            let ahead = op.layer.and_then(|layer| begins[layer + 1..].iter().flatten().next());
            if (is_checkpoint(flow, at) || forks(flow, output))
                && let Some(&begin) = ahead.filter(|&&begin| begin < needed)
            {
                plan.fetches.push((begin, interval));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{chain, input_of};

    #[test]
    fn what_lies_between_checkpoints_is_dropped_and_checkpoints_stay() {
        let layers =
            [("conv", 400), ("batch_norm", 400), ("relu", 400), ("conv", 400), ("relu", 400), ("matmul", 9)];
        let flow = chain(3000, &layers);
        let limits = Limits { budget_bytes: 0, offload: true, recompute: true, algorithms: false };
        let plan = SuperNeurons.plan(&flow, limits).remove(0);
        let mut dropped: Vec<usize> =
            plan.releases.iter().map(|release| flow.intervals[release.1].value).collect();
        dropped.sort_unstable();
        assert_eq!(dropped, [2, 3, 5].map(|place| input_of(6, place)));
        assert!(plan.releases.iter().all(|release| release.2 == Eviction::Drop));
        // Of the checkpoints, the backward pass needs the outputs of convolutions, for the norm or the rectifier after them.
        let mut fetched: Vec<usize> =
            plan.fetches.iter().map(|fetch| flow.intervals[fetch.1].value).collect();
        fetched.sort_unstable();
        assert_eq!(fetched, [1, 4].map(|place| input_of(6, place)));
    }

    #[test]
    fn a_segment_larger_than_the_largest_layer_is_dropped_again_after_each_layer() {
        let layers = [
            ("conv", 9),
            ("relu", 400),
            ("batch_norm", 400),
            ("max_pool2d", 400),
            ("conv", 9),
            ("matmul", 9),
        ];
        let flow = chain(3, &layers);
        let limits = Limits { budget_bytes: 0, offload: false, recompute: true, algorithms: false };
        let plan = SuperNeurons.plan(&flow, limits).remove(0);
        let kept = flow.kept_for_backward(input_of(6, 2)).unwrap();
        let drops = plan.releases.iter().filter(|release| release.1 == kept.0).count();
        // Once when it is made, and after the convolution and the pool, which recompute it on the way to what they need.
        assert_eq!(drops, 3);
    }
}
