//! Layers, from dataflow and the names that this crate's and PyTorch's ops have.
//!
//! A layer begins at a convolution, a matrix product, a pool, a concatenation (a copy into a destination that nothing
//! has written) or a join (an addition of two layers' values of its size). An op that begins none belongs to the latest
//! layer that it reads. A pool that is multiplied with what it was made from is local response normalization, and part
//! of that layer. Means over all pixels are no pools, since they are reductions here.

use super::dataflow::Dataflow;
use super::parts::{Layer, LayerKind, Phase};

/// What an op of the forward pass begins by its name alone: our names, and those of PyTorch's operators.
fn kind_of(name: &str) -> Option<LayerKind> {
    let products = ["matmul", "mm", "bmm", "addmm", "baddbmm", "linear"];
    match name {
        _ if name.starts_with("conv") || name.contains("convolution") => Some(LayerKind::Convolution),
        _ if products.contains(&name) => Some(LayerKind::Linear),
        _ if name.contains("pool") => Some(LayerKind::Pool),
        "cat" | "_cat" | "concat" => Some(LayerKind::Concatenation),
        _ => None,
    }
}

/// Groups the ops.
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
    /// Of each layer, the one that its first op reads.
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
            // A mask or a constant is not what the layer before made.
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

    /// What layer an op begins, if it does.
    fn begins(&self, at: usize) -> Option<LayerKind> {
        let op = &self.flow.ops[at];
        let maker = |input: usize| self.flow.values[input].made_by.map(|op| self.flow.ops[op].name);
        match op.name {
            // As our concatenation is made: copies into one destination.
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

    /// A pool whose result comes back, other than by addition, to the layer that it was made from is part of that: local
    /// response normalization pools over channels.
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

    /// An op of the backward pass belongs to the layer that has touched in the forward pass what it reads, the highest of several
    /// that is not above that of the op before.
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
        let touches = value.gaps.iter().map(|&gap| &self.flow.ops[self.flow.gaps[gap].from]);
        let mut layers: Vec<usize> =
            touches.filter(|op| op.phase == Phase::Forward).filter_map(|op| op.layer).collect();
        layers.sort_unstable();
        layers.dedup();
        layers
    }
}
