//! Finds layers by data flow and by the names of ops, those of this crate and those of PyTorch.
//!
//! A layer begins at a convolution, a matrix product, a pool, a concatenation (a copy into a destination that nothing
//! has written) or a join (an addition of two layers' values of its size). An op that begins none belongs to the
//! latest layer that it reads. A pool whose result meets its own input again is part of local response normalization,
//! and belongs to that input's layer. A mean over all pixels is no pool, since it is a reduction in this crate.

use super::dataflow::Dataflow;
use super::parts::{Layer, LayerKind, Phase};

/// The kind of layer that an op begins, if its name alone tells: this crate's names, and those of PyTorch's
/// operators.
fn kind_of(name: &str) -> Option<LayerKind> {
    let products = ["attention", "matmul", "mm", "bmm", "addmm", "baddbmm", "linear"];
    match name {
        _ if name.starts_with("conv") || name.contains("convolution") => Some(LayerKind::Convolution),
        _ if products.contains(&name) => Some(LayerKind::Linear),
        _ if name.contains("pool") => Some(LayerKind::Pool),
        "cat" | "_cat" | "concat" => Some(LayerKind::Concatenation),
        _ => None,
    }
}

/// Groups the ops of an iteration into layers.
pub fn find(flow: &mut Dataflow) {
    let mut finding = Finding { flow, of_value: Vec::new(), sources: Vec::new() };
    finding.of_value = vec![None; finding.flow.values.len()];
    finding.forward();
    finding.backward();
}

struct Finding<'a> {
    flow: &'a mut Dataflow,
    /// The layer that made a value.
    of_value: Vec<Option<usize>>,
    /// For each layer, the layer that its first op reads.
    sources: Vec<Option<usize>>,
}

impl Finding<'_> {
    fn forward(&mut self) {
        let mut last = None;
        for at in 0..self.flow.ops.len() {
            if self.flow.ops[at].phase != Phase::Forward {
                continue;
            }
            self.merge_norm(at);
            let kind = self.begins(at);
            let op = &self.flow.ops[at];
            let read = op.inputs.iter().filter_map(|&input| self.of_value[input]).max();
            let layer = match kind {
                Some(kind) => self.new_layer(kind, read),
                None => match read.or(last) {
                    Some(layer) => layer,
                    None => self.new_layer(LayerKind::Input, None),
                },
            };
            let op = &mut self.flow.ops[at];
            op.layer = Some(layer);
            // A mask or a constant is not a result of the layer before.
            if kind.is_some() || read.is_some() || self.flow.layers[layer].kind == LayerKind::Input {
                op.outputs.iter().for_each(|&output| self.of_value[output] = Some(layer));
            }
            self.flow.layers[layer].ops.push(at);
            last = Some(layer);
        }
    }

    fn new_layer(&mut self, kind: LayerKind, source: Option<usize>) -> usize {
        self.flow.layers.push(Layer { kind, ops: Vec::new() });
        self.sources.push(source);
        self.flow.layers.len() - 1
    }

    /// The kind of layer that an op begins, if it begins one.
    fn begins(&self, at: usize) -> Option<LayerKind> {
        let op = &self.flow.ops[at];
        let maker = |input: usize| self.flow.values[input].made_by.map(|op| self.flow.ops[op].name);
        match op.name {
            // This crate concatenates by copies into one destination.
            "slice_assign" if op.inputs.first().is_some_and(|&input| maker(input) == Some("unset")) => {
                Some(LayerKind::Concatenation)
            }
            // An elementwise op may be part of a fused one.
            "add" | "add_" | "fused_add" => {
                let size_bytes = |value: &usize| self.flow.values[*value].size_bytes;
                let made = op.outputs.first().map(size_bytes);
                let mut layers: Vec<usize> = (op.inputs.iter())
                    .filter(|input| Some(size_bytes(input)) == made)
                    .filter_map(|&input| self.of_value[input])
                    .collect();
                layers.dedup();
                (layers.len() > 1).then_some(LayerKind::Join)
            }
            name => kind_of(name),
        }
    }

    /// Merges a pool into the layer that it reads if an op combines the two other than by addition: local response
    /// normalization pools over channels.
    fn merge_norm(&mut self, at: usize) {
        let op = &self.flow.ops[at];
        let Some(pool) = self.flow.layers.len().checked_sub(1) else { return };
        let layers = || op.inputs.iter().filter_map(|&input| self.of_value[input]);
        let returns = self.flow.layers[pool].kind == LayerKind::Pool
            && !op.name.starts_with("add")
            && op.name != "fused_add"
            && kind_of(op.name).is_none()
            && layers().any(|layer| layer == pool)
            && layers().any(|layer| Some(layer) == self.sources[pool]);
        let Some(source) = self.sources[pool].filter(|_| returns) else { return };
        let merged = self.flow.layers.pop().expect("there is one");
        self.sources.pop();
        for &op in &merged.ops {
            self.flow.ops[op].layer = Some(source);
        }
        self.flow.layers[source].ops.extend(merged.ops);
        self.of_value
            .iter_mut()
            .filter(|layer| **layer == Some(pool))
            .for_each(|layer| *layer = Some(source));
    }

    /// An op of the backward pass belongs to a layer that touched the op's inputs in the forward pass. Of several, it
    /// is the highest that is not above the layer of the op before.
    fn backward(&mut self) {
        let Some(mut last) = self.flow.layers.len().checked_sub(1) else { return };
        for at in 0..self.flow.ops.len() {
            if self.flow.ops[at].phase != Phase::Backward {
                continue;
            }
            let inputs = self.flow.ops[at].inputs.iter();
            let touched: Vec<Vec<usize>> =
                inputs.map(|&input| self.touched_by(input)).filter(|layers| !layers.is_empty()).collect();
            let by_all = |layer: &usize| touched.iter().all(|layers| layers.contains(layer));
            let is_input = |layer: usize| self.flow.layers[layer].kind == LayerKind::Input;
            let below = |layer: &usize| *layer <= last && !is_input(*layer);
            let all = || touched.iter().flatten().copied();
            last = all().filter(by_all).filter(below).max().or(all().filter(below).max()).unwrap_or(last);
            self.flow.ops[at].layer = Some(last);
        }
    }

    /// The layers that touch a value in the forward pass.
    fn touched_by(&self, value: usize) -> Vec<usize> {
        let value = &self.flow.values[value];
        let touches =
            value.intervals.iter().map(|&interval| &self.flow.ops[self.flow.intervals[interval].from]);
        let mut layers: Vec<usize> =
            touches.filter(|op| op.phase == Phase::Forward).filter_map(|op| op.layer).collect();
        layers.sort_unstable();
        layers.dedup();
        layers
    }
}
