//! Wang et al., *SuperNeurons: Dynamic GPU Memory Management for Training Deep Neural Networks*, PPoPP 2018, section 3.
//!
//! - *Checkpoints* are the outputs of convolutions, linear layers, joins and concatenations, and values that fork. They
//!   stay as long as there is room: the [tensor cache](super::tensor_cache) offloads the least recently used, and one
//!   that is away comes back while the layer above runs backward.
//! - All else that the backward pass needs is dropped after the forward pass and recomputed from the checkpoint before
//!   it (section 3.4, cost-aware recomputation). A *segment* of layers that takes no more memory than the largest layer
//!   does is recomputed once (speed-centric), others for each layer that needs them anew (memory-centric).
//!
//! The paper's layers are finer than ours: an activation, a pool, and a norm or a dropout are one each. They are
//! *units* here.
//!
//! Departures from the paper:
//!
//! - A fork makes a copy there, so that its input is recomputed. Here the forking value is the checkpoint itself. The
//!   counts of [`LayerCounts`] take the copy into account.
//! - Its dynamic convolution workspace (section 3.5) is [`AlgorithmChoice::FastestThatFits`](crate::schedule::AlgorithmChoice),
//!   which is how algorithms are chosen under any policy that does not state otherwise, under
//!   [`Exactness::Fast`](crate::Exactness::Fast).

use crate::liveness::{Dataflow, LayerKind, Phase};

use super::published::{Limits, Plan, Plans};
use crate::schedule::Eviction;

/// See the module.
#[derive(Debug)]
pub struct SuperNeurons;

impl Plans for SuperNeurons {
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<Plan> {
        let mut plan = Plan::default();
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
    /// What it takes in and gives out.
    in_bytes: usize,
    out_bytes: usize,
    /// The backward pass needs its output.
    needed: bool,
}

/// What lies between two checkpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Segment {
    units: Vec<Unit>,
    /// Its output is read by several layers, and so is a checkpoint.
    forks: bool,
}

impl Segment {
    /// What its forward pass takes, layer by layer.
    fn bytes(&self) -> usize {
        self.units.iter().map(|unit| unit.in_bytes + unit.out_bytes).sum()
    }
}

/// Whether values of several layers are made from one.
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
        // All copies of a concatenation are one.
        LayerKind::Concatenation => layer.ops.first() == Some(&op) || flow.ops[op].name == "slice_assign",
        _ => layer.ops.first() == Some(&op),
    })
}

/// Whether the forward pass makes a value that is no checkpoint and can be made again.
pub fn superneurons_recomputes(flow: &Dataflow, value: usize) -> bool {
    flow.values[value].made_by.is_some_and(|op| {
        let made = &flow.ops[op];
        made.phase == Phase::Forward && made.exact && !is_checkpoint(flow, op) && !forks(flow, value)
    })
}

/// Whether an op is a layer of the paper by itself.
fn stands_alone(flow: &Dataflow, op: usize) -> bool {
    let activations = ["relu", "sigmoid", "tanh", "gelu", "log_sigmoid", "leaky_relu", "threshold", "elu"];
    let name = flow.ops[op].name.trim_end_matches('_');
    let layer = flow.ops[op].layer.map(|layer| &flow.layers[layer]);
    activations.contains(&name)
        || layer.is_some_and(|layer| layer.kind == LayerKind::Pool && layer.ops.first() == Some(&op))
}

/// Groups what is no checkpoint by the checkpoint that it is made from.
fn segments(flow: &Dataflow) -> Vec<Segment> {
    let mut of_value: Vec<Option<usize>> = vec![None; flow.values.len()];
    let mut segments: Vec<Segment> = Vec::new();
    for (at, op) in flow.ops.iter().enumerate().filter(|(_, op)| op.phase == Phase::Forward) {
        let from = op.inputs.iter().filter_map(|&input| of_value[input]).max();
        let segment = match (is_checkpoint(flow, at), from) {
            (false, Some(segment)) => segment,
            // What was made from nothing, such as a mask, is not between checkpoints.
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
    // What follows the last layer is the loss.
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

    /// Layers that are run again, counted as in the paper, where a fork is a copy.
    fn recomputations(&self, memory_centric: bool) -> usize {
        let count = self.units.iter().rposition(|unit| unit.needed).map_or(0, |last| last + 1);
        let sum = |count: usize| count * (count + 1) / 2;
        match (memory_centric, self.forks) {
            (false, _) => count,
            (true, false) => sum(count),
            // The output is needed by its own layer first, and so together with what that reads.
            (true, true) => count + sum(count.saturating_sub(2)),
        }
    }
}

/// The most that a layer's backward pass takes: what it read and made, and the gradients of both.
fn largest_layer_bytes(flow: &Dataflow, segments: &[Segment]) -> usize {
    let units = segments.iter().flat_map(|segment| &segment.units);
    let of_units = units.map(|unit| 2 * (unit.in_bytes + unit.out_bytes));
    let bytes = |values: &[usize]| -> usize {
        let made = values.iter().filter(|&&value| !flow.values[value].persists);
        made.map(|&value| flow.values[value].size_bytes).sum()
    };
    let heads = flow.layers.iter().filter_map(|layer| Some((layer.kind, &flow.ops[*layer.ops.first()?])));
    let of_layers = heads.map(|(kind, op)| match kind {
        // The output is not needed.
        LayerKind::Convolution | LayerKind::Linear => 2 * bytes(&op.inputs) + bytes(&op.outputs),
        _ => bytes(&op.inputs) + bytes(&op.outputs),
    });
    of_units.chain(of_layers).max().unwrap_or(0)
}

/// Drops what a segment keeps for the backward pass; memory-centric: again after each op that had it remade.
fn recompute(flow: &Dataflow, segment: &Segment, memory_centric: bool, plan: &mut Plan) {
    let ops = segment.units.iter().flat_map(|unit| &unit.ops);
    let outputs = ops.filter(|&&op| flow.ops[op].exact).flat_map(|&op| &flow.ops[op].outputs);
    let kept = outputs.filter(|&&output| !forks(flow, output));
    let gaps: Vec<_> = kept.filter_map(|&output| flow.kept_for_backward(output)).collect();
    gaps.iter().for_each(|&(gap, _)| plan.drop(flow, gap));
    if !memory_centric {
        return;
    }
    for (_, user) in &gaps {
        let Some((op, _)) = user.until else { continue };
        let still_kept = gaps.iter().filter(|(_, gap)| gap.until.is_some_and(|(until, _)| until > op));
        plan.releases.extend(still_kept.map(|&(gap, _)| (op, gap, Eviction::Drop)));
    }
    plan.releases.sort_unstable_by_key(|&(op, gap, _)| (op, gap));
    plan.releases.dedup();
}

/// A checkpoint that is away comes back while the layer above the one that needs it runs backward.
fn fetch_checkpoints(flow: &Dataflow, plan: &mut Plan) {
    let begins = flow.backward_begins();
    for (at, op) in flow.ops.iter().enumerate().filter(|(_, op)| op.phase == Phase::Forward) {
        for &output in &op.outputs {
            let Some((gap, kept)) = flow.kept_for_backward(output) else { continue };
            let needed = kept.until.map_or(0, |(op, _)| op);
            let ahead = op.layer.and_then(|layer| begins[layer + 1..].iter().flatten().next());
            if (is_checkpoint(flow, at) || forks(flow, output))
                && let Some(&begin) = ahead.filter(|&&begin| begin < needed)
            {
                plan.fetches.push((begin, gap));
            }
        }
    }
}

/// What the policy makes of an iteration, in layers as the paper counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerCounts {
    /// Layers that are run again if no segment is memory-centric, if those that are larger than the largest layer are, which is
    /// what the policy does, or if all are.
    pub recomputed: [usize; 3],
    /// The most that a layer's backward pass takes.
    pub largest_bytes: usize,
}

impl LayerCounts {
    /// Of an iteration.
    pub fn of(flow: &Dataflow) -> Self {
        let segments = segments(flow);
        let largest_bytes = largest_layer_bytes(flow, &segments);
        let count = |memory_centric: &dyn Fn(&Segment) -> bool| {
            segments.iter().map(|segment| segment.recomputations(memory_centric(segment))).sum()
        };
        let recomputed =
            [count(&|_| false), count(&|segment| segment.bytes() > largest_bytes), count(&|_| true)];
        LayerCounts { recomputed, largest_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{chain, input_of};

    /// AlexNet as the authors' `testing/alexnet.cpp` has it, elements of one image.
    const ALEXNET: [(&str, usize); 22] = [
        ("conv", 96 * 55 * 55),
        ("relu", 96 * 55 * 55),
        ("batch_norm", 96 * 55 * 55),
        ("max_pool2d", 96 * 27 * 27),
        ("conv", 256 * 27 * 27),
        ("relu", 256 * 27 * 27),
        ("batch_norm", 256 * 27 * 27),
        ("max_pool2d", 256 * 13 * 13),
        ("conv", 384 * 13 * 13),
        ("relu", 384 * 13 * 13),
        ("conv", 384 * 13 * 13),
        ("relu", 384 * 13 * 13),
        ("conv", 256 * 13 * 13),
        ("relu", 256 * 13 * 13),
        ("max_pool2d", 256 * 6 * 6),
        ("matmul", 4096),
        ("relu", 4096),
        ("dropout", 4096),
        ("matmul", 4096),
        ("relu", 4096),
        ("dropout", 4096),
        ("matmul", 1000),
    ];

    #[test]
    fn the_papers_counts_of_alexnet() {
        assert_eq!(LayerCounts::of(&chain(3 * 227 * 227, &ALEXNET)).recomputed, [14, 17, 23]);
    }

    #[test]
    fn what_lies_between_checkpoints_is_dropped_and_checkpoints_stay() {
        let layers =
            [("conv", 400), ("batch_norm", 400), ("relu", 400), ("conv", 400), ("relu", 400), ("matmul", 9)];
        let flow = chain(3000, &layers);
        let limits = Limits { budget_bytes: 0, offload: true, recompute: true, algorithms: false };
        let plan = SuperNeurons.plan(&flow, limits).remove(0);
        let mut dropped: Vec<usize> =
            plan.releases.iter().map(|release| flow.gaps[release.1].value).collect();
        dropped.sort_unstable();
        assert_eq!(dropped, [2, 3, 5].map(|place| input_of(6, place)));
        assert!(plan.releases.iter().all(|release| release.2 == Eviction::Drop));
        // Of the checkpoints, the backward pass needs what the convolutions made for what normalizes or rectifies it.
        let mut fetched: Vec<usize> = plan.fetches.iter().map(|fetch| flow.gaps[fetch.1].value).collect();
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
        // When it is made; when the convolution and the pool have had it remade on the way to what they need.
        assert_eq!(drops, 3);
    }
}
