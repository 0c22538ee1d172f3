//! Decides whether an output is recomputed or kept. Recomputing it costs the pass itself, and memory for inputs that
//! would not be kept otherwise.
//!
//! The decisions affect only memory and time, since a recomputed output has the same bits.

use std::mem::discriminant;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::retro_forward::RetroForward;
use burn::backend::autodiff::checkpoint::state::BackwardStates;
use burn::backend::autodiff::checkpoint::strategy::{BalancedCheckpointing, CheckpointStrategy};

use super::Plain;
use crate::autodiff::formulas::Kept;
use crate::autodiff::step::{Tracked, apply};
use crate::backend::{FloatElement, IntElement};
use crate::op::Unary;

/// The number of nodes that are remembered. Each id has a place and replaces the id that is this many before it. A
/// node that was replaced counts as neither kept nor recomputed.
const REMEMBERED: usize = 8192;

/// One more than the id of a node and, in the last byte, the number of steps that recompute it, zero if it is kept.
static NODES: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(0) }; REMEMBERED];

/// The most steps from kept tensors to an output that is recomputed. Burn searches them for every consumer along
/// every path; if each step reads the one before twice, there are two to this power of them.
const MAX_STEPS: u64 = 8;

fn remember(node: NodeId, steps: u64) {
    NODES[node.value as usize % REMEMBERED].store((node.value + 1) << 8 | steps, Ordering::Relaxed);
}

fn remembered(node: NodeId) -> Option<u64> {
    let entry = NODES[node.value as usize % REMEMBERED].load(Ordering::Relaxed);
    (entry >> 8 == node.value + 1).then_some(entry & 0xff)
}

/// A placeholder: only the type of the property that Burn makes from it matters.
#[derive(Debug)]
struct Nothing;

impl RetroForward for Nothing {
    fn forward(&self, _states: &mut BackwardStates, _out: NodeId) {}
}

fn is_remade<F: FloatElement, I: IntElement>(x: &Tracked<F, I>) -> bool {
    discriminant(&x.node.properties) == discriminant(&BalancedCheckpointing::compute_property(Nothing))
}

/// Whether recomputing a consumer of this tensor would keep nothing more, because the tensor is kept already or
/// recomputed itself.
fn costs_nothing<F: FloatElement, I: IntElement>(x: &Tracked<F, I>) -> bool {
    is_remade::<F, I>(x) || remembered(x.node.id).is_some()
}

/// The number of steps that would recompute the output of these inputs; `None` if there are too many, or if Burn
/// would not recompute it, because an input has no gradient.
fn steps<F: FloatElement, I: IntElement>(inputs: &[&Tracked<F, I>]) -> Option<u64> {
    let of_input = |x: &&Tracked<F, I>| match is_remade::<F, I>(x) {
        true => remembered(x.node.id).unwrap_or(MAX_STEPS),
        false => 0,
    };
    let steps = 1 + inputs.iter().map(of_input).max().unwrap_or(0);
    (steps <= MAX_STEPS && inputs.iter().all(|x| x.is_tracked())).then_some(steps)
}

/// The number of steps that recompute the output, if it is to be recomputed. For ops whose gradient reads the inputs,
/// or whose output is a view of them: the inputs are kept in any case.
pub fn reads<F: FloatElement, I: IntElement>(inputs: &[&Tracked<F, I>]) -> Option<u64> {
    let steps = steps::<F, I>(inputs);
    // A gradient may not read an input whose partner is a constant.
    if inputs.iter().all(|x| x.is_tracked()) {
        let kept = inputs.iter().filter(|x| !is_remade::<F, I>(x));
        kept.for_each(|x| remember(x.node.id, 0));
    }
    steps
}

/// The same for ops whose gradient reads no input: the output is recomputed only if the inputs are kept in any case,
/// or small.
pub fn reads_nothing<F: FloatElement, I: IntElement>(inputs: &[&Tracked<F, I>]) -> Option<u64> {
    let count = |x: &Tracked<F, I>| x.primitive.shape().count();
    let most = inputs.iter().map(|x| count(x)).max().unwrap_or(0);
    let free = inputs.iter().all(|x| costs_nothing::<F, I>(x) || SMALL * count(x) <= most);
    if free { steps::<F, I>(inputs) } else { None }
}

/// An input is small if another one is at least this many times as large.
const SMALL: usize = 16;

/// For ops that compute products: the output is never recomputed, and the inputs are kept.
pub fn costs_products<F: FloatElement, I: IntElement>(inputs: &[&Tracked<F, I>]) -> Option<u64> {
    reads::<F, I>(inputs);
    None
}

/// Takes note of an output that is recomputed in this many steps.
pub fn remade<F: FloatElement, I: IntElement>(steps: u64, output: Tracked<F, I>) -> Tracked<F, I> {
    remember(output.node.id, steps);
    output
}

/// Takes note of an output that its own gradient keeps.
pub fn kept<F: FloatElement, I: IntElement>(output: Tracked<F, I>) -> Tracked<F, I> {
    remember(output.node.id, 0);
    output
}

/// A function whose gradient can be computed from its output, which is then kept. If recomputing the output costs
/// nothing, Burn's own function is used, whose gradient reads the input.
pub fn activation<F: FloatElement, I: IntElement>(
    kind: Unary,
    x: Tracked<F, I>,
    from_input: fn(Tracked<F, I>) -> Tracked<F, I>,
) -> Tracked<F, I> {
    match reads_nothing::<F, I>(&[&x]) {
        Some(steps) => remade::<F, I>(steps, from_input(x)),
        None => kept::<F, I>(apply::<F, I, Plain, _, 1>(Kept(kind), [x])),
    }
}
