//! Made-up iterations for tests.

use crate::liveness::{Dataflow, NewOp};
use crate::op::Reads;

/// A network in which each layer reads the output of the one before, given the names of the layers' ops and the sizes of their
/// outputs. Each op takes a microsecond, and a copy takes a nanosecond per byte. Ops of the backward pass read the gradient and
/// what cuDNN asks for.
pub fn chain(input_bytes: usize, layers: &[(&'static str, usize)]) -> Dataflow {
    let mut flow = Dataflow::default();
    let is_weighted = |name: &str| matches!(name, "conv" | "matmul");
    let weights: Vec<usize> = layers.iter().map(|_| flow.value(256, 256, true)).collect();
    let mut features = vec![flow.value(input_bytes, input_bytes as u64, false)];
    for (&(name, bytes), &weight) in layers.iter().zip(&weights) {
        let made = flow.value(bytes, bytes as u64, false);
        let read = [features[features.len() - 1], weight];
        op(&mut flow, name, if is_weighted(name) { &read } else { &read[..1] }, &[made]);
        features.push(made);
    }
    let mut gradient = flow.value(layers[layers.len() - 1].1, 1, false);
    op(&mut flow, "fill", &[features[layers.len()]], &[gradient]);
    let mut gradients = Vec::new();
    for (at, &(name, _)) in layers.iter().enumerate().rev() {
        let (read, made) = (features[at], features[at + 1]);
        let input_bytes = flow.values[read].size_bytes;
        let before = flow.value(input_bytes, input_bytes as u64, false);
        if is_weighted(name) {
            let of_weight = flow.value(256, 256, false);
            op(&mut flow, "weight_gradient", &[read, gradient], &[of_weight]);
            op(&mut flow, "input_gradient", &[weights[at], gradient], &[before]);
            gradients.push((weights[at], of_weight));
        } else if name == "batch_norm" {
            op(&mut flow, "norm_gradient", &[read, gradient], &[before]);
        } else {
            op(&mut flow, "gradient", &[read, made, gradient], &[before]);
        }
        let last = flow.ops.len() - 1;
        flow.values[gradient].freed_after = Some(last);
        flow.values[made].freed_after = Some(last);
        gradient = before;
    }
    flow.values[gradient].freed_after = Some(flow.ops.len() - 1);
    flow.values[features[0]].freed_after = Some(flow.ops.len() - 1);
    for (weight, of_weight) in gradients {
        let updated = flow.value(256, 256, false);
        op(&mut flow, "update", &[weight, of_weight], &[updated]);
        let last = flow.ops.len() - 1;
        flow.values[of_weight].freed_after = Some(last);
        flow.values[weight].freed_after = Some(last);
        flow.values[weight].successor = Some(updated);
    }
    flow.finish();
    flow
}

fn op(flow: &mut Dataflow, name: &'static str, inputs: &[usize], outputs: &[usize]) {
    let inputs: Vec<(usize, Reads)> = inputs.iter().map(|&input| (input, Reads::Values)).collect();
    flow.op(&NewOp { name, launch_ns: 1000, extra_bytes: 0, exact: true, inputs: &inputs, outputs });
}

/// The input of a layer of a [`chain`], where `layers` is the number of layers.
pub fn input_of(layers: usize, place: usize) -> usize {
    layers + place
}

/// The interval in which the input of a layer waits for the backward pass.
pub fn kept_input(flow: &Dataflow, layers: usize, place: usize) -> usize {
    flow.kept_for_backward(input_of(layers, place)).expect("it is kept").0
}
