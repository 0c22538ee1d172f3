//! Liu, Jin et al., *Layer-Centric Memory Reuse and Data Migration for Extreme-Scale Deep Learning on Many-Core Architectures*
//! (Layrub), ACM TACO 15(3), 2018, section 4.
//!
//! - *Inter-layer reuse*: the values that a layer keeps for the backward pass are offloaded as the layer ends. They come back
//!   one layer ahead, while the layer above runs backward. Layers share the device memory that this frees.
//! - *Intra-layer reuse*: a gradient takes the memory of the feature map that it belongs to. Here every policy does so op by
//!   op: an op that has the last handle of an input overwrites it, if the kind of the op allows that.

use crate::liveness::Dataflow;

use super::published::PublishedPolicy;
use super::published_plan::{Limits, PublishedPlan};

/// See the module.
#[derive(Debug)]
pub struct Layrub;

impl PublishedPolicy for Layrub {
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<PublishedPlan> {
        let mut plan = PublishedPlan::default();
        if !limits.offload {
            return vec![plan];
        }
        let begins = flow.backward_begins();
        for value in (0..flow.values.len()).filter(|&value| !flow.values[value].persists) {
            let Some((interval, kept)) = flow.kept_for_backward(value) else { continue };
            let layer = flow.ops[kept.from].layer.expect("an op of the forward pass has a layer");
            // A value that is needed before the layer's turn is fetched on demand.
            let ahead = begins[layer + 1..].iter().flatten().next().copied();
            let needed = kept.until.map(|(op, _)| op);
            plan.swap(flow, interval, ahead.filter(|&begin| needed.is_some_and(|needed| begin < needed)));
        }
        vec![plan]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{chain, kept_input};

    #[test]
    fn all_that_layers_keep_migrates_and_is_back_one_layer_ahead() {
        let layers = [("conv", 800), ("max_pool2d", 200), ("conv", 800), ("matmul", 100)];
        let flow = chain(300, &layers);
        let limits = Limits { budget_bytes: 0, offload: true, recompute: true, algorithms: false };
        let plan = Layrub.plan(&flow, limits).remove(0);
        let kept: Vec<usize> = (0..4).map(|at| kept_input(&flow, 4, at)).collect();
        assert!(kept.iter().all(|interval| plan.releases.iter().any(|release| release.1 == *interval)));
        let begins = flow.backward_begins();
        for at in 0..3 {
            let fetch = plan.fetches.iter().find(|&&(_, interval)| interval == kept[at]);
            assert_eq!(fetch.map(|&(op, _)| Some(op)), Some(begins[at + 1]), "layer {at}");
        }
    }
}
