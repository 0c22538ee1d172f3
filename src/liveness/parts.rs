//! The parts of an iteration: phases, and the layers of its forward pass.

/// A part of an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Phase {
    /// From the input to the loss.
    #[default]
    Forward,
    /// From the loss to the gradients.
    Backward,
    /// From the gradients to the new weights and moments.
    Update,
}

/// The kind of op that a layer begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerKind {
    /// Ops before the first layer of another kind, such as a normalization of the input.
    Input,
    /// A convolution, plain or transposed.
    Convolution,
    /// A matrix product: a fully connected layer, or half of attention.
    Linear,
    /// A pool that is not part of a norm.
    Pool,
    /// The concatenation of values of several layers.
    Concatenation,
    /// The sum of values of two layers.
    Join,
}

/// A layer of the forward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What it begins with.
    pub kind: LayerKind,
    /// Its ops in the forward pass, in order.
    pub ops: Vec<usize>,
}
