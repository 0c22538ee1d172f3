//! One operation in Burn's graph: what it saves, how its gradient follows from that, and how its output is
//! recomputed.

use std::fmt::Debug;

use burn::backend::Autodiff;
use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::retro_forward::RetroForward;
use burn::backend::autodiff::checkpoint::state::BackwardStates;
use burn::backend::autodiff::checkpoint::strategy::CheckpointStrategy;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn_backend::tensor::FloatTensor;

use crate::backend::{FloatElement, IntElement, Overcommit};
use crate::functions::gradient;
use crate::op::Shape;
use crate::runtime::Tensor;

/// A tensor of a graph; its type does not depend on the strategy of checkpointing.
pub type Tracked<F, I> = FloatTensor<Autodiff<Overcommit<F, I>>>;

/// A differentiable function of `N` tensors. Its other parameters are fields of the value.
pub trait Formula<const N: usize>: Clone + Debug + Send + 'static {
    /// Whether recomputing the output is cheap compared with keeping it.
    const MEMORY_BOUND: bool = true;
    /// The inputs that the gradient reads.
    const READS: [bool; N];
    /// Whether the gradient reads the output.
    const READS_OUTPUT: bool = false;

    /// Computes the output, with the same bits each time.
    fn forward(&self, inputs: [Tensor; N]) -> Tensor;

    /// Computes the gradients of the inputs, at least of those that are `wanted`.
    fn backward(&self, saved: Saved<N>, gradient: Tensor, wanted: [bool; N]) -> [Option<Tensor>; N];
}

/// The tensors that a gradient reads, as its [`Formula`] states.
pub struct Saved<const N: usize> {
    inputs: [Option<Tensor>; N],
    output: Option<Tensor>,
}

impl<const N: usize> Saved<N> {
    /// An input that the formula reads.
    pub fn input(&mut self, n: usize) -> Tensor {
        self.inputs[n].take().expect("an input that `READS` names, taken once")
    }

    /// The output, if the formula reads it.
    pub fn output(self) -> Tensor {
        self.output.expect("`READS_OUTPUT` says so")
    }
}

/// The formula as Burn's step of the backward pass.
#[derive(Debug)]
struct FormulaStep<T>(T);

/// The data that the graph holds until then. Inputs are named by the nodes that hold or recompute them.
#[derive(Clone, Debug)]
struct Kept<const N: usize> {
    inputs: [Option<NodeId>; N],
    shapes: [Shape; N],
    output: Option<Tensor>,
}

impl<F: FloatElement, I: IntElement, T: Formula<N>, const N: usize> Backward<Overcommit<F, I>, N>
    for FormulaStep<T>
{
    type State = Kept<N>;

    fn backward(self, ops: Ops<Kept<N>, N>, gradients: &mut Gradients, checkpointer: &mut Checkpointer) {
        let Kept { inputs, shapes, output } = ops.state;
        let gradient = gradients.consume::<Overcommit<F, I>>(&ops.node);
        let inputs = inputs.map(|id| id.map(|id| checkpointer.retrieve_node_output::<Tensor>(id)));
        let wanted = ops.parents.each_ref().map(Option::is_some);
        let made = self.0.backward(Saved { inputs, output }, gradient, wanted);
        for ((parent, made), shape) in ops.parents.into_iter().zip(made).zip(shapes) {
            if let (Some(parent), Some(made)) = (parent, made) {
                gradients.register::<Overcommit<F, I>>(parent.id, gradient::sum_to(made, &shape));
            }
        }
    }
}

/// The formula as the function that recomputes an output.
#[derive(Debug)]
struct FormulaRecompute<T, const N: usize> {
    formula: T,
    inputs: [NodeId; N],
}

impl<T: Formula<N>, const N: usize> RetroForward for FormulaRecompute<T, N> {
    fn forward(&self, states: &mut BackwardStates, out: NodeId) {
        let inputs = self.inputs.map(|id| states.get_state::<Tensor>(&id));
        states.save(out, self.formula.forward(inputs));
    }
}

/// The formula's output as a node of the graph.
pub fn apply<F: FloatElement, I: IntElement, C: CheckpointStrategy, T: Formula<N>, const N: usize>(
    formula: T,
    inputs: [Tracked<F, I>; N],
) -> Tracked<F, I> {
    node::<F, I, C, T, N>(formula, inputs, |formula, inputs| formula.forward(inputs))
}

/// [`apply`] for an output that exists already.
pub fn apply_made<F: FloatElement, I: IntElement, C: CheckpointStrategy, T: Formula<N>, const N: usize>(
    formula: T,
    inputs: [Tracked<F, I>; N],
    made: Tensor,
) -> Tracked<F, I> {
    node::<F, I, C, T, N>(formula, inputs, |_, _| made)
}

fn node<F: FloatElement, I: IntElement, C: CheckpointStrategy, T: Formula<N>, const N: usize>(
    formula: T,
    inputs: [Tracked<F, I>; N],
    forward: impl FnOnce(&T, [Tensor; N]) -> Tensor,
) -> Tracked<F, I> {
    let nodes = inputs.each_ref().map(|input| input.node.clone());
    let recompute =
        FormulaRecompute { formula: formula.clone(), inputs: inputs.each_ref().map(|input| input.node.id) };
    let prepared = Backward::<Overcommit<F, I>, N>::prepare::<C>(FormulaStep(formula.clone()), nodes);
    let prepared = match T::MEMORY_BOUND {
        true => prepared.memory_bound().retro_forward(recompute).parents(&inputs),
        false => prepared.compute_bound(),
    };
    match prepared.stateful() {
        OpsKind::Tracked(mut prepared) => {
            let shapes = inputs.each_ref().map(|input| *input.primitive.shape());
            let mut ids = [None; N];
            for (n, input) in inputs.iter().enumerate().filter(|&(n, _)| T::READS[n]) {
                ids[n] = Some(prepared.checkpoint(input));
            }
            let made = forward(&formula, inputs.map(|input| input.primitive));
            let output = T::READS_OUTPUT.then(|| made.clone());
            prepared.finish(Kept { inputs: ids, shapes, output }, made)
        }
        OpsKind::UnTracked(prepared) => {
            prepared.finish(forward(&formula, inputs.map(|input| input.primitive)))
        }
    }
}
