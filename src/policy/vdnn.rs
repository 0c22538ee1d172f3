//! Rhu et al., *vDNN: Virtualized Deep Neural Networks for Scalable, Memory-Efficient Neural Network Design*, MICRO 2016,
//! section 3. The input of a layer (`X`) is offloaded while its last consumer in the forward pass runs. It comes back while a
//! layer above runs backward, by the search of figure 10. `vDNN_all` offloads all inputs, `vDNN_conv` those of convolutions.
//!
//! By profiling, `vDNN_dyn` (section 3.2) tries no offload, `conv` and `all` with performance-optimal algorithms (p), then with
//! less workspace for the layers where these exceed the memory, and at last with memory-optimal algorithms (m).
//!
//! Departures from the paper:
//!
//! - `vDNN_dyn` tries all combinations on the simulation and follows the fastest, instead of stopping at the first that passes.
//!   It chooses algorithms only if results may differ in bits.
//! - A layer does not wait for the copies of the one before. The op that takes the memory waits.
//! - Fully connected layers count as layers. As in the paper, weights stay.

use crate::liveness::{Dataflow, LayerKind};

use super::published::PublishedPolicy;
use super::published_plan::{Limits, PublishedPlan};
use crate::schedule::AlgorithmChoice;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vdnn {
    All,
    Conv,
    Dyn,
}

impl PublishedPolicy for Vdnn {
    fn plan(&self, flow: &Dataflow, limits: Limits) -> Vec<PublishedPlan> {
        if !limits.offload {
            return vec![PublishedPlan::default()];
        }
        match self {
            Vdnn::All => vec![plan(flow, false)],
            Vdnn::Conv => vec![plan(flow, true)],
            Vdnn::Dyn => search(flow, limits.algorithms),
        }
    }
}

/// The plans that `vDNN_dyn` tries.
fn search(flow: &Dataflow, algorithms: bool) -> Vec<PublishedPlan> {
    let offloads = [PublishedPlan::default(), plan(flow, true), plan(flow, false)];
    if !algorithms {
        return offloads.into();
    }
    let by = |algorithms| offloads.iter().map(move |plan| PublishedPlan { algorithms, ..plan.clone() });
    let smallest = by(AlgorithmChoice::SmallestWorkspace).next_back();
    by(AlgorithmChoice::Fastest).chain(by(AlgorithmChoice::FastestThatFits)).chain(smallest).collect()
}

/// A layer as the search sees it.
struct Searched {
    kind: LayerKind,
    /// The intervals of the values that it offloads.
    offloaded: Vec<usize>,
    prefetched: bool,
}

fn plan(flow: &Dataflow, convolutions_only: bool) -> PublishedPlan {
    let mut layers: Vec<Searched> = (flow.layers.iter())
        .map(|layer| Searched { kind: layer.kind, offloaded: Vec::new(), prefetched: false })
        .collect();
    for value in (0..flow.values.len()).filter(|&value| !flow.values[value].persists) {
        let Some((place, interval)) = flow.kept_for_backward(value) else { continue };
        let is_head = |op: usize| {
            let layer = flow.ops[op].layer.map(|layer| &flow.layers[layer]);
            layer.is_some_and(|layer| layer.kind == LayerKind::Convolution && layer.ops.first() == Some(&op))
        };
        if convolutions_only && !flow.readers(value).any(is_head) {
            continue;
        }
        // The layer of its last consumer, or of its maker if nothing else reads it before.
        layers[flow.ops[interval.from].layer.expect("an op of the forward pass has a layer")]
            .offloaded
            .push(place);
    }
    let begins = flow.backward_begins();
    let mut plan = PublishedPlan::default();
    for at in (0..layers.len()).rev() {
        // A layer that was not prefetched before its turn is fetched on demand.
        if !std::mem::replace(&mut layers[at].prefetched, true) {
            layers[at].offloaded.iter().for_each(|&interval| plan.swap(flow, interval, None));
        }
        if let Some(begin) = begins[at]
            && let Some(found) = find_prefetch_layer(&mut layers, at)
        {
            layers[found].offloaded.iter().for_each(|&interval| plan.swap(flow, interval, Some(begin)));
        }
    }
    plan
}

/// The paper's figure 10: the next lower layer that is offloaded and not prefetched, unless a convolution comes before it.
fn find_prefetch_layer(layers: &mut [Searched], current: usize) -> Option<usize> {
    for at in (0..current).rev() {
        if !layers[at].offloaded.is_empty() && !layers[at].prefetched {
            layers[at].prefetched = true;
            return Some(at);
        }
        if layers[at].kind == LayerKind::Convolution {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::testing::{chain, kept_input};
    use crate::schedule::Eviction;

    const LAYERS: [(&str, usize); 5] =
        [("conv", 800), ("conv", 800), ("max_pool2d", 200), ("conv", 400), ("matmul", 100)];

    /// The layers whose inputs leave; and the layers whose inputs come back, each after the layer whose backward pass fetches
    /// it.
    fn told(flow: &Dataflow, plan: &PublishedPlan) -> (Vec<usize>, Vec<(usize, usize)>) {
        let layer =
            |interval: usize| (0..LAYERS.len()).find(|&at| kept_input(flow, LAYERS.len(), at) == interval);
        let mut left: Vec<usize> =
            plan.releases.iter().filter_map(|&(_, interval, _)| layer(interval)).collect();
        left.sort_unstable();
        let begins = flow.backward_begins();
        let mut back: Vec<(usize, usize)> = (plan.fetches.iter())
            .map(|&(op, interval)| {
                let begun = begins.iter().position(|&begin| begin == Some(op));
                (begun.expect("a layer begins there"), layer(interval).expect("an input"))
            })
            .collect();
        back.sort_unstable_by_key(|&(begun, _)| std::cmp::Reverse(begun));
        (left, back)
    }

    #[test]
    fn all_inputs_leave_and_come_back_one_layer_ahead() {
        let flow = chain(300, &LAYERS);
        let (left, back) = told(&flow, &plan(&flow, false));
        assert_eq!(left, [0, 1, 2, 3, 4]);
        assert_eq!(back, [(4, 3), (3, 2), (2, 1), (1, 0)]);
    }

    #[test]
    fn the_search_passes_what_was_not_offloaded_and_stops_at_a_convolution() {
        let flow = chain(300, &LAYERS);
        let (left, back) = told(&flow, &plan(&flow, true));
        assert_eq!(left, [0, 1, 3]);
        // While the pool runs backward, the first convolution lies behind the second, whose input is being fetched.
        assert_eq!(back, [(4, 3), (3, 1), (1, 0)]);
    }

    #[test]
    fn an_input_leaves_with_its_last_consumer() {
        let flow = chain(300, &LAYERS);
        let releases = plan(&flow, false).releases;
        for at in 0..LAYERS.len() {
            let interval = kept_input(&flow, LAYERS.len(), at);
            let (op, _, method) = releases.iter().find(|release| release.1 == interval).unwrap();
            assert_eq!((*op, *method), (flow.layers[at].ops[0], Eviction::Offload));
        }
    }

    #[test]
    fn what_leaves_and_how_fast_algorithms_are_is_searched_together() {
        let flow = chain(300, &LAYERS);
        let limits = Limits { budget_bytes: 0, offload: true, recompute: false, algorithms: true };
        let tried: Vec<_> = (Vdnn::Dyn.plan(&flow, limits).iter())
            .map(|plan| (plan.releases.len(), plan.algorithms))
            .collect();
        use AlgorithmChoice::*;
        let leaving = [0, plan(&flow, true).releases.len(), plan(&flow, false).releases.len()];
        assert!(leaving.is_sorted_by(|less, more| less < more));
        let [fastest, fitting] = [Fastest, FastestThatFits].map(|by| leaving.map(|count| (count, by)));
        assert_eq!(tried, [&fastest[..], &fitting, &[(leaving[2], SmallestWorkspace)]].concat());
        let exact = Vdnn::Dyn.plan(&flow, Limits { algorithms: false, ..limits });
        assert!(exact.iter().map(|plan| plan.releases.len()).eq(leaving));
    }

    #[test]
    fn where_nothing_may_be_offloaded_nothing_is() {
        let flow = chain(300, &LAYERS);
        for policy in [Vdnn::All, Vdnn::Conv, Vdnn::Dyn] {
            let limits = Limits { budget_bytes: 0, offload: false, recompute: true, algorithms: false };
            assert_eq!(policy.plan(&flow, limits), [PublishedPlan::default()]);
        }
    }
}
