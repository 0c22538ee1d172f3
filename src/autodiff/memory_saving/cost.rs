//! What it costs to make an output again rather than to keep it: beside the pass itself, inputs that would have to be kept
//! for that and are not kept anyway.
//!
//! Nothing but memory and time hangs on the answers: what is made again has the same bits.

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

/// How many nodes are remembered: each id has its place, and takes it from one as many ids before. A node that was forgotten
/// counts as neither kept nor made again.
const REMEMBERED: usize = 8192;

/// One more than the id of a node, and in the last byte how many steps make it again, zero if it is kept.
static NODES: [AtomicU64; REMEMBERED] = [const { AtomicU64::new(0) }; REMEMBERED];

/// The most steps from what is kept to an output that is made again. Burn looks for them anew from every consumer, along
/// every path: where each step reads the one before twice, that is two to this power.
const MAX_STEPS: u64 = 8;

fn remember(node: NodeId, steps: u64) {
    NODES[node.value as usize % REMEMBERED].store((node.value + 1) << 8 | steps, Ordering::Relaxed);
}

fn remembered(node: NodeId) -> Option<u64> {
    let entry = NODES[node.value as usize % REMEMBERED].load(Ordering::Relaxed);
    (entry >> 8 == node.value + 1).then_some(entry & 0xff)
}

/// Stands where only the type of what Burn makes of it matters.
#[derive(Debug)]
struct Nothing;

impl RetroForward for Nothing {
    fn forward(&self, _states: &mut BackwardStates, _out: NodeId) {}
}

fn is_remade<F: FloatElement, I: IntElement>(x: &Tracked<F, I>) -> bool {
    discriminant(&x.node.properties) == discriminant(&BalancedCheckpointing::compute_property(Nothing))
}

/// Whether to make this tensor's consumer again would keep nothing more: it is kept already, or made again itself.
fn costs_nothing<F: FloatElement, I: IntElement>(x: &Tracked<F, I>) -> bool {
    is_remade::<F, I>(x) || remembered(x.node.id).is_some()
}

/// How many steps would make the output of these inputs again; `None` if too many, or if Burn would not, since an input
/// has no gradient.
fn steps<F: FloatElement, I: IntElement>(inputs: &[&Tracked<F, I>]) -> Option<u64> {
    let of_input = |x: &&Tracked<F, I>| match is_remade::<F, I>(x) {
        true => remembered(x.node.id).unwrap_or(MAX_STEPS),
        false => 0,
    };
    let steps = 1 + inputs.iter().map(of_input).max().unwrap_or(0);
    (steps <= MAX_STEPS && inputs.iter().all(|x| x.is_tracked())).then_some(steps)
}

/// How many steps make the output again, if that is to be done, where the gradient reads the inputs or the output is a
/// view of them: they are kept in any case.
pub fn reads<F: FloatElement, I: IntElement>(inputs: &[&Tracked<F, I>]) -> Option<u64> {
    let steps = steps::<F, I>(inputs);
    // A gradient may not read an input whose partner is a constant.
    if inputs.iter().all(|x| x.is_tracked()) {
        let kept = inputs.iter().filter(|x| !is_remade::<F, I>(x));
        kept.for_each(|x| remember(x.node.id, 0));
    }
    steps
}

/// The same where the gradient reads no input: only if they are kept in any case, or small.
pub fn reads_nothing<F: FloatElement, I: IntElement>(inputs: &[&Tracked<F, I>]) -> Option<u64> {
    let count = |x: &Tracked<F, I>| x.primitive.shape().count();
    let most = inputs.iter().map(|x| count(x)).max().unwrap_or(0);
    let free = inputs.iter().all(|x| costs_nothing::<F, I>(x) || SMALL * count(x) <= most);
    if free { steps::<F, I>(inputs) } else { None }
}

/// How many times smaller than another input is small.
const SMALL: usize = 16;

/// Never to make the output again; but the inputs are kept.
pub fn costs_products<F: FloatElement, I: IntElement>(inputs: &[&Tracked<F, I>]) -> Option<u64> {
    reads::<F, I>(inputs);
    None
}

/// An output that is made again in so many steps.
pub fn remade<F: FloatElement, I: IntElement>(steps: u64, output: Tracked<F, I>) -> Tracked<F, I> {
    remember(output.node.id, steps);
    output
}

/// An output that its own gradient keeps.
pub fn kept<F: FloatElement, I: IntElement>(output: Tracked<F, I>) -> Tracked<F, I> {
    remember(output.node.id, 0);
    output
}

/// A function whose gradient can be had from its output, which is kept; or by Burn's means from its input, if that costs
/// nothing.
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
