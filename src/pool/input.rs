//! The inputs of an op.

use super::remat::ids::StorageId;
use crate::engine::Instruction;
use crate::module::{self, ModuleId};
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
    /// The module that it is a parameter of.
    pub parameter_of: ModuleId,
}

impl Input {
    /// A storage that an op reads like this, and does not consume.
    pub fn read(id: StorageId, view: View) -> Self {
        Input { id, view, consumed: false, parameter_of: ModuleId::default() }
    }
}

/// The path of the module that an op belongs to: the one that the thread is in, or that of the first parameter that the op reads.
pub fn module_of(inputs: &[Input]) -> Option<&'static str> {
    module::current().or_else(|| inputs.iter().find_map(|input| input.parameter_of.path()))
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
