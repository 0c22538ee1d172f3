//! The inputs of an op.

use super::remat::ids::StorageId;
use crate::engine::Instruction;
use crate::op::{PerOutput, View};

/// A tensor passed to an op.
#[derive(Debug, Clone, Copy)]
pub struct Input {
    /// The storage.
    pub id: StorageId,
    /// How the op reads it.
    pub view: View,
    /// Whether the op takes the storage's last handle.
    pub consumed: bool,
}

/// The inputs whose memory the outputs take: the first output that of the first of them, and so on.
pub type Overwritten = PerOutput<usize>;

/// Whether an output can overwrite an input: the op allows it, the view covers the whole storage, elements have the same
/// size, and the op reads the storage through no other view.
pub fn can_overwrite(inputs: &[Input], index: usize, instruction: &Instruction) -> bool {
    let Input { id, view, .. } = &inputs[index];
    instruction.op.in_place(index)
        && view.layout.is_contiguous()
        && view.layout.offset() == 0
        && instruction
            .outputs
            .first()
            .is_some_and(|output| output.dtype.size_bytes() == view.dtype.size_bytes())
        && inputs.iter().all(|other| other.id != *id || other.view == *view)
}
