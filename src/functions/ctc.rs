//! The connectionist temporal classification loss.

use super::{cast, pointwise, run, view};
use crate::op::{Binary, Dtype, Op};
use crate::runtime::Tensor;

/// Log-probabilities of classes, the labels that they should spell, and the lengths of both.
pub struct Sequences {
    /// `[steps, sequences, classes]`.
    pub log_probs: Tensor,
    /// `[sequences, labels]`.
    pub targets: Tensor,
    /// `[sequences]`.
    pub input_lengths: Tensor,
    /// `[sequences]`.
    pub target_lengths: Tensor,
}

impl Sequences {
    /// The inputs of the ops.
    #[track_caller]
    fn inputs(self) -> [Tensor; 4] {
        let [targets, input_lengths, target_lengths] =
            [self.targets, self.input_lengths, self.target_lengths].map(|tensor| cast(tensor, Dtype::I64));
        [self.log_probs, targets, input_lengths, target_lengths]
    }
}

/// One loss for each sequence.
#[track_caller]
pub fn loss(sequences: Sequences, blank: usize) -> Tensor {
    run(Op::CtcLoss { blank }, sequences.inputs())
}

/// The gradient with respect to the log-probabilities.
#[track_caller]
pub fn loss_backward(sequences: Sequences, gradient: Tensor, blank: usize) -> Tensor {
    let count = gradient.shape().count();
    let own = run(Op::CtcLossBackward { blank }, sequences.inputs());
    pointwise::binary(Binary::Mul, own, view::reshape_to(gradient, &[1, count, 1]))
}
