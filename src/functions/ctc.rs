//! The connectionist temporal classification loss.

use super::{cast, fail, pointwise, run, view};
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
    /// Checks that the inputs fit together, and returns them for the ops.
    #[track_caller]
    fn inputs(self, blank: usize) -> [Tensor; 4] {
        let shapes = [&self.log_probs, &self.targets, &self.input_lengths, &self.target_lengths]
            .map(|tensor| tensor.shape().dims().to_vec());
        let fits = match &shapes.each_ref().map(Vec::as_slice) {
            [[_, n, classes], [targets, _], [inputs], [lengths]] => {
                blank < *classes && [targets, inputs, lengths].into_iter().all(|size| size == n)
            }
            _ => false,
        };
        if !fits {
            let [log_probs, targets, input_lengths, target_lengths] = shapes;
            fail(format!(
                "burn-overcommit: ctc_loss of log_probs {log_probs:?}, targets {targets:?}, input_lengths {input_lengths:?} \
                 and target_lengths {target_lengths:?} with blank {blank}: expected [steps, n, classes], [n, labels], [n] \
                 and [n], and a blank below classes"
            ));
        }
        let [targets, input_lengths, target_lengths] =
            [self.targets, self.input_lengths, self.target_lengths].map(|tensor| cast(tensor, Dtype::I64));
        [self.log_probs, targets, input_lengths, target_lengths]
    }
}

/// One loss for each sequence.
#[track_caller]
pub fn loss(sequences: Sequences, blank: usize) -> Tensor {
    run(Op::CtcLoss { blank }, sequences.inputs(blank))
}

/// The gradient with respect to the log-probabilities.
#[track_caller]
pub fn loss_backward(sequences: Sequences, gradient: Tensor, blank: usize) -> Tensor {
    let count = gradient.shape().count();
    let own = run(Op::CtcLossBackward { blank }, sequences.inputs(blank));
    pointwise::binary(Binary::Mul, own, view::reshape_to(gradient, &[1, count, 1]))
}
